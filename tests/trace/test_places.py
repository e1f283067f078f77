"""Reading and writing at positions that are known only at run time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numstax
from numstax.trace.tracer import Traced
from tests.support import normal
from tests.trace.support import check, same_value

AT = np.array([3, -1, 0, 3, 1])
ROW, COLUMN = np.int64(2), np.int64(-1)


def ops(traced: Traced) -> list[str]:
    return [node.op for node in traced.graph.nodes()]


def both(function: Callable[..., Any], *args: Any) -> Traced:
    """As NumPy: the traced graph, and the compiled function."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    want = function(*theirs)
    same_value(numstax.jit(function, strict=True)(*ours), want)
    same_value(ours, theirs)
    return check(function, *args)


def put_rows(a, at, v):
    a[at] = v


def put_columns(a, at, v):
    a[1:3, at] = v


def put_around_new_axis(a, at, v):
    a[None, :, at] = v


def put_apart(a, at, v):
    a.reshape(4, 2, 3)[at, :, at % 3] = v


def put_pairs(a, at, v):
    a[at, at] = v


def put_beside_integer(a, at, v):
    a[2, at] = v


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (put_rows, normal((5, 6))),
        (put_rows, normal((6,))),
        (put_rows, 2),
        (put_columns, normal((2, 5))),
        (put_columns, normal((1, 1, 5))),
        (put_around_new_axis, normal((4, 5))),
        (put_apart, normal((5, 2))),
        (put_pairs, normal((5,))),
        (put_beside_integer, normal((5,))),
    ],
)
def test_assignment_at_integer_arrays(function: Callable[..., Any], value: Any) -> None:
    found = ops(both(function, normal((4, 6)), AT, value))
    assert "scatter" in found
    assert "extern" not in found


def test_augmented_assignment_counts_a_repeated_index_once() -> None:
    def f(a, at, v):
        a[at] += v
        return a.sum()

    both(f, normal((6,)), AT, normal((5,)))


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.subtract])
def test_at_counts_a_repeated_index_each_time(ufunc: np.ufunc) -> None:
    def f(a, at, v):
        ufunc.at(a, at, v)
        ufunc.at(a, (at, slice(1, 3)), 2)

    assert "extern" not in ops(both(f, normal((6, 4)), AT, normal((4,))))


@pytest.mark.parametrize(("dtype", "value"), [("float32", normal((5,))), ("int64", np.arange(5, dtype=np.int8))])
def test_at_in_another_type_than_that_of_the_array(dtype: str, value: np.ndarray) -> None:
    def f(a, at, v):
        np.add.at(a, at, v)

    both(f, np.arange(6).astype(dtype), AT, value)


def test_a_row_at_a_traced_position_is_a_view() -> None:
    def f(a, i, j):
        row = a[i]
        row[1:] *= 2
        a[:, 0] = 7
        a[i, j] += row[0]
        column = a[:, j]
        column += 1
        return row + a[0], column

    found = ops(both(f, normal((4, 5)), ROW, COLUMN))
    assert "extern" not in found


def test_augmented_assignment_of_a_row_writes_it_once() -> None:
    def f(a, i):
        a[i] += 1.0

    assert ops(both(f, normal((4, 5)), ROW)).count("scatter") == 1


def test_an_element_is_a_number() -> None:
    def f(a, i, j):
        x = a[i, j]
        a[i, j] = 0
        return x, x + 1

    both(f, normal((4, 5)), ROW, COLUMN)


def test_a_zero_dimensional_array_of_positions_takes_a_copy() -> None:
    def f(a, i):
        row = a[i]
        row[...] = 0
        return row

    both(f, normal((4, 5)), np.array(2))


def test_put_along_axis() -> None:
    def f(a, at, v):
        np.put_along_axis(a, at, v, axis=1)

    assert "extern" not in ops(both(f, normal((3, 4)), np.array([[0, 1], [2, 3], [-1, 0]]), normal((3, 2))))


@pytest.mark.parametrize("bad", [6, -7])
def test_outside_the_axis(bad: int) -> None:
    def f(a, at):
        a[at] = 1

    with pytest.raises(IndexError, match=rf"index {bad} is out of bounds for axis (0 )?with size 6"):
        numstax.jit(f, strict=True)(normal((6,)), np.array([0, bad]))


def test_nothing_is_written_when_a_position_is_outside() -> None:
    def f(a, at):
        a[at] = 1

    a = normal((6,))
    before = a.copy()
    with pytest.raises(IndexError):
        numstax.jit(f, strict=True)(a, np.array([0, 9]))
    np.testing.assert_array_equal(a, before)
