"""sin, cos and tan of any finite float32.

x / (2*pi) modulo 1 is the sum of the products of x with pieces of 1/(2*pi) so short that each product is
exact in float64; the whole turns are taken off each product, however large, before the next one is added.
A quarter turn more or less chooses between the polynomials of sine and cosine on |r| <= pi/4.
"""

from __future__ import annotations

from math import pi

from numstax.cpu_emit.vecmath_format import bits, narrow, round_scaled, widen
from numstax.cpu_emit.vecmath_record import Value, bitcast, convert, fma, polynomial, rint, where

# 1/(2*pi) in pieces of 29 bits
_PER_TURN = (
    0.15915494272485375,
    3.6704158115630214e-10,
    5.690025167992954e-19,
    1.4703036846932608e-27,
    2.5867171752090537e-36,
    9.458140877728297e-46,
    9.301187196294348e-54,
)
# (sin r / r - 1) / r**2 and (cos r - 1 + r**2/2) / r**4 in r**2, relative errors 2**-32 and 2**-33
_SIN = (-0.16666667, 0.0083333785, -0.00019852554, 2.8262202e-06)
_COS = (0.041666646, -0.0013887302, 2.4430881e-05)


def _quarter_turns(x: Value) -> tuple[Value, Value]:
    """An integer q and float64 r with x = q*pi/2 + r modulo 2*pi, |r| <= pi/4, for float32 x."""
    wide = widen(x)
    turns = wide.like(0.0)
    for piece in _PER_TURN:
        product = wide * piece
        turns = turns + (product - rint(product))
    quarters, q = round_scaled(turns, 4.0)
    return convert(q, "i32"), fma(quarters, -0.25, turns) * (2 * pi)


def _sin_polynomial(r: Value) -> Value:
    z = r * r
    return fma(r * z, polynomial(z, _SIN), r)


def _cos_polynomial(r: Value) -> Value:
    z = r * r
    return fma(z * z, polynomial(z, _COS), fma(z, -0.5, 1.0))


def _wave(q: Value, r: Value) -> Value:
    """sin(q*pi/2 + r)."""
    magnitude = where((q & 1) == 0, _sin_polynomial(r), _cos_polynomial(r))
    return bitcast(bits(magnitude) ^ ((q & 2) << 30), "f32")


def sin(x: Value) -> Value:
    q, r = _quarter_turns(x)
    return where(x == 0, x, _wave(q, narrow(r)))


def cos(x: Value) -> Value:
    q, r = _quarter_turns(x)
    return _wave(q + 1, narrow(r))


def tan(x: Value) -> Value:
    """sin / cos, or -cos / sin after an odd number of quarter turns; in float64, so that only the result is rounded."""
    q, r = _quarter_turns(x)
    s, c = _sin_polynomial(r), _cos_polynomial(r)
    even = (q & 1) == 0
    return where(x == 0, x, narrow(where(even, s, -c) / where(even, c, s)))


UNARY_F32 = {"sin": sin, "cos": cos, "tan": tan}
