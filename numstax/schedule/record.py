"""Recorder: builds the SSA body of a loop, with common subexpressions recorded once.

Enters: requests for instructions, or whole bodies to append.  Leaves: a `Body`.  What holds in between: an
entry refers only to earlier entries, and no two entries are equal.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.errors import Origin
from numstax.ir.graph import Literal, Node
from numstax.ir.index import Atom, Index, Ref, as_index, atoms, substitute
from numstax.ir.loops import CHECKS, Body, Contract, Effect, Instr, Reduce, Store

_AFFINE: dict[str, Callable[[Index, Index], Index]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}


class Recorder:
    """An SSA list under construction."""

    def __init__(self, body: Body = ()) -> None:
        self._instrs: list[Instr] = list(body)
        self._known = {_key(instr): k for k, instr in enumerate(body)}

    def add(self, instr: Instr) -> int:
        """The position of `instr`, recorded now or before."""
        key = _key(instr)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._instrs)
            self._instrs.append(instr)
        return found

    def op(self, op: str, args: tuple[int, ...], dtype: np.dtype, origin: Origin | None = None) -> int:
        return self.add(Instr(op, args, dtype, None, origin))

    def const(self, value: object, dtype: np.dtype) -> int:
        return self.add(Instr("const", (), dtype, np.asarray(value, dtype)[()]))

    def index(self, value: Index, origin: Origin | None = None) -> int:
        return self.add(Instr("index", (), dtypes.INT64, value, origin))

    def load(
        self, buffer: str, offset: Index, dtype: np.dtype, mask: int | None = None, origin: Origin | None = None
    ) -> int:
        return self.add(Instr("load", () if mask is None else (mask,), dtype, (buffer, offset), origin))

    def wrap(self, entry: int, extent: Index, mask: int | None, origin: Origin | None) -> int:
        """A user's integer index as a position below `extent`."""
        args = (entry,) if mask is None else (entry, mask)
        return self.add(Instr("wrap", args, dtypes.INT64, extent, origin))

    def require(self, args: tuple[int, ...], mask: int | None, node: Node) -> int:
        args = args if mask is None else (*args, mask)
        return self.add(Instr("require", args, node.dtype, node.attr("requirement"), node.origin))

    def cast(self, entry: int, dtype: np.dtype, origin: Origin | None = None) -> int:
        return entry if self.dtype(entry) == dtype else self.op("cast", (entry,), dtype, origin)

    def number(self, entry: int) -> Index | None:
        """The value of an integer entry that no memory is read for."""
        instr = self._instrs[entry]
        if instr.op == "const":
            return as_index(int(instr.attr))  # type: ignore[call-overload]
        return instr.attr if isinstance(instr.attr, Index) and instr.op == "index" else None

    def dtype(self, entry: int) -> np.dtype:
        return self._instrs[entry].dtype

    def affine(self, entry: int) -> Index | None:
        """The entry as an Index, when it is a sum of multiples of positions and sizes."""
        instr = self._instrs[entry]
        if instr.op == "require":
            return self.affine(instr.args[0])
        if instr.op == "index":
            return instr.attr if isinstance(instr.attr, Index) else None
        if instr.op == "const" and instr.dtype == dtypes.INT64:
            return as_index(int(instr.attr))  # type: ignore[call-overload]
        if instr.op not in _AFFINE or instr.dtype != dtypes.INT64:
            return None
        a, b = (self.affine(k) for k in instr.args)
        return None if a is None or b is None else _AFFINE[instr.op](a, b)

    def both(self, mask: int | None, other: int) -> int:
        """The conjunction of an optional mask and another."""
        return other if mask is None else self.op("logical_and", (mask, other), dtypes.BOOL)

    def append(
        self,
        body: Body,
        forward: Callable[[Instr], int | None] = lambda instr: None,
        live: Sequence[bool] | None = None,
    ) -> list[int]:
        """Record `body` after what is there and return the new position of each of its entries.

        `forward` may name a recorded entry that stands for an instruction (a load of what was just stored);
        entries that are not `live` are left out (their position is -1).
        """
        moved: list[int] = []
        for k, instr in enumerate(body):
            if live is not None and not live[k]:
                moved.append(-1)
                continue
            new = replace(instr, args=tuple(moved[a] for a in instr.args))
            if isinstance(instr.attr, tuple):
                new = replace(new, attr=(instr.attr[0], _move_refs(instr.attr[1], moved)))
            elif isinstance(instr.attr, Index):
                new = replace(new, attr=_move_refs(instr.attr, moved))
            known = forward(new)
            moved.append(self.add(new) if known is None else known)
        return moved

    def body(self) -> Body:
        return tuple(self._instrs)


def _key(instr: Instr) -> tuple[object, ...]:
    attr = Literal.of(instr.attr, instr.dtype) if instr.op == "const" else instr.attr
    return instr.op, instr.args, instr.dtype, attr


def _move_refs(index: Index, moved: list[int]) -> Index:
    """`index` with the SSA entries it mentions at their new positions."""
    mapping: dict[Atom, Index] = {r: as_index(Ref(moved[r.position], r.extent)) for r in _refs(index)}
    return substitute(index, mapping) if mapping else index


def _refs(index: Index) -> Iterator[Ref]:
    return (atom for atom in atoms(index) if isinstance(atom, Ref))


def move_effect(effect: Effect, moved: list[int]) -> Effect:
    """`effect` of a body whose entries are now at `moved`."""
    effect = replace(effect, value=moved[effect.value], offset=_move_refs(effect.offset, moved))
    if isinstance(effect, Store) and effect.mask is not None:
        return replace(effect, mask=moved[effect.mask])
    if isinstance(effect, Reduce) and effect.position_in is not None:
        return replace(effect, position_in=moved[effect.position_in])
    if isinstance(effect, Contract):
        return replace(effect, other=moved[effect.other])
    return effect


def prune(body: Body, effects: Iterable[Effect]) -> tuple[Body, tuple[Effect, ...]]:
    """Without the entries that no effect needs; an index is checked even where the element does not depend on it."""
    effects = tuple(effects)
    live = [instr.op in CHECKS for instr in body]
    for effect in effects:
        used = [effect.value, *(r.position for r in _refs(effect.offset))]
        if isinstance(effect, Store):
            used.append(effect.value if effect.mask is None else effect.mask)
        elif isinstance(effect, Reduce) and effect.position_in is not None:
            used.append(effect.position_in)
        elif isinstance(effect, Contract):
            used.append(effect.other)
        for k in used:
            live[k] = True
    for k in range(len(body) - 1, -1, -1):
        if live[k]:
            attr = body[k].attr
            index = attr[1] if isinstance(attr, tuple) else attr
            for a in (*body[k].args, *((r.position for r in _refs(index)) if isinstance(index, Index) else ())):
                live[a] = True
    if all(live):
        return body, effects
    recorder = Recorder()
    moved = recorder.append(body, live=live)
    return recorder.body(), tuple(move_effect(e, moved) for e in effects)
