"""Declared sizes: `Dim`, and the ShapeEnvironment of a trace in which only declared dimensions are symbols.

Enters: for each array argument, by name, the axes that vary, and the integers that do.  Leaves: the decisions about
sizes that bounds and earlier decisions did not imply, in order.  What the trace has found out about sizes follows from
the declared ranges and these decisions.  Unlike in dynamic calls, sizes that happen to be equal share no symbol, and
the memory order of intermediate results is never a reason for a decision.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Sequence
from typing import SupportsIndex

from numstax.errors import DimensionError
from numstax.ir.index import ONE, Index, IndexLike, Remainder, Symbol, as_index, atoms
from numstax.records import record
from numstax.trace.environment import Fact, ShapeEnvironment
from numstax.trace.origin import user_origin
from numstax.trace.sizes import Shape


@record
class Dim:
    """A dimension that varies, with sizes from `min` to `max` (None: no limit).  Dimensions declared with the same
    name are equal in every call."""

    name: str
    min: int = 1
    max: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or keyword.iskeyword(self.name):
            raise DimensionError(f"the name of a Dim is to be an identifier, got {self.name!r}")
        for end in ("min", "max"):
            size = getattr(self, end)
            if size is None and end == "max":
                continue
            if isinstance(size, bool) or not isinstance(size, SupportsIndex):
                raise DimensionError(f"Dim({self.name!r}): {end}={size!r} is not an integer")
            object.__setattr__(self, end, operator.index(size))
        if self.min < 0:
            raise DimensionError(f"{self}: a size is not negative")
        if self.max is not None and self.min > self.max:
            raise DimensionError(f"{self} has no sizes: min={self.min} is more than max={self.max}")

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, min={self.min}{'' if self.max is None else f', max={self.max}'})"

    def admits(self, size: int) -> bool:
        return self.min <= size and (self.max is None or size <= self.max)


@record
class Decision:
    """A fact that holds in the example.  assumed : taken for granted in broadcasting, where sizes that vary count
    as different from 1; the program did not ask."""

    fact: Fact
    assumed: bool


Declared = dict[str, dict[int, Dim] | Dim]
"""Name of an array argument -> axis -> Dim, and of an integer argument -> Dim."""


class DeclaredShapes(ShapeEnvironment):
    def __init__(self, declared: Declared) -> None:
        super().__init__("symbolic")
        self.decisions: list[Decision] = []
        self._declared = declared
        self._assuming = self._concluding = False

    def layout(self, sizes: Sequence[int], steps: Sequence[int], name: str) -> tuple[Shape, Shape]:
        """The strides are those of a dense array whose axes are ordered as in the example."""
        dims = self._declared.get(name, {})
        assert not isinstance(dims, Dim)
        shape = tuple(self._size(n, dims.get(axis)) for axis, n in enumerate(sizes))
        strides, span = [ONE] * len(shape), ONE
        for axis in reversed(axis_order(sizes, steps)):
            strides[axis], span = span, span * shape[axis]
        return shape, tuple(strides)

    def _size(self, size: int, dim: Dim | None) -> Index:
        if dim is None:
            return as_index(size)
        self.values[dim.name] = size
        return self.resolve(as_index(Symbol(dim.name, dim.min, dim.max, 1, size)))

    def integer(self, value: int, name: str) -> Index:
        dim = self._declared.get(name)
        return self._size(value, dim if isinstance(dim, Dim) else None)

    def can_lay_out(self, shape: Shape, strides: Shape) -> bool:
        return super().can_lay_out(shape, strides) and all(self.known("==", n - 1) is not None for n in shape)

    def equal(self, a: IndexLike, b: IndexLike) -> bool:
        outer, self._assuming = self._assuming, b is ONE
        try:
            return super().equal(a, b)
        finally:
            self._assuming = outer

    def number(self, size: Index) -> int:
        for symbol in [a for a in atoms(self.resolve(size)) if isinstance(a, Symbol)]:
            self._record(Fact("==", as_index(symbol) - self.values[symbol.name], True, user_origin()))
        return super().number(size)

    def _learn(self, fact: Fact) -> None:
        self._record(fact)
        # what a fact entails for other symbols is no decision of its own
        outer, self._concluding = self._concluding, True
        try:
            super()._learn(fact)
        finally:
            self._concluding = outer

    def _split(self, remainder: Remainder, rest: int) -> bool:
        """Decisions are to be about Dims, so no symbol is made for a quotient."""
        return False

    def _record(self, fact: Fact) -> None:
        if fact.guarded and not self._concluding:
            self.decisions.append(Decision(fact, self._assuming and fact.relation == "!="))


def axis_order(sizes: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    """The axes from the outermost to the innermost; an axis of size one stays where it is."""
    step = list(steps)
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            step[axis] = step[axis + 1] * sizes[axis + 1] if axis + 1 < len(sizes) else min(map(abs, steps))
    return tuple(sorted(range(len(sizes)), key=lambda axis: (-abs(step[axis]), axis)))
