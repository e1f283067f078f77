"""Which loops may run their iterations in any order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from numstax.ir.index import Index
from numstax.ir.loops import Control, Schedule
from numstax.pipeline import build
from numstax.schedule.independence import carried

N = 40


def first_loop(schedule: Schedule) -> tuple[Control, Schedule]:
    (found,) = (unit for unit in schedule.units if isinstance(unit, Control))
    return found, schedule


def verdict(function: Callable[..., object], *args: object, depth: int = 0) -> str:
    schedule = build(function, args).schedule
    assert schedule is not None
    control, around = first_loop(schedule)
    for _ in range(depth):
        control, around = first_loop(control.bodies[0].schedule)
    assert control.kind == "for"
    assert isinstance(control.head, Index)
    return carried(control, {b.name: b for b in around.buffers})


def vector() -> np.ndarray:
    return np.linspace(0.5, 1.5, N)


def square() -> np.ndarray:
    return np.linspace(0.5, 1.5, N * N).reshape(N, N)


def rows(a, b):
    for i in range(a.shape[0]):
        a[i, :] = b[i, :] * 2.0


def columns(a, b):
    for i in range(a.shape[1]):
        a[:, i] = a[:, i] + b[i, :]


def every_third(a, b):
    for i in range(a.shape[0]):
        b[3 * i + 1] = a[i, 0] + b[3 * i]


def diagonal(a, b):
    for i in range(a.shape[0]):
        a[i, i] = b[i, 0]


def below_the_diagonal(a, b):
    for i in range(N):
        for j in range(i):
            a[i, j] = b[j, i]


def shifted_rows(a, b):
    for i in range(N - 1):
        a[i + 1, :] = b[i, :]


def gathered(a, b, index):
    for i in range(N):
        a[i, index[i]] = b[index[i], 0]


def local_value(a, b):
    s = 0.0
    for i in range(N):
        s = b[i, 0]
        while s < 1.0:
            s = s * 1.5
        a[i, 0] = s
    return s


def wide(n: int) -> np.ndarray:
    return np.arange(float(3 * n))


INDEPENDENT = [
    (rows, (square(), square())),
    (columns, (square(), square())),
    (every_third, (square(), wide(N))),
    (diagonal, (square(), square())),
    (below_the_diagonal, (square(), square())),
    (shifted_rows, (square(), square())),
    (gathered, (square(), square(), np.arange(N)[::-1].copy())),
    (local_value, (square(), square())),
]


@pytest.mark.parametrize(("function", "args"), INDEPENDENT, ids=[f.__name__ for f, _ in INDEPENDENT])
def test_iterations_that_share_nothing(function: Callable[..., object], args: tuple) -> None:
    assert verdict(function, *args) == ""


def recurrence(a):
    for i in range(1, N):
        a[i, 0] = a[i - 1, 0] * 0.5


def reads_ahead(a):
    for i in range(N - 1):
        a[i, 0] = a[i + 1, 0] * 0.5


def overlapping_rows(a):
    for i in range(N - 1):
        a[i : i + 2, 0] = i


def one_place(a):
    for i in range(N):
        a[0, 0] = i


def folded(a):
    for i in range(N):
        a[i // 2, 0] = i


def scattered(a, index):
    for i in range(N):
        a[index[i], 0] = i


def across(a):
    for i in range(N):
        a[i, :] = a[:, i]


def total(a):
    s = 0.0
    for i in range(N):
        s += a[i, 0]
    return s


def last_positive(a):
    s = 0.0
    for i in range(N):
        if a[i, 0] > 1.0:
            s = a[i, 0]
    return s


def exchanged(a, b):
    for _ in range(N):
        a, b = b, a * 0.5
    return a


CARRIED = [
    (recurrence, (square(),), "meet at an element"),
    (reads_ahead, (square(),), "meet at an element"),
    (overlapping_rows, (square(),), "meet at an element"),
    (one_place, (square(),), "meet at an element"),
    (folded, (square(),), "meet at an element"),
    (scattered, (square(), np.arange(N)), "meet at an element"),
    (across, (square(),), "meet at an element"),
    (total, (square(),), "is carried from one iteration to the next"),
    (last_positive, (square(),), "is carried from one iteration to the next"),
    (exchanged, (vector(), vector()), "exchange their parts"),
]


@pytest.mark.parametrize(("function", "args", "reason"), CARRIED, ids=[f.__name__ for f, *_ in CARRIED])
def test_iterations_that_share_something(function: Callable[..., object], args: tuple, reason: str) -> None:
    assert reason in verdict(function, *args)


def test_an_inner_loop_may_be_independent_where_the_outer_one_is_not() -> None:
    def cholesky(a):
        for j in range(N):
            for i in range(j + 1, N):
                a[i, j] = a[i, j] / (1.0 + a[j, j])
            a[j, j] = a[j, 0]

    assert "meet" in verdict(cholesky, square())
    assert verdict(cholesky, square(), depth=1) == ""
