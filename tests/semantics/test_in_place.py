"""Assignments, views and aliasing: what the caller sees afterwards is what NumPy shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import numstax
from tests.support import check, normal, same


def assign_slice(x):
    x[1:-1] = 0
    return x.sum()


def augmented(x):
    x[::2] += 10
    x[:, 0] *= 2
    x -= 1


def through_a_view(x):
    row = x[2]
    row[1:] = 7
    part = row[::-1]
    part += 1
    return row


def through_a_transpose(x):
    t = x.T
    t[0] = 5
    return t.copy()


def overlapping(x):
    x[1:] = x[:-1]
    x[:, :-1] += x[:, 1:]


def reversed_onto_itself(x):
    x[:] = x[::-1]


def transposed_onto_itself(x):
    square = x[:4, :4]
    square += square.T


def view_made_before_the_write(x):
    head = x[:2]
    x[0] = 3
    return head + 0


def value_made_before_the_write(x):
    before = x[:2] + 0
    x[0] = 3
    return before


def through_reshape(x):
    x.reshape(-1)[3:9] = 1
    x.ravel()[0] = 2


def local_array(x):
    out = np.zeros((4, 6), np.float32)
    out[1:3, 1:5] = x[1:3, 1:5]
    out[0] = out[1]
    return out


def scalar_elements(x):
    x[0, 0] = x[1, 1] + 1
    x[-1, -1] += 4


def masked(x):
    x[x > 0] = 0
    return x


def masked_where(x):
    np.copyto(x, 1, where=x < 0)
    np.putmask(x, x > 1, 9)


def integer_indices(x):
    x[[0, 2]] = 1
    x[[1, 3], [2, 4]] = 7


def with_out(x):
    np.add(x, 1, out=x)
    np.multiply(x[0], 2, out=x[1])


def fill_and_flat(x):
    x[0].fill(3)
    x[1, ...] = np.arange(6)


def casts_on_store(x):
    whole = np.zeros(6, np.int32)
    whole[:] = x[0] * 10
    return whole


def broadcast_on_store(x):
    x[:, 1:3] = x[:, :1]
    x[...] = x[0]


def swapped_names(x):
    a, b = x[0], x[1]
    a, b = b + 0, a + 0
    x[0], x[1] = a, b


def returns_argument(x):
    x += 1
    return x


CASES = [
    assign_slice, augmented, through_a_view, through_a_transpose, overlapping, reversed_onto_itself,
    transposed_onto_itself, view_made_before_the_write, value_made_before_the_write, through_reshape, local_array,
    scalar_elements, masked, masked_where, integer_indices, with_out, fill_and_flat, casts_on_store,
    broadcast_on_store, swapped_names, returns_argument,
]  # fmt: skip


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_writes(function: Callable[..., object]) -> None:
    check(function, normal((4, 6)), ulps=2)


@pytest.mark.parametrize(
    "function", [augmented, overlapping, through_a_view, scalar_elements], ids=lambda f: f.__name__
)
def test_writes_to_strided_arguments(function: Callable[..., object]) -> None:
    check(function, np.asfortranarray(normal((4, 6))))
    check(function, normal((8, 12))[::2, ::-2])


def test_returned_argument_is_the_argument() -> None:
    x = normal((3,))
    assert numstax.jit(returns_argument)(x) is x


def test_returned_view_aliases_the_argument() -> None:
    x = normal((4, 6))
    view = numstax.jit(lambda x: x[1:, ::2])(x)
    assert np.shares_memory(view, x)
    view[0, 0] = 42
    assert x[1, 0] == 42


def test_fresh_results_do_not_alias() -> None:
    f = numstax.jit(lambda x: x + 1)
    x = normal((1 << 16,))
    results = [f(x) for _ in range(5)]
    results[0][:] = 0
    same(results[1], x + 1)
    assert not any(np.shares_memory(results[0], r) for r in results[1:])


def test_results_survive_later_calls() -> None:
    f = numstax.jit(lambda x: (x * 2, x.sum()))
    kept = [f(np.full(1 << 16, k, np.float32)) for k in range(6)]
    for k, (doubled, _) in enumerate(kept):
        assert (doubled == 2 * k).all()


def test_overlapping_arguments() -> None:
    def shift(x, y):
        x[:] = y + 1

    base, want = np.arange(10.0), np.arange(10.0)
    numstax.jit(shift)(base[1:], base[:-1])
    shift(want[1:], want[:-1])
    same(base, want)


def test_same_array_twice() -> None:
    def accumulate(x, y):
        x += y
        return x * y

    base, want = normal((5,)), normal((5,))
    same(numstax.jit(accumulate)(base, base), accumulate(want, want))
    same(base, want)


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@dataclasses.dataclass
class State:
    position: np.ndarray
    speed: float


def test_structured_arguments_and_results() -> None:
    x, y = normal((3,)), normal((3,), seed=1)
    check(lambda p: p.first + p.second, Pair(x, y))
    check(lambda p: Pair(p.second * 2, p.first), Pair(x, y))
    check(lambda d: {"sum": d["a"] + d["b"][0], "n": 3}, {"a": x, "b": [y, None]})
    got = numstax.jit(lambda s: State(s.position + s.speed, 2.0))(State(x, 0.5))
    same(got.position, x + 0.5)
    assert got.speed == 2.0


def test_static_arguments() -> None:
    x = normal((3, 4))
    check(lambda x, axis: x.sum(axis), x, 1, ulps=4)
    check(lambda x, mode: x + 1 if mode == "up" else x - 1, x, "down")
    check(lambda x, flag=None: x if flag is None else -x, x, True)


def test_float_arguments_are_not_baked_in() -> None:
    f = numstax.jit(lambda x, a: x * a)
    x = normal((3,))
    for a in (1.0, 2.5, np.nan, -0.0):
        same(f(x, a), x * a)


def test_closures_and_helpers() -> None:
    table = np.arange(3, dtype=np.float32)

    def helper(x):
        return x + table

    check(lambda x: helper(x) * 2, normal((3,)))
    inner = numstax.jit(helper)
    check(lambda x: inner(x) - 1, normal((3,)))


def test_elements_at_positions_that_are_data_one_after_the_other() -> None:
    """The second update reads what the first may have written."""

    def program(x, k):
        sums = np.zeros(4)
        for i in range(3):
            sums[k[i]] += x[i]
        return sums

    check(program, np.array([1.0, 2.0, 4.0]), np.array([2, 2, 0]))


def test_new_memory_written_at_positions_that_are_data() -> None:
    def program(x):
        order = x.argsort()
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(x))
        return ranks

    check(program, np.array([3.0, 1.0, 2.0, 5.0, 4.0]))
