"""Ranges of the vector variable in which a body needs no divisions and no comparisons of positions.

Enters: loops and the variable that becomes the vector.  Leaves: consecutive `Piece`s.  Where ``(i + 1) % n`` turns
over, or a value comes from another array (``np.roll``, ``np.pad``), the range of `i` is cut: inside each piece offsets
are linear, so that it is a plain vector loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from numstax import dtypes
from numstax.ir.index import (
    ONE,
    ZERO,
    Atom,
    Index,
    Quotient,
    Ref,
    Remainder,
    Var,
    atoms,
    hint,
    less,
    stride_of,
    substitute,
)
from numstax.ir.loops import Instr, Loop
from numstax.ir.renaming import indices, substitute_vars
from numstax.records import record
from numstax.schedule.record import Recorder, move_effect, prune

MOST = 8
"""Pieces of a loop: each is one more copy of its body."""


@record
class Piece:
    """The loops as they are for ``lo <= var < hi``."""

    lo: Index
    hi: Index
    loops: tuple[Loop, ...]


def pieces(loops: Sequence[Loop], var: Var) -> list[Piece]:
    """What the range of `var` falls into; a single piece where cutting does not help."""
    return _pieces(loops, var, (cut for loop in loops for cut in (*_turns(loop, var), *_choices(loop, var))))


def interior(loops: Sequence[Loop], var: Var) -> Piece:
    """The largest range of `var`, any variable, within which no values are chosen by it."""
    found = _pieces(loops, var, (cut for loop in loops for cut in _choices(loop, var)))
    return max(found, key=lambda piece: hint(piece.hi - piece.lo))


def _pieces(loops: Sequence[Loop], var: Var, wanted: Iterable[Index]) -> list[Piece]:
    cuts: list[Index] = [ZERO, var.extent]
    for cut in wanted:
        _insert(cuts, cut)
    if not 2 < len(cuts) <= MOST + 1:
        return [Piece(ZERO, var.extent, tuple(loops))]
    ranges = ((lo, hi, _Folding(var, lo, hi)) for lo, hi in pairwise(cuts))
    return [Piece(lo, hi, tuple(map(folding.loop, loops))) for lo, hi, folding in ranges]


def _insert(cuts: list[Index], cut: Index) -> None:
    """Where it belongs, if that is certain."""
    if cut in cuts:
        return
    for k, (before, after) in enumerate(pairwise(cuts)):
        if less(cut, before) is False and less(after, cut) is False:
            cuts.insert(k + 1, cut)
            return


# --- where to cut ---------------------------------------------------------------------------------


def _turns(loop: Loop, var: Var) -> Iterator[Index]:
    for index in dict.fromkeys(indices(loop)):
        for atom in atoms(index):
            if isinstance(atom, Quotient | Remainder):
                yield from _change(atom.value, var)
                yield from _change(atom.value - atom.divisor, var)


def _choices(loop: Loop, var: Var) -> Iterator[Index]:
    for instr in loop.body:
        if instr.op == "less":
            a, b = (_integer(loop.body[k]) for k in instr.args)
            if a is not None and b is not None:
                yield from _change(b - a - 1, var)


def _integer(instr: Instr) -> Index | None:
    """A position or an integer constant."""
    return Recorder((instr,)).number(0) if dtypes.kind(instr.dtype) in "iu" else None


def _change(index: Index, var: Var) -> Iterator[Index]:
    """The first value of `var` behind the change of sign of an Index of it alone."""
    stride = stride_of(index, var)
    if stride is not None and stride.value in (1, -1):
        rest = index - stride * var
        if not any(isinstance(atom, Var | Ref) for atom in atoms(rest)):
            yield -rest if stride is ONE else rest + 1


# --- what is left of a body -----------------------------------------------------------------------


class _Folding:
    """Bodies for ``lo <= var < hi``."""

    def __init__(self, var: Var, lo: Index, hi: Index) -> None:
        self._mapping: dict[Atom, Index] = {var: lo + Var(var.name, hi - lo)}
        self._recorder = Recorder()

    def loop(self, loop: Loop) -> Loop:
        while mapping := dict(self._divisions(loop)):
            loop = substitute_vars(loop, mapping)
        self._recorder = Recorder()
        moved = self._recorder.append(loop.body, self._known)
        return Loop(loop.inner, *prune(self._recorder.body(), (move_effect(e, moved) for e in loop.effects)))

    def _less(self, a: Index, b: Index) -> bool | None:
        return less(substitute(a, self._mapping), substitute(b, self._mapping))

    def _divisions(self, loop: Loop) -> Iterator[tuple[Atom, Index]]:
        """Quotients that have one value here, with it, and their remainders."""
        for index in dict.fromkeys(indices(loop)):
            for atom in atoms(index):
                if isinstance(atom, Quotient | Remainder):
                    for k in (-1, 0, 1):
                        least, limit = atom.divisor * k, atom.divisor * (k + 1)
                        if self._less(atom.value, least) is False and self._less(atom.value, limit):
                            yield atom, atom.value - least if isinstance(atom, Remainder) else ZERO + k

    def _known(self, instr: Instr) -> int | None:
        """The entry that an instruction comes down to."""
        recorder, args = self._recorder, instr.args
        if instr.op == "less":
            a, b = (self._number(k) for k in args)
            holds = None if a is None or b is None else self._less(a, b)
            return None if holds is None else recorder.const(holds, dtypes.BOOL)
        if instr.op == "logical_and":
            for one, other in (args, args[::-1]):
                if self._truth(one) is not None:
                    return other if self._truth(one) else one
        if instr.op == "where" and self._truth(args[0]) is not None:
            return args[1] if self._truth(args[0]) else args[2]
        if instr.op in ("load", "wrap") and args and self._truth(args[-1]) is not None and self._is_masked(instr):
            if not self._truth(args[-1]):
                return recorder.const(0, instr.dtype)
            return recorder.add(Instr(instr.op, args[:-1], instr.dtype, instr.attr, instr.origin))
        return None

    def _is_masked(self, instr: Instr) -> bool:
        return len(instr.args) == (1 if instr.op == "load" else 2)

    def _number(self, entry: int) -> Index | None:
        return self._recorder.number(entry) if dtypes.kind(self._recorder.dtype(entry)) in "iu" else None

    def _truth(self, entry: int) -> bool | None:
        """The value of a bool that is known."""
        if self._recorder.dtype(entry) != dtypes.BOOL:
            return None
        number = self._recorder.number(entry)
        return None if number is None else number is not ZERO
