"""Alignment of iteration spaces: one set of variables for two kernels or two loops.

Enters: the variables of both, slowest first.  Leaves: common variables with the same points in the same order,
or what is left of the longer one.  A variable is split where the other side has a boundary: ``6 x 4`` and
``24`` meet as ``6 x 4``; ``24`` and ``6`` meet as ``6`` with 4 left over.
"""

from __future__ import annotations

from numstax.ir.index import ONE, ZERO, Atom, Index, Var, as_index, divides, same
from numstax.ir.loops import Kernel, Loop
from numstax.ir.renaming import substitute_vars
from numstax.records import record
from numstax.schedule.rewrite import Fresh

Variables = tuple[Var, ...]


class _Side:
    """The variables of one side: how much of the first is left, and what each has become."""

    def __init__(self, variables: Variables) -> None:
        self.waiting = list(variables)
        self.left: Index = self.waiting[0].extent if variables else ONE
        self.pieces: dict[Var, list[Var]] = {v: [] for v in variables}

    def take(self, piece: Var) -> None:
        var = self.waiting[0]
        self.pieces[var].append(piece)
        if same(self.left, piece.extent):
            self.waiting.pop(0)
            self.left = self.waiting[0].extent if self.waiting else ONE
        else:
            self.left = self.left // piece.extent

    def whole(self) -> Var | None:
        """The next variable, when nothing has been split off it yet."""
        return None if self.pieces[self.waiting[0]] else self.waiting[0]

    def rest(self, fresh: Fresh) -> Variables:
        """What the other side did not need."""
        out: list[Var] = []
        while self.waiting:
            out.append(self.whole() or fresh.var(self.left))
            self.take(out[-1])
        return tuple(out)

    def mapping(self) -> dict[Atom, Index]:
        out: dict[Atom, Index] = {}
        for var, pieces in self.pieces.items():
            total: Index = ZERO
            for piece in pieces:
                total = total * piece.extent + piece
            if total is not as_index(var):
                out[var] = total
        return out


@record
class Alignment:
    common: Variables
    first: dict[Atom, Index]
    second: dict[Atom, Index]
    first_rest: Variables
    second_rest: Variables


def refine(first: Variables, second: Variables, fresh: Fresh) -> Alignment | None:
    """Common variables until one side is used up; None when their boundaries cross."""
    a, b = _Side(first), _Side(second)
    common: list[Var] = []
    while a.waiting and b.waiting:
        if same(a.left, b.left):
            piece = a.whole() or b.whole() or fresh.var(a.left)
        elif divides(a.left, b.left):
            piece = a.whole() or fresh.var(a.left)
        elif divides(b.left, a.left):
            piece = b.whole() or fresh.var(b.left)
        else:
            return None
        common.append(piece)
        a.take(piece)
        b.take(piece)
    first_rest, second_rest = a.rest(fresh), b.rest(fresh)
    return Alignment(tuple(common), a.mapping(), b.mapping(), first_rest, second_rest)


@record
class Joined:
    """Two kernels over one outer space, not yet merged."""

    outer: Variables
    first: tuple[Loop, ...]
    second: tuple[Loop, ...]


def join(first: Kernel, second: Kernel, fresh: Fresh) -> Joined | None:
    """The kernels over a common outer space.  A pointwise kernel runs what it has more as inner variables."""
    found = refine(first.outer, second.outer, fresh)
    if found is None:
        return None
    loops = []
    for kernel, mapping, rest in (
        (first, found.first, found.first_rest),
        (second, found.second, found.second_rest),
    ):
        if rest and any(loop.inner for loop in kernel.loops):
            return None
        loops.append(tuple(substitute_vars(loop, mapping, (*rest, *loop.inner)) for loop in kernel.loops))
    return Joined(found.common, *loops)
