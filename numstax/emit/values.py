"""Spelling of typed values: literals, conversions between dtypes, and elements in memory.

A value in a register has the dtype `dtypes.compute(dtype)`; half floats are float32 values already rounded
to their dtype.  Everything here enters and leaves as expression text; operands are names or literals, so
using one twice computes nothing twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from numstax import dtypes


def register_type(dtype: np.dtype) -> str:
    """The Numba name of the type of a register."""
    return "boolean" if dtype == dtypes.BOOL else dtypes.compute(dtype).name


def literal(value: object, dtype: np.dtype) -> str:
    """A constant of `dtype`; NaN, infinities and negative zero included."""
    kind = dtypes.kind(dtype)
    scalar: Any = np.asarray(value).astype(dtype).astype(dtypes.compute(dtype))[()]
    if kind == "b":
        return str(bool(scalar))
    if kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return f"complex({literal(scalar.real, part)}, {literal(scalar.imag, part)})"
    if kind == "f":
        return f"{register_type(dtype)}({_float_text(scalar)})"
    return f"{register_type(dtype)}({int(scalar)})"


def _float_text(value: np.floating) -> str:
    if np.isnan(value):
        return "math.nan"
    if np.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    short = str(value)
    return short if type(value)(float(short)) == value else repr(float(value))


def zero(dtype: np.dtype) -> str:
    return literal(0, dtype)


def rounded(text: str, dtype: np.dtype) -> str:
    """A float32 result as a value of the half dtype; other dtypes unchanged."""
    return f"round_{dtypes.name(dtype)}({text})" if dtypes.is_low(dtype) else text


def loaded(element: str, dtype: np.dtype) -> str:
    """An element of memory as a register."""
    if dtype == dtypes.BOOL:
        return f"({element} != 0)"
    return f"f32_from_{dtypes.name(dtype)}({element})" if dtypes.is_low(dtype) else element


def stored(text: str, dtype: np.dtype) -> str:
    """A register as an element of memory."""
    if dtype == dtypes.BOOL:
        return f"uint8({text})"
    return f"{dtypes.name(dtype)}_from_f32({text})" if dtypes.is_low(dtype) else text


def truth(text: str, dtype: np.dtype) -> str:
    """NumPy's truth of a value: not zero; NaN is true."""
    match dtypes.kind(dtype):
        case "b":
            return text
        case "c":
            return f"(({text}.real != 0) | ({text}.imag != 0))"
    return f"({text} != {zero(dtype)})"


def cast(text: str, source: np.dtype, target: np.dtype) -> str:
    """``astype``: float to integer truncates, and where that does not fit gives what NumPy gives on x86."""
    if source == target:
        return text
    from_kind, to_kind = dtypes.kind(source), dtypes.kind(target)
    if to_kind == "b":
        return truth(text, source)
    if from_kind == "c" and to_kind != "c":
        part = np.dtype(f"f{source.itemsize // 2}")
        return cast(f"{text}.real", part, target)
    if from_kind == "f" and to_kind in "iu":
        return _float_to_int(text, source, target)
    if to_kind == "c" and from_kind != "c":
        part = np.dtype(f"f{target.itemsize // 2}")
        return f"complex({cast(text, source, part)}, {zero(part)})"
    if dtypes.is_low(target):
        if source == dtypes.FLOAT64 and target == dtypes.FLOAT16:
            return f"round_f16(f32_odd_from_f64({text}))"
        return rounded(text if dtypes.compute(source) == dtypes.FLOAT32 else f"float32({text})", target)
    return f"{register_type(target)}({text})" if dtypes.compute(source) != target else text


def _float_to_int(text: str, source: np.dtype, target: np.dtype) -> str:
    """Truncate through the narrowest signed integer that NumPy's loops use, then wrap."""
    wide = 64 if target.itemsize == 8 else 32
    signed = _truncated(text, source, wide)
    if target.name != f"uint{wide}":
        return signed if target.name == f"int{wide}" else f"{target.name}({signed})"
    # the upper half of the range: subtract it, truncate, and put the top bit back
    half = literal(2.0 ** (wide - 1), dtypes.compute(source))
    upper = f"{target.name}({_truncated(f'({text} - {half})', source, wide)}) ^ {target.name}({1 << (wide - 1)})"
    return f"({upper} if {text} >= {half} else {target.name}({signed}))"


def _truncated(text: str, source: np.dtype, bits: int) -> str:
    limit = literal(2.0 ** (bits - 1), dtypes.compute(source))
    return f"(int{bits}({text}) if abs({text}) < {limit} else int{bits}({-(1 << (bits - 1))}))"


def bitcast(text: str, source: np.dtype, target: np.dtype) -> str:
    """The bits of a value as another dtype of the same size."""
    if dtypes.is_low(source) or dtypes.is_low(target) or dtypes.BOOL in (source, target):
        inner = stored(text, source)
        if dtypes.storage(source) != dtypes.storage(target):
            inner = f"{dtypes.storage(target).name}({inner})"
        return loaded(f"{inner}", target)
    if dtypes.kind(source) in "iu" and dtypes.kind(target) in "iu":
        return f"{target.name}({text})"
    return f"bits_{dtypes.name(target)}_from_{dtypes.name(source)}({text})"
