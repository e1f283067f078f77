"""sin, cos and tan of any finite number.

float32: x / (2*pi) modulo 1 is the sum of the products of x with pieces of 1/(2*pi) so short that each
product is exact in float64; the whole turns are taken off each product, however large, before the next one
is added.  float64: x = y * 2**(16*k) with an integer y below 2**68, and y is multiplied by 2**(16*k) / (2*pi)
modulo 1, looked up as a sum of four numbers; the fraction of a turn is carried with a correction.

A quarter turn more or less chooses between the polynomials of sine and cosine on |r| <= pi/4.
"""

from __future__ import annotations

from math import pi

from numstax.emit.vecmath_format import FORMATS, bits, divide, exponent_field, narrow, round_scaled, widen
from numstax.emit.vecmath_record import (
    Value,
    absolute,
    at_least,
    bitcast,
    convert,
    fma,
    lookup,
    polynomial,
    rint,
    where,
)
from numstax.emit.vecmath_turns import BUCKET, pieces, rows

_SHORT = pieces(7, 29)
# beyond all float32
_LARGEST = 2.0**128
_ROWS = rows()
# sin x and tan x are x below
_LINEAR = 2.0**-30
# 2*pi rounded to float64, and the rest
_TURN, _TURN_LOW = 2 * pi, 2.4492935982947064e-16
# (sin r / r - 1) / r**2 and (cos r - 1 + r**2/2) / r**4 in r**2; relative errors 2**-32, 2**-33 and 2**-63, 2**-64
_SIN = {
    "f32": (-0.16666667, 0.0083333785, -0.00019852554, 2.8262202e-06),
    "f64": (
        -0.16666666666666666,
        0.008333333333333047,
        -0.0001984126984097334,
        2.755731908166024e-06,
        -2.5052073351193054e-08,
        1.605466599574572e-10,
        -7.408913710858581e-13,
    ),
}
_COS = {
    "f32": (0.041666646, -0.0013887302, 2.4430881e-05),
    "f64": (
        0.04166666666666659,
        -0.0013888888888872154,
        2.480158728825009e-05,
        -2.7557313994540315e-07,
        2.0875674292199405e-09,
        -1.135709144140713e-11,
    ),
}
Double = tuple[Value, Value]
"""An unevaluated sum of a number and a correction below its last place."""


def _sum(a: Value, b: Value) -> Double:
    """a + b without error."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _quarter_turns_f32(x: Value) -> tuple[Value, Value]:
    """An integer q and float64 r with x = q*pi/2 + r modulo 2*pi, |r| <= pi/4."""
    wide = widen(x)
    products = [wide * piece for piece in _SHORT if piece * _LARGEST > 0.5]
    turns, *fractions = [p - rint(p) for p in products]
    for fraction in fractions:
        turns = turns + fraction
    for piece in _SHORT[len(products) :]:
        turns = fma(wide, piece, turns)
    quarters, q = round_scaled(turns, 4.0)
    return convert(q, "i32"), fma(quarters, -0.25, turns) * _TURN


def _quarter_turns_f64(x: Value) -> tuple[Value, Double]:
    """The same with a correction to r."""
    form = FORMATS["f64"]
    # y is an integer unless the row is 0; the last & keeps infinities and NaN inside the table
    first = form.bias + form.mantissa
    exponent = (bits(x) >> form.mantissa) & (2 * form.bias + 1)
    row = ((at_least(exponent, first) - first) >> 4) & 63
    y = x * exponent_field(form.bias - row * BUCKET, "f64")
    factors = [lookup(row, column, "f64") for column in _ROWS]
    products = [y * factor for factor in factors]
    errors = [fma(y, f, -p) for f, p in zip(factors[:3], products, strict=False)]
    large = (products[0], errors[0], products[1])
    terms = [*(t - rint(t) for t in large), errors[1], products[2]]
    turns = terms[0]
    rest = errors[2] + products[3]
    lost = []
    for term in terms[1:]:
        turns, error = _sum(turns, term)
        lost.append(error)
    quarters, q = round_scaled(turns, 4.0)
    turns = fma(quarters, -0.25, turns)
    for error in lost:
        turns, error = _sum(turns, error)
        rest = rest + error
    r = turns * _TURN
    return q, (r, fma(turns, _TURN, -r) + fma(rest, _TURN, turns * _TURN_LOW))


def _sine(r: Value, low: Value | float = 0.0) -> Double:
    """sin(r + low) as two terms."""
    z = r * r
    return r, fma(r * z, polynomial(z, _SIN[r.dtype]), low)


def _cosine(r: Value, low: Value | None = None) -> Double:
    """cos(r + low) as two terms."""
    z = r * r
    half = z * 0.5
    first = 1 - half
    rest = (1 - first) - half if low is None else fma(-r, low, (1 - first) - half)
    return first, fma(z * z, polynomial(z, _COS[r.dtype]), rest)


def _wave(q: Value, sine: Double, cosine: Double) -> Value:
    """sin(q*pi/2 + r) from those of r."""
    even = (q & 1) == 0
    magnitude = where(even, sine[0], cosine[0]) + where(even, sine[1], cosine[1])
    sign = (q & 2) << (int(q.dtype[1:]) - 2)
    return bitcast(bits(magnitude) ^ sign, magnitude.dtype)


def _waves(x: Value) -> tuple[Value, Double, Double]:
    """q, and sine and cosine of r."""
    if x.dtype == "f32":
        q, wide = _quarter_turns_f32(x)
        r = narrow(wide)
        return q, _sine(r), _cosine(r)
    q, (r, low) = _quarter_turns_f64(x)
    return q, _sine(r, low), _cosine(r, low)


def sin(x: Value) -> Value:
    q, sine, cosine = _waves(x)
    return where(absolute(x) < _LINEAR, x, _wave(q, sine, cosine))


def cos(x: Value) -> Value:
    q, sine, cosine = _waves(x)
    return _wave(q + 1, sine, cosine)


def tan(x: Value) -> Value:
    """sin / cos, or -cos / sin after an odd number of quarter turns; float32 is divided in float64."""
    if x.dtype == "f32":
        q, r = _quarter_turns_f32(x)
        z = r * r
        s = fma(r * z, polynomial(z, _SIN["f32"]), r)
        c = fma(z * z, polynomial(z, _COS["f32"]), fma(z, -0.5, 1.0))
        even = (q & 1) == 0
        return where(absolute(x) < _LINEAR, x, narrow(where(even, s, -c) / where(even, c, s)))
    q, sine, cosine = _waves(x)
    even = (q & 1) == 0
    (s, s_low), (c, c_low) = _sum(*sine), _sum(*cosine)
    n, n_low = where(even, s, -c), where(even, s_low, -c_low)
    d, d_low = where(even, c, s), where(even, c_low, s_low)
    quotient, correction = divide(n, d, d_low, n_low)
    return where(absolute(x) < _LINEAR, x, quotient + correction)


UNARY = {"sin": sin, "cos": cos, "tan": tan}
