"""The table of operations: one row each, with dtype rule, NumPy reference and (later) derivative.

To add an elementwise operation: one row here and a spelling in each emitter; `tests/ir/test_completeness.py`
names what is missing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from numstax import dtypes
from numstax.records import record


@record
class Elementwise:
    """name; number of operands; NumPy reference on arrays already of the operand dtype; `types`: how operand
    and result dtypes follow from the arguments:

    'ufunc'  the loops of the NumPy ufunc of that name (`np.ufunc.resolve_dtypes`)
    'float'  float32 or float64, result like operand; everything else goes to float64
    'where'  (bool, T, T) -> T
    'part'   complex -> its parts' type
    'join'   (float, float) -> complex
    'fits'   (int64, int64) -> bool
    flops : cost of one element for the work estimate, in additions.
    """

    name: str
    arity: int
    reference: Callable[..., np.ndarray]
    types: str = "ufunc"
    flops: int = 1


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _in_double(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Evaluate in float64 and give the operand's dtype back."""

    def reference(*args: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            wide = function(*(np.asarray(a, np.float64) for a in args))
        return np.asarray(wide).astype(np.asarray(args[0]).dtype)

    return reference


def _xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def _expit(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _logit(x: np.ndarray) -> np.ndarray:
    near_half = np.log1p(2.0 * (x - 0.5)) - np.log1p(-2.0 * (x - 0.5))
    return np.where((x > 0.3) & (x < 0.65), near_half, np.log(x / (1.0 - x)))


def _complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    # not real + 1j*imag, which makes NaN of infinities
    out = np.empty(np.broadcast(real, imag).shape, np.result_type(real, imag, np.complex64))
    out.real, out.imag = real, imag
    return out


def _fits(operation: Callable[[Any, Any], Any]) -> Callable[..., np.ndarray]:
    """Is the result of the operation on two int64 an int64, before any wrapping around?"""

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        exact = operation(a.astype(object), b.astype(object))
        return np.asarray((exact >= -(1 << 63)) & (exact < 1 << 63), bool)

    return reference


_CHEAP = (
    "add subtract multiply negative positive absolute fabs sign square conjugate maximum minimum fmax fmin "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not "
    "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift isnan isinf isfinite signbit copysign "
    "floor ceil trunc rint heaviside nextafter spacing ldexp bitwise_count"
).split()
_MEDIUM = "divide floor_divide remainder fmod sqrt reciprocal gcd lcm deg2rad rad2deg degrees radians hypot".split()
_COSTLY = (
    "exp exp2 expm1 log log2 log10 log1p power float_power sin cos tan sinh cosh tanh arcsin arccos arctan "
    "arcsinh arccosh arctanh arctan2 cbrt logaddexp logaddexp2"
).split()

ELEMENTWISE: dict[str, Elementwise] = {}
for _names, _flops in ((_CHEAP, 1), (_MEDIUM, 5), (_COSTLY, 20)):
    for _n in _names:
        _u = getattr(np, _n)
        ELEMENTWISE[_n] = Elementwise(_n, _u.nin, _u, "ufunc", _flops)
for _n, _f, _k in (
    ("erf", _erf, 1),
    ("erfc", _erfc, 1),
    ("expit", _expit, 1),
    ("logit", _logit, 1),
    ("xlogy", _xlogy, 2),
):
    ELEMENTWISE[_n] = Elementwise(_n, _k, _in_double(_f), "float", 20)
for _n, _o in (("add_fits", operator.add), ("subtract_fits", operator.sub), ("multiply_fits", operator.mul)):
    ELEMENTWISE[_n] = Elementwise(_n, 2, _fits(_o), "fits", 1)
ELEMENTWISE["where"] = Elementwise("where", 3, np.where, "where", 1)
for _n in ("real", "imag"):
    ELEMENTWISE[_n] = Elementwise(_n, 1, getattr(np, _n), "part", 1)
ELEMENTWISE["complex"] = Elementwise("complex", 2, _complex, "join", 1)


Operand = np.dtype | type
"""A dtype, or a Python type (bool, int, float, complex) for a weakly typed scalar (NEP 50)."""


@cache
def resolve(name: str, operands: tuple[Operand, ...]) -> tuple[tuple[np.dtype, ...], np.dtype]:
    """Operand dtypes to cast to, and the result dtype, as NumPy chooses them.

    Raises TypeError (NumPy's own) when no loop fits.
    """
    row = ELEMENTWISE[name]
    if row.types == "ufunc":
        ufunc = getattr(np, name)
        # only a Python bool is not weak
        given = (dtypes.BOOL if o is bool else o for o in operands)
        resolved = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
        return tuple(resolved[: row.arity]), resolved[row.arity]
    if row.types == "where":
        common = result_type(*operands[1:])
        return (dtypes.BOOL, common, common), common
    if row.types == "fits":
        return (dtypes.INT64,) * row.arity, dtypes.BOOL
    common = result_type(*operands)
    if row.types == "part":
        real = np.dtype(f"f{common.itemsize // 2}") if common.kind == "c" else common
        return (common,), real
    if dtypes.kind(common) == "c":
        raise TypeError(f"{name} is not defined for {common}")
    if common not in (dtypes.FLOAT32, dtypes.FLOAT64):
        common = dtypes.FLOAT64
    return (common,) * row.arity, np.result_type(common, np.complex64) if row.types == "join" else common


_PYTHON_VALUES: dict[type, object] = {bool: True, int: 0, float: 0.0, complex: 0j}


def result_type(*operands: Operand) -> np.dtype:
    """np.result_type with Python types standing for weak scalars."""
    given: list[Any] = [_PYTHON_VALUES[o] if isinstance(o, type) and o in _PYTHON_VALUES else o for o in operands]
    return np.result_type(*given)


REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
_SCANNING = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
SCANS: dict[str, np.ufunc] = {name: REDUCTIONS[name] for name in _SCANNING}
VIEWS = ("reshape", "transpose", "broadcast_to", "slice", "roll", "diagonal", "window")
"""Node operations that only rearrange indices; they cost nothing when lowered."""


def identity(op: str, dtype: np.dtype) -> np.generic:
    """The identity element of a reduction in `dtype`; NaN-propagating max/min start at -inf/+inf."""
    value: object
    if op in ("add", "bitwise_or", "bitwise_xor", "logical_or"):
        value = 0
    elif op in ("multiply", "logical_and"):
        value = 1
    elif op == "bitwise_and":
        value = True if dtype == dtypes.BOOL else ~dtype.type(0)
    elif op in ("fmax", "fmin") and dtypes.kind(dtype) in "fc":
        value = np.nan
    else:
        lowest, highest = _ends(dtype)
        value = lowest if op in ("maximum", "fmax", "argmax") else highest
    element: np.generic = np.full(1, value, dtype)[0]
    return element


def _ends(dtype: np.dtype) -> tuple[object, object]:
    """The lowest and highest value."""
    kind = dtypes.kind(dtype)
    if kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    if kind == "b":
        return False, True
    if dtype == dtypes.FLOAT8_E4M3:  # has no infinity
        top = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    else:
        top = np.inf
    return (-top, top) if kind == "f" else (complex(-top, -top), complex(top, top))
