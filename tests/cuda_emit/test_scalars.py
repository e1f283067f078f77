"""Scalar functions that a GPU computes in its own way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from numstax.cuda_emit.scalars import find
from numstax.emit import scalars
from numstax.emit.vecmath_lanes import OPCODES, evaluate


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


def every(dtype: type[np.generic]) -> np.ndarray:
    """Each number of a 16-bit dtype."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize(("name", "exact"), [("exp", np.exp), ("tanh", np.tanh), ("erf", scipy.special.erf)])
def test_functions_of_half_floats_are_rounded_right_but_for_a_hundredth(
    name: str, exact: Callable[..., np.ndarray], dtype: type[np.generic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every argument, and whatever the approximations of the machine are off by."""
    x = every(dtype)
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
    info = ml_dtypes.finfo(dtype)
    for power, quotient in itertools.product((-1, 0, 1), repeat=2):
        monkeypatch.setitem(OPCODES, "ex2", lambda _, a, off=power: np.exp2(a) * np.float32(1 + off * 2.0**-22))
        monkeypatch.setitem(OPCODES, "rcp", lambda _, a, off=quotient: np.float32(1 + off * 2.0**-23) / a)
        with np.errstate(all="ignore"):
            got = evaluate(find(f"{name}_low_f32"), x).astype(dtype).astype(np.float64)
            nearest = want.astype(np.float32).astype(dtype).astype(np.float64)
            unit = np.maximum(2.0 ** (np.floor(np.log2(np.abs(want))) - info.nmant), float(info.smallest_subnormal))
        finite = np.isfinite(nearest) & np.isfinite(got)
        assert (np.abs(got[finite] - want[finite]) <= 0.51 * unit[finite]).all()
        edge = ~finite & ~((got == nearest) | (np.isnan(got) & np.isnan(nearest)))
        assert (np.abs(want[edge]) > 0.999 * float(info.max)).all()
        np.testing.assert_array_equal(np.signbit(got[x == 0]), np.signbit(nearest[x == 0]))


@pytest.mark.parametrize(("name", "plain"), [("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply)])
def test_arithmetic_of_bfloat16_is_rounded_once(name: str, plain: Callable[..., np.ndarray]) -> None:
    draw = np.random.default_rng(0)
    numbers = every(ml_dtypes.bfloat16)
    near = draw.choice(numbers[(np.abs(numbers) > 0.01) & (np.abs(numbers) < 100)], (2, 1 << 19))
    tiny = draw.choice(numbers[np.abs(numbers) < 1e-36], (2, 1 << 16))
    special = np.meshgrid(*[np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3.3e38, 9.2e-41], np.float32)] * 2)
    for a, b in (near, tiny, draw.choice(numbers, (2, 1 << 18)), special):
        with np.errstate(all="ignore"):
            a, b = (v.astype(ml_dtypes.bfloat16).astype(np.float32) for v in (a, b))
            want = plain(a, b).astype(ml_dtypes.bfloat16).astype(np.float32)
            for rows in (find, scalars.find):
                got = evaluate(rows(f"{name}_bf16"), a, b)
                np.testing.assert_array_equal(got, want)
                np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])
