"""Scalar functions as data where a GPU has something better than `emit.scalars`; `find` looks here first.

Half floats in registers are rounded already, and NaN is what the GPU makes of it, so that the bits of a bfloat16 are
the upper half of those of the float32.
"""

from __future__ import annotations

from numstax.emit import scalars
from numstax.emit.vecmath_record import Value, bitcast, convert, record
from numstax.program import Intrinsic


def _round_bf16(x: Value) -> Value:
    return bitcast(convert(x.op("bf16", dtype="u16"), "u32") << 16, "f32")


def _bf16_from_f32(x: Value) -> Value:
    return convert(bitcast(x, "u32") >> 16, "u16")


_ROWS = {
    name: record(name, ("f32",), function)
    for name, function in (("round_bf16", _round_bf16), ("bf16_from_f32", _bf16_from_f32))
}


def find(name: str) -> Intrinsic | None:
    """The intrinsic called `name`; None when there is none."""
    return _ROWS.get(name) or scalars.find(name)
