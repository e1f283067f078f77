"""float16, bfloat16 and the float8 formats: from and to float32, bit for bit as NumPy and ml_dtypes do.

`f32_from_<t>` takes the stored bits, `<t>_from_f32` gives them, rounded to nearest even, and `round_<t>` is
a float32 that `<t>` holds exactly.  float16 and float8_e5m2 overflow to infinity, float8_e4m3fn, which has
none, to NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from numstax.emit.vecmath_record import Value, absolute, bitcast, convert, is_nan, where
from numstax.records import record


def _f16_from_f32(x: Value) -> Value:
    return bitcast(convert(x, "f16"), "u16")


def _f32_from_f16(bits: Value) -> Value:
    return convert(bitcast(bits, "f16"), "f32")


def _nearest_even(bits: Value, dropped: int) -> Value:
    """The bits with the last `dropped` rounded away: to nearest, ties to even; they may still be set."""
    return bits + ((1 << (dropped - 1)) - 1) + ((bits >> dropped) & 1)


def _bf16_from_f32(x: Value) -> Value:
    bits = bitcast(x, "u32")
    nan = (bits & 0x80000000) | 0x7FC00000
    return convert(where(is_nan(x), nan, _nearest_even(bits, 16)) >> 16, "u16")


def _f32_from_bf16(bits: Value) -> Value:
    return bitcast(convert(bits, "u32") << 16, "f32")


def round_bf16(x: Value) -> Value:
    return where(is_nan(x), x, bitcast(_nearest_even(bitcast(x, "u32"), 16) & 0xFFFF0000, "f32"))


@record
class _Float8:
    """Mantissa bits, exponent bias, the bits that stand for magnitudes out of range, and the bits of NaN."""

    mantissa: int
    bias: int
    overflow: int
    nan: int

    @property
    def dropped(self) -> int:
        return 23 - self.mantissa

    def encode(self, x: Value) -> Value:
        magnitude = absolute(x)
        bits = bitcast(magnitude, "u32")
        rebias = (127 - self.bias) << self.mantissa
        normal = (_nearest_even(bits, self.dropped) >> self.dropped) - rebias
        # the sum of a number below the smallest normal and this is rounded to a multiple of the smallest subnormal
        shifter = 2.0 ** (1 - self.bias + self.dropped)
        subnormal = bitcast(magnitude + shifter, "u32") - bitcast(x.like(shifter), "u32")
        number = where(magnitude < 2.0 ** (1 - self.bias), subnormal, normal)
        # the tie below the first number out of range goes to whichever is even
        beyond = ((self.overflow + rebias) << self.dropped) - (1 << (self.dropped - 1)) + self.overflow % 2
        limited = where(bits < beyond, number, self.overflow)
        sign = (bitcast(x, "u32") >> 24) & 0x80
        return convert(where(is_nan(x), self.nan, limited) | sign, "u8")

    def decode(self, stored: Value) -> Value:
        wide = convert(stored, "u32")
        magnitude = wide & 0x7F
        number = bitcast(magnitude << self.dropped, "f32") * 2.0 ** (127 - self.bias)
        first = nan if self.overflow == self.nan else inf
        number = where(magnitude < self.overflow, number, where(magnitude == self.overflow, number.like(first), nan))
        return bitcast(bitcast(number, "u32") | (wide & 0x80) << 24, "f32")

    def round(self, x: Value) -> Value:
        return self.decode(self.encode(x))


_F8E4M3 = _Float8(mantissa=3, bias=7, overflow=0x7F, nan=0x7F)
_F8E5M2 = _Float8(mantissa=2, bias=15, overflow=0x7C, nan=0x7E)

CONVERSIONS: dict[str, tuple[str, Callable[[Value], Value]]] = {
    "f32_from_f16": ("u16", _f32_from_f16),
    "f16_from_f32": ("f32", _f16_from_f32),
    "round_f16": ("f32", lambda x: _f32_from_f16(_f16_from_f32(x))),
    "f32_from_bf16": ("u16", _f32_from_bf16),
    "bf16_from_f32": ("f32", _bf16_from_f32),
    "round_bf16": ("f32", round_bf16),
    "f32_from_f8e4m3": ("u8", _F8E4M3.decode),
    "f8e4m3_from_f32": ("f32", _F8E4M3.encode),
    "round_f8e4m3": ("f32", _F8E4M3.round),
    "f32_from_f8e5m2": ("u8", _F8E5M2.decode),
    "f8e5m2_from_f32": ("f32", _F8E5M2.encode),
    "round_f8e5m2": ("f32", _F8E5M2.round),
}
"""Dtype of the parameter, and the function."""
