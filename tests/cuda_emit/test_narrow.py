"""Cheaper functions where results have 16 bits: where they are taken, and what comes out."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from numstax.cuda_emit.scalars import find
from numstax.emit.vecmath_lanes import evaluate
from tests.cuda_emit.running import simulated, text

BF16 = ml_dtypes.bfloat16
Function = Callable[[np.ndarray], np.ndarray]


def gelu(y: np.ndarray) -> np.ndarray:
    return y * 0.5 * (1 + np.tanh(0.7978846 * (y + 0.044715 * y * y * y)))  # type: ignore[no-any-return]


def exact_gelu(y: np.ndarray) -> np.ndarray:
    return 0.5 * y * (scipy.special.erf(y * 0.70710677) + 1)  # type: ignore[no-any-return]


def silu(y: np.ndarray) -> np.ndarray:
    return y / (1 + np.exp(-y))  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", [BF16, np.float16])
@pytest.mark.parametrize(("function", "name"), [(gelu, "tanh_low"), (exact_gelu, "erf_low"), (silu, "exp_low")])
def test_all_numbers_of_a_dtype(function: Function, name: str, dtype: type[np.generic]) -> None:
    """Results are those of exact arithmetic, rounded, but where that is next to the middle of two; beside what 1 + tanh
    loses in float32."""

    def rounded(x: np.ndarray) -> np.ndarray:
        return function(x.astype(np.float32)).astype(x.dtype)  # type: ignore[no-any-return]

    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    x = x[np.abs(x.astype(np.float32)) < 80]
    assert f"{name}_f32" in text(rounded, x)
    (result,), _, _ = simulated(rounded, x)
    wide, got = x.astype(np.float64), result.astype(np.float64)
    want = function(wide)
    info = ml_dtypes.finfo(dtype)
    with np.errstate(divide="ignore"):
        unit = np.maximum(2.0 ** (np.floor(np.log2(np.abs(want))) - info.nmant), float(info.smallest_subnormal))
    lost = 0 if function is silu else 2.0**-24 * np.abs(wide)
    assert (np.abs(got - want) <= 0.511 * unit + lost).all()


OTHERS: dict[str, Function] = {
    "a float32 result": lambda x: np.tanh(x.astype(np.float32)),
    "two results": lambda x: ((t := np.tanh(x.astype(np.float32))).astype(x.dtype), t),  # type: ignore[dict-item, return-value]
    "a difference that may cancel": lambda x: (np.tanh(y := x.astype(np.float32)) - y).astype(x.dtype),
    "a sum with another number": lambda x: (np.tanh(x.astype(np.float32)) + np.float32(0.5)).astype(x.dtype),
    "a difference of a power and one": lambda x: (np.exp(x.astype(np.float32)) - np.float32(1)).astype(x.dtype),
    "a sum later on": lambda x: (2 * np.exp(x.astype(np.float32)) + np.float32(1)).astype(x.dtype),
    "another function": lambda x: np.sin(100 * np.exp(x.astype(np.float32))).astype(x.dtype),
    "float64": lambda x: np.exp(x.astype(np.float64)).astype(x.dtype),
}


@pytest.mark.parametrize("name", OTHERS)
def test_where_digits_are_needed_they_are_computed(name: str) -> None:
    assert "_low_" not in text(OTHERS[name], np.ones(1000, BF16))


@pytest.mark.parametrize(("name", "exact"), [("exp", np.exp), ("tanh", np.tanh), ("erf", scipy.special.erf)])
def test_float32_arguments(name: str, exact: Function) -> None:
    """Two parts in 10**5 of the result at most, and of 1 minus its size, beside what rounding to float32 does."""
    x = np.concatenate([np.linspace(-17, 11, 400_001), np.logspace(-30, 0, 5001)]).astype(np.float32)
    want, got = exact(x.astype(np.float64)), evaluate(find(f"{name}_low_f32"), x).astype(np.float64)
    assert (np.abs(got - want) <= 2.0**-17 * np.abs(want)).all()
    if name != "exp":
        assert (np.abs(got - want) <= 2.0**-16.5 * (1 - np.abs(want)) + 2.0**-24).all()
