"""arcsin, arccos, arctan, arctan2: one polynomial each, the rest of the range by symmetry.

arctan(1/t) = pi/2 - arctan t brings arctan to |t| <= 1; arcsin x = pi/2 - 2*arcsin(sqrt((1 - x) / 2)) brings
arcsin to |x| <= 1/2, where 1 - x is exact.
"""

from __future__ import annotations

from numstax.emit.vecmath_format import bits
from numstax.emit.vecmath_record import Value, absolute, copysign, fma, polynomial, sqrt, where

# pi/2 rounded to the format, and the rest
HALF_PI = {"f32": (1.5707963705062866, -4.371139000186241e-08), "f64": (1.5707963267948966, 6.123233995736766e-17)}
# (arcsin s / s - 1) / s**2 in s**2, relative error of the arcsine 2**-31, 2**-59
_ARCSIN = {
    "f32": (0.1666666, 0.075005196, 0.044514116, 0.031830855, 0.0143523505, 0.037636638),
    "f64": (
        0.16666666666666766,
        0.07499999999969376,
        0.04464285717598685,
        0.030381942640827404,
        0.022372216903288313,
        0.017351577081796198,
        0.013981245434478417,
        0.01139538663235418,
        0.010800284746958743,
        0.003629730132826063,
        0.021896458605365553,
        -0.0212699830795527,
        0.03280018965042642,
    ),
}
# (arctan t / t - 1) / t**2 in t**2, relative error of the arctangent 2**-27, 2**-58
_ARCTAN = {
    "f32": (
        -0.333333,
        0.19998531,
        -0.1426405,
        0.10951154,
        -0.0840037,
        0.05790396,
        -0.03112367,
        0.010885193,
        -0.0017869851,
    ),
    "f64": (
        -0.33333333333333287,
        0.19999999999990603,
        -0.1428571428504355,
        0.11111111086612721,
        -0.09090908549709381,
        0.07692299736309652,
        -0.06666583896669857,
        0.05881717057397067,
        -0.05259437304812443,
        0.047449364953551725,
        -0.04286414224756694,
        0.038210459010135665,
        -0.03278592125485574,
        0.026152088177386776,
        -0.018614390199075962,
        0.011317599151821704,
        -0.0056122254912539075,
        0.002151454535045672,
        -0.0005928321611384054,
        0.00010385626398662458,
        -8.652448004153746e-06,
    ),
}


def _from_half_pi(x: Value) -> Value:
    """pi/2 - x."""
    high, low = HALF_PI[x.dtype]
    return high - (x - low)


def _from_pi(x: Value) -> Value:
    high, low = HALF_PI[x.dtype]
    return 2 * high - (x - 2 * low)


def _arcsin_near(x: Value) -> tuple[Value, Value, Value]:
    """For x >= 0: whether x > 1/2; the two terms of arcsin(x), or then of arcsin(sqrt((1 - x) / 2))."""
    far = x > 0.5
    z = where(far, (1 - x) * 0.5, x * x)
    s = where(far, sqrt(z), x)
    return far, s, s * z * polynomial(z, _ARCSIN[x.dtype])


def arcsin(x: Value) -> Value:
    high, low = HALF_PI[x.dtype]
    far, s, rest = _arcsin_near(absolute(x))
    twice = s + s
    first = high - twice
    second = ((high - first) - twice) - (rest + rest - low)
    return copysign(where(far, first + second, s + rest), x)


def arccos(x: Value) -> Value:
    far, s, rest = _arcsin_near(absolute(x))
    p = s + rest
    return where(far, where(x < 0, _from_pi(p + p), p + p), _from_half_pi(copysign(p, x)))


def _arctan_near(t: Value) -> Value:
    z = t * t
    return fma(t * z, polynomial(z, _ARCTAN[t.dtype]), t)


def arctan(x: Value) -> Value:
    a = absolute(x)
    far = a > 1
    p = _arctan_near(where(far, 1 / a, a))
    return copysign(where(far, _from_half_pi(p), p), x)


def arctan2(y: Value, x: Value) -> Value:
    """The quotient of two zeros counts as 0, of two equal numbers, infinities too, as 1."""
    a, b = absolute(y), absolute(x)
    steep = a > b
    smaller, larger = where(steep, b, a), where(steep, a, b)
    quotient = where(larger == 0, smaller, where(smaller == larger, 1.0, smaller / larger))
    p = _arctan_near(quotient)
    first = where(steep, _from_half_pi(p), p)
    return copysign(where(bits(x) < 0, _from_pi(first), first), y)


UNARY = {"arcsin": arcsin, "arccos": arccos, "arctan": arctan}
BINARY = {"arctan2": arctan2}
