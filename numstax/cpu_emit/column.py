"""Reductions and scans down columns: one accumulator for each lane of a block, in scratch memory.

Float sums are exact in the same way as those of rows (see `reduce`): a block of rows is summed in the dtype,
blocks in float64 (float32, half floats) or with the rounding errors carried along (float64).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from numstax import dtypes
from numstax.cpu_emit.reduce import position
from numstax.emit.combine import add_compensated, combine, nothing, result, start, takes
from numstax.emit.nest import BodyText, KernelText
from numstax.emit.values import cast, literal, loaded, stored
from numstax.errors import CompileError
from numstax.ir.index import Index, bounds
from numstax.ir.loops import Loop, Reduce, Scan

ROWS = 128
"""Rows between two combinations of partial sums."""
_ANY_ORDER = ("add", "maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor")


class Lanes(Protocol):
    """The block of lanes that accumulators belong to."""

    kernel: KernelText
    block: Index
    at: str
    name: str
    start: str
    stop: str


class Column:
    """One accumulator array, in the register type of the reduction."""

    block = 0

    def __init__(self, lanes: Lanes, effect: Reduce | Scan) -> None:
        self.lanes, self.effect, self.kernel, self.text = lanes, effect, lanes.kernel, lanes.kernel.text
        self.dtype = effect.dtype
        self.compute = dtypes.compute(self.dtype)
        self.acc = self._array(self.compute)

    @property
    def any_order(self) -> bool:
        """May rows be combined with each other before the accumulator?  Not where every step rounds to a half float."""
        return isinstance(self.effect, Reduce) and self.effect.op in _ANY_ORDER and self.compute == self.dtype

    def _array(self, dtype: np.dtype) -> str:
        return self.text.array("acc", dtype, self.lanes.block)

    def _fill(self, name: str, value: str) -> None:
        with self.text.block(f"for {self.lanes.name} in range({self.lanes.start}, {self.lanes.stop})"):
            self.text.line(f"{name}[{self.lanes.at}] = {value}")

    def _read(self, name: str, dtype: np.dtype) -> str:
        return loaded(f"{name}[{self.lanes.at}]", dtype)

    def begin(self) -> None:
        self._fill(self.acc, stored(start(self.effect.op, self.compute), self.compute))

    def begin_block(self) -> None:
        """Before a block of rows."""

    def update(self, body: BodyText) -> None:
        self.update_all((body,))

    def update_all(self, bodies: Sequence[BodyText]) -> None:
        """Several rows at once: they are combined with each other first."""
        terms = [self._value(body) for body in bodies]
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=True)
            terms = [self.text.assign("v", combine(self.effect.op, self.compute, a, b)) for a, b in pairs]
        new = combine(self.effect.op, self.compute, self._read(self.acc, self.compute), terms[0])
        self.text.line(f"{self.acc}[{self.lanes.at}] = {stored(new, self.compute)}")

    def _value(self, body: BodyText) -> str:
        k = self.effect.value
        return cast(body.value(k), body.dtype(k), self.dtype)

    def end_block(self) -> None:
        """After a block of rows."""

    def finish(self) -> None:
        with self.text.block(f"for {self.lanes.name} in range({self.lanes.start}, {self.lanes.stop})"):
            self._store(self._read(self.acc, self.compute))

    def _store(self, value: str) -> None:
        self._store_to(self.effect.buffer, self.effect.offset, value)

    def _store_to(self, buffer: str, offset: Index, value: str) -> None:
        kernel = self.kernel.copy({self.kernel.kernel.tiling.vector: self.lanes.name})  # type: ignore[union-attr,dict-item]
        kernel.store(buffer, kernel.index(offset), result(value, kernel.buffer(buffer).dtype))

    def _store_second(self, value: str) -> None:
        effect = self.effect
        if isinstance(effect, Reduce) and effect.value_buffer is not None:
            assert effect.value_offset is not None
            self._store_to(effect.value_buffer, effect.value_offset, value)


class ScanColumn(Column):
    """A scan: the accumulator after each row is the result."""

    def begin(self) -> None:
        self._fill(self.acc, stored(nothing(self.effect.op, self.dtype), self.compute))

    def update(self, body: BodyText) -> None:
        value = self._value(body)
        running = self.text.assign("v", combine(self.effect.op, self.dtype, self._read(self.acc, self.compute), value))
        self.text.line(f"{self.acc}[{self.lanes.at}] = {stored(running, self.compute)}")
        self.kernel.store(self.effect.buffer, body.offset(self.effect.offset), running)

    def finish(self) -> None:
        """Every row has been stored."""


class SumColumn(Column):
    """A float sum over more rows than a block."""

    block = ROWS

    def __init__(self, lanes: Lanes, effect: Reduce) -> None:
        super().__init__(lanes, effect)
        self.total = self._array(dtypes.FLOAT64)
        self.carry = self._array(dtypes.FLOAT64) if self.compute == dtypes.FLOAT64 else ""

    def begin(self) -> None:
        for name in filter(None, (self.total, self.carry)):
            self._fill(name, "0.0")

    def begin_block(self) -> None:
        self._fill(self.acc, literal(0, self.compute))

    def end_block(self) -> None:
        at = self.lanes.at
        with self.text.block(f"for {self.lanes.name} in range({self.lanes.start}, {self.lanes.stop})"):
            carry = f"{self.carry}[{at}]" if self.carry else ""
            add_compensated(self.text, f"{self.total}[{at}]", carry, f"{self.acc}[{at}]")

    def finish(self) -> None:
        at = self.lanes.at
        with self.text.block(f"for {self.lanes.name} in range({self.lanes.start}, {self.lanes.stop})"):
            total = self.text.assign("v", f"{self.total}[{at}]")
            if self.carry:
                carry = self.text.assign("v", f"{self.carry}[{at}]")
                self._store(f"({total} + {carry} if {carry} == {carry} else {total})")
            else:
                self._store(f"float32({total})")


class PositionColumn(Column):
    """argmax and argmin: best value and its position."""

    def __init__(self, lanes: Lanes, effect: Reduce) -> None:
        super().__init__(lanes, effect)
        self.places = self._array(dtypes.INT64)

    def begin(self) -> None:
        op = "maximum" if self.effect.op == "argmax" else "minimum"
        self._fill(self.acc, stored(start(op, self.compute), self.compute))
        self._fill(self.places, str((1 << 63) - 1))

    def update(self, body: BodyText) -> None:
        effect = self.effect
        assert isinstance(effect, Reduce)
        value = self._value(body)
        best = self.text.assign("v", self._read(self.acc, self.compute))
        place = self.text.assign("v", f"{self.places}[{self.lanes.at}]")
        at = self.text.assign("v", position(body, effect))
        wins = self.text.assign("v", takes(effect.op, self.dtype, value, best, at, place))
        new = stored(f"({value} if {wins} else {best})", self.compute)
        self.text.line(f"{self.acc}[{self.lanes.at}] = {new}")
        self.text.line(f"{self.places}[{self.lanes.at}] = {at} if {wins} else {place}")

    def finish(self) -> None:
        with self.text.block(f"for {self.lanes.name} in range({self.lanes.start}, {self.lanes.stop})"):
            self._store(f"{self.places}[{self.lanes.at}]")
            self._store_second(self._read(self.acc, self.compute))


class SoftmaxColumn(Column):
    """m = max(value), d = sum(exp(value - m)), rescaled whenever the maximum grows."""

    def __init__(self, lanes: Lanes, effect: Reduce) -> None:
        super().__init__(lanes, effect)
        self.sum = self._array(self.compute)

    def begin(self) -> None:
        self._fill(self.acc, start("maximum", self.compute))
        self._fill(self.sum, literal(0, self.compute))

    def update(self, body: BodyText) -> None:
        effect, name, at = self.effect, dtypes.name(self.compute), self.lanes.at
        assert isinstance(effect, Reduce)
        value = self._value(body)
        best = self.text.assign("v", f"{self.acc}[{at}]")
        new = self.text.assign("v", f"maximum_{name}({best}, {value})")
        low, zero = start("maximum", self.compute), literal(0, self.compute)
        shift = self.text.assign("v", f"{new} if {new} != {low} else {zero}")
        term = f"exp_{name}({value} - {shift})"
        if effect.position_in is not None:
            term = f"{term} * {body.value(effect.position_in)}"
        self.text.line(f"{self.sum}[{at}] = {self.sum}[{at}] * exp_{name}({best} - {shift}) + {term}")
        self.text.line(f"{self.acc}[{at}] = {new}")

    def finish(self) -> None:
        super().finish()
        with self.text.block(f"for {self.lanes.name} in range({self.lanes.start}, {self.lanes.stop})"):
            self._store_second(result(f"{self.sum}[{self.lanes.at}]", self.dtype))


def column(lanes: Lanes, loop: Loop, effect: Reduce | Scan) -> Column:
    """The accumulator for one effect of a column loop."""
    if isinstance(effect, Scan):
        if effect.op not in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or"):
            raise CompileError(f"scan of {effect.op}")
        return ScanColumn(lanes, effect)
    if effect.op in ("argmax", "argmin"):
        return PositionColumn(lanes, effect)
    if effect.op == "online_softmax":
        return SoftmaxColumn(lanes, effect)
    if effect.op == "add" and dtypes.kind(effect.dtype) == "f" and _long(loop):
        return SumColumn(lanes, effect)
    return Column(lanes, effect)


def _long(loop: Loop) -> bool:
    high = bounds(loop.inner[-1].extent)[1] if loop.inner else 1
    return high is None or high > ROWS
