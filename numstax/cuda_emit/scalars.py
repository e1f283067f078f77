"""Scalar functions as data where a GPU has something better than `emit.scalars`; `find` looks here first.

Half floats in registers are rounded already, and NaN is what the GPU makes of it, so that the bits of a bfloat16 are
the upper half of those of the float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numstax.emit import scalars
from numstax.emit.vecmath_record import (
    Value,
    absolute,
    at_most,
    bitcast,
    convert,
    copysign,
    fma,
    polynomial,
    record,
    where,
)
from numstax.program import Intrinsic


def _round_bf16(x: Value) -> Value:
    return x.op("round_bf16")


def _bf16_from_f32(x: Value) -> Value:
    return convert(bitcast(x, "u32") >> 16, "u16")


_LOG2_E, _LOG2_E_REST = 1.4426950216293335, 1.925963033500011e-08
_MOST = 126
"""Powers of two that a normal float32 and its reciprocal can be."""
_WHOLE = 12582913.0
"""Added to a float32 and rounded downwards, it leaves a whole number, plus one, in the last bits."""


def _exp(x: Value) -> Value:
    """2**(k + r) with k whole: k + 126, as a fraction of 252, is cut to [0, 1] by the instruction that computes it;
    r is found from x again, with log2(e) in two parts, so that its error is that of a small number.  Where k is at a
    limit, r is what goes beyond it.  Error: 2 units in the last place."""
    part = x.op("fma_unit", x.like(_LOG2_E / (2 * _MOST)), x.like(0.5))
    shifted = part.op("fma_down", x.like(2 * _MOST), x.like(_WHOLE))
    whole = shifted - (_WHOLE + _MOST)
    rest = x.op("fma", x.like(_LOG2_E), -whole)
    rest = x.op("fma", x.like(_LOG2_E_REST), rest)
    return rest.op("ex2") * bitcast(bitcast(shifted, "u32") << 23, "f32")


# (tanh(x)/x - 1) / x**2 for |x| < 1, in powers of x**2
_TANH = (
    -0.33333295583724976,
    0.13332344591617584,
    -0.05387980118393898,
    0.021486656740307808,
    -0.007946104742586613,
    0.002301363041624427,
    -0.00035845153615809977,
)
_TWO_LOG2_E = 2.885390043258667


def _tanh(x: Value) -> Value:
    """An odd polynomial, and 1 - 2 / (e**(2|x|) + 1) from 1 on, where errors of the power count for little.  Error: 2
    units in the last place, and a tenth where the power's and the quotient's meet."""
    t = absolute(x)
    square = t * t
    near = fma(t * square, polynomial(square, _TANH), t)
    far = fma(((t * _TWO_LOG2_E).op("ex2") + 1).op("rcp"), -2, 1)
    return copysign(where(t < 1, near, far), x)


# erf(x)/x for |x| < 7/8, in powers of x**2: the first coefficient, and the rest with what that lost in rounding
_TWO_OVER_ROOT_PI = 1.128379225730896
_ERF = (
    -5.8861505669582925e-08,
    -0.37612634897232056,
    0.11283732950687408,
    -0.026861583814024925,
    0.005206747446209192,
    -0.000821110385004431,
    8.6753920186311e-05,
)
# log2(erfc(x)) for 7/8 <= x <= 4
_LOG2_ERFC = (
    -0.0002080513077089563,
    -1.6272004842758179,
    -0.9187380075454712,
    -0.1504012495279312,
    0.03228900581598282,
    -0.004446381237357855,
    0.00028839681181125343,
)


def _erf(x: Value) -> Value:
    """An odd polynomial, and 1 - erfc(|x|) where erfc is small.  Error: 2 units in the last place."""
    t = absolute(x)
    square = t * t
    near = fma(t, _TWO_OVER_ROOT_PI, t * polynomial(square, _ERF))
    far = 1 - polynomial(at_most(t, 4.0), _LOG2_ERFC).op("ex2")
    return copysign(where(t < 0.875, near, far), x)


def _divisor_scale(d: Value) -> Value:
    """What brings a divisor to where its reciprocal is a number, with its sign."""
    return copysign(where(absolute(d) < 2.0**-64, 2.0**64, d.like(1)), d)


def _divisor_size(d: Value, scale: Value) -> Value:
    """The scaled divisor; 0 for an infinite one, so that its product with a quotient of 0 is a number."""
    size = d * scale
    return where(size < math.inf, size, where(size == math.inf, size.like(0), size))


def _divided(a: Value, scale: Value, size: Value, inverse: Value) -> Value:
    """a / divisor: a product, and once the error that it leaves.  Rounded as the quotient is, but that for |a| < 1e-30
    the last place may differ."""
    scaled = a * scale
    near = scaled * inverse
    error = fma(near, size, -scaled)
    return where(absolute(near) < math.inf, fma(-error, inverse, near), near)


# --- arithmetic of half floats, whose results are rounded to 16 bits ----------------------------------------


def _add_bf16(a: Value, b: Value) -> Value:
    return a.op("fma_bf16", 1.0, b)


def _subtract_bf16(a: Value, b: Value) -> Value:
    return b.op("fma_bf16", -1.0, a)


def _multiply_bf16(a: Value, b: Value) -> Value:
    return a.op("fma_bf16", b, -0.0)


def _exp_low(x: Value) -> Value:
    """The power of half of x, squared: so no result is too small for the instruction.  Error: 2**-17."""
    root = (x * (_LOG2_E / 2)).op("ex2")
    return root * root


_SMALL = 2.0**-4


def _tanh_low(x: Value) -> Value:
    """1 - 2 / (e**(2|x|) + 1), and x - x**3 / 3 for small x.  Error: 2**-17.5 of the result, and of 1 - |result| as
    much as that of its rounding to float32."""
    t = absolute(x)
    near = x * fma(x * x, -1 / 3, 1)
    far = fma(((t * _TWO_LOG2_E).op("ex2") + 1).op("rcp"), -2, 1)
    return where(t < _SMALL, near, copysign(far, x))


# erf(x)/x for |x| < 11/16, in powers of x**2
_ERF_LOW = (1.1283773183822632, -0.3760053515434265, 0.11155267804861069, -0.022396158427000046)
# log2(erfc(x)) from there to 4
_LOG2_ERFC_LOW = (
    -0.002369670197367668,
    -1.6169441938400269,
    -0.9381718635559082,
    -0.13155710697174072,
    0.022408923134207726,
    -0.0017848697025328875,
)


def _erf_low(x: Value) -> Value:
    """As `_erf`.  Error: 2**-18 of the result, and of 1 - |result| 2**-17 beside that of its rounding to float32."""
    t = absolute(x)
    near = x * polynomial(x * x, _ERF_LOW)
    far = 1 - polynomial(at_most(t, 4.0), _LOG2_ERFC_LOW).op("ex2")
    return where(t < 0.6875, near, copysign(far, x))


_ANY: dict[str, Callable[..., Value]] = {
    "divisor_scale": _divisor_scale,
    "divisor_size": _divisor_size,
    "divisor_inverse": lambda d, scale: 1 / (d * scale),
    "divided": _divided,
}
_FLOAT32: dict[str, Callable[..., Value]] = {
    "exp": _exp,
    "tanh": _tanh,
    "erf": _erf,
    "exp_low": _exp_low,
    "tanh_low": _tanh_low,
    "erf_low": _erf_low,
    "maximum": lambda a, b: a.op("fmaximum", b),
    "minimum": lambda a, b: a.op("fminimum", b),
}
_FUNCTIONS: dict[str, tuple[str, Callable[..., Value]]] = {
    "round_bf16": ("f32", _round_bf16),
    "bf16_from_f32": ("f32", _bf16_from_f32),
    "add_bf16": ("f32", _add_bf16),
    "subtract_bf16": ("f32", _subtract_bf16),
    "multiply_bf16": ("f32", _multiply_bf16),
    **{f"{name}_f32": ("f32", function) for name, function in (_FLOAT32 | _ANY).items()},
    **{f"{name}_f64": ("f64", function) for name, function in _ANY.items()},
}
_ROWS = {
    name: record(name, (dtype,) * function.__code__.co_argcount, function)
    for name, (dtype, function) in _FUNCTIONS.items()
}


def find(name: str) -> Intrinsic | None:
    """The intrinsic called `name`; None when there is none."""
    return _ROWS.get(name) or scalars.find(name)
