"""Typed arithmetic on lanes, with the types that Numba infers.

A value of kernel code is a NumPy scalar, the same for all lanes, or an array whose last two dimensions are warps and
lanes (either may be 1); tuples of values are Python tuples.  What holds: the dtype of a result is the one Numba gives
it, which for integers is not NumPy's: int32 + int32 is int64, uint32 + int32 is int64, a shift has the type of what is
shifted.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import CompileError

Value = Any
"""A NumPy scalar or an array of lanes."""
Operation = Callable[..., Value]

_ARITHMETIC: dict[type, np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
    ast.LShift: np.left_shift,
    ast.RShift: np.right_shift,
    ast.Pow: np.power,
}
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_SHIFTS = (ast.LShift, ast.RShift)
_COMPARISONS: dict[type, np.ufunc] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_NARROW = frozenset(map(np.dtype, ("bool", "int8", "int16", "uint8")))
"""Integers that float32 takes up without becoming float64."""


def binary(operator: type, a: Value, b: Value) -> Value:
    """``a operator b``."""
    return _binary(operator, a.dtype, b.dtype)(a, b)


@cache
def _binary(operator: type, a: np.dtype, b: np.dtype) -> Operation:
    if operator in _COMPARISONS:
        return _COMPARISONS[operator]
    result = result_type(operator, a, b)
    return partial(_ARITHMETIC[operator], dtype=result, casting="unsafe")


@cache
def result_type(operator: type, a: np.dtype, b: np.dtype) -> np.dtype:
    """The type that Numba gives ``a operator b``."""
    kinds = {a.kind, b.kind}
    if kinds <= set("biu"):
        if operator is ast.Div:
            return dtypes.FLOAT64
        if operator in _BITS and kinds == {"b"}:
            return dtypes.BOOL
        deciding = {a.kind} if operator in _SHIFTS else kinds
        return dtypes.UINT64 if deciding == {"u"} else dtypes.INT64
    if operator in _BITS or operator in _SHIFTS:
        raise CompileError(f"{operator.__name__} of {a} and {b} is no operation of kernel code")
    single = all(d in _NARROW or d in (dtypes.FLOAT32, dtypes.COMPLEX64) for d in (a, b))
    if "c" in kinds:
        return dtypes.COMPLEX64 if single else dtypes.COMPLEX128
    return dtypes.FLOAT32 if single else dtypes.FLOAT64


def negative(a: Value) -> Value:
    return np.negative(a if a.dtype.kind in "fc" else a.astype(_wide(a.dtype)))


def positive(a: Value) -> Value:
    return a if a.dtype.kind in "fc" else a.astype(_wide(a.dtype))


def inverted(a: Value) -> Value:
    return np.invert(a if a.dtype == dtypes.BOOL else a.astype(_wide(a.dtype)))


def truth(a: Value) -> Value:
    """NaN is true."""
    return a if a.dtype == dtypes.BOOL else a != 0


def negated(a: Value) -> Value:
    return np.logical_not(truth(a))


UNARY: dict[type, Operation] = {
    ast.USub: negative,
    ast.UAdd: positive,
    ast.Invert: inverted,
    ast.Not: negated,
}


def _wide(dtype: np.dtype) -> np.dtype:
    return dtypes.UINT64 if dtype.kind == "u" else dtypes.INT64


def choose(condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b; of the type of a variable that is one or the other."""
    chosen: Value = np.where(condition, a, b)
    return chosen.astype(np.promote_types(a.dtype, b.dtype), copy=False)[()]


def largest(*values: Value) -> Value:
    """Python's max: a later value wins where it is greater."""
    return _extreme(np.greater, values)


def smallest(*values: Value) -> Value:
    return _extreme(np.less, values)


def _extreme(wins: np.ufunc, values: tuple[Value, ...]) -> Value:
    best, *others = values
    for value in others:
        best = choose(wins(value, best), value, best)
    return best


def magnitude(a: Value) -> Value:
    return np.abs(a.astype(dtypes.INT8) if a.dtype == dtypes.BOOL else a)


def made_complex(real: Value, imag: Value) -> Value:
    single = real.dtype == imag.dtype == dtypes.FLOAT32
    part, whole = (dtypes.FLOAT32, dtypes.COMPLEX64) if single else (dtypes.FLOAT64, dtypes.COMPLEX128)
    out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), whole)
    out.real, out.imag = real.astype(part), imag.astype(part)
    return out[()]


def converted(a: Value, dtype: np.dtype) -> Value:
    """A conversion as machine code makes it: integers wrap, floats are cut."""
    if a.dtype == dtype:
        return a
    if dtype == dtypes.BOOL:
        return a != 0
    if a.dtype.kind == "c" and dtype.kind != "c":
        a = a.real
    return a.astype(dtype)


def overflows(a: Value, dtype: np.dtype) -> Value | None:
    """Where the conversion of a float to an integer is not defined; None where it always is."""
    if a.dtype.kind != "f" or dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    low, high = a.dtype.type(info.min), a.dtype.type(2.0 ** (8 * dtype.itemsize - (dtype.kind == "i")))
    return ~((a > low - 1) & (a < high) | (a == low))


def constant(value: object) -> Value:
    """A literal of the text."""
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        return np.int64(value) if value < 1 << 63 else np.uint64(value)
    if isinstance(value, float):
        return np.float64(value)
    raise CompileError(f"{value!r} is no literal of kernel code")
