"""ShapeEnvironment: the size symbols of one trace, what is known about them, and what was decided.

Symbols stand for the sizes of the arguments (with a hint: the size in the call that is traced), for integer
arguments, and for sizes that depend on data (without a hint).  A question about sizes is answered from the
bounds and the facts at hand; where these do not suffice, it is answered for the hints and the answer becomes a
fact, which the artifact has to check (a guard, Definition 10.2).  About a size without hint nothing can be
decided in this way; such a question raises DataDependentError.

What holds: every fact is true for the hints.  An equation that can be solved for a symbol replaces the symbol, an
inequality in one symbol narrows its bounds, so that guards on single sizes end up in the symbols themselves.
A static trace has an environment without symbols, in which every question has an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from numstax.errors import DataDependentError, Origin, ShapeError
from numstax.ir.index import (
    ONE,
    ZERO,
    Atom,
    Index,
    IndexLike,
    Quotient,
    Remainder,
    Symbol,
    as_index,
    atoms,
    bounds,
    contiguous_strides,
    hint,
    less,
    same,
    substitute,
)
from numstax.records import record
from numstax.trace.origin import user_origin
from numstax.trace.sizes import Shape, text

_FEW = 5
"""So many facts are added up in every way; of more, two at a time."""


@record
class Fact:
    """`index` is >= 0 (relation '>='), 0 ('==') or not 0 ('!=').

    guarded : the caller of the compiled code has to make sure of it.
    """

    relation: str
    index: Index
    guarded: bool = True
    origin: Origin | None = None

    def __str__(self) -> str:
        """``4*s0 >= s1 + 3``: terms with a minus stand on the right."""
        left = [(m, c) for m, c in self.index.terms if c > 0 and m]
        right = [(m, -c) for m, c in self.index.terms if c < 0 and m]
        constant = self.index.value if self.index.value is not None else dict(self.index.terms).get((), 0)
        (right if left else left).append(((), -constant if left else constant))
        return f"{_sum(left)} {self.relation} {_sum(right)}"


def _sum(terms: Iterable[tuple[tuple[Atom, ...], int]]) -> str:
    total = ZERO
    for mono, coef in terms:
        term = as_index(coef)
        for atom in mono:
            term = term * atom
        total = total + term
    return str(total)


class ShapeEnvironment:
    """`mode` : '' (every size is a number), 'symbolic', or 'bucket': symbols lie between two powers of two."""

    def __init__(self, mode: str = "") -> None:
        self.mode = mode
        self.facts: list[Fact] = []
        self.asserts: list[tuple[str, Index, Index, str]] = []
        """Stated by the user about sizes without a hint: rows of Graph.asserts."""
        self.counters: set[str] = set()
        """The names of the counters of loops."""
        self.names: dict[str, str] = {}
        """What the program calls the size that a symbol stands for: ``x.shape[0]``."""
        self.made_at: dict[str, Origin | None] = {}
        """The line at which a size that depends on data came up."""
        self.values: dict[str, int] = {}
        """The value of each symbol in the call that is traced; also of symbols without a hint."""
        self.integers: list[Index] = []
        """Integer arguments, in order."""
        self.was_read = False
        """Has the function asked for a size?"""
        self._pinned: list[Fact] = []
        """Facts in which the answer already stands for a quotient or remainder."""
        self._replaced: dict[Atom, Index] = {}
        self._shared: dict[int, Index] = {}

    # --- symbols ----------------------------------------------------------------------------------

    def _new(self, prefix: str, lo: int, hi: int | None, value: int, has_hint: bool = True) -> Index:
        """A size between these bounds: a number where they leave one, so that nothing is empty without showing it."""
        return as_index(lo) if lo == hi else self._symbol(prefix, lo, hi, value, has_hint)

    def _symbol(self, prefix: str, lo: int, hi: int | None, value: int, has_hint: bool = True) -> Index:
        name = next(name for k in count() if (name := f"{prefix}{k}") not in self.values)
        symbol = Symbol(name, lo, hi, 1, value if has_hint else None)
        self.values[symbol.name] = value
        return as_index(symbol)

    def _bounds(self, size: int) -> tuple[int, int | None]:
        if self.mode != "bucket":
            return 2, None
        top = 1 << (size - 1).bit_length()
        return top // 2 + 1, top

    def dimension(self, size: int) -> Index:
        """A size of an argument.  Equal sizes share a symbol; 0 and 1 are special in broadcasting and stay."""
        if not self.mode or size < 2:
            return as_index(size)
        if size not in self._shared:
            self._shared[size] = self._new("s", *self._bounds(size), size)
        return self.resolve(self._shared[size])

    def integer(self, value: int, name: str) -> Index:
        """The integer argument `name`; it has a symbol of its own."""
        size = self._new("n", *self._bounds(value), value) if self.mode and value > 1 else as_index(value)
        self.names[str(size)] = name
        self.integers.append(size)
        return size

    def unbacked(self, value: int, at_most: Index | None, at_least: int = 0, origin: Origin | None = None) -> Index:
        """A size that depends on data: `value` in this call, between these bounds.  `origin` : where it came up."""
        size = self._new("u", at_least, None if at_most is None else bounds(at_most)[1], value, has_hint=False)
        self.made_at[str(size)] = origin or user_origin()
        if at_most is not None and at_most.value is None:
            self._learn(Fact(">=", at_most - size, guarded=False))
        return size

    def note(self, index: Index) -> None:
        """``index >= 0`` holds, whatever the values are."""
        self._learn(Fact(">=", index, guarded=False))

    @contextmanager
    def counter(self, trips: Index | None) -> Iterator[Index]:
        """The counter of a loop inside its body: ``0 <= k < trips`` is known, and nothing can be decided about it."""
        if trips is not None:
            trips = self.resolve(trips)
        top = None if trips is None or trips.value is None else max(trips.value - 1, 0)
        symbol = self._symbol("k", 0, top, 0, has_hint=False)
        self.counters.add(str(symbol))
        fact = None if trips is None else Fact(">=", trips - symbol - 1, guarded=False)
        if fact is not None:
            self.facts.append(fact)
        yield symbol
        if fact in self.facts:
            self.facts.remove(fact)

    def layout(self, sizes: Sequence[int], steps: Sequence[int], name: str) -> tuple[Shape, Shape]:
        """Shape and strides (in elements) of the argument `name`.  Strides are products of sizes where the array is
        dense, constants inside the innermost size, else symbols."""
        shape = tuple(map(self.dimension, sizes))
        self.names |= {str(n): f"{name}.shape[{k}]" for k, n in enumerate(shape) if str(n) not in self.names}
        if not self.mode:
            return shape, tuple(map(as_index, steps))
        strides = list(contiguous_strides(shape))
        if 0 in sizes:
            return shape, tuple(strides)
        dense = ONE
        for k in sorted(range(len(sizes)), key=lambda k: (abs(steps[k]), -k)):
            step, span = abs(steps[k]), hint(dense)
            if sizes[k] == 1:
                continue
            if step == span:
                stride = dense
            elif step < span or dense.value is not None:
                stride = as_index(step)
            else:
                stride = self._new("stride", 1, None, step)
                self._learn(Fact(">=", stride - dense - 1))
                stride = self.resolve(stride)
            strides[k] = -stride if steps[k] < 0 else stride
            dense = stride * shape[k] if step >= span else dense
        return shape, tuple(strides)

    def guards(self) -> list[Fact]:
        """What a caller has to make sure of, the bounds of symbols aside."""
        return [f for f in (*self._pinned, *self.facts) if f.guarded and _answer(f.relation, f.index) is not True]

    def resolve(self, index: Index) -> Index:
        """`index` with everything put in that has been found out about its symbols."""
        return substitute(index, self._replaced) if self._replaced else index

    def renamed(self, index: Index) -> Index:
        """`index` with what its symbols have become: all that may be put into what is to be checked."""
        return substitute(index, {atom: v for atom, v in self._replaced.items() if isinstance(atom, Symbol)})

    # --- questions --------------------------------------------------------------------------------

    def number(self, size: Index) -> int:
        """The size as a Python integer: its symbols become constants."""
        size = self.resolve(size)
        if size.value is not None:
            return size.value
        if not self.has_hint(size):
            raise DataDependentError(
                f"the number {size} depends on the values of an array",
                user_origin(),
                "use the size only in shapes, slices and arithmetic",
            )
        for symbol in [a for a in atoms(size) if isinstance(a, Symbol)]:
            self._replace(symbol, as_index(self.values[symbol.name]))
        return self.number(size)

    def numbers(self, sizes: Iterable[Index]) -> tuple[int, ...]:
        return tuple(map(self.number, sizes))

    def holds(self, relation: str, index: Index) -> bool:
        """Is ``index >= 0`` (or == 0, != 0)?  Decided at the hint where it is not known."""
        index = self.resolve(index)
        answer = self.known(relation, index)
        if answer is None:
            if not self.has_hint(index):
                raise self._unknown(relation, index)
            value = hint(index)
            answer = {">=": value >= 0, "==": value == 0, "!=": value != 0}[relation]
            self._learn(_negated(relation, index) if not answer else Fact(relation, index, True, user_origin()))
        return answer

    def _unknown(self, relation: str, index: Index) -> DataDependentError:
        """The refusal to decide: says what the sizes are, and what to state."""
        question = f"it is not known whether {_renamed(str(Fact(relation, index)), self.names)}"
        unknown = [a.name for a in dict.fromkeys(_symbols(index)) if a.hint is None]
        counters = [name for name in unknown if name in self.counters]
        if counters:
            return DataDependentError(
                f"{question} in every iteration, where {' and '.join(counters)} counts those of a loop",
                user_origin(),
                "bound the slice so that it fits in every iteration, or choose elements of the whole with a mask; "
                "a short loop over a number that is known, without dynamic=True, is written out",
            )
        found = "; ".join(f"{name} is the number of elements found at {self.made_at.get(name)}" for name in unknown)
        symbol = index.terms[0][0][0] if len(unknown) == 1 and index.terms[0][0] else None
        is_empty = relation == "==" and isinstance(symbol, Symbol) and index in (as_index(symbol), -as_index(symbol))
        condition = Fact(">=", as_index(symbol) - 1) if is_empty and symbol is not None else Fact(relation, index)
        here, where = self.names, f", with sizes of the program for {' and '.join(unknown)}"
        if len(unknown) == 1:
            here = here | {unknown[0]: "selected.shape[0]"}
            where = ", where selected is the array made there"
        return DataDependentError(
            f"{question}, since a size depends on the values of an array: {found}",
            user_origin(),
            f"state it, if it always holds: numstax.check({_renamed(str(condition), here)}){where}",
        )

    def known(self, relation: str, index: Index) -> bool | None:
        """The answer, when bounds and facts give it."""
        index = self.resolve(index)
        if relation == ">=":
            return self._known_sign(index)
        answer = self._known_zero(index)
        return answer if answer is None or relation == "==" else not answer

    def _known_sign(self, index: Index) -> bool | None:
        verdict = _answer(">=", index)
        if verdict is not None:
            return verdict
        for fact in self.facts:
            if fact.relation == ">=":
                if less(index - fact.index, ZERO) is False:
                    return True
                if less(index + fact.index, ZERO) is True:
                    return False
        facts = [f for f in self.facts if not f.guarded]
        return True if self._follows(index, facts, len(facts) if len(facts) <= _FEW else 2) else None

    def _follows(self, index: Index, facts: list[Fact], most: int) -> bool:
        """Is ``index >= 0`` a sum of at most so many facts about counters and numbers of elements, each used once?"""
        for k, fact in enumerate(facts if most else ()):
            if fact.relation == ">=" and set(_symbols(index)) & set(_symbols(fact.index)):
                rest = index - fact.index
                if less(rest, ZERO) is False or self._follows(rest, facts[:k] + facts[k + 1 :], most - 1):
                    return True
        return False

    def _known_zero(self, index: Index) -> bool | None:
        verdict = same(index, ZERO)
        if verdict is not None:
            return verdict
        for fact in self.facts:
            if fact.relation != ">=" and (fact.index is index or fact.index is -index):
                return fact.relation == "=="
        if self._known_sign(index - 1) or self._known_sign(-index - 1):
            return False
        return None

    def equal(self, a: IndexLike, b: IndexLike) -> bool:
        return a is b or self.holds("==", as_index(a) - b)

    def unify(self, a: Index, b: Index) -> bool:
        """Are the two equal?  If so, they are one expression from now on."""
        if not self.equal(a, b):
            return False
        if self.resolve(a) is not self.resolve(b):
            self.number(a), self.number(b)
        return True

    def unify_shapes(self, a: Shape, b: Shape) -> bool:
        return len(a) == len(b) and all(self.unify(n, m) for n, m in zip(a, b, strict=True))

    def has_hint(self, *sizes: Index) -> bool:
        """Can questions about these sizes be decided?"""
        return all(a.hint is not None for n in sizes for a in atoms(self.resolve(n)) if isinstance(a, Symbol))

    def can_lay_out(self, shape: Shape, strides: Shape) -> bool:
        """Can it be decided in which order the elements stand in memory?"""
        return self.has_hint(*shape, *strides)

    def at_least(self, a: IndexLike, b: IndexLike) -> bool:
        return self.holds(">=", as_index(a) - b)

    def divides(self, k: Index, a: Index) -> bool:
        k = self.resolve(k)
        return self.at_least(k, 1) and self.holds("==", self.resolve(a) % k)

    def broadcast(self, *shapes: Shape) -> Shape:
        """The common shape, by NumPy's rules; sizes that are not known to differ from 1 are compared with it."""
        first = shapes[0]
        if all(s == first for s in shapes):
            return first
        rank = max(len(s) for s in shapes)
        out = [ONE] * rank
        for shape in shapes:
            for k, n in enumerate(shape, rank - len(shape)):
                if n is out[k] or n is ONE or (out[k] is not ONE and self.unify(out[k], n)):
                    continue
                if out[k] is ONE or self.equal(out[k], ONE):
                    out[k] = n
                elif not self.equal(n, ONE):
                    given = " ".join(map(text, shapes))
                    raise ShapeError(f"operands could not be broadcast together with shapes {given} ", user_origin())
        return tuple(out)

    def fits(self, shape: Shape, target: Shape) -> bool:
        """Does an array of `shape` broadcast to `target`?"""
        lead = len(target) - len(shape)
        pairs = zip(shape, target[lead:], strict=True) if lead >= 0 else ()
        return lead >= 0 and all(n is ONE or self.unify(n, m) or self.equal(n, ONE) for n, m in pairs)

    # --- knowledge --------------------------------------------------------------------------------

    def state(self, relation: str, index: Index, message: str) -> None:
        """The user says so: checked at run time where it is about data, else here.  Raises AssertionError."""
        index = self.resolve(index)
        answer = self.known(relation, index)
        if answer is None and relation == "!=" and self.known(">=", index):
            relation, index = ">=", index - 1
        if answer is None and not self.has_hint(index) and relation != "!=":
            kind = "eq" if relation == "==" else "le"
            self.asserts.append((kind, ZERO, index, message))
            self._learn(Fact(relation, index, guarded=False))
        elif not (self.holds(relation, index) if answer is None else answer):
            raise AssertionError(message)

    def _learn(self, fact: Fact) -> None:
        if (fact.relation == "==" and self._solve(fact)) or self._narrow(fact):
            return
        self.facts.append(fact)

    def _narrow(self, fact: Fact) -> bool:
        """Put an inequality of one symbol into its bounds."""
        if fact.relation == "==":
            return False
        terms = [(m, c) for m, c in fact.index.terms if m]
        symbol, coef = terms[0][0][0], terms[0][1]
        if len(terms) != 1 or len(terms[0][0]) != 1 or not isinstance(symbol, Symbol):
            return False
        limit = -dict(fact.index.terms).get((), 0)
        lo, hi = symbol.lo, symbol.hi
        if fact.relation == "!=":
            if limit == coef * lo:
                lo += 1
            elif hi is not None and limit == coef * hi:
                hi -= 1
            else:
                return False
        elif coef > 0:
            lo = max(lo, -(-limit // coef))
        else:
            hi = limit // coef if hi is None else min(hi, limit // coef)
        self._replace(symbol, as_index(lo if lo == hi else replace(symbol, lo=lo, hi=hi)))
        return True

    def _solve(self, fact: Fact) -> bool:
        """Replace an atom so that the index is 0; False when it is linear in none."""
        index = fact.index
        order, age = (Symbol, Remainder, Quotient), list(self.values)
        found = [(m[0], c) for m, c in index.terms if len(m) == 1]
        # younger symbols first, so that those of the first arguments stay
        found.sort(key=lambda t: (order.index(type(t[0])), -age.index(t[0].name) if isinstance(t[0], Symbol) else 0))
        for atom, coef in found:
            rest = index - as_index(atom) * coef
            if abs(coef) == 1:
                value = rest * -coef
            elif rest.value is not None and rest.value % coef == 0:
                value = as_index(-rest.value // coef)
            else:
                continue
            if atom in atoms(value) or (isinstance(atom, Symbol) and not self._may_be(atom, value)):
                continue
            if isinstance(atom, Remainder) and value.value is not None and self._split(atom, value.value):
                return True
            if not isinstance(atom, Symbol):
                self._pinned.append(fact)
            self._replace(atom, self.resolve(value))
            return True
        return False

    def _may_be(self, symbol: Symbol, value: Index) -> bool:
        """Can `value` stand for the symbol?  Its bounds become facts about `value`.  A size that depends on data is
        compared with what stands for it where it is found."""
        if symbol.hint is None:
            return bool(self.known(">=", value - symbol.lo))
        if not self.has_hint(value):
            return False
        if self.holds(">=", value - symbol.lo) and symbol.hi is not None:
            self.holds(">=", symbol.hi - value)
        return True

    def _split(self, remainder: Remainder, rest: int) -> bool:
        """``(s + d) % k == rest``: s becomes ``k*q + r`` with a new symbol q."""
        terms, k = dict(remainder.value.terms), remainder.divisor.value
        shift = terms.pop((), 0)
        if k is None or len(terms) != 1 or not 0 <= rest < k:
            return False
        ((mono, coef),) = terms.items()
        symbol = mono[0]
        if len(mono) != 1 or coef != 1 or not isinstance(symbol, Symbol) or symbol.hint is None:
            return False
        rest = (rest - shift) % k
        hi = None if symbol.hi is None else (symbol.hi - rest) // k
        quotient = self._new("q", -(-(symbol.lo - rest) // k), hi, (symbol.hint - rest) // k)
        self._replace(symbol, quotient * k + rest)
        return True

    def _replace(self, atom: Atom, value: Index) -> None:
        step = {atom: value}
        self._replaced = {a: substitute(v, step) for a, v in self._replaced.items()} | step
        self.facts = [replace(f, index=substitute(f.index, step)) for f in self.facts]
        self.facts = [f for f in self.facts if f.index.value is None]
        if isinstance(atom, Symbol):
            self._pinned = [replace(f, index=substitute(f.index, step)) for f in self._pinned]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[^\W\d]\w*", lambda found: names.get(found[0], found[0]), text)


def _symbols(index: Index) -> list[Symbol]:
    return [a for a in atoms(index) if isinstance(a, Symbol)]


def _answer(relation: str, index: Index) -> bool | None:
    """What the bounds of the symbols alone say."""
    verdict = less(index, ZERO) if relation == ">=" else same(index, ZERO)
    return verdict if verdict is None or relation == "==" else not verdict


def _negated(relation: str, index: Index) -> Fact:
    if relation == ">=":
        return Fact(">=", -index - 1, True, user_origin())
    return Fact("!=" if relation == "==" else "==", index, True, user_origin())
