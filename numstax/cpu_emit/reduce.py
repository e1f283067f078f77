"""Reductions of one Loop into registers: the accumulators of a row.

A `Reduction` prints its part of the loop: `begin` before it, `update` for each element and `finish` after it.
One with `block` also wants the innermost axis cut into blocks, and prints something before and after each.

Accuracy of float sums: a block is summed by lane accumulators in the dtype, blocks are added in float64
(float32, half floats) or with the rounding errors carried along (float64), so the error does not grow with
the length of the row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from numstax import dtypes
from numstax.emit.combine import accumulate, add_compensated, better, result, start, takes
from numstax.emit.nest import BodyText, KernelText
from numstax.emit.values import cast, literal
from numstax.ir.index import ZERO, Index, Var, bounds, less, stride_of
from numstax.ir.loops import Loop, Reduce

BLOCK = 2048
"""Elements between two combinations of partial results."""

Rerun = Callable[[Callable[[BodyText], None]], None]
"""Prints the innermost loop of the current block again, with other updates."""


class Reduction:
    """One accumulator: integers, logic, maxima, products, and float sums of at most one block."""

    block = 0
    in_one_piece = True
    """May the elements of a block run without a loop over blocks around them?"""

    def __init__(self, kernel: KernelText, loop: Loop, effect: Reduce) -> None:
        self.kernel, self.effect, self.dtype = kernel, effect, effect.dtype
        self._number = loop.effects.index(effect)
        self.text = kernel.text
        self.acc = self.text.fresh("a")

    def begin(self) -> None:
        self.text.line(f"{self.acc} = {start(self.effect.op, self.dtype)}")

    def begin_block(self) -> None:
        """Before the elements of a block."""

    def update(self, body: BodyText) -> None:
        value = self._value(body)
        self.text.line(f"{self.acc} = {accumulate(self.effect.op, self.dtype, self.acc, value)}")

    def end_block(self, block: tuple[str, ...], rerun: Rerun) -> None:
        """After a block; `block` names the variables of the axes around its elements."""

    def finish(self) -> None:
        # a sum that may be regrouped may have any sign of zero; NumPy starts from 0.0
        positive = self.effect.op == "add" and dtypes.kind(self.dtype) == "f"
        self._store(f"({self.acc} + {start('add', self.dtype)})" if positive else self.acc)

    def _within(self, body: BodyText) -> Reduce:
        """The effect as it is in a body, which may be that of a piece of the loop."""
        effect = body.loop.effects[self._number]
        assert isinstance(effect, Reduce)
        return effect

    def _value(self, body: BodyText) -> str:
        k = self._within(body).value
        return cast(body.value(k), body.dtype(k), self.dtype)

    def _store(self, value: str) -> None:
        offset = self.kernel.index(self.effect.offset)
        self.kernel.store(self.effect.buffer, offset, result(value, self.kernel.buffer(self.effect.buffer).dtype))

    def _store_second(self, value: str) -> None:
        if self.effect.value_buffer is not None:
            assert self.effect.value_offset is not None
            self.kernel.store(self.effect.value_buffer, self.kernel.index(self.effect.value_offset), value)


class SkipNan(Reduction):
    """fmax and fmin of floats: NaN counts as the smallest (largest) value, unless there is nothing else."""

    def begin(self) -> None:
        self.seen = self.text.fresh("a")
        self.op = "maximum" if self.effect.op == "fmax" else "minimum"
        self.first = start(self.op, self.dtype)
        self.text.line(f"{self.acc}, {self.seen} = {self.first}, False")

    def update(self, body: BodyText) -> None:
        value = self._value(body)
        self.text.line(f"{self.seen} = {self.seen} | ({value} == {value})")
        number = f"({value} if {value} == {value} else {self.first})"
        self.text.line(f"{self.acc} = {accumulate(self.op, self.dtype, self.acc, number)}")

    def finish(self) -> None:
        self._store(f"({self.acc} if {self.seen} else {literal(np.nan, self.dtype)})")


class BlockSum(Reduction):
    """A float sum over more elements than a block."""

    block = BLOCK

    def begin(self) -> None:
        compute = dtypes.compute(self.dtype)
        self.zero = literal(0, compute)
        self.total, self.carry = self.text.fresh("a"), ""
        self.text.line(f"{self.total} = float64(0.0)")
        if compute == dtypes.FLOAT64:
            self.carry = self.text.fresh("a")
            self.text.line(f"{self.carry} = float64(0.0)")

    def begin_block(self) -> None:
        self.text.line(f"{self.acc} = {self.zero}")

    def end_block(self, block: tuple[str, ...], rerun: Rerun) -> None:
        add_compensated(self.text, self.total, self.carry, self.acc)

    def finish(self) -> None:
        total = self.total
        if self.carry:
            total = f"({total} + {self.carry} if {self.carry} == {self.carry} else {total})"
        self._store(f"float32({total})" if dtypes.compute(self.dtype) == dtypes.FLOAT32 else total)


class ComplexSum(Reduction):
    """The sum of the parts, each as an accurate float sum."""

    block = BLOCK

    def begin(self) -> None:
        part = np.dtype(f"f{self.dtype.itemsize // 2}")
        self.zero, self.single = literal(0, part), part == dtypes.FLOAT32
        self.name = dtypes.name(part)
        self.parts = [
            (self.text.fresh("a"), self.text.fresh("a"), "" if self.single else self.text.fresh("a")) for _ in range(2)
        ]
        for _, total, carry in self.parts:
            self.text.line(f"{total} = float64(0.0)")
            if carry:
                self.text.line(f"{carry} = float64(0.0)")

    def begin_block(self) -> None:
        for acc, _, _ in self.parts:
            self.text.line(f"{acc} = {self.zero}")

    def update(self, body: BodyText) -> None:
        value = self._value(body)
        for (acc, _, _), part in zip(self.parts, ("real", "imag"), strict=True):
            self.text.line(f"{acc} = add_reassoc_{self.name}({acc}, {value}.{part})")

    def end_block(self, block: tuple[str, ...], rerun: Rerun) -> None:
        for acc, total, carry in self.parts:
            add_compensated(self.text, total, carry, acc)

    def finish(self) -> None:
        ends = [f"({t} + {c} if {c} == {c} else {t})" if c else f"float32({t})" for _, t, c in self.parts]
        self._store(f"complex({ends[0]}, {ends[1]})")


class EarlyExit(Reduction):
    """any and all over one axis: stop at the first block that decides."""

    block = BLOCK
    in_one_piece = False

    def end_block(self, block: tuple[str, ...], rerun: Rerun) -> None:
        decided = self.acc if self.effect.op == "logical_or" else f"not {self.acc}"
        with self.text.block(f"if {decided}"):
            self.text.line("break")


class FirstPosition(Reduction):
    """argmax and argmin: the best value of each block; the position is looked for in the winning block only."""

    block = BLOCK
    in_one_piece = False

    def begin(self) -> None:
        self.op = "maximum" if self.effect.op == "argmax" else "minimum"
        self.best = self.text.fresh("a")
        self.text.line(f"{self.best} = {start(self.op, self.dtype)}")
        self.first = start(self.op, self.dtype)
        self.at: tuple[str, ...] = ()

    def begin_block(self) -> None:
        self.text.line(f"{self.acc} = {self.first}")

    def update(self, body: BodyText) -> None:
        self.text.line(f"{self.acc} = {accumulate(self.op, self.dtype, self.acc, self._value(body))}")

    def end_block(self, block: tuple[str, ...], rerun: Rerun) -> None:
        with self.text.block(f"if {better(self.effect.op, self.dtype, self.acc, self.best)}"):
            self.text.line(f"{self.best} = {self.acc}")
            if self.at:
                self.text.line(f"{', '.join(self.at)} = {', '.join(block)}")

    def remember(self, count: int) -> None:
        """Names for the variables of the winning block."""
        self.at = tuple(self.text.fresh("p") for _ in range(count))
        for name in self.at:
            self.text.line(f"{name} = 0")

    def match(self, body: BodyText, found: str, start: str) -> None:
        """For each element of the winning block again: the smallest distance from `start` of the best value.
        There is no early exit, so that the compiler makes vectors of it."""
        value = self._value(body)
        same = f"{value} == {self.best}"
        if dtypes.kind(self.dtype) == "f":
            same = f"({same}) | ({value} != {value})"
        place = self.text.assign("p", f"int32({body.axes[-1].name} - {start}) if {same} else int32({1 << 30})")
        self.text.line(f"{found} = {place} if {place} < {found} else {found}")

    def finish_at(self, found: str) -> None:
        self._store(found)
        self._store_second(self.best)


class AnyPosition(Reduction):
    """argmax and argmin where positions come in any order: smaller positions win ties."""

    def begin(self) -> None:
        self.position = self.text.fresh("p")
        op = "maximum" if self.effect.op == "argmax" else "minimum"
        self.text.line(f"{self.acc}, {self.position} = {start(op, self.dtype)}, int64({(1 << 63) - 1})")

    def update(self, body: BodyText) -> None:
        value, at = self._value(body), position(body, self._within(body))
        wins = takes(self.effect.op, self.dtype, value, self.acc, at, self.position)
        with self.text.block(f"if {wins}"):
            self.text.line(f"{self.acc}, {self.position} = {value}, {at}")

    def finish(self) -> None:
        self._store(self.position)
        self._store_second(self.acc)


def position(body: BodyText, effect: Reduce) -> str:
    if effect.position_in is not None:
        return body.value(effect.position_in)
    assert effect.position is not None
    return f"({body.offset(effect.position)})"


class OnlineSoftmax(Reduction):
    """m = max(value), d = sum(exp(value - m)): block by block, rescaling d when the maximum grows."""

    block = BLOCK
    in_one_piece = False

    def begin(self) -> None:
        self.name = dtypes.name(dtypes.compute(self.dtype))
        self.low, self.zero = start("maximum", self.dtype), literal(0, self.dtype)
        self.best, self.sum = self.text.fresh("a"), self.text.fresh("a")
        self.text.line(f"{self.best}, {self.sum} = {self.low}, float64(0.0)")

    def begin_block(self) -> None:
        self.text.line(f"{self.acc} = {self.low}")

    def update(self, body: BodyText) -> None:
        self.text.line(f"{self.acc} = maximum_nsz_{self.name}({self.acc}, {self._value(body)})")

    def end_block(self, block: tuple[str, ...], rerun: Rerun) -> None:
        new = self.text.assign("u", f"maximum_nsz_{self.name}({self.best}, {self.acc})")
        # all -inf so far: shift by nothing, so that exp gives 0 and not NaN
        shift = self.text.assign("u", f"{new} if {new} != {self.low} else {self.zero}")
        part = self.text.assign("u", self.zero)

        def add(body: BodyText) -> None:
            term = f"exp_{self.name}({self._value(body)} - {shift})"
            entry = self._within(body).position_in
            if entry is not None:
                term = f"{term} * {body.value(entry)}"
            self.text.line(f"{part} = add_reassoc_{self.name}({part}, {term})")

        rerun(add)
        self.text.line(f"{self.sum} = {self.sum} * exp_{self.name}({self.best} - {shift}) + {part}")
        self.text.line(f"{self.best} = {new}")

    def finish(self) -> None:
        self._store(self.best)
        self._store_second(result(f"{dtypes.compute(self.dtype).name}({self.sum})", self.dtype))


def reduction(kernel: KernelText, loop: Loop, effect: Reduce) -> Reduction:
    """The accumulator for one Reduce of a loop."""
    kind = dtypes.kind(effect.dtype)
    if effect.op in ("argmax", "argmin"):
        simple = effect.position_in is None and kind in "iuf" and len(loop.effects) == 1
        ordered = simple and effect.position is not None and _increases(effect.position, loop.inner)
        return (FirstPosition if ordered else AnyPosition)(kernel, loop, effect)
    if effect.op == "online_softmax":
        return OnlineSoftmax(kernel, loop, effect)
    if effect.op in ("fmax", "fmin") and kind == "f":
        return SkipNan(kernel, loop, effect)
    if effect.op == "add" and kind == "c":
        return ComplexSum(kernel, loop, effect)
    if effect.op == "add" and kind == "f" and not _short(loop):
        return BlockSum(kernel, loop, effect)
    if effect.op in ("logical_and", "logical_or") and len(loop.effects) == len(loop.inner) == 1 and not _short(loop):
        return EarlyExit(kernel, loop, effect)
    return Reduction(kernel, loop, effect)


def _short(loop: Loop) -> bool:
    """Provably at most one block of elements."""
    size = 1
    for var in loop.inner:
        high = bounds(var.extent)[1]
        if high is None:
            return False
        size *= high
    return size <= BLOCK


def _increases(position: Index, inner: tuple[Var, ...]) -> bool:
    """Does the position grow along the iteration, so that the first one found is the smallest?"""
    reach = ZERO
    for var in reversed(inner):
        stride = stride_of(position, var)
        if stride is None or less(reach, stride) is not True:
            return False
        reach = reach + stride * (var.extent - 1)
    return True
