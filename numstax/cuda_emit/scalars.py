"""Scalar functions as data where a GPU has something better than `emit.scalars`; `find` looks here first.

Half floats in registers are rounded already, and NaN is what the GPU makes of it, so that the bits of a bfloat16 are
the upper half of those of the float32.
"""

from __future__ import annotations

from numstax.emit import scalars
from numstax.emit.vecmath_record import Value, bitcast, convert, record, where
from numstax.program import Intrinsic


def _round_bf16(x: Value) -> Value:
    return bitcast(convert(x.op("bf16", dtype="u16"), "u32") << 16, "f32")


def _bf16_from_f32(x: Value) -> Value:
    return convert(bitcast(x, "u32") >> 16, "u16")


_LOG2_E, _LOG2_E_REST = 1.4426950216293335, 1.925963033500011e-08
_MOST = 126.0
"""Powers of two that a normal float32 and its reciprocal can be."""
_WHOLE = 12582912.0
"""Added to a float32, it leaves the nearest whole number in the last bits."""


def _exp(x: Value) -> Value:
    """2**(k + r) with k whole: r is found from x again, with log2(e) in two parts, so that its error is that of a small
    number.  Where k is at a limit, r is what goes beyond it.  Error: 2 units in the last place."""
    power = x * _LOG2_E
    limited = where(power > _MOST, _MOST, where(power < -_MOST, -_MOST, power))
    shifted = limited + _WHOLE
    whole = shifted - _WHOLE
    rest = x.op("fma", x.like(_LOG2_E), -whole)
    rest = x.op("fma", x.like(_LOG2_E_REST), rest)
    scale = bitcast((bitcast(shifted, "u32") << 23) + 0x3F800000, "f32")
    return rest.op("ex2") * scale


_ROWS = {
    name: record(name, ("f32",), function)
    for name, function in (("round_bf16", _round_bf16), ("bf16_from_f32", _bf16_from_f32), ("exp_f32", _exp))
}


def find(name: str) -> Intrinsic | None:
    """The intrinsic called `name`; None when there is none."""
    return _ROWS.get(name) or scalars.find(name)
