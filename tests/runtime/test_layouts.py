"""Views whose layout is known are spelled without asking NumPy."""

import numpy as np
import pytest

from numstax.program import Allocate, Argument, ArrayExpr, Plan
from numstax.runtime.layouts import Layouts

FLOAT64, INT64 = np.dtype(np.float64), np.dtype(np.int64)
PLAN = Plan(
    "p",
    (
        Argument("x", "array", FLOAT64, ("3", "4"), ("4", "1")),
        Argument("w", "array", FLOAT64, ("3", "4"), ("8", "2")),
        Argument("d", "array", FLOAT64, ("s0", "4"), ("4", "1")),
    ),
    (),
    (Allocate("t", INT64, ("5", "1")), Allocate("e", FLOAT64, ("0", "4"))),
    (),
)


def view(array, shape, strides, offset="0", dtype=FLOAT64):
    return ArrayExpr(array, dtype, shape, strides, offset)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (view("x", ("3", "4"), ("4", "1")), "x"),
        (view("w", ("3", "4"), ("8", "2")), "w"),
        (view("x", ("4", "3"), ("1", "4")), "ndarray((4, 3), D, x, 0, (8, 32))"),
        (view("x", ("4",), ("-1",), "7"), "ndarray((4,), D, x, 56, (-8,))"),
        (view("t", ("5",), ("1",), dtype=INT64), "ndarray((5,), D, t, 0, (8,))"),
        (view("w", ("4",), ("2",)), None),
        (view("d", ("4",), ("1",)), None),
        (view("x", ("s0",), ("1",)), None),
        (view("x", ("3", "4"), ("4", "1"), dtype=INT64), None),
        (view("e", ("4",), ("1",)), None),
        (view("unknown", ("4",), ("1",)), None),
    ],
)
def test_spelling(wanted, text):
    found = Layouts(PLAN).spelled(wanted, "D")
    assert found == text
    if text is not None:
        arrays = {
            "x": np.arange(12.0).reshape(3, 4),
            "w": np.arange(24.0).reshape(3, 8)[:, ::2],
            "t": np.arange(5)[:, None],
        }
        got = eval(text, {**arrays, "ndarray": np.ndarray, "D": wanted.dtype})
        base = arrays[wanted.array]
        strides = tuple(int(s) * 8 for s in wanted.strides)
        shape = tuple(map(int, wanted.shape))
        first = base.reshape(-1)[int(wanted.offset) :] if base.flags.c_contiguous else base
        np.testing.assert_array_equal(got, np.lib.stride_tricks.as_strided(first, shape, strides))
