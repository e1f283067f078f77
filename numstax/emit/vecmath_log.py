"""log, log1p, log2, log10 and what follows from them: logit, xlogy, logaddexp, inverse hyperbolic functions.

x = 2**e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) is a polynomial: of f in float32, of
s**2 with s = f / (2 + f) in float64, where log(1 + f) = 2 artanh s = f - (f**2/2 - s*(f**2/2 + s**2 * R)).
Arguments may come as a sum u + c with a small correction c, which keeps log1p accurate near 0.
"""

from __future__ import annotations

from math import inf, nan

from numstax.emit.vecmath_exp import LN_2, LOG2_E, exp, exp2
from numstax.emit.vecmath_format import bits, divide, exponent_field, format_of
from numstax.emit.vecmath_record import (
    Value,
    absolute,
    bitcast,
    convert,
    copysign,
    fma,
    is_nan,
    polynomial,
    sqrt,
    where,
)

LOG10_E = 0.4342944819032518
LOG10_2 = {
    "f32": (0.3010300099849701, -1.4320988897559699e-08),
    "f64": (0.3010299956639812, -2.8037281277851704e-18),
}
# (log(1 + f) - f + f**2/2) / f**3, relative error of the logarithm 2**-30
_LOG_F32 = (
    0.3333331,
    -0.25000003,
    0.20002235,
    -0.16668314,
    0.14217623,
    -0.12400228,
    0.11897123,
    -0.11706369,
    0.06760732,
)
# (2 artanh(s) - 2 s) / s**3 in s**2, relative error of the logarithm 2**-59
_ARTANH_F64 = (
    0.6666666666666735,
    0.39999999999409447,
    0.2857142874365329,
    0.22222198433147095,
    0.18183572113490135,
    0.15313838742627223,
    0.14798190454052373,
)


def split(x: Value) -> tuple[Value, Value]:
    """e, a float holding an integer, and 1 + f, with x = 2**e * (1 + f), for positive finite x."""
    form = format_of(x)
    tiny = x < form.smallest_normal
    normal = where(tiny, x * 2.0**form.mantissa, x)
    steps = (bits(normal) - bits(x.like(0.5**0.5))) >> form.mantissa
    significand = bitcast(bits(normal) - (steps << form.mantissa), x.dtype)
    return convert(steps, x.dtype) - where(tiny, x.like(float(form.mantissa)), 0.0), significand


def _log_1p(f: Value) -> Value:
    """log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2))."""
    square = f * f
    if f.dtype == "f32":
        return fma(square, fma(f, polynomial(f, _LOG_F32), -0.5), f)
    s, half = f / (f + 2), square * 0.5
    z = s * s
    return f - (half - s * fma(z, polynomial(z, _ARTANH_F64), half))


def _with_limits(u: Value, logarithm: Value) -> Value:
    """-inf at 0, NaN below, inf at inf."""
    inside = where(u < inf, logarithm, u)
    return where(u > 0, inside, where(u == 0, u.like(-inf), nan))


def _logarithm(e: Value, f: Value, low: Value | None = None) -> Value:
    """log(2**e * (1 + f + low)), where low is below the last place of f."""
    high, rest = LN_2[f.dtype]
    return fma(e, high, fma(e, rest, low if low is not None else 0.0) + _log_1p(f))


def log_sum(u: Value, c: Value) -> Value:
    """log(u + c), where |c| is below a unit in the last place of u."""
    form = format_of(u)
    e, significand = split(u)
    # 2**(1 - e) is 0 for the largest u, which need no correction
    c = c * 0.5 * exponent_field(form.bias + 1 - convert(e, form.integer), u.dtype)
    exact = significand - 1
    f = exact + c
    return _with_limits(u, _logarithm(e, f, (exact - f) + c))


def log(x: Value) -> Value:
    e, significand = split(x)
    return _with_limits(x, _logarithm(e, significand - 1))


def log2(x: Value) -> Value:
    e, significand = split(x)
    return _with_limits(x, fma(_log_1p(significand - 1), LOG2_E, e))


def log10(x: Value) -> Value:
    e, significand = split(x)
    high, low = LOG10_2[x.dtype]
    return _with_limits(x, fma(e, high, fma(_log_1p(significand - 1), LOG10_E, e * low)))


def _log_of_1_plus(x: Value, low: Value | float = 0.0) -> Value:
    """log(1 + x + low), where low is below the last place of x."""
    u = x + 1
    back = u - 1
    return log_sum(u, ((1 - (u - back)) + (x - back)) + low)


def log1p(x: Value) -> Value:
    return copysign(_log_of_1_plus(x), x)


def _over_complement(numerator: Value, x: Value) -> tuple[Value, Value]:
    """numerator / (1 - x) as a quotient and a correction."""
    rest = 1 - x
    return divide(numerator, rest, (1 - rest) - x)


def logit(x: Value) -> Value:
    return log_sum(*_over_complement(x, x))


def xlogy(x: Value, y: Value) -> Value:
    return where((x == 0) & ~is_nan(y), 0.0, x * log(y))


def logaddexp(x: Value, y: Value) -> Value:
    """log(e**x + e**y); equal infinities are their own sum."""
    gap = x - y
    larger = where(gap > 0, x, y)
    return where(x == y, x + LN_2[x.dtype][0], larger + _log_of_1_plus(exp(-absolute(gap))))


def logaddexp2(x: Value, y: Value) -> Value:
    """log2(2**x + 2**y)."""
    gap = x - y
    larger = where(gap > 0, x, y)
    return where(x == y, x + 1, fma(_log_of_1_plus(exp2(-absolute(gap))), LOG2_E, larger))


def _too_large(x: Value) -> Value:
    """Where the square of x would overflow, and 1 + x**2 is x**2."""
    return x > 2.0 ** (format_of(x).bias // 2)


def _log_of_twice(x: Value) -> Value:
    high, _ = LN_2[x.dtype]
    return log(x) + high


def arcsinh(x: Value) -> Value:
    """log(1 + |x| + x**2 / (1 + sqrt(1 + x**2)))."""
    a = absolute(x)
    square = a * a
    second = square / (sqrt(square + 1) + 1)
    t = a + second
    return copysign(where(_too_large(a), _log_of_twice(a), _log_of_1_plus(t, (a - t) + second)), x)


def arccosh(x: Value) -> Value:
    """log(1 + t + sqrt(2t + t**2)) with t = x - 1."""
    t = x - 1
    root = sqrt(fma(t, t, t + t))
    s = t + root
    near = _log_of_1_plus(s, where(t < root, (root - s) + t, (t - s) + root))
    return where(x < 1, nan, where(_too_large(x), _log_of_twice(x), near))


def arctanh(x: Value) -> Value:
    a = absolute(x)
    return copysign(_log_of_1_plus(*_over_complement(a + a, a)) * 0.5, x)


UNARY = {
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "logit": logit,
    "arcsinh": arcsinh,
    "arccosh": arccosh,
    "arctanh": arctanh,
}
BINARY = {"xlogy": xlogy, "logaddexp": logaddexp, "logaddexp2": logaddexp2}
