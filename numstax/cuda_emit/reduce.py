"""Reductions of one Loop: accumulators of a thread, and how those of several threads become one result.

A `Reduction` prints its part of a pass: `begin` before it, `update` at each point, `end_group` after each group of
chunks and `end` after all.  It has `states`: registers of its own; `merge` takes in the states of another thread.
Where a thread has several results side by side (`Cells`), all of this is printed once, for the current one.

Accuracy of float sums: a thread adds up a group of at most a few dozen elements in `width` accumulators; sums of groups
are added in float64, or (float64) with the rounding errors carried along; threads are combined in a tree.  The error
does not grow with the length of a row, unlike that of NumPy's pairwise sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk
from numstax.emit.combine import add_compensated, better, combine, result, start, takes
from numstax.emit.nest import BodyText, KernelText
from numstax.emit.values import cast, literal
from numstax.ir.index import ZERO, Index, Var, less, stride_of
from numstax.ir.loops import Loop, Reduce
from numstax.records import record


@record
class Cells:
    """A thread has `count` results, the current one at `element`; count 0: only one.  `chunk` accumulators of a sum
    share the elements of each."""

    count: int
    element: str
    chunk: int


class Reduction:
    """One accumulator: integers, logic, maxima and products."""

    in_groups = False
    """Is there something to do after each group?"""

    def __init__(self, kernel: KernelText, effect: Reduce, cells: Cells) -> None:
        self.kernel, self.text, self.effect, self.cells = kernel, kernel.text, effect, cells
        self.dtype = effect.dtype
        self.acc = self._register(self.dtype)

    def _register(self, dtype: np.dtype) -> str:
        """A register for each result, as an expression for that of the current one."""
        if not self.cells.count:
            return self.text.fresh("a")
        name = self.text.assign("a", f"registers_{dtypes.name(dtypes.compute(dtype))}({self.cells.count})")
        return f"{name}[{self.cells.element}]"

    @property
    def states(self) -> list[tuple[str, np.dtype]]:
        return [(self.acc, self.dtype)]

    def begin(self) -> None:
        self.text.line(f"{self.acc} = {start(self.effect.op, self.dtype)}")

    def update(self, body: BodyText, chunk: Chunk) -> None:
        self.merge([self._value(body)])

    def end_group(self) -> None:
        """After a group of chunks."""

    def end(self) -> None:
        """After all points of this thread."""

    def merge(self, other: Sequence[str]) -> None:
        compute = dtypes.compute(self.dtype)
        self.text.line(f"{self.acc} = {combine(self.effect.op, compute, self.acc, other[0])}")

    def results(self) -> list[str]:
        """What goes to the buffer, and to the second one."""
        return [self.acc]

    def _value(self, body: BodyText) -> str:
        k = self.effect.value
        return cast(body.value(k), body.dtype(k), self.dtype)


class Sum(Reduction):
    """A float or complex sum of one group: an accumulator for each element of a chunk."""

    def __init__(self, kernel: KernelText, effect: Reduce, cells: Cells) -> None:
        super().__init__(kernel, effect, cells)
        compute = dtypes.name(dtypes.compute(self.dtype))
        self.parts = ""
        self.part = self._register(self.dtype) if cells.chunk == 1 else ""
        if not self.part:
            self.parts = self.text.assign("a", f"registers_{compute}({cells.chunk})")

    def begin(self) -> None:
        self._clear()

    def _clear(self) -> None:
        zero = literal(0, dtypes.compute(self.dtype))
        if self.part:
            self.text.line(f"{self.part} = {zero}")
            return
        e = self.text.fresh("e")
        with self.text.block(f"for {e} in range({self.cells.chunk})"):
            self.text.line(f"{self.parts}[{e}] = {zero}")

    def update(self, body: BodyText, chunk: Chunk) -> None:
        at = self.part or f"{self.parts}[{chunk.element}]"
        self.text.line(f"{at} = {at} + {self._value(body)}")

    def end(self) -> None:
        self.text.line(f"{self.acc} = {self._total()}")

    def _total(self) -> str:
        """The sum of the accumulators, as a tree."""
        terms = [self.part] if self.part else [f"{self.parts}[{e}]" for e in range(self.cells.chunk)]
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=True)
            terms = [f"({a} + {b})" for a, b in pairs]
        return terms[0]


class LongSum(Sum):
    """A float or complex sum of any number of groups."""

    in_groups = True

    def __init__(self, kernel: KernelText, effect: Reduce, cells: Cells) -> None:
        super().__init__(kernel, effect, cells)
        compute = dtypes.compute(self.dtype)
        self.wide = dtypes.COMPLEX128 if dtypes.kind(compute) == "c" else dtypes.FLOAT64
        self.total = self._register(self.wide)
        self.carry = self._register(self.wide) if compute == self.wide else ""

    @property
    def states(self) -> list[tuple[str, np.dtype]]:
        return [(name, self.wide) for name in (self.total, self.carry) if name]

    def begin(self) -> None:
        super().begin()
        for name, dtype in self.states:
            self.text.line(f"{name} = {literal(0, dtype)}")

    def end_group(self) -> None:
        total = self._total() if self.carry else cast(self._total(), dtypes.compute(self.dtype), self.wide)
        self._add(self.text.assign("v", total))
        self._clear()

    def _add(self, value: str) -> None:
        add_compensated(self.text, self.total, self.carry, value)

    def end(self) -> None:
        """The last group has been added."""

    def merge(self, other: Sequence[str]) -> None:
        self._add(other[0])
        if self.carry:
            self.text.line(f"{self.carry} = {self.carry} + {other[1]}")

    def results(self) -> list[str]:
        if self.carry:
            # where the sum is not finite the carry is not a number
            return [f"({self.total} + {self.carry} if {self.carry} == {self.carry} else {self.total})"]
        return [cast(self.total, self.wide, dtypes.compute(self.dtype))]


class Position(Reduction):
    """argmax and argmin: the best value and where it is; smaller positions win ties."""

    def __init__(self, kernel: KernelText, effect: Reduce, cells: Cells, ordered: bool) -> None:
        super().__init__(kernel, effect, cells)
        self.position, self.ordered = self._register(dtypes.INT64), ordered

    @property
    def states(self) -> list[tuple[str, np.dtype]]:
        return [(self.acc, self.dtype), (self.position, dtypes.INT64)]

    def begin(self) -> None:
        op = "maximum" if self.effect.op == "argmax" else "minimum"
        self.text.line(f"{self.acc} = {start(op, self.dtype)}")
        self.text.line(f"{self.position} = int64({(1 << 63) - 1})")

    def update(self, body: BodyText, chunk: Chunk) -> None:
        effect, value = self.effect, self._value(body)
        if effect.position_in is not None:
            at = body.value(effect.position_in)
        else:
            assert effect.position is not None
            at = f"({body.offset(effect.position)})"
        if self.ordered:
            # a thread meets positions in order, so the first of equal ones is kept
            wins = f"({better(effect.op, self.dtype, value, self.acc)}) | ({self.position} == {(1 << 63) - 1})"
            self._take(wins, value, at)
        else:
            self.merge([value, at])

    def merge(self, other: Sequence[str]) -> None:
        value, at = other
        self._take(takes(self.effect.op, self.dtype, value, self.acc, at, self.position), value, at)

    def _take(self, wins: str, value: str, at: str) -> None:
        taken = self.text.assign("v", wins)
        self.text.line(f"{self.acc} = {value} if {taken} else {self.acc}")
        self.text.line(f"{self.position} = {at} if {taken} else {self.position}")

    def results(self) -> list[str]:
        return [self.position, self.acc]


class OnlineSoftmax(Reduction):
    """m = max(value), d = sum(exp(value - m)): d is rescaled where the maximum grows."""

    def __init__(self, kernel: KernelText, effect: Reduce, cells: Cells) -> None:
        super().__init__(kernel, effect, cells)
        self.sum = self._register(dtypes.FLOAT64)
        self.compute = dtypes.compute(self.dtype)
        self.name = dtypes.name(self.compute)
        self.low, self.zero = start("maximum", self.compute), literal(0, self.compute)

    @property
    def states(self) -> list[tuple[str, np.dtype]]:
        return [(self.acc, self.dtype), (self.sum, dtypes.FLOAT64)]

    def begin(self) -> None:
        self.text.line(f"{self.acc}, {self.sum} = {self.low}, float64(0.0)")

    def update(self, body: BodyText, chunk: Chunk) -> None:
        factor = "float64(1.0)"
        if self.effect.position_in is not None:
            factor = f"float64({body.value(self.effect.position_in)})"
        self.merge([self._value(body), factor])

    def merge(self, other: Sequence[str]) -> None:
        value, part = other
        new = self.text.assign("v", combine("maximum", self.compute, self.acc, value))
        # all -inf so far: shift by nothing, so that exp gives 0 and not NaN
        shift = self.text.assign("v", f"{new} if {new} != {self.low} else {self.zero}")
        scaled = f"{self.sum} * float64(exp_{self.name}({self.acc} - {shift}))"
        self.text.line(f"{self.sum} = {scaled} + {part} * float64(exp_{self.name}({value} - {shift}))")
        self.text.line(f"{self.acc} = {new}")

    def results(self) -> list[str]:
        return [self.acc, result(f"{self.compute.name}({self.sum})", self.dtype)]


def reduction(kernel: KernelText, loop: Loop, effect: Reduce, cells: Cells, one_group: bool) -> Reduction:
    """The accumulator for one Reduce of a loop."""
    kind = dtypes.kind(effect.dtype)
    if effect.op in ("argmax", "argmin"):
        ordered = effect.position is not None and _increases(effect.position, loop.inner)
        return Position(kernel, effect, cells, ordered)
    if effect.op == "online_softmax":
        return OnlineSoftmax(kernel, effect, cells)
    if effect.op == "add" and kind in "fc":
        return (Sum if one_group else LongSum)(kernel, effect, cells)
    return Reduction(kernel, effect, cells)


def _increases(position: Index, inner: tuple[Var, ...]) -> bool:
    """Does the position grow along the iteration, so that the first one found is the smallest?"""
    reach = ZERO
    for var in reversed(inner):
        stride = stride_of(position, var)
        if stride is None or less(reach, stride) is not True:
            return False
        reach = reach + stride * (var.extent - 1)
    return True
