"""power, cbrt, hypot: float32 through float64 arithmetic, float64 with terms of twice the precision.

|x|**y = 2**(y * log2 |x|); the error of the logarithm is multiplied by y * log2 |x|, up to 2**10.  The sign
is that of an odd integer y; a negative finite x with fractional y gives NaN, and x**0 and 1**y are 1 always.
"""

from __future__ import annotations

from math import inf, nan

from numstax.emit.vecmath_exp import EXP2
from numstax.emit.vecmath_format import bits, exponent_field, format_of, narrow, round_scaled, scale_twice, widen
from numstax.emit.vecmath_log import split
from numstax.emit.vecmath_record import (
    Value,
    absolute,
    at_least,
    at_most,
    copysign,
    floor,
    fma,
    polynomial,
    sqrt,
    where,
)

# log2(1 + f) / f, relative error 2**-38
_LOG2_F32 = (
    1.4426950408864663,
    -0.7213475203231516,
    0.4808983488735815,
    -0.3606737942077646,
    0.2885387891572492,
    -0.24044635919328353,
    0.20610730300778773,
    -0.18043888119697468,
    0.16021573743651696,
    -0.14247197106466652,
    0.13025498873286315,
    -0.13474727753334415,
    0.1327026683158681,
    -0.06977681909030774,
)
# (2**r - 1) / r, relative error 2**-40
_EXP2_F32 = (
    0.6931471805459305,
    0.24022650695712247,
    0.055504109412154126,
    0.00961812918358182,
    0.0013333450560412074,
    0.00015403439271753205,
    1.5310081137407205e-05,
    1.3258663932854313e-06,
)


# artanh(s) / s = 1 + s**2/3 + s**4 * polynomial in s**2, s = f / (2 + f), relative error of the logarithm 2**-67
_ARTANH_F64 = (
    0.20000000000001145,
    0.1428571428504145,
    0.11111111261508488,
    0.09090892043425026,
    0.07693385326848508,
    0.06628249242007592,
    0.06599685608296635,
)
_TWO_LOG2_E = (2.8853900817779268, 4.0710547481862066e-17)
_THIRD = (0.3333333333333333, 1.850371707708594e-17)
# 2**t is 0 or infinity beyond
_LIMIT = 1100.0

Double = tuple[Value, Value]
"""An unevaluated sum of a number and a correction below its last place."""


def _product(a: Double, b: Double) -> Double:
    high = a[0] * b[0]
    return high, fma(a[0], b[0], -high) + (a[0] * b[1] + a[1] * b[0])


def _sum(a: Value, b: Double) -> Double:
    """a + b where |a| >= |b| or a is 0."""
    high = a + b[0]
    return high, (a - high) + b[0] + b[1]


def _log2_double(x: Value) -> Double:
    """log2 of positive finite float64 x to about 2**-66."""
    e, significand = split(x)
    f, d = significand - 1, significand + 1
    d_low = (1 - d) + significand
    s = f / d
    s_double = s, fma(s, d_low, fma(s, d, -f)) / -d
    z = _product(s_double, s_double)
    rest = _product(z, (z[0].like(_THIRD[0]), z[0].like(_THIRD[1])))
    tail = rest[0], rest[1] + z[0] * z[0] * polynomial(z[0], _ARTANH_F64)
    one_more = _sum(z[0].like(1.0), tail)
    artanh = _product(s_double, one_more)
    return _sum(e, _product(artanh, (s.like(_TWO_LOG2_E[0]), s.like(_TWO_LOG2_E[1]))))


def _with_limits(x: Value, logarithm: Value) -> Value:
    return where(x < inf, where(x > 0, logarithm, -inf), x)


def _log2_of_wide(a: Value) -> Value:
    """log2 of float64 a >= 0 to 2**-38."""
    e, significand = split(a)
    f = significand - 1
    return _with_limits(a, fma(f, polynomial(f, _LOG2_F32), e))


def _exp2_of_wide(t: Value) -> Value:
    """2**t for float64 t to 2**-40."""
    t = at_least(at_most(t, _LIMIT), -_LIMIT)
    whole, n = round_scaled(t, 1.0, 2 * format_of(t).bias)
    r = t - whole
    return scale_twice(fma(r, polynomial(r, _EXP2_F32), 1.0), n)


def _magnitude(a: Value, y: Value) -> Value:
    """a**y for a >= 0, apart from 1**y and a**0."""
    if a.dtype == "f32":
        return narrow(_exp2_of_wide(widen(y) * _log2_of_wide(widen(a))))
    high, low = _log2_double(a)
    t = y * _with_limits(a, high)
    correction = fma(y, high, -t) + y * low
    t = at_least(at_most(t, _LIMIT), -_LIMIT)
    whole, n = round_scaled(t, 1.0, 2 * format_of(t).bias)
    r = (t - whole) + where(absolute(t) < _LIMIT, correction, 0.0)
    return scale_twice(fma(r, polynomial(r, EXP2["f64"]), 1.0), n)


def power(x: Value, y: Value) -> Value:
    a = absolute(x)
    magnitude = where((a == 1) | (y == 0), 1.0, _magnitude(a, y))
    whole = floor(y) == y
    half = y * 0.5
    odd = whole & (floor(half) != half)
    signed = where(odd, copysign(magnitude, x), magnitude)
    return where((x < 0) & (x > -inf) & ~whole, nan, signed)


def cube(x: Value) -> Value:
    """x**3; in float64 with what the roundings lost."""
    if x.dtype == "f32":
        wide = widen(x)
        return narrow(wide * wide * wide)
    square = x * x
    lost = fma(x, x, -square)
    result = square * x
    return _corrected(result, fma(lost, x, fma(square, x, -result)))


def fourth_power(x: Value) -> Value:
    if x.dtype == "f32":
        square = widen(x) * widen(x)
        return narrow(square * square)
    square = x * x
    lost = fma(x, x, -square)
    result = square * square
    return _corrected(result, fma(lost * 2, square, fma(square, square, -result)))


def sqrt_cubed(x: Value) -> Value:
    """x**1.5."""
    return where(x == -inf, inf, x * sqrt(x))


def rsqrt(x: Value) -> Value:
    """x**-0.5."""
    return where(x == -inf, 0.0, absolute(1.0 / sqrt(x)))


def rsqrt_cubed(x: Value) -> Value:
    """x**-1.5, as (1/x)**1.5, which stays in the range as long as the result does."""
    inverse = 1.0 / (x + 0.0)  # a negative zero is one, too
    lost = fma(-inverse, x, 1.0)
    # what the quotient lost counts one and a half times; it is not finite for subnormal numbers, 0 and infinity
    return sqrt(inverse) * fma(inverse, where(lost > -1.0, lost, 1.0) * 1.5, inverse)


def _corrected(result: Value, lost: Value) -> Value:
    """Their sum, but zeros keep their sign, and what has overflowed is infinite."""
    return where((absolute(result) > 0) & (absolute(result) < inf), result + lost, result)


def cbrt(x: Value) -> Value:
    """|x|**(1/3), and in float64 one Newton step with an exact residual, so that cubes have exact roots."""
    if x.dtype == "f32":
        return copysign(narrow(_exp2_of_wide(_log2_of_wide(widen(absolute(x))) * _THIRD[0])), x)
    tiny = absolute(x) < format_of(x).smallest_normal
    a = absolute(where(tiny, x * 2.0**54, x))
    y = _exp2_of_wide(_log2_of_wide(a) * _THIRD[0])
    square = y * y
    residual = fma(-square, y, a) - fma(y, y, -square) * y
    root = (y + residual / (square * 3)) * where(tiny, x.like(2.0**-18), 1.0)
    return where((x == 0) | ~(a < inf), x, copysign(root, x))


def hypot(x: Value, y: Value) -> Value:
    """sqrt(x**2 + y**2), in float64 scaled by the exponent of the larger; infinite beside a NaN too."""
    a, b = absolute(x), absolute(y)
    infinite = (a == inf) | (b == inf)
    if x.dtype == "f32":
        wide_a, wide_b = widen(a), widen(b)
        return where(infinite, inf, narrow(sqrt(fma(wide_a, wide_a, wide_b * wide_b))))
    form = format_of(x)
    larger = where(a < b, b, a)
    field = at_most(at_least(bits(larger) >> form.mantissa, 1), 2 * form.bias - 1)
    shrink = exponent_field(2 * form.bias - field, x.dtype)
    p, q = larger * shrink, where(a < b, a, b) * shrink
    return where(infinite, inf, sqrt(fma(p, p, q * q)) * exponent_field(field, x.dtype))


UNARY = {f.__name__: f for f in (cbrt, cube, fourth_power, rsqrt, sqrt_cubed, rsqrt_cubed)}
BINARY = {"power": power, "hypot": hypot}
