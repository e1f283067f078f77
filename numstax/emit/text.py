"""Program text under construction: lines with indentation, fresh names, parameters and scratch memory.

Buffers and size symbols get canonical names in the order of their first use, so that equal kernels over
different arrays print equal text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from numstax import dtypes
from numstax.errors import Origin
from numstax.ir.index import ZERO, Atom, Index, IndexLike, Quotient, Remainder, Symbol, as_index, divisor_text, less
from numstax.ir.loops import Buffer
from numstax.program import Checked, Param

ALIGNMENT = 64
MOST_BITS = 62
"""Requirements with this number and later ones share a bit."""


class Text:
    """The body of one program.

    params : canonical name -> parameter; args : canonical name -> buffer or symbol it stands for; checks : the
    user's line of each check, by number.  `leaves` : the program ends where a check fails.
    """

    def __init__(self, written: frozenset[str], leaves: bool = False) -> None:
        self.leaves = leaves
        self.params: dict[str, Param] = {}
        self.args: dict[str, str] = {}
        self.scratch = ZERO
        self.checks: list[Checked] = []
        self._written = written
        self._canonical: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._unmet = ""
        """The variable whose bits are the numbers of unmet requirements, where there are any."""
        self._leaving: set[int] = set()
        self._guarded: set[int] = set()
        self._head: list[str] = []
        self._lines: list[str] = []
        self._depth = 1

    # --- lines

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(f"{header}:")
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def leave(self) -> None:
        """The program ends here."""
        self._leaving.add(len(self._lines))
        self.line("return")

    def when_unmet(self, statement: str) -> None:
        """The statement runs when a requirement did not hold before, in time or in the text."""
        self._guarded.add(len(self._lines))
        self.line(statement)

    def body(self) -> str:
        lines = ["    " + line for line in self._head]
        for k, line in enumerate(self._lines):
            margin = line[: -len(line.lstrip())]
            if k in self._leaving:
                lines += self._report(margin)
            if k not in self._guarded:
                lines.append(line)
            elif self._unmet:
                lines += [f"{margin}if {self._unmet} != 0:", f"    {line}"]
        return "\n".join((*lines, *self._report("    ")))

    def _report(self, margin: str) -> Iterator[str]:
        """Unmet requirements; what else went wrong may follow from them."""
        if self._unmet:
            yield f"{margin}if {self._unmet} != 0:"
            yield f"{margin}    status[0] = 2"
            yield f"{margin}    status[2] = popcount_i64(({self._unmet} & (0 - {self._unmet})) - 1)"

    # --- names

    def fresh(self, prefix: str) -> str:
        """A name not used before: the prefix and a number."""
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        return f"{prefix}{number}"

    def assign(self, prefix: str, expression: str) -> str:
        name = self.fresh(prefix)
        self.line(f"{name} = {expression}")
        return name

    def buffer(self, buffer: Buffer) -> str:
        """The parameter that stands for a buffer."""
        if buffer.name not in self._canonical:
            kind, prefix = "pointer", "out" if buffer.name in self._written else "in"
            if buffer.kind == "scalar":
                kind = prefix = "scalar"
            self._parameter(buffer.name, self.fresh(prefix), kind, buffer.dtype)
        return self._canonical[buffer.name]

    def size(self, symbol: str) -> str:
        """The parameter that holds a size, or the counter of that name."""
        if symbol not in self._canonical:
            self._parameter(symbol, self.fresh("n"), "size", None)
        return self._canonical[symbol]

    def counter(self, symbol: str, prefix: str = "k") -> str:
        """A new variable, which the symbol of that name stands for from here on."""
        self._canonical[symbol] = self.fresh(prefix)
        return self._canonical[symbol]

    def _parameter(self, source: str, name: str, kind: str, dtype: np.dtype | None) -> None:
        self._canonical[source] = name
        self.params[name] = Param(name, kind, dtype)
        self.args[name] = source

    def special(self, kind: str) -> str:
        """A parameter without an argument: lo, hi, scratch, status, calls, team."""
        self.params.setdefault(kind, Param(kind, kind))
        return kind

    def check(self, what: str, origin: Origin | None) -> int:
        """The number of a check that can fail; equal programs have equal numbers, whatever the lines."""
        self.checks.append((what, "" if origin is None else f"{origin}, in {origin.function}"))
        return len(self.checks) - 1

    def require(self, requirement: str, holds: str, origin: Origin | None) -> None:
        """Note where a condition does not hold.  The program goes on, so that the loop around may be vectorised."""
        self.special("status")
        self._unmet = self._unmet or self.constant("unmet", "int64(0)")
        bit = 1 << min(self.check(requirement, origin), MOST_BITS)
        self.line(f"{self._unmet} = {self._unmet} | (int64(0) if {holds} else int64({bit}))")

    # --- scratch memory

    def array(self, prefix: str, dtype: np.dtype, count: IndexLike) -> str:
        """A pointer to `count` elements of memory private to the worker, as `dtype` stores them."""
        name = self.fresh(prefix)
        self.special("scratch")
        self._head.append(f"{name} = scratch_{dtypes.name(dtype)}(scratch, {self.index(self.scratch)})")
        nbytes = as_index(count) * dtype.itemsize
        self.scratch = self.scratch + (nbytes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
        return name

    def constant(self, prefix: str, expression: str) -> str:
        """A name that holds a value during the whole program."""
        name = self.fresh(prefix)
        self._head.append(f"{name} = {expression}")
        return name

    # --- index expressions

    def index(self, index: Index, names: Mapping[Atom, str] | None = None) -> str:
        """An Index over size symbols and the named variables, as an int64 expression."""
        names = names or {}
        out = ""
        for monomial, coefficient in index.terms:
            factors = [self._atom(atom, names) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            term = "*".join(factors)
            if out:
                out += f" - {term}" if coefficient < 0 else f" + {term}"
            else:
                out = f"-{term}" if coefficient < 0 else term
        return out or "0"

    def _atom(self, atom: Atom, names: Mapping[Atom, str]) -> str:
        if atom in names:
            return names[atom]
        if isinstance(atom, Symbol):
            return self.size(atom.name)
        if isinstance(atom, Quotient | Remainder):
            sign = "//" if isinstance(atom, Quotient) else "%"
            value, divisor = (factor(self.index(part, names)) for part in (atom.value, atom.divisor))
            if isinstance(atom, Remainder) and (turned := _turned(atom, value, divisor)):
                return turned
            return f"({value} {sign} {divisor_text(atom.divisor, divisor)})"
        raise KeyError(f"{atom} is not a variable of this loop")


def _turned(atom: Remainder, value: str, divisor: str) -> str:
    """The remainder of a value that leaves the range on one side by less than the divisor: no slow division, and no
    branch, of which a compiler of many has much to do."""
    if less(atom.value, ZERO) is False and less(atom.value, 2 * atom.divisor):
        return f"({value} - {divisor}*({value} >= {divisor}))"
    if less(atom.value, -atom.divisor) is False and less(atom.value, atom.divisor):
        return f"({value} + {divisor}*({value} < 0))"
    return ""


def factor(text: str) -> str:
    """An expression in parentheses, unless it is a name or a number."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"
