"""Writes at positions that are data: one operation of the graph each, NumPy's results, no library call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numstax
from numstax.errors import OutOfBoundsError
from numstax.trace.tracer import trace
from tests.support import check, same

Array = Any
RNG = np.random.default_rng(0)
A, W = RNG.random((6, 5)), RNG.random((4, 5))
AT = np.array([1, 4, 1, -1])


def rows(a: Array, i: Array, w: Array) -> None:
    a[i] = w
    a[..., i] = 4


def added_once(a: Array, i: Array, w: Array) -> None:
    a[i] += w


def columns(a: Array, i: Array, w: Array) -> None:
    a[:, i[:3]] = w.max()
    a[1:3, i] = w[:2, :4]
    a[::-2, i] = 7


def pairs(a: Array, i: Array, w: Array) -> None:
    a[np.arange(4), i] = w[:, 1]
    a[i[:, None], np.array([0, 2])] = w[:, :2]
    a[2, i] = 1
    a[i, 2] = 2
    a[None, i, 1:2] = 3


def through_views(a: Array, i: Array, w: Array) -> None:
    a.T[i] = w[:, 0][:, None]
    a[::2][i[:1]] = 3
    a.reshape(-1)[i] = 5


def one_row(a: Array, i: Array, w: Array) -> Array:
    k = i[0]
    row = a[k]
    row += 1
    row[2] = 7
    a[k, 1:3] *= 2
    a[k, 3] = a[k, 3] + 5
    a[k][::2] = a[k][::2] + w[1, ::2]
    return row.copy()


def reads(a: Array, i: Array, w: Array) -> tuple:
    k = i[0]
    before, number = a[np.array(2)], a[i[1], i[2]]
    row = a[k].copy()
    a[k] = 9
    return before, number, row, a[i[1], 1:3].copy(), a[k, ...].copy()


def added_at(a: Array, i: Array, w: Array) -> None:
    np.add.at(a, i, w)
    np.add.at(a, (i, i), 1)
    np.maximum.at(a, i[1:], w[1:])
    np.subtract.at(a, (slice(1, 3), i), 0.5)
    np.multiply.at(a, 2, w[0])


def counts(a: Array, i: Array, w: Array) -> tuple:
    whole, half = np.zeros(5, np.int32), np.zeros(5, np.float32)
    np.add.at(whole, i, 1)
    np.add.at(half, i, 0.25)
    return whole, half


def placed(a: Array, i: Array, w: Array) -> None:
    np.put(a, i, w[:, 0])
    np.put_along_axis(a, np.argmax(a, 1)[:, None], 0.0, 1)
    np.put_along_axis(a, i[None, :1], w[:1], axis=0)


FUNCTIONS = (rows, added_once, columns, pairs, through_views, one_row, reads, added_at, counts, placed)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_numpy(function: Callable) -> None:
    check(function, A, AT, W)
    check(function, np.asfortranarray(A), AT, W[:, ::-1])
    nodes = list(trace(function, (A, AT, W), {}).graph.nodes())
    assert any(n.op == "scatter" for n in nodes)
    assert not any(n.op == "extern" for n in nodes)


def test_numbers_are_added_in_the_dtype_of_the_array() -> None:
    def add(a: Array, i: Array) -> None:
        np.add.at(a, i, 0.1)

    check(add, np.ones(5, np.float32), AT)


def test_a_part_of_a_row_is_written_alone() -> None:
    def write(a: Array, i: Array, w: Array) -> Array:
        b = a + 1
        b[i[0], 1:3] = w[0, :2]
        b[2:4, i[1:]] *= 2
        return b

    check(write, A, AT, W)
    nodes = list(trace(write, (A, AT, W), {}).graph.nodes())
    assert not any(n.op == "update" for n in nodes)


@pytest.mark.parametrize("bad", [6, -7])
def test_arguments_are_as_numpy_leaves_them_when_a_position_is_outside(bad: int) -> None:
    def write(a: Array, i: Array) -> None:
        a[i] = 0

    def read(a: Array, i: Array) -> None:
        a[:2] = a[i] + 1

    def late(a: Array, i: Array) -> None:
        a[:, 1] = 7
        a[np.array([2, 3])] += a[1]
        np.add.at(a, (i, i % 2), a[i, 0])

    for function in (write, read, late):
        compiled, a, b = numstax.jit(function), A.copy(), A.copy()
        compiled(A.copy(), np.array([0, 1]))
        with pytest.raises(IndexError):
            function(b, np.array([0, bad]))
        with pytest.raises(OutOfBoundsError, match=f"index {bad} is out of bounds for axis [01] with size 6"):
            compiled(a, np.array([0, bad]))
        np.testing.assert_array_equal(a, b)


def test_half_floats_and_complex_numbers() -> None:
    def write(a: Array, i: Array, w: Array) -> None:
        a[i] += w[0, : a.shape[1]].astype(a.dtype)
        np.add.at(a, i, w[:, : a.shape[1]].astype(a.dtype))

    for dtype in ("f2", "f4", "c8", "i2"):
        check(write, (A * 8).astype(dtype), AT, W * 3)


def test_few_long_rows_are_written_along_the_rows():
    """What is placed in each row is as the row; lanes across the rows would be far apart."""

    def bounced(x, places, values):
        y = x * 2
        y[:, places] = values
        return y + 1

    rng = np.random.default_rng(8)
    x, places, values = rng.random((9, 20000)), rng.integers(0, 20000, 3000), rng.random((9, 3000))
    compiled = numstax.jit(bounced, strict=True)
    same(compiled(x, places, values), bounced(x, places, values))
    assert "form='column'" not in compiled.inspect()
