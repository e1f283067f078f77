"""Scalar functions that a GPU computes in its own way."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from numstax.cuda_emit.scalars import find
from numstax.emit.vecmath_lanes import evaluate


def test_exp_is_right_to_two_units() -> None:
    x = np.concatenate([np.linspace(-104, 89, 200_001), np.linspace(-1e-3, 1e-3, 101)]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    got = evaluate(find("exp_f32"), x).astype(np.float64)
    with np.errstate(over="ignore"):
        finite = exact < np.finfo(np.float32).max
        unit = np.spacing(exact[finite].astype(np.float32)).astype(np.float64)
    assert (np.abs(got[finite] - exact[finite]) <= 2 * unit).all()
    assert np.isinf(got[~finite]).all()


def test_exp_of_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30], np.float32)
    np.testing.assert_array_equal(evaluate(find("exp_f32"), x), np.array([1, 1, np.inf, 0, np.nan, np.inf, 0], "f4"))


@pytest.mark.parametrize(("name", "exact"), [("tanh_f32", np.tanh), ("erf_f32", np.vectorize(math.erf))])
def test_odd_functions_are_right_to_two_units(name: str, exact: Callable[..., np.ndarray]) -> None:
    x = np.concatenate([np.linspace(-10, 10, 40_001), np.linspace(-1e-3, 1e-3, 101), np.logspace(-37, 1, 2001)])
    x = x.astype(np.float32)
    want = exact(x.astype(np.float64))
    got = evaluate(find(name), x).astype(np.float64)
    assert (np.abs(got - want) <= 2 * np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)).all()
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30], np.float32)
    found = evaluate(find(name), special)
    np.testing.assert_array_equal(found, np.array([0, -0.0, 1, -1, np.nan, 1, -1], "f4"))
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    bits = np.arange(1 << 16, dtype=np.uint32)
    for low in (0x0000, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (bits << 16 | low).view(np.float32)
        with np.errstate(all="ignore"):
            want = x.astype(ml_dtypes.bfloat16)
        rounded = evaluate(find("round_bf16"), x)
        np.testing.assert_array_equal(rounded, want.astype(np.float32))
        np.testing.assert_array_equal(
            evaluate(find("bf16_from_f32"), rounded)[~np.isnan(x)], want.view("u2")[~np.isnan(x)]
        )
