"""The loop nest of one Loop and where each SSA entry of its body is printed.

Enters: a Loop, the axes to iterate and names for the variables around them.  Leaves: statements.  What holds
in between: an entry is printed at the outermost level at which all it depends on is known, so what does not
change in the inner loop is computed before it; a load of memory that the same loop writes stays inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from numstax import dtypes
from numstax.emit.pieces import Piece, interior
from numstax.emit.spelling import POWERS, spell
from numstax.emit.text import Text, factor
from numstax.emit.values import bitcast, cast, literal, loaded, rounded, stored, zero
from numstax.errors import Origin
from numstax.ir.index import ZERO, Atom, Index, Quotient, Ref, Remainder, Var, as_index, atoms, bounds, less
from numstax.ir.loops import CHECKS, Accumulate, Buffer, Instr, Kernel, Loop, Reduce, Store, access
from numstax.ir.ops import resolve
from numstax.ir.overlap import apart
from numstax.records import record

SHORT, MIDDLE, LONG = 12, 96, 1024
"""Steps of loops.  The compiler writes out those of short bodies step by step: before it looks for vectors where there
are less than MIDDLE, so that it finds none; and where there are more than LONG, several loops keep values that they
share in too few registers.  A few steps are better written out."""


@record
class Axis:
    """One loop of a nest: ``for name in range(start, stop, step)``; `var` None for a block of the next axis.
    `part` : it walks a part of the values of `var`, perhaps none of them.  `copies` : all it does is to copy, which the
    compiler makes a call of unless it knows that there are few elements."""

    var: Var | None
    name: str
    start: str
    stop: str
    step: str = ""
    part: bool = False
    copies: bool = False

    @property
    def header(self) -> str:
        first = "" if self.start == "0" and not self.step else f"{self.start}, "
        step = f", {self.step}" if self.step else ""
        return f"for {self.name} in range({first}{f'rolled({self.stop})' if self._is_rolled() else self.stop}{step})"

    def _is_rolled(self) -> bool:
        """Is the compiler not to know the number of steps?  Where they are around another loop, writing them out only
        takes longer to compile."""
        if self.copies or not self.stop.isdigit():
            return False
        return bool(self.step) or SHORT <= int(self.stop) < MIDDLE or int(self.stop) >= LONG


@record
class Place:
    """Where a local buffer lives: a register (`array` False), or scratch memory; the element of the current
    vector lane is at ``offset*scale + lane``.  With `slot` every access is to that element, whatever its offset."""

    name: str
    array: bool
    scale: str = ""
    lane: str = ""
    slot: str = ""


class KernelText:
    """A kernel being printed: its text, variable names and the places of its local buffers."""

    def __init__(self, text: Text, kernel: Kernel) -> None:
        self.text, self.kernel = text, kernel
        self.names: dict[Atom, str] = {}
        self.places: dict[str, Place] = {}
        self.bases: dict[Index, str] = {}
        self.divisors: dict[str, str] = {}
        """What quotients need of a number, where that is known."""
        self._buffers = {b.name: b for b in kernel.buffers}

    def within(self, axis: Axis, piece: Piece) -> Axis:
        """What `axis` has of a piece of its variable."""
        assert axis.var is not None
        if piece.lo is ZERO and piece.hi is axis.var.extent:
            return axis
        lo, hi, stop = (self.index(i) for i in (piece.lo, piece.hi, axis.var.extent))
        first = axis.start if piece.lo is ZERO else lo if axis.start == "0" else f"max({axis.start}, {lo})"
        last = axis.stop if piece.hi is axis.var.extent else hi if axis.stop == stop else f"min({axis.stop}, {hi})"
        return replace(axis, start=first, stop=last, part=True)

    def copy(self, names: Mapping[Atom, str], loops: tuple[Loop, ...] | None = None) -> KernelText:
        """The same kernel with more variables bound, or with other loops."""
        other = KernelText(self.text, self.kernel if loops is None else replace(self.kernel, loops=loops))
        other.names = {**self.names, **names}
        other.places, other.divisors = self.places, self.divisors
        return other

    def branches(self, rows: Sequence[Var]) -> Iterator[KernelText]:
        """The kernel, to be printed at a point of `rows`: where values are chosen by these variables (the border of a
        padded array), first as it is inside, then for all points.  What is printed stands in branches."""
        loops, tests = self.kernel.loops, []
        for var in rows:
            inside = interior(loops, var)
            if inside.loops != loops:
                name, lo, hi = self.names[var], self.index(inside.lo), self.index(inside.hi)
                tests.append(f"({lo} <= {name}) & ({name} < {hi})")
                loops = inside.loops
        if not tests:
            yield self
            return
        with self.text.block(f"if {' & '.join(tests)}"):
            yield self.copy({}, loops)
        with self.text.block("else"):
            yield self.copy({})

    def buffer(self, name: str) -> Buffer:
        return self._buffers[name]

    def bind(self, var: Var, prefix: str) -> str:
        """A name for a loop variable."""
        self.names[var] = self.text.fresh(prefix)
        return self.names[var]

    def index(self, index: Index) -> str:
        return self.text.index(index, self.names)

    def element(self, name: str, offset: str) -> str:
        """The memory element of a buffer, or its register."""
        place = self.places.get(name)
        if place is None:
            return f"{self.text.buffer(self.buffer(name))}[{offset}]"
        if not place.array:
            return place.name
        if place.slot:
            offset = place.slot
        elif place.lane:
            offset = place.lane if offset == "0" else f"{factor(offset)}*{place.scale} + {place.lane}"
        return f"{place.name}[{offset}]"

    def divisor(self, value: str, dtype: np.dtype) -> str:
        """What quotients by a number need of it: scale, size and reciprocal."""
        if value in self.divisors:
            return self.divisors[value]
        text, name = self.text, dtypes.name(dtypes.compute(dtype))
        scale = text.assign("d", f"divisor_scale_{name}({value})")
        size = text.assign("d", f"divisor_size_{name}({value}, {scale})")
        return f"{scale}, {size}, {text.assign('d', f'divisor_inverse_{name}({value}, {scale})')}"

    def load(self, name: str, offset: str) -> str:
        buffer, place = self.buffer(name), self.places.get(name)
        if place is not None and not place.array:
            return place.name
        element = self.text.buffer(buffer) if buffer.kind == "scalar" else self.element(name, offset)
        return loaded(element, buffer.dtype)

    def store(self, name: str, offset: str, value: str) -> None:
        place = self.places.get(name)
        in_register = place is not None and not place.array
        value = value if in_register else stored(value, self.buffer(name).dtype)
        self.text.line(f"{self.element(name, offset)} = {value}")


class BodyText:
    """The body of one Loop inside `axes`.  Call `enter(d)` once at each depth d: 0 before the first axis,
    d just inside the d-th.  `together`: the loops that share these axes, where there are others.  `inverts`: quotients
    by what does not change along the last axis are computed from its reciprocal."""

    def __init__(
        self,
        kernel: KernelText,
        loop: Loop,
        axes: Sequence[Axis],
        together: Sequence[Loop] = (),
        staged: Mapping[tuple[str, Index], str] | None = None,
        inverts: bool = False,
    ) -> None:
        self.kernel, self.loop, self.axes = kernel, loop, tuple(axes)
        self.names: dict[Atom, str] = {**kernel.names}
        self.names.update({a.var: a.name for a in axes if a.var is not None})
        self._level = {a.var: k + 1 for k, a in enumerate(axes) if a.var is not None}
        self._together = together or (loop,)
        self._written = frozenset().union(*(other.writes() for other in self._together))
        self._staged = staged or {}
        self._values: list[str | None] = [None] * len(loop.body)
        self._bases: dict[int, dict[Index, str]] = {}
        self._uses = self._count_uses()
        self._depths: list[int] = []
        for instr in loop.body:
            self._depths.append(self._depth(instr))
        self._divisors = {i.args[1]: "" for k, i in enumerate(loop.body) if inverts and self._by_inverse(k)}
        """What quotients need of a divisor, once it is known."""

    @property
    def depth(self) -> int:
        return len(self.axes)

    def value(self, k: int) -> str:
        """The text of SSA entry k, which has been printed."""
        text = self._values[k]
        assert text is not None, f"v{k} is used before it is printed"
        return text

    def dtype(self, k: int) -> np.dtype:
        return self.loop.body[k].dtype

    # --- levels

    def _depth(self, instr: Instr) -> int:
        if instr.op == "const":
            return 0
        depth = max((self._depths[a] for a in instr.args), default=0)
        if isinstance(instr.attr, Index):
            depth = max(depth, self._index_depth(instr.attr))
        if instr.op == "load":
            name, offset = access(instr)
            place = self.kernel.places.get(name)
            if self._changes(name, offset) or (place is not None and (place.lane or place.slot)):
                return self.depth
            depth = max(depth, self._index_depth(offset))
        if instr.op in ("load", *CHECKS) and not self._runs_below(depth):
            return self.depth
        return depth

    def _changes(self, name: str, offset: Index) -> bool:
        """May the loops that share a pass write the element that is loaded?"""
        if name not in self._written:
            return False
        written = [e.offset for loop in self._together for e in loop.effects if e.buffer == name]
        return not written or not all(apart(offset, other, self.kernel.buffer(name)) for other in written)

    def _index_depth(self, index: Index) -> int:
        return max((self._atom_depth(a) for a in atoms(index)), default=0)

    def _atom_depth(self, atom: Atom) -> int:
        if isinstance(atom, Ref):
            return self._depths[atom.position]
        return self._level.get(atom, 0) if isinstance(atom, Var) else 0

    def _runs_below(self, depth: int) -> bool:
        """Does every axis inside `depth` run at least once, so that a load before it is a load of the program?"""
        inside = [a for a in self.axes[depth:] if a.var is not None]
        return all(not a.part and (bounds(a.var.extent)[0] or 0) >= 1 for a in inside if a.var is not None)

    def _count_uses(self) -> list[int]:
        uses = [0] * len(self.loop.body)
        for instr in self.loop.body:
            for a in instr.args:
                uses[a] += 1
        for effect in self.loop.effects:
            extra = getattr(effect, "mask", None), getattr(effect, "position_in", None), getattr(effect, "other", None)
            for k in (effect.value, *(e for e in extra if e is not None)):
                uses[k] += 1
        for index in self._indices():
            for atom in atoms(index):
                if isinstance(atom, Ref):
                    uses[atom.position] += 2
        return uses

    def _indices(self) -> Iterator[Index]:
        for instr in self.loop.body:
            if instr.op == "load":
                if access(instr) not in self._staged:
                    yield access(instr)[1]
            elif isinstance(instr.attr, Index):
                yield instr.attr
        for effect in self.loop.effects:
            if not isinstance(effect, Reduce):
                yield effect.offset

    # --- printing

    def enter(self, depth: int) -> None:
        """Print what becomes known at this depth."""
        if depth < self.depth:
            self._name_divisions(depth)
            for index in dict.fromkeys(self._indices()):
                self._base(index, depth)
        origin: Origin | None = None
        for k, instr in enumerate(self.loop.body):
            if self._depths[k] != depth:
                continue
            before = instr.origin if instr.origin != origin else None
            if self._print(k, instr, before):
                origin = instr.origin
            if k in self._divisors:
                self._divisors[k] = self.kernel.divisor(self.value(k), self.dtype(k))

    def _by_inverse(self, k: int) -> bool:
        """Is it a quotient whose divisor changes less often?"""
        instr = self.loop.body[k]
        if instr.op != "divide" or dtypes.kind(instr.dtype) != "f":
            return False
        return self._depths[instr.args[1]] < self._depths[k] == self.depth

    def _name_divisions(self, depth: int) -> None:
        """Names for the quotients and remainders that become known at `depth`: offsets have them in common."""
        names = self.names if depth else self.kernel.names
        found = [a for index in self._indices() for a in atoms(index) if isinstance(a, Quotient | Remainder)]
        for atom in dict.fromkeys(reversed(found)):
            parts = tuple(atoms(as_index(atom)))
            if not any(isinstance(a, Ref) for a in parts) and self._index_depth(as_index(atom)) == depth:
                if atom not in names:
                    names[atom] = self.kernel.text.assign("q", self.kernel.text.index(as_index(atom), self.names))
                self.names[atom] = names[atom]

    def _print(self, k: int, instr: Instr, origin: Origin | None) -> bool:
        """Print entry k, or keep its text for where it is used; was a statement printed?"""
        inline, text = self._expression(k, instr)
        if inline and isinstance(text, str):
            self._values[k] = text
            return False
        if origin is not None and instr.op != "load":
            self.kernel.text.line(f"# {instr.op}: {PurePath(origin.file).name}:{origin.line}")
        self._values[k] = self.kernel.text.assign("v", text) if isinstance(text, str) else text()
        return True

    def _expression(self, k: int, instr: Instr) -> tuple[bool, str | Callable[[], str]]:
        """(is it printed where it is used, its text or what prints it)."""
        args = tuple(self.value(a) for a in instr.args)
        operands = tuple(self.dtype(a) for a in instr.args)
        depth = self._depths[k]
        complex_ = dtypes.kind(instr.dtype) == "c"  # its parts are named apart: it gets a name itself
        match instr.op:
            case "const":
                return not complex_, literal(instr.attr, instr.dtype)
            case "index":
                text = self.offset(instr.attr, depth)  # type: ignore[arg-type]
                return True, f"{instr.dtype.name}({text})"
            case "load":
                return self._load(k, instr, args)
            case "cast":
                text = cast(args[0], operands[0], instr.dtype)
                return text == args[0], text
            case "bitcast":
                return False, bitcast(args[0], operands[0], instr.dtype)
            case "wrap":
                return False, lambda: self._wrap(instr, args)
            case "require":
                return False, lambda: self._require(instr, args)
        if self._by_inverse(k) and instr.args[1] in self._divisors:
            quotient = f"divided_{dtypes.name(dtypes.compute(instr.dtype))}({args[0]}, {self._divisors[instr.args[1]]})"
            return False, rounded(quotient, instr.dtype)
        spelled = spell(self._operation(instr), operands, instr.dtype, args, f"t{k}")

        def print_statements() -> str:
            for line in spelled.statements:
                self.kernel.text.line(line)
            return self.kernel.text.assign("v", spelled.expression)

        return False, print_statements

    def _operation(self, instr: Instr) -> str:
        """The operation to spell: a constant exponent may have its own."""
        if instr.op == "power" and dtypes.kind(instr.dtype) == "f":
            exponent = self.loop.body[instr.args[1]]
            if exponent.op == "const":
                return POWERS.get(exponent.attr, instr.op)
        return instr.op

    def _load(self, k: int, instr: Instr, args: tuple[str, ...]) -> tuple[bool, str | Callable[[], str]]:
        name, offset = access(instr)
        place, buffer = self.kernel.places.get(name), self.kernel.buffer(name)
        if (name, offset) in self._staged:
            return False, loaded(self._staged[name, offset], buffer.dtype)
        text = self.kernel.load(name, self.offset(offset, self._depths[k]))
        if place is not None and not place.array:
            return name not in self._written, text
        if args:
            return False, f"({text} if {args[0]} else {zero(instr.dtype)})"
        plain = buffer.kind == "scalar" or (self._uses[k] == 1 and self._depths[k] == self.depth)
        plain = plain and dtypes.kind(buffer.dtype) != "c"
        return plain and name not in self._written and not dtypes.is_low(buffer.dtype), text

    def _wrap(self, instr: Instr, args: tuple[str, ...]) -> str:
        """A user's index, negative from the end; outside it is reported and becomes 0."""
        text, status = self.kernel.text, self.kernel.text.special("status")
        size = self.offset(instr.attr, self.depth)  # type: ignore[arg-type]
        raw = text.assign("v", f"int64({args[0]})")
        at = text.assign("v", f"{raw} + {factor(size)} if {raw} < 0 else {raw}")
        outside = f"({at} < 0) | ({at} >= {size})"
        with text.block(f"if {f'({outside}) & {args[1]}' if len(args) > 1 else outside}"):
            number = text.check("index", instr.origin)
            text.line(f"{status}[0], {status}[1], {status}[2], {status}[3] = 1, {raw}, {number}, {size}")
            if text.leaves:
                text.leave()
        checked = text.assign("v", f"0 if {outside} else {at}")
        return checked if instr.dtype == dtypes.INT64 else f"{instr.dtype.name}({checked})"

    def _require(self, instr: Instr, args: tuple[str, ...]) -> str:
        x, holds, *mask = args
        self.kernel.text.require(str(instr.attr), f"({holds}) | (not {mask[0]})" if mask else holds, instr.origin)
        return x

    # --- offsets

    def offset(self, index: Index, depth: int | None = None) -> str:
        """An Index, built on what has been computed at outer levels."""
        depth = self.depth if depth is None else depth
        base = self._base(index, depth - 1) if depth else ""
        known, rest = self._split(index, depth - 1)
        return self._join(base if known.terms else "", rest)

    def _base(self, index: Index, depth: int) -> str:
        """The part of an Index known at `depth`; given a name there when it is more than a variable."""
        known, _ = self._split(index, depth)
        if not known.terms:
            return ""
        named = self._bases.setdefault(depth, {}) if depth else self.kernel.bases
        if known not in named:
            inner, new = self._split(known, depth - 1)
            text = self._join(self._base(index, depth - 1) if inner.terms else "", new)
            if not (text.isidentifier() or text.isdigit()):
                text = self.kernel.text.assign("b", text)
            named[known] = text
        return named[known]

    def _join(self, base: str, rest: Index) -> str:
        if not rest.terms:
            return base or "0"
        text = self.kernel.text.index(rest, {**self.names, **self._refs(rest)})
        if not base:
            return text
        return f"{base} - {text[1:]}" if text.startswith("-") else f"{base} + {text}"

    def _refs(self, index: Index) -> dict[Atom, str]:
        refs = (a for a in atoms(index) if isinstance(a, Ref))
        return {
            r: self.value(r.position) if self.dtype(r.position) == dtypes.INT64 else f"int64({self.value(r.position)})"
            for r in refs
        }

    def _split(self, index: Index, depth: int) -> tuple[Index, Index]:
        """The terms known at `depth` without SSA values, and the others."""
        known, rest = ZERO, ZERO
        for monomial, coefficient in index.terms:
            term = as_index(coefficient)
            for atom in monomial:
                term = term * atom
            parts = tuple(atoms(term))
            if depth >= 0 and not any(isinstance(a, Ref) or self._atom_depth(a) > depth for a in parts):
                known = known + term
            else:
                rest = rest + term
        return known, rest

    # --- effects

    def print_stores(self) -> None:
        for effect in self.loop.effects:
            if isinstance(effect, Store):
                self.print_store(effect)

    def print_write(self, effect: Store | Accumulate) -> None:
        if isinstance(effect, Store):
            self.print_store(effect)
        else:
            with self.place(effect) as offset:
                self._print_accumulate(effect, offset)

    @contextmanager
    def place(self, effect: Accumulate) -> Iterator[str]:
        """The offset of the element to update, around what updates it."""
        offset, tests = self.offset(effect.offset), self._elements_there(effect.offset)
        with self.kernel.text.block(f"if {' and '.join(tests)}") if tests else nullcontext():
            yield offset

    def _print_accumulate(self, effect: Accumulate, offset: str) -> None:
        text = self.kernel.text
        new = cast(self.value(effect.value), self.dtype(effect.value), effect.dtype)
        if effect.op != "set":
            if not (offset.isidentifier() or offset.isdigit()):
                offset = text.assign("b", offset)
            wanted, result = resolve(effect.op, (effect.dtype, effect.dtype))
            old = text.assign("v", self.kernel.load(effect.buffer, offset))
            args = tuple(cast(x, effect.dtype, dtype) for x, dtype in zip((old, new), wanted, strict=True))
            spelled = spell(effect.op, wanted, result, args, text.fresh("t"))
            for line in spelled.statements:
                text.line(line)
            new = cast(text.assign("v", spelled.expression), result, effect.dtype)
        self.kernel.store(effect.buffer, offset, new)

    def print_store(self, effect: Store) -> None:
        offset, value = self.offset(effect.offset), self.value(effect.value)
        tests = self._elements_there(effect.offset)
        if effect.mask is not None:
            tests.append(self.value(effect.mask))
        with self.kernel.text.block(f"if {' and '.join(tests)}") if tests else nullcontext():
            self.kernel.store(effect.buffer, offset, value)

    def _elements_there(self, offset: Index) -> list[str]:
        """Conditions of a write at checked positions: axes that may be empty are not."""
        sizes = (a.extent for a in atoms(offset) if isinstance(a, Ref) and less(ZERO, a.extent) is not True)
        return [f"{factor(self.kernel.index(n))} > 0" for n in dict.fromkeys(sizes)]
