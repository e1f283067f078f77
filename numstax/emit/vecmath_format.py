"""The two floating-point formats in which functions are computed, and exact manipulations of their bits."""

from __future__ import annotations

from numstax.emit.vecmath_record import Value, bitcast, convert, fma
from numstax.records import record


@record
class Format:
    """dtype, the integer dtype of the same width, mantissa bits, exponent bias; `shifter`: adding it to a small
    number rounds that to an integer, held in the low bits."""

    dtype: str
    integer: str
    mantissa: int
    bias: int

    @property
    def shifter(self) -> float:
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {"f32": Format("f32", "i32", 23, 127), "f64": Format("f64", "i64", 52, 1023)}


def format_of(x: Value) -> Format:
    return FORMATS[x.dtype]


def bits(x: Value) -> Value:
    """The bits of a float as a signed integer."""
    return bitcast(x, format_of(x).integer)


def round_scaled(x: Value, factor: float, offset: int = 0) -> tuple[Value, Value]:
    """n = x*factor rounded to an integer (ties to even), as a float, and an integer whose low half is n + offset.

    The sum with `shifter` has no fraction bits; they are rounded away.
    """
    shifter = format_of(x).shifter + offset
    shifted = fma(x, factor, shifter)
    return shifted - shifter, bits(shifted)


def exponent_field(n: Value, dtype: str) -> Value:
    """2**(n - bias): the number whose exponent bits are the low bits of n."""
    return bitcast(n << FORMATS[dtype].mantissa, dtype)


def scale_twice(x: Value, n: Value) -> Value:
    """x * 2**(n - 2*bias) for x near 1, rounded once even where the result is subnormal; may overflow."""
    form = format_of(x)
    exponents = n << form.mantissa
    half = (n << (form.mantissa - 1)) & (-1 << form.mantissa)
    return x * bitcast(half, x.dtype) * bitcast(exponents - half, x.dtype)


def divide(n: Value, d: Value, d_low: Value, n_low: Value | None = None) -> tuple[Value, Value]:
    """(n + n_low) / (d + d_low) as a quotient and a correction to it."""
    inverse = 1 / d
    quotient = n * inverse
    remainder = fma(-quotient, d_low, fma(-quotient, d, n))
    return quotient, (remainder if n_low is None else remainder + n_low) * inverse


def widen(x: Value) -> Value:
    return convert(x, "f64")


def narrow(x: Value) -> Value:
    return convert(x, "f32")
