"""Every form of kernel, over shapes that do not fit its blocks and over memory layouts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import numstax
from numstax import dtypes
from numstax.ir.index import ZERO, Index, Ref, as_index
from numstax.ir.loops import Reduce, Scan, Schedule, Store
from numstax.tiles.cpu import tile
from tests.cpu_emit.running import BodyBuilder, buffer, check, emitted_text, kernel, loop, run, schedule, var
from tests.support import normal

F4 = np.dtype("f4")
SHAPES = [((1, 1), 0), ((17, 130), 0), ((130, 18), 1 << 40), ((3, 2100), 0), ((300, 40), 0), ((0, 4), 0), ((4, 0), 0)]
"""Sizes, and the threshold below which one thread does it all."""
LAYOUTS = ("C", "F", "reversed", "gaps", "broadcast")
THRESHOLDS = (0, 1 << 40)
"""Everything in parallel, and everything in one thread."""


def strides(layout: str, rows: int, columns: int) -> tuple[int, int, int]:
    """(row stride, column stride, number of elements from the first that are read backwards)."""
    return {
        "C": (columns, 1, 0),
        "F": (1, rows, 0),
        "reversed": (-columns, -1, rows * columns - 1),
        "gaps": (3 * columns, 2, 0),
        "broadcast": (0, 1, 0),
    }[layout]


def array(layout: str, rows: int, columns: int, seed: int) -> np.ndarray:
    """An array of ordinary numbers in a layout; its data pointer is its first element."""
    row, column, back = strides(layout, rows, columns)
    memory = normal((max(3 * rows * columns, 1) + back,), F4, seed)
    return np.lib.stride_tricks.as_strided(memory[max(back, 0) :], (rows, columns), (4 * row, 4 * column))


def at(layout: str, rows: int, columns: int, i: Index, j: Index) -> Index:
    row, column, _ = strides(layout, rows, columns)
    return i * row + j * column


def form_of(sched: Schedule) -> str:
    (unit,) = tile(sched).units
    return unit.tiling.form  # type: ignore[union-attr]


def binary(rows: int, columns: int, first: str, second: str) -> Schedule:
    i, j = var("i", rows), var("j", columns)
    x = buffer("x", F4, (rows, columns), "input", strides(first, rows, columns)[:2])
    y = buffer("y", F4, (rows, columns), "input", strides(second, rows, columns)[:2])
    out = buffer("out", F4, (rows, columns), "output")
    b = BodyBuilder()
    ij = as_index(i), as_index(j)
    loads = b.load(x, at(first, rows, columns, *ij)), b.load(y, at(second, rows, columns, *ij))
    value = b("subtract", *loads, dtype=F4)
    return schedule(
        kernel("poi_subtract", [i, j], [loop([], b, Store("out", ij[0] * columns + j, value))], [x, y, out])
    )


@pytest.mark.parametrize("layouts", list(product(LAYOUTS, LAYOUTS[:2])), ids="-".join)
def test_pointwise(layouts: tuple[str, str]) -> None:
    for (rows, columns), threshold in SHAPES:
        arrays = [array(layout, rows, columns, seed) for seed, layout in enumerate(layouts)]
        check(binary(rows, columns, *layouts), *arrays, threshold=threshold)


def test_transposed_reads_are_tiled() -> None:
    assert form_of(binary(130, 170, "F", "C")) == "transpose"
    assert "transpose_f32" in emitted_text(binary(130, 170, "F", "C"))
    assert form_of(binary(130, 170, "C", "C")) == "pointwise"


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c8", "c16"])
def test_transpose_of_every_itemsize(dtype: str) -> None:
    rows, columns = 150, 77
    i, j = var("i", columns), var("j", rows)
    x, out = buffer("x", dtype, (rows, columns), "input"), buffer("out", dtype, (columns, rows), "output")
    b = BodyBuilder()
    value = b.load(x, as_index(j) * columns + i)
    sched = schedule(kernel("poi_copy", [i, j], [loop([], b, Store("out", as_index(i) * rows + j, value))], [x, out]))
    check(sched, normal((rows, columns), dtype))


def row_sum(rows: int, columns: int, layout: str, op: str = "add") -> Schedule:
    """mean-like: a reduction, an epilogue, and a second loop that uses it."""
    i, j, k = var("i", rows), var("j", columns), var("k", columns)
    x = buffer("x", F4, (rows, columns), "input", strides(layout, rows, columns)[:2])
    out, total = buffer("out", F4, (rows, columns), "output"), buffer("total", F4, (rows,), "output")
    s, m = buffer("s", F4, (), "local"), buffer("m", F4, (), "local")
    first, middle, last = BodyBuilder(), BodyBuilder(), BodyBuilder()
    value = first.load(x, at(layout, rows, columns, as_index(i), as_index(j)))
    reduced = loop([j], first, Reduce(op, value, "s", ZERO, F4))
    scaled = middle("multiply", middle.load(s, 0), middle.const(0.5, F4), dtype=F4)
    epilogue = loop([], middle, Store("m", ZERO, scaled), Store("total", as_index(i), scaled))
    again = last.load(x, at(layout, rows, columns, as_index(i), as_index(k)))
    value = last("subtract", again, last.load(m, 0), dtype=F4)
    final = loop([k], last, Store("out", as_index(i) * columns + k, value))
    return schedule(kernel("per_add_subtract", [i], [reduced, epilogue, final], [x, out, total, s, m]))


@pytest.mark.parametrize(("layout", "op"), [*product(LAYOUTS, ["add"]), *product("CF", ["maximum", "multiply"])])
def test_reduction_of_rows(layout: str, op: str) -> None:
    for (rows, columns), threshold in SHAPES:
        check(row_sum(rows, columns, layout, op), array(layout, rows, columns, 1), ulps=300, threshold=threshold)


def test_form_follows_the_strides() -> None:
    assert form_of(row_sum(100, 200, "C")) == "row"
    assert form_of(row_sum(100, 200, "F")) == "column"
    i, j = var("i", 100), var("j", 200)
    x, out, s = buffer("x", F4, (100, 200), "input"), buffer("out", F4, (100,), "output"), buffer("s", F4, (), "local")
    one, two = BodyBuilder(), BodyBuilder()
    total = loop([j], one, Reduce("add", one.load(x, as_index(i) * 200 + j), "s", ZERO, F4))
    half = two("multiply", two.load(s, 0), two.const(0.5, F4), dtype=F4)
    # stores that happen once for each row do not turn the loads for each element around
    halves = loop([], two, Store("out", as_index(i), half))
    assert form_of(schedule(kernel("per_add_multiply", [i], [total, halves], [x, out, s]))) == "row"


def softmax(rows: int, columns: int, layout: str) -> Schedule:
    """A local array, in rows or down columns."""
    i, j = var("i", rows), var("j", columns)
    x = buffer("x", F4, (rows, columns), "input", strides(layout, rows, columns)[:2])
    out, e = buffer("out", F4, (rows, columns), "output"), buffer("e", F4, (columns,), "local")
    m, s = buffer("m", F4, (), "local"), buffer("s", F4, (), "local")
    offset = at(layout, rows, columns, as_index(i), as_index(j))
    one, two, three = BodyBuilder(), BodyBuilder(), BodyBuilder()
    top = loop([j], one, Reduce("maximum", one.load(x, offset), "m", ZERO, F4))
    value = two("exp", two("subtract", two.load(x, offset), two.load(m, 0), dtype=F4), dtype=F4)
    exps = loop([j], two, Store("e", as_index(j), value), Reduce("add", value, "s", ZERO, F4))
    value = three("divide", three.load(e, j), three.load(s, 0), dtype=F4)
    parts = loop([j], three, Store("out", as_index(i) * columns + j, value))
    return schedule(kernel("per_softmax", [i], [top, exps, parts], [x, out, e, m, s]))


@pytest.mark.parametrize("layout", ["C", "F"])
def test_local_arrays(layout: str) -> None:
    for rows, columns in ((1, 1), (7, 33), (40, 1500), (1100, 20)):
        check(softmax(rows, columns, layout), array(layout, rows, columns, 2), ulps=16)


def scan(rows: int, columns: int, layout: str, op: str, dtype: str = "f4") -> Schedule:
    i, j = var("i", rows), var("j", columns)
    kind = np.dtype(dtype)
    x = buffer("x", kind, (rows, columns), "input", strides(layout, rows, columns)[:2])
    out = buffer("out", kind, (rows, columns), "output", strides(layout, rows, columns)[:2])
    b = BodyBuilder()
    offset = at(layout, rows, columns, as_index(i), as_index(j))
    value = b.load(x, offset)
    return schedule(kernel("scan", [i], [loop([j], b, Scan(op, value, "out", offset, kind))], [x, out]))


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_scans_are_numpys_bit_for_bit(layout: str, op: str) -> None:
    accumulate = getattr(np, op).accumulate
    for rows, columns in ((1, 1), (11, 40), (700, 3), (3, 0)):
        x = array(layout, rows, columns, 3)
        memory = run(scan(rows, columns, layout, op), [x])[0]
        got = np.lib.stride_tricks.as_strided(memory, x.shape, x.strides)
        np.testing.assert_array_equal(got, accumulate(x, axis=1))


@pytest.mark.parametrize("dtype", ["f2", "i1", "u4", "c16", "?"])
def test_scans_of_other_dtypes(dtype: str) -> None:
    x = normal((9, 30), dtype)
    op = "logical_or" if dtype == "?" else "add"
    np.testing.assert_array_equal(
        run(scan(9, 30, "C", op, dtype), [x])[0], getattr(np, op).accumulate(x, axis=1, dtype=dtype)
    )


def test_masked_loads_touch_nothing_outside() -> None:
    n = 40
    i = var("i", n)
    x, out = buffer("x", F4, (20,), "input"), buffer("out", F4, (n,), "output")
    b = BodyBuilder()
    inside = b("less", b("index", dtype="i8", attr=as_index(i)), b.const(20, "i8"), dtype="?")
    value = b.load(x, as_index(i), inside)
    sched = schedule(kernel("poi_pad", [i], [loop([], b, Store("out", as_index(i), value))], [x, out]))
    for threshold in THRESHOLDS:
        check(sched, normal((20,), F4), threshold=threshold)


def test_masked_stores_and_regions() -> None:
    """Stores to part of a buffer that was filled by an earlier kernel."""
    n = 50
    i, j, k = var("i", n), var("j", 10), var("k", n)
    x, out = buffer("x", F4, (n,), "input"), buffer("out", F4, (n,), "output")
    copy, region, masked = BodyBuilder(), BodyBuilder(), BodyBuilder()
    first = kernel("poi_a", [i], [loop([], copy, Store("out", as_index(i), copy.load(x, i)))], [x, out])
    value = region("negative", region.load(x, as_index(j) + 5), dtype=F4)
    second = kernel("poi_b", [j], [loop([], region, Store("out", 3 * as_index(j) + 7, value))], [x, out])
    value = masked.load(x, as_index(k))
    on = masked("greater", value, masked.const(1, F4), dtype="?")
    doubled = masked("add", value, value, dtype=F4)
    third = kernel("poi_c", [k], [loop([], masked, Store("out", as_index(k), doubled, on))], [x, out])
    for threshold in THRESHOLDS:
        check(schedule(first, second, third), normal((n,), F4), threshold=threshold)


@pytest.mark.parametrize("index", ["i8", "i4", "u1"])
def test_gather_with_wrapped_indices(index: str) -> None:
    i, j = var("i", 30), var("j", 8)
    x, at_ = buffer("x", F4, (12, 8), "input"), buffer("at", index, (30,), "input")
    out = buffer("out", F4, (30, 8), "output")
    b = BodyBuilder()
    place = b("wrap", b.load(at_, as_index(i)), dtype="i8", attr=as_index(12))
    value = b.load(x, as_index(Ref(place, as_index(12))) * 8 + j)
    sched = schedule(kernel("poi_take", [i, j], [loop([], b, Store("out", as_index(i) * 8 + j, value))], [x, at_, out]))
    low = 0 if index[0] == "u" else -12
    places = np.random.default_rng(0).integers(low, 12, 30).astype(index)
    check(sched, normal((12, 8), F4), places)


def test_division_and_remainder_of_indices() -> None:
    """A tiled and repeated read: offsets that no stride describes."""
    n = 100
    i = var("i", n)
    x, out = buffer("x", F4, (7,), "input"), buffer("out", F4, (n,), "output")
    b = BodyBuilder()
    value = b("add", b.load(x, as_index(i) % 7), b.load(x, as_index(i) // 20), dtype=F4)
    check(
        schedule(kernel("poi_tile", [i], [loop([], b, Store("out", as_index(i), value))], [x, out])), normal((7,), F4)
    )


@pytest.mark.parametrize("dtype", dtypes.SUPPORTED, ids=dtypes.name)
def test_scalars_and_zero_dimensional_results(dtype: np.dtype) -> None:
    x, out = buffer("x", dtype, (), "scalar"), buffer("out", dtype, (), "output")
    b = BodyBuilder()
    sched = schedule(kernel("poi_copy", [], [loop([], b, Store("out", ZERO, b.load(x, 0)))], [x, out]))
    value = normal((1,), dtype).reshape(())
    np.testing.assert_array_equal(run(sched, [value])[0], value)


def test_wide_pointwise_kernel_of_few_rows_is_cut_along_the_row() -> None:
    i, j = var("i", 2), var("j", 20000)
    x, y = buffer("x", F4, (2,), "input"), buffer("y", F4, (20000,), "input")
    out = buffer("out", F4, (2, 20000), "output")
    b = BodyBuilder()
    value = b("multiply", b.load(x, as_index(i)), b.load(y, as_index(j)), dtype=F4)
    sched = schedule(
        kernel("poi_multiply", [i, j], [loop([], b, Store("out", as_index(i) * 20000 + j, value))], [x, y, out])
    )
    check(sched, normal((2,), F4), normal((20000,), F4, 1))
    assert "min(" in emitted_text(sched)


@pytest.mark.parametrize(("n", "packed"), [(150, True), (20, False)])
def test_what_every_row_reads_with_a_stride_is_sorted_once(n: int, packed: bool) -> None:
    def program(points, steps):
        for _ in range(steps):
            away = points[None, :, :] - points[:, None, :]
            points += 1e-3 * (away / ((away**2).sum(axis=-1) + 1.0)[:, :, None]).sum(axis=1)
        return points

    points = np.sin(np.arange(3.0 * n)).reshape(n, 3)
    compiled = numstax.jit(program, strict=True)
    want = program(points.copy(), 40)
    np.testing.assert_allclose(compiled(points, 40), want, rtol=1e-13)
    assert ("poi_sort" in compiled.inspect()) == packed
