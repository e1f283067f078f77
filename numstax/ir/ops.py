"""The table of operations: one row each, with dtype rule, NumPy reference and (later) derivative.

To add an elementwise operation: one row here and a spelling in each emitter; `tests/ir/test_completeness.py`
names what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from numstax import dtypes


@dataclass(frozen=True, slots=True)
class Elementwise:
    """name; number of operands; NumPy reference on arrays already of the operand dtype; `types`: how operand
    and result dtypes follow from the arguments:

    'ufunc'  the loops of the NumPy ufunc of that name (`np.ufunc.resolve_dtypes`)
    'float'  floating point (and complex where `complex_ok`), result like operand; integers go to float64
    'where'  (bool, T, T) -> T
    flops : cost of one element for the work estimate, in additions.
    """

    name: str
    arity: int
    reference: Callable[..., np.ndarray]
    types: str = "ufunc"
    flops: int = 1


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _like(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Evaluate in float64 and give the operand's dtype back."""

    def reference(*args: np.ndarray) -> np.ndarray:
        wide = [np.asarray(a, np.float64) for a in args]
        if not wide[0].size:
            return np.asarray(args[0])
        return np.asarray(function(*wide)).astype(np.asarray(args[0]).dtype)

    return reference


def _xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def _expit(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def _logit(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.log(x / (1.0 - x))


_CHEAP = (
    "add subtract multiply negative positive absolute fabs sign square conjugate maximum minimum fmax fmin "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not "
    "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift isnan isinf isfinite signbit copysign "
    "floor ceil trunc rint heaviside nextafter spacing ldexp bitwise_count"
).split()
_MEDIUM = "divide floor_divide remainder fmod sqrt reciprocal gcd lcm deg2rad rad2deg degrees radians".split()
_COSTLY = (
    "exp exp2 expm1 log log2 log10 log1p power float_power sin cos tan sinh cosh tanh arcsin arccos arctan "
    "arcsinh arccosh arctanh arctan2 cbrt hypot logaddexp logaddexp2"
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
    ELEMENTWISE[_n] = Elementwise(_n, _k, _like(_f), "float", 20)
ELEMENTWISE["where"] = Elementwise("where", 3, np.where, "where", 1)
for _n in ("real", "imag"):
    ELEMENTWISE[_n] = Elementwise(_n, 1, getattr(np, _n), "part", 1)
ELEMENTWISE["complex"] = Elementwise("complex", 2, lambda a, b: (a + 1j * b).astype(np.result_type(a, 1j)), "join", 1)


Operand = np.dtype | type
"""A dtype, or a Python type (bool, int, float, complex) for a weakly typed scalar (NEP 50)."""


def resolve(name: str, operands: tuple[Operand, ...]) -> tuple[tuple[np.dtype, ...], np.dtype]:
    """Operand dtypes to cast to, and the result dtype, as NumPy chooses them.

    Raises TypeError (NumPy's own) when no loop fits.
    """
    row = ELEMENTWISE[name]
    if row.types == "ufunc":
        ufunc = getattr(np, name)
        resolved = ufunc.resolve_dtypes((*operands, *[None] * ufunc.nout))
        return tuple(resolved[: row.arity]), resolved[row.arity]
    if row.types == "where":
        common = result_type(*operands[1:])
        return (dtypes.BOOL, common, common), common
    common = result_type(*operands)
    if row.types == "part":
        if common.kind != "c":
            return (common,), common
        return (common,), np.dtype(f"f{common.itemsize // 2}")
    if dtypes.kind(common) not in "fc":
        common = dtypes.FLOAT64 if common.itemsize > 2 else dtypes.FLOAT32
        if operands and all(not isinstance(o, type) and o.itemsize <= 1 for o in operands):
            common = dtypes.FLOAT32
    if row.types == "join":
        return (common,) * 2, np.result_type(common, np.complex64)
    return (common,) * row.arity, common


_PYTHON_VALUES: dict[type, object] = {bool: True, int: 0, float: 0.0, complex: 0j}


def result_type(*operands: Operand) -> np.dtype:
    """np.result_type with Python types standing for weak scalars."""
    return np.result_type(*(_PYTHON_VALUES[o] if isinstance(o, type) and o in _PYTHON_VALUES else o for o in operands))


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
VIEWS = ("reshape", "transpose", "broadcast_to", "slice", "diagonal", "window")
"""Node operations that only rearrange indices; they cost nothing when lowered."""


def identity(op: str, dtype: np.dtype) -> object:
    """The identity element of a reduction in `dtype`; NaN-propagating max/min start at -inf/+inf."""
    if op in ("add", "bitwise_or", "bitwise_xor", "logical_or"):
        return dtype.type(0)
    if op in ("multiply", "logical_and"):
        return dtype.type(1)
    if op == "bitwise_and":
        return np.array(-1 if dtypes.kind(dtype) == "i" else np.iinfo(dtype).max, dtype)[()]
    low = op in ("maximum", "fmax", "argmax")
    if dtypes.kind(dtype) == "f":
        nan_skips = op in ("fmax", "fmin")
        return dtype.type(np.nan if nan_skips else (-np.inf if low else np.inf))
    if dtypes.kind(dtype) == "b":
        return np.bool_(not low)
    info = np.iinfo(dtype)
    return dtype.type(info.min if low else info.max)
