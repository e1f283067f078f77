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


def divided(a: np.ndarray, d: np.ndarray) -> np.ndarray:
    scale = evaluate(find("divisor_scale_f32"), d)
    size, inverse = (evaluate(find(f"divisor_{part}_f32"), d, scale) for part in ("size", "inverse"))
    return evaluate(find("divided_f32"), a, scale, size, inverse)


def test_quotients_by_a_reciprocal_are_rounded_as_quotients_are() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, (2, 1 << 18), np.uint32)
    a, d = bits.view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -3, 1e-45, -1e-39, 3e38, -3e38, 49], np.float32)
    tables = np.meshgrid(special, special), np.meshgrid(*[np.arange(1, 1025, dtype=np.float32)] * 2)
    large = (np.abs(a) > 1e-30) | (a == 0)
    for x, y in ((a[large], d[large]), *tables):
        with np.errstate(all="ignore"):
            want = x / y
        got = divided(x, y)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])
    with np.errstate(all="ignore"):
        want, got = a / d, divided(a, d)
    near = np.isfinite(want)
    assert (np.abs(got[near] - want[near]) <= np.spacing(np.abs(want[near]))).all()


@pytest.mark.parametrize(("name", "signs"), [("maximum_f32", [0, 0, 0, 1]), ("minimum_f32", [0, 1, 1, 1])])
def test_which_zero_is_the_greater(name: str, signs: list[bool]) -> None:
    """As the instruction has it; NumPy's own answer depends on how many elements there are."""
    a, b = np.float32([0, 0, -0.0, -0.0]), np.float32([0, -0.0, 0, -0.0])
    np.testing.assert_array_equal(np.signbit(evaluate(find(name), a, b)), signs)
