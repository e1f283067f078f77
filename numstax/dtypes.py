"""Facts about dtypes: kinds, names in generated code, storage and arithmetic types.

Everywhere in numstax a dtype is a `numpy.dtype` in native byte order; bfloat16 and the float8 types
are those of `ml_dtypes`.  Half-precision values are *stored* as bits and *computed* in float32 with a
rounding to the stored type after every operation, which is what NumPy does.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT8_E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
FLOAT8_E5M2 = np.dtype(ml_dtypes.float8_e5m2)
FLOAT16 = np.dtype(np.float16)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
COMPLEX64 = np.dtype(np.complex64)
COMPLEX128 = np.dtype(np.complex128)
BOOL = np.dtype(np.bool_)
INT8 = np.dtype(np.int8)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
UINT8 = np.dtype(np.uint8)
UINT16 = np.dtype(np.uint16)
UINT64 = np.dtype(np.uint64)

ML_FLOATS = (BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2)
LOW_FLOATS = (FLOAT16, *ML_FLOATS)
"""Floats stored as bits and computed in float32."""

SUPPORTED = (
    BOOL,
    *(np.dtype(f"{k}{b}") for k in ("int", "uint") for b in (8, 16, 32, 64)),
    *LOW_FLOATS,
    FLOAT32,
    FLOAT64,
    COMPLEX64,
    COMPLEX128,
)
_SUPPORTED = frozenset(SUPPORTED)


def is_supported(dtype: np.dtype) -> bool:
    return dtype in _SUPPORTED


@cache
def kind(dtype: np.dtype) -> str:
    """'b' bool, 'i' signed, 'u' unsigned, 'f' float (ml_dtypes included), 'c' complex."""
    return "f" if dtype in ML_FLOATS else dtype.kind


def is_low(dtype: np.dtype) -> bool:
    return dtype in LOW_FLOATS


@cache
def storage(dtype: np.dtype) -> np.dtype:
    """The dtype of the elements in memory as generated code sees them."""
    if dtype in LOW_FLOATS:
        return np.dtype(f"uint{8 * dtype.itemsize}")
    return UINT8 if dtype == BOOL else dtype


@cache
def compute(dtype: np.dtype) -> np.dtype:
    """The dtype of a value in a register of generated code."""
    return FLOAT32 if dtype in LOW_FLOATS else dtype


@cache
def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which products that become a matrix of `dtype` are added up."""
    if kind(dtype) == "f":
        return compute(dtype)
    return INT64 if dtype.itemsize == 8 else INT32


@cache
def name(dtype: np.dtype) -> str:
    """Short name used in intrinsic and variable names: f32, i64, bf16, f8e4m3, c64, b1."""
    special = {BFLOAT16: "bf16", FLOAT8_E4M3: "f8e4m3", FLOAT8_E5M2: "f8e5m2", BOOL: "b1"}
    return special.get(dtype) or f"{dtype.kind}{8 * dtype.itemsize}"


@cache
def by_name(short: str) -> np.dtype:
    """The inverse of `name`."""
    return next(d for d in SUPPORTED if name(d) == short)


def canonical(dtype: np.dtype) -> np.dtype:
    """The one object for a supported dtype, others as they are.  Equal dtypes are several objects where one was copied
    or read by pickle, carries metadata, or stands for another type of C with as many bits."""
    return by_name(name(dtype)) if is_supported(dtype) else dtype
