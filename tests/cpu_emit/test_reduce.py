"""Reductions over every dtype: values, accuracy, ties and NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest

from numstax import dtypes
from numstax.ir.index import ZERO, Index, as_index
from numstax.ir.loops import Reduce, Schedule
from numstax.ir.ops import REDUCTIONS
from tests.cpu_emit.running import BodyBuilder, buffer, emitted_text, kernel, loop, run, same, schedule, var
from tests.support import normal

LENGTHS = (1, 37, 2048, 5000)


def reduced(op: str, dtype: np.dtype, n: int, columns: int = 0, value_too: bool = False) -> Schedule:
    """Over a vector, or (with `columns`) down the columns of a matrix."""
    j = var("j", n)
    result = np.dtype("i8") if op.startswith("arg") else dtype
    value_buffer = "best" if value_too else None
    if not columns:
        x, out = buffer("x", dtype, (n,), "input"), buffer("out", result, (), "output")
        outer, offset, to = [], as_index(j), ZERO
    else:
        i = var("i", columns)
        x, out = buffer("x", dtype, (n, columns), "input"), buffer("out", result, (columns,), "output")
        outer, offset, to = [i], as_index(j) * columns + i, as_index(i)
    best = buffer("best", dtype, out.shape and (columns,), "output")
    b = BodyBuilder()
    position: Index | None = as_index(j) if op.startswith("arg") else None
    effect = Reduce(op, b.load(x, offset), "out", to, dtype, position, None, value_buffer, to if value_too else None)
    return schedule(kernel(f"red_{op}", outer, [loop([j], b, effect)], [x, out, *([best] if value_too else [])]))


OPS = {
    "add": "iufc",
    "multiply": "iuf",
    "maximum": "biuf",
    "minimum": "biuf",
    "fmax": "iuf",
    "fmin": "iuf",
    "logical_and": "b",
    "logical_or": "b",
    "bitwise_and": "biu",
    "bitwise_or": "biu",
    "bitwise_xor": "biu",
}
CASES = [(op, d) for op, kinds in OPS.items() for d in dtypes.SUPPORTED if dtypes.kind(d) in kinds]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=str)
def test_values(op: str, dtype: np.dtype) -> None:
    for n, columns in ((1, 0), (3000, 0), (300, 5)):
        x = normal((n, columns) if columns else (n,), dtype, n)
        if op == "multiply":
            x = x[:12] if n > 12 else x
            n = x.shape[0]
        with np.errstate(all="ignore"):
            wide = x.astype(np.float32) if dtypes.is_low(dtype) else x
            want = np.asarray(REDUCTIONS[op].reduce(wide, axis=0, dtype=wide.dtype)).astype(dtype)
        got = run(reduced(op, dtype, n, columns), [x])[0]
        tolerance = 0 if dtypes.kind(dtype) in "biu" or op in ("maximum", "minimum", "fmax", "fmin") else 64
        same(
            got.astype(wide.dtype), want.astype(wide.dtype), 2**14 if dtypes.is_low(dtype) and tolerance else tolerance
        )


@pytest.mark.parametrize("columns", [0, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_at_least_as_accurate_as_numpys(dtype: str, columns: int) -> None:
    rng = np.random.default_rng(1)
    shape = (60_000, columns) if columns else (60_000,)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype) + np.dtype(dtype).type(100)
    got = np.atleast_1d(run(reduced("add", np.dtype(dtype), 60_000, columns), [x])[0])
    rows = x.T if columns else x[None]
    exact = np.array([math.fsum(row.astype(float)) for row in rows])
    pairwise = np.array([np.ascontiguousarray(row).sum() for row in rows])
    ours, theirs = np.abs(got.astype(float) - exact).max(), np.abs(pairwise.astype(float) - exact).max()
    assert ours <= theirs + np.spacing(np.abs(exact).max().astype(dtype))


@pytest.mark.parametrize("columns", [0, 4])
@pytest.mark.parametrize("values", [(1e300, 1e300, -1e300), (np.inf, 1.0), (np.inf, -np.inf), (np.nan, 1.0)])
def test_sums_of_extreme_values(values: tuple[float, ...], columns: int) -> None:
    x = np.zeros((3000, columns) if columns else (3000,))
    x[500 : 500 + 700 * len(values) : 700] = np.array(values).reshape((-1,) + (1,) * bool(columns))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(reduced("add", x.dtype, 3000, columns), [x])[0], np.sum(x, axis=0))


@pytest.mark.parametrize("op", ["maximum", "minimum", "fmax", "fmin"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nan_in_extrema(op: str, dtype: str) -> None:
    program = {columns: reduced(op, np.dtype(dtype), 2500, columns) for columns in (0, 3)}
    for nans in ([], [0], [2499], [1300, 1301], range(2500)):
        for columns, sched in program.items():
            x = normal((2500, columns) if columns else (2500,), dtype, 4)
            x[list(nans)] = np.nan
            np.testing.assert_array_equal(run(sched, [x])[0], REDUCTIONS[op].reduce(x, axis=0))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u8", "?"])
def test_positions(op: str, dtype: str) -> None:
    """The first of equal values; the first NaN."""
    program = {columns: reduced(op, np.dtype(dtype), 2500, columns, value_too=True) for columns in (0, 3)}
    for seed in range(4):
        for columns, sched in program.items():
            x = normal((2500, columns) if columns else (2500,), dtype, seed)
            x[-700:] = x[1100:1800]
            if seed == 1:
                x[:] = x[0]
            if seed >= 2 and dtype[0] == "f":
                x[[1500, 2000] if seed == 2 else [0, 3]] = np.nan
            got, best = run(sched, [x])
            np.testing.assert_array_equal(got, getattr(np, op)(x, axis=0))
            np.testing.assert_array_equal(best, (np.max if op == "argmax" else np.min)(x, axis=0))


def test_position_of_all_infinite() -> None:
    sched = reduced("argmax", np.dtype("f4"), 3000)
    assert run(sched, [np.full(3000, -np.inf, "f4")])[0] == 0


def test_positions_in_partial_results() -> None:
    """The second half of a split argmax: values with positions of their own, in any order."""
    j = var("j", 6)
    x, at = buffer("x", "f4", (6,), "input"), buffer("at", "i8", (6,), "input")
    out = buffer("out", "i8", (), "output")
    b = BodyBuilder()
    value, place = b.load(x, j), b.load(at, j)
    effect = Reduce("argmax", value, "out", ZERO, np.dtype("f4"), None, place)
    sched = schedule(kernel("red_argmax", [], [loop([j], b, effect)], [x, at, out]))
    places = np.array([50, 40, 30, 20, 10, 0])
    assert run(sched, [np.array([1, 7, 3, 7, 2, 5], "f4"), places])[0] == 20
    assert run(sched, [np.array([np.nan, 7, 3, np.nan, 2, 5], "f4"), places])[0] == 20


@pytest.mark.parametrize("op", ["logical_and", "logical_or"])
def test_any_and_all_stop_early(op: str) -> None:
    sched = reduced(op, dtypes.BOOL, 5000)
    assert "break" in emitted_text(sched)
    for position in (None, 0, 2000, 4999):
        x = np.full(5000, op == "logical_and")
        if position is not None:
            x[position] = not x[position]
        assert run(sched, [x])[0] == REDUCTIONS[op].reduce(x)


@pytest.mark.parametrize("columns", [0, 5])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_online_softmax(dtype: str, columns: int) -> None:
    n, kind = 5000, np.dtype(dtype)
    j = var("j", n)
    i = var("i", max(columns, 1))
    x = buffer("x", kind, (n, max(columns, 1)), "input")
    m, d = buffer("m", kind, (i.extent.value,), "output"), buffer("d", kind, (i.extent.value,), "output")
    b = BodyBuilder()
    value = b.load(x, as_index(j) * max(columns, 1) + i)
    effect = Reduce("online_softmax", value, "m", as_index(i), kind, None, None, "d", as_index(i))
    sched = schedule(kernel("red_softmax", [i], [loop([j], b, effect)], [x, m, d]))
    values = normal((n, max(columns, 1)), kind) * 20
    values[:2000] = -np.inf
    got_m, got_d = run(sched, [values])
    np.testing.assert_array_equal(got_m, values.max(0))
    np.testing.assert_allclose(got_d, np.exp(values - values.max(0)).sum(0), rtol=1e-5)


def test_over_two_variables_and_several_results() -> None:
    """Two sums and a maximum of one pass; inner variables of very different lengths."""
    i, j, k = var("i", 6), var("j", 5), var("k", 1500)
    x = buffer("x", "f4", (6, 5, 1500), "input")
    outs = [buffer(name, "f4", (6,), "output") for name in ("s", "q", "m")]
    b = BodyBuilder()
    value = b.load(x, (as_index(i) * 5 + j) * 1500 + k)
    square = b("multiply", value, value, dtype="f4")
    f = np.dtype("f4")
    effects = [Reduce(op, v, name, as_index(i), f) for op, v, name in (("add", value, "s"), ("add", square, "q"))]
    effects.append(Reduce("maximum", value, "m", as_index(i), f))
    sched = schedule(kernel("red_add_maximum", [i], [loop([j, k], b, *effects)], [x, *outs]))
    a = normal((6, 5, 1500))
    s, q, m = run(sched, [a])
    np.testing.assert_allclose(s, a.sum((1, 2), dtype="f8"), rtol=1e-5)
    np.testing.assert_allclose(q, (a.astype("f8") ** 2).sum((1, 2)), rtol=1e-6)
    np.testing.assert_array_equal(m, a.max((1, 2)))
