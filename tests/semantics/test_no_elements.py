"""What has no elements still has its positions and numbers checked, as NumPy checks them before it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numstax
from tests.support import check

Array = Any
X, NONE, LOW = np.arange(4.0), np.zeros(0), -np.ones(3)
"""Of NONE there is nothing; of LOW nothing is selected, which shows only when the call runs."""


def last_of_selected(x: Array, i: Array, y: Array) -> Array:
    a = y[y > 0.5]
    return a[a.shape[0] - 1] + a


def one_for_all(x: Array, i: Array, y: Array) -> Array:
    return x[i[0]] + y[y > 0]


def one_in_a_sum(x: Array, i: Array, y: Array) -> tuple:
    a = y[y > 0]
    return (x[i[0]] * a).sum(), np.cumsum(x[i[0]] + a), np.where(a > 1, x[i[0]], a)


def one_for_each_row(x: Array, i: Array, y: Array) -> Array:
    return x[i][:, None] + y[y > 0]


def rows_without_columns(x: Array, i: Array, y: Array) -> Array:
    return np.zeros((4, y[y > 0].shape[0]))[i]


def rows_written_without_columns(x: Array, i: Array, y: Array) -> Array:
    a = np.zeros((4, y[y > 0].shape[0]))
    a[i] = 1
    return a


def part_written(x: Array, i: Array, y: Array) -> Array:
    a = np.zeros(len(y))
    a[: y[y > 0].shape[0]] = x[i[0]]
    return a


def in_a_loop(x: Array, i: Array, y: Array) -> Array:
    total, a = 0.0, y[y > 0]
    for k in range(20):
        total = total + (x[i[0]] * a * k).sum()
    return total


def until_done(x: Array, i: Array, y: Array) -> Array:
    total, k, a = 0.0, 0, y[y > 0]
    while total < 9:
        total = total + (x[i[0]] + a).sum() + 1
        k += 1
    return total


FUNCTIONS = (
    one_for_all,
    one_in_a_sum,
    one_for_each_row,
    rows_without_columns,
    rows_written_without_columns,
    part_written,
    in_a_loop,
    until_done,
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("y", [NONE, LOW], ids=["none", "none selected"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_positions_are_checked(function: Callable, y: Array, dynamic: bool) -> None:
    compiled, outside = numstax.jit(function, strict=True, dynamic=dynamic), np.array([9, 1])
    check(function, X, np.array([1, 2]), y, dynamic=dynamic)
    for call in (function, compiled):
        with pytest.raises(IndexError, match="index 9 is out of bounds"):
            call(X, outside, y)


def test_the_last_of_nothing() -> None:
    compiled = numstax.jit(last_of_selected, strict=True)
    check(last_of_selected, X, X, X)
    for y in (NONE, LOW):
        with pytest.raises(IndexError, match=r"index -1 is out of bounds for axis (0 )?with size 0"):
            compiled(X, X, y)


def written(x: Array, i: Array, y: Array) -> Array:
    a = y[y > 0]
    a[i] = x[:2]
    return a


def written_once(x: Array, i: Array, y: Array) -> Array:
    a = y[y > 0]
    a[i[0]] = 2
    return a


def added(x: Array, i: Array, y: Array) -> Array:
    a = y[y > 0]
    np.add.at(a, i, x[:2])
    return a


def read(x: Array, i: Array, y: Array) -> Array:
    return y[y > 0][i] + 1


@pytest.mark.parametrize("function", [written, written_once, added, read], ids=lambda f: f.__name__)
def test_memory_of_nothing_is_not_touched(function: Callable) -> None:
    compiled, first = numstax.jit(function, strict=True), np.array([0, 0])
    check(function, X, first, X)
    for y in (NONE, LOW):
        for call in (function, compiled):
            with pytest.raises(IndexError, match=r"index 0 is out of bounds for axis (0 )?with size 0"):
                call(X, first, y)


def test_divisors_are_checked() -> None:
    def shares(y: Array, n: int) -> Array:
        return y[y > 0] * (12 // n) + 1 / n

    compiled = numstax.jit(shares)
    check(shares, LOW, 5)
    for call in (shares, compiled):
        with pytest.raises(ZeroDivisionError):
            call(LOW, 0)
