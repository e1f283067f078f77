"""Names of loop variables, new and readable ones.

Variables are compared by name and extent; every pass that makes one takes the name from a `Fresh`, so that no two
kernels of a schedule share one.
"""

from __future__ import annotations

import itertools

from numstax.ir.index import Atom, Index, Var, as_index
from numstax.ir.loops import Loop
from numstax.ir.renaming import substitute_vars


class Fresh:
    """A source of names that are new in this schedule."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._numbers = prefix, itertools.count()

    def name(self) -> str:
        return f"{self._prefix}{next(self._numbers)}"

    def var(self, extent: Index) -> Var:
        return Var(self.name(), extent)


def canonical(outer: tuple[Var, ...], loops: tuple[Loop, ...]) -> tuple[tuple[Var, ...], tuple[Loop, ...]]:
    """Readable names: i0, i1 .. for the outer variables, j0, j1 .. for each loop's inner ones."""
    mapping: dict[Atom, Index] = {}

    def rename(variables: tuple[Var, ...], letter: str) -> tuple[Var, ...]:
        new = tuple(Var(f"{letter}{k}", v.extent) for k, v in enumerate(variables))
        mapping.update(zip(variables, map(as_index, new), strict=True))
        return new

    outer = rename(outer, "i")
    return outer, tuple(substitute_vars(loop, mapping, rename(loop.inner, "j")) for loop in loops)
