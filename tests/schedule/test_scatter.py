"""Writes at positions that are data: in order, in place where that is allowed, errors for positions outside."""

from __future__ import annotations

from itertools import product as combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numstax import dtypes
from numstax.errors import OutOfBoundsError
from numstax.ir.graph import Graph, Node
from numstax.ir.index import ONE, product
from numstax.ir.loops import Kernel, Schedule, Store
from numstax.knobs import Knobs
from numstax.runtime.host import Host
from numstax.schedule.fuse import fuse
from numstax.schedule.kernels import can_fail
from numstax.schedule.lower import lower
from tests.schedule.graphs import Graphs
from tests.schedule.test_control import I, Ran, part
from tests.schedule.test_plan import planned

Array = np.ndarray
Shape = tuple[int, ...]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return Host(Knobs(cache_dir=tmp_path_factory.mktemp("cache"), threads=2))


def expected(base: Array, value: Array, axes: Shape, where: list[Array], op: str) -> Array:
    """One position after another."""
    out = np.moveaxis(base.copy(), axes, range(len(axes)))
    for at in np.ndindex(where[0].shape):
        target = tuple(int(w[at]) for w in where)
        with np.errstate(all="ignore"):
            out[target] = value[at] if op == "set" else getattr(np, op)(out[target], value[at]).astype(base.dtype)
    return np.moveaxis(out, range(len(axes)), axes)


def scattered(dtype: np.dtype, shape: tuple[int, ...], axes: tuple[int, ...], where: tuple[int, ...], op: str) -> Graph:
    g = Graphs()
    base = g.input(*shape, dtype=dtype)
    rest = tuple(n for k, n in enumerate(shape) if k not in axes)
    value = g.input(*where, *rest, dtype=dtype)
    indices = [g.input(*where, dtype="int64") for _ in axes]
    return g.graph(g.scatter(base, value, axes, *indices, op=op))


CASES = [((7,), (0,)), ((5, 3), (0,)), ((5, 3), (1,)), ((4, 5), (0, 1)), ((3, 4, 5), (1,)), ((3, 4, 5), (0, 2))]


@pytest.mark.parametrize("op", ["set", "subtract"])
@pytest.mark.parametrize(("shape", "axes"), CASES)
@pytest.mark.parametrize("where", [(), (9,), (2, 3), (0,)])
def test_every_shape(host: Host, shape: Shape, axes: Shape, where: Shape, op: str) -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(-9, 9, shape).astype("float64")
    rest = tuple(n for k, n in enumerate(shape) if k not in axes)
    value = rng.integers(-9, 9, where + rest).astype("float64")
    indices = [rng.integers(-shape[axis], shape[axis], where) for axis in axes]
    ran = Ran(scattered(base.dtype, shape, axes, where, op), host, base, value, *indices)
    np.testing.assert_array_equal(ran.outputs[0], expected(base, value, axes, indices, op))


@pytest.mark.parametrize(
    ("dtype", "op"),
    [*combinations(("?", "i1", "u2", "i8", "f2", "f4", "c16"), ("add", "multiply")), ("i4", "floor_divide"),
     ("f8", "power"), ("i8", "bitwise_xor"), ("u1", "left_shift"), ("?", "logical_or"), ("f4", "fmin")],
)  # fmt: skip
def test_every_dtype(host: Host, dtype: str, op: str) -> None:
    rng = np.random.default_rng(1)
    base = rng.integers(1, 4, 6).astype(dtype)
    value = rng.integers(0, 4, 20).astype(dtype)
    where = rng.integers(0, 6, 20)
    ran = Ran(scattered(np.dtype(dtype), (6,), (0,), (20,), op), host, base, value, where)
    want = base.copy()
    with np.errstate(all="ignore"):
        getattr(np, op).at(want, where, value)
    np.testing.assert_allclose(ran.outputs[0], want, rtol=1e-6)


def test_bfloat16_is_rounded_after_each_addition(host: Host) -> None:
    base, value = np.zeros(1, dtypes.BFLOAT16), np.full(300, 1, dtypes.BFLOAT16)
    ran = Ran(scattered(dtypes.BFLOAT16, (1,), (0,), (300,), "add"), host, base, value, np.zeros(300, np.int64))
    assert float(ran.outputs[0][0]) == 256


@pytest.mark.parametrize("bad", [5, -6])
def test_positions_outside_are_errors(host: Host, bad: int) -> None:
    graph = scattered(np.dtype("f8"), (5,), (0,), (3,), "set")
    with pytest.raises(OutOfBoundsError, match=f"index {bad} is out of bounds for axis with size 5"):
        Ran(graph, host, np.zeros(5), np.zeros(3), np.array([0, bad, 1]))


def test_values_that_read_the_array_are_read_before(host: Host) -> None:
    g = Graphs()
    base = g("add", g.input(6, dtype="float64"), 1.0)
    where = g.input(6, dtype="int64")
    moved = g.scatter(base, g.gather(base, (0,), where), (0,), g("subtract", 5, where))
    x, order = np.arange(6.0), np.array([3, 1, 4, 1, 5, 0])
    ran = Ran(g.graph(moved), host, x, order)
    want = x + 1
    want[5 - order] = (x + 1)[order]
    np.testing.assert_array_equal(ran.outputs[0], want)


def test_one_position_is_a_plain_store(host: Host) -> None:
    ran = Ran(scattered(np.dtype("f8"), (4, 6), (0,), (), "add"), host, np.ones((4, 6)), np.ones(6), np.array(-1))
    effects = [e for u in ran.schedule.units if isinstance(u, Kernel) for loop in u.loops for e in loop.effects]
    assert all(isinstance(e, Store) for e in effects)
    assert ran.outputs[0][-1].tolist() == [2] * 6


def test_axes_that_are_not_indexed_run_in_parallel() -> None:
    source = planned(scattered(np.dtype("f8"), (50, 4096), (0,), (500,), "add")).programs[-1]
    assert source.tasks
    serial = planned(scattered(np.dtype("f8"), (50,), (0,), (50_000,), "add")).programs[-1]
    assert not serial.tasks


def body_of_loop(g: Graphs) -> Node:
    """counts[data[i]] += 1"""
    b = Graphs()
    counts, data = b.input(5, dtype="int64"), b.input(8, dtype="int64")
    at = b.reshape(part(b, data, [I], [ONE]))
    body = b.graph(writes=[(0, b.scatter(counts, b.constant(1, "int64"), (0,), at, op="add"))])
    (result,) = g.loop(8, [g.input(5, dtype="int64")], body, g.input(8, dtype="int64"))
    return result


def test_in_a_loop_nothing_is_copied(host: Host) -> None:
    g = Graphs()
    result = body_of_loop(g)
    data = np.array([0, 3, 3, 1, 4, 3, -1, 0])
    ran = Ran(g.graph(writes=[(0, result)]), host, np.ones(5, np.int64), data)
    np.testing.assert_array_equal(ran.args[0], 1 + np.bincount(data % 5, minlength=5))
    (unit,) = ran.control.bodies[0].schedule.units
    assert unit.writes() == {"x0"}


@settings(max_examples=40)
@given(seed=st.integers(0, 2**16), op=st.sampled_from(("set", "add", "minimum")), updates=st.integers(0, 2))
def test_chains_of_writes(host: Host, seed: int, op: str, updates: int) -> None:
    rng = np.random.default_rng(seed)
    g = Graphs()
    node, want = g.input(6, 4, dtype="float64"), rng.integers(-5, 5, (6, 4)).astype("float64")
    args = [want.copy()]
    for _ in range(updates + 1):
        where, value = rng.integers(-6, 6, 7), rng.integers(-5, 5, (7, 4)).astype("float64")
        node = g.scatter(node, g.input(7, 4, dtype="float64"), (0,), g.input(7, dtype="int64"), op=op)
        args += [value, where]
        want = expected(want, value, (0,), [where], op)
        node = g.update(node, g("add", g.slice(node, slice(0, 2)), 1.0), slice(1, 3))
        want[1:3] = want[:2] + 1
    ran = Ran(g.graph(node, g.reduce("add", node, 0)), host, *args)
    np.testing.assert_array_equal(ran.outputs[0], want)
    np.testing.assert_array_equal(ran.outputs[1], want.sum(0))


def writes_to_arguments(g: Graphs, chain: int) -> tuple[Node, list[Node]]:
    """An argument of 1000 elements, written at 50 positions `chain` times."""
    node = g.input(1000, dtype="float64")
    places = [g.input(50, dtype="int64") for _ in range(chain)]
    for where in places:
        node = g.scatter(node, g("add", g.gather(node, (0,), where), 1.0), (0,), where)
    return node, places


def memory(schedule: Schedule) -> list[int | None]:
    return [product(b.shape).value for b in schedule.buffers if b.kind == "temp"]


@pytest.mark.parametrize("chain", [1, 3])
def test_arguments_are_written_where_they_lie(host: Host, chain: int) -> None:
    g = Graphs()
    node, _ = writes_to_arguments(g, chain)
    rng = np.random.default_rng(chain)
    args = [rng.random(1000), *(rng.integers(-1000, 1000, 50) for _ in range(chain))]
    want = args[0].copy()
    for where in args[1:]:
        want[where] += 1
    ran = Ran(g.graph(writes=[(0, node)]), host, *args)
    np.testing.assert_array_equal(ran.args[0], want)
    assert set(memory(ran.schedule)) == {50}


def test_all_positions_are_checked_before_the_first_write(host: Host) -> None:
    """Also those of another argument, and values that are read at positions of their own."""
    g = Graphs()
    a, b = g.input(1000, dtype="float64"), g.input(800, dtype="float64")
    i, j, k = (g.input(50, dtype="int64") for _ in range(3))
    first = g.scatter(a, g("multiply", g.gather(b, (0,), k), 2.0), (0,), i)
    second = g.scatter(b, g.gather(a, (0,), i), (0,), j)
    graph = g.graph(writes=[(0, first), (1, second)])
    schedule = fuse(lower(graph))
    failed = [can_fail(unit) for unit in schedule.units]
    wrote = [bool(unit.writes() & {"x0", "x1"}) for unit in schedule.units]
    assert failed.index(False) == wrote.index(True)
    assert max(size or 0 for size in memory(schedule)) < 800
    rng = np.random.default_rng(0)
    args = [rng.random(1000), rng.random(800), *(rng.integers(-800, 800, 50) for _ in range(3))]
    ran = Ran(graph, host, *args)
    want_a, want_b = args[0].copy(), args[1].copy()
    want_a[args[2]] = args[1][args[4]] * 2
    want_b[args[3]] = args[0][args[2]]
    np.testing.assert_array_equal(ran.args[0], want_a)
    np.testing.assert_array_equal(ran.args[1], want_b)


def test_positions_that_the_argument_itself_tells_are_written_to_a_copy(host: Host) -> None:
    """Which of them are in bounds is not known before the first write."""
    g = Graphs()
    a, i = g.input(9, dtype="int64"), g.input(3, dtype="int64")
    first = g.scatter(a, g("add", g("multiply", i, 0), 40), (0,), i)
    second = g.scatter(first, g("add", g("multiply", i, 0), 1), (0,), g.slice(first, slice(0, 3)))
    graph = g.graph(writes=[(0, second)])
    arguments = np.arange(9), np.array([5, 6, 7])
    ran = Ran(graph, host, *arguments)
    assert ran.args[0].tolist() == [1, 1, 1, 3, 4, 40, 40, 40, 8]
    failing = [k for k, unit in enumerate(fuse(lower(graph)).units) if can_fail(unit)]
    writing = [k for k, unit in enumerate(fuse(lower(graph)).units) if "x0" in unit.writes()]
    assert max(failing) < min(writing)
