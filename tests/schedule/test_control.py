"""Loops and branches: every stage gives what NumPy gives, states change in place, buffers rotate, nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from numstax.cpu_emit.emit import emit
from numstax.errors import VerifyError
from numstax.ir.graph import Graph, Node
from numstax.ir.index import ONE, ZERO, Index, Symbol, as_index
from numstax.ir.loops import Control, Extern, Kernel, Refusal, Schedule
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.verify_loops import verify_schedule
from numstax.knobs import Knobs
from numstax.program import Allocate, ControlStep, Plan, all_steps
from numstax.runtime.host import Host
from numstax.runtime.launch import Launcher, launcher
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.schedule.plan import plan
from numstax.schedule.split import split
from numstax.tiles.cpu import tile
from tests.schedule.graphs import Graphs

I = as_index(Symbol("i", 0, 7))
HEAT = np.linspace(0, 1, 12) ** 2


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return Host(Knobs(cache_dir=tmp_path_factory.mktemp("cache"), threads=2))


class Ran:
    """What a graph becomes, and what it gave: outputs, arguments afterwards, the wrapper's text."""

    def __init__(self, graph: Graph, host: Host, *args: np.ndarray) -> None:
        self.schedule = tile(split(fuse(lower(graph))))
        verify_schedule(self.schedule)
        with patch("numstax.cpu_emit.emit.emit_loop", lambda control, *_: Refusal(control.kind, "tested on the host")):
            self.plan: Plan = plan(graph, self.schedule, emit(self.schedule))
        launch = launcher(self.plan, host)
        self.source, self.args = launch.source, [np.array(a) for a in args]
        self.outputs = launch.call(*self.args)
        self._compare_with_native(launcher(plan(graph, self.schedule, emit(self.schedule)), host), args)
        for schedule in (lower(graph), self.schedule):
            outputs, writes = evaluate_schedule(schedule, args, {})
            for ours, theirs in zip(self.outputs, outputs, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12)
            for position, value in writes:
                np.testing.assert_allclose(self.args[position], value, rtol=1e-12)

    def _compare_with_native(self, launch: Launcher, args: Sequence[np.ndarray]) -> None:
        """The loop as one program does what the host's loop did."""
        given = [np.array(a) for a in args]
        outputs = launch.call(*given)
        for ours, theirs in zip((*outputs, *given), (*self.outputs, *self.args), strict=True):
            np.testing.assert_array_equal(ours, theirs)

    @property
    def control(self) -> Control:
        (found,) = (unit for unit in self.schedule.units if isinstance(unit, Control))
        return found

    @property
    def step(self) -> ControlStep:
        (found,) = (step for step in self.plan.steps if isinstance(step, ControlStep))
        return found


def shapes(schedule: Schedule) -> list[str]:
    return [type(unit).__name__ for unit in schedule.units]


def part(g: Graphs, x: Node, starts: Sequence[Index], sizes: Sequence[Index]) -> Node:
    return g.node("slice", (x,), tuple(sizes), x.dtype, starts=tuple(starts), steps=(ONE,) * x.ndim)


def put(g: Graphs, base: Node, value: Node, starts: Sequence[Index]) -> Node:
    return g.node("update", (base, value), base.shape, base.dtype, starts=tuple(starts), steps=(ONE,) * base.ndim)


def laplacian(g: Graphs, u: Node) -> Node:
    around = g("add", g.slice(u, slice(2, None)), g.slice(u, slice(0, -2)))
    return g("multiply", g("subtract", around, g("multiply", g.slice(u, slice(1, -1)), 2.0)), 0.1)


def heat_body() -> Graph:
    g = Graphs()
    u = g.input(12, dtype="float64")
    return g.graph(writes=[(0, g.update(u, g("add", g.slice(u, slice(1, -1)), laplacian(g, u)), slice(1, -1)))])


def heat(u: np.ndarray, steps: int) -> np.ndarray:
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += 0.1 * (u[2:] + u[:-2] - 2 * u[1:-1])
    return u


@pytest.mark.parametrize("steps", [0, 1, 4, 5])
def test_a_stencil_rotates_two_buffers(host: Host, steps: int) -> None:
    g = Graphs()
    (result,) = g.loop(steps, [g.input(12, dtype="float64")], heat_body())
    ran = Ran(g.graph(result), host, HEAT)
    np.testing.assert_allclose(ran.outputs[0], heat(HEAT, steps))
    assert ran.control.rotate == ((0, 1), (1, 0))
    (kernel,) = ran.control.bodies[0].schedule.units
    assert isinstance(kernel, Kernel)
    assert kernel.reads().isdisjoint(kernel.writes())
    assert kernel.outer[0].extent is as_index(10)
    assert not any(isinstance(step, Allocate) for step in all_steps(ran.step.bodies[0]))


@pytest.mark.parametrize("steps", [0, 1, 4, 5])
def test_the_argument_holds_the_result_whichever_buffer_came_last(host: Host, steps: int) -> None:
    g = Graphs()
    (result,) = g.loop(steps, [g.input(12, dtype="float64")], heat_body())
    ran = Ran(g.graph(writes=[(0, result)]), host, HEAT)
    np.testing.assert_allclose(ran.args[0], heat(HEAT, steps))
    assert ran.control.args[0] == "x0"


@pytest.mark.parametrize("steps", [0, 3, 4])
def test_old_and_new_of_a_wave_change_places(host: Host, steps: int) -> None:
    b = Graphs()
    u, old = b.input(12, dtype="float64"), b.input(12, dtype="float64")
    new = b("subtract", b("multiply", u, 2.0), old)
    new = b.update(new, b("add", b.slice(new, slice(1, -1)), laplacian(b, u)), slice(1, -1))
    g = Graphs()
    x, y = g.input(12, dtype="float64"), g.input(12, dtype="float64")
    results = g.loop(steps, [x, y], b.graph(writes=[(0, new), (1, u)]))
    ran = Ran(g.graph(*results), host, HEAT, HEAT[::-1].copy())
    a, c = HEAT.copy(), HEAT[::-1].copy()
    for _ in range(steps):
        e = 2 * a - c
        e[1:-1] += 0.1 * (a[2:] + a[:-2] - 2 * a[1:-1])
        a, c = e, a
    np.testing.assert_allclose(ran.outputs[0], a)
    np.testing.assert_allclose(ran.outputs[1], c)
    assert dict(ran.control.rotate)[1] == 0
    assert not any("copy" in getattr(unit, "name", "") for unit in ran.control.bodies[0].schedule.units)


def test_exchange_moves_no_element(host: Host) -> None:
    b = Graphs()
    p, q = b.input(5), b.input(5)
    g = Graphs()
    results = g.loop(3, [g.input(5), g.input(5)], b.graph(writes=[(0, q), (1, p)]))
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    ran = Ran(g.graph(*results), host, x, y)
    np.testing.assert_array_equal(ran.outputs, [y, x])
    assert ran.control.bodies[0].schedule.units == ()


def test_scalars_are_carried_and_counted(host: Host) -> None:
    b = Graphs()
    p, q = b.input(dtype="int64"), b.input(dtype="int64")
    counter = b.node("size", (), (), "int64", index=I)
    body = b.graph(writes=[(0, q), (1, b("add", b("add", p, q), counter))])
    g = Graphs()
    results = g.loop(g.scalar("int64"), [g.constant(0, "int64"), g.constant(1, "int64")], body)
    ran = Ran(g.graph(*results), host, np.array(7))
    p, q = 0, 1
    for i in range(7):
        p, q = q, p + q + i
    assert [int(x) for x in ran.outputs] == [p, q]


def test_a_recurrence_is_written_in_place(host: Host) -> None:
    """x[i + 1] = x[i] + c[i]"""
    b = Graphs()
    x, c = b.input(9), b.input(8)
    value = b("add", part(b, x, [I], [ONE]), part(b, c, [I], [ONE]))
    body = b.graph(writes=[(0, put(b, x, value, [I + 1]))])
    g = Graphs()
    (result,) = g.loop(8, [g.input(9)], body, g.input(8))
    start, step = np.zeros(9, np.float32), np.arange(8, dtype=np.float32)
    ran = Ran(g.graph(writes=[(0, result)]), host, start, step)
    np.testing.assert_array_equal(ran.args[0], np.concatenate([[0], np.cumsum(step)]))
    assert len(ran.control.bodies[0].schedule.units) == 1
    assert not [s for s in all_steps(ran.plan.steps) if isinstance(s, Allocate)]


def test_rows_are_eliminated_in_place(host: Host) -> None:
    """LU: a[i+1:, i] /= a[i, i]; a[i+1:, i+1:] -= outer(a[i+1:, i], a[i, i+1:])"""
    n = as_index(8)
    rest = n - I - 1
    b = Graphs()
    a = b.input(8, 8, dtype="float64")
    pivot = b.broadcast(b.reshape(part(b, a, [I, I], [ONE, ONE])), (rest, ONE))
    first = put(b, a, b("divide", part(b, a, [I + 1, I], [rest, ONE]), pivot), [I + 1, I])
    column = b.broadcast(part(b, first, [I + 1, I], [rest, ONE]), (rest, rest))
    row = b.broadcast(part(b, first, [I, I + 1], [ONE, rest]), (rest, rest))
    inner = b("subtract", part(b, first, [I + 1, I + 1], [rest, rest]), b("multiply", column, row))
    body = b.graph(writes=[(0, put(b, first, inner, [I + 1, I + 1]))])
    g = Graphs()
    (result,) = g.loop(8, [g.input(8, 8, dtype="float64")], body)
    matrix = np.random.default_rng(1).random((8, 8)) + 8 * np.eye(8)
    ran = Ran(g.graph(writes=[(0, result)]), host, matrix)
    lower_, upper = np.tril(ran.args[0], -1) + np.eye(8), np.triu(ran.args[0])
    np.testing.assert_allclose(lower_ @ upper, matrix)
    assert not [s for s in all_steps(ran.plan.steps) if isinstance(s, Allocate)]


def newton(host: Host, test_captures: float) -> Ran:
    t = Graphs()
    x = t.input(dtype="float64")
    a = t.input(dtype="float64")
    test = t.graph(t("greater", t("absolute", t("subtract", t("multiply", x, x), a)), test_captures))
    b = Graphs()
    x, a = b.input(dtype="float64"), b.input(dtype="float64")
    body = b.graph(writes=[(0, b("multiply", b("add", x, b("divide", a, x)), 0.5))])
    g = Graphs()
    square = g.input(dtype="float64")
    (result,) = g.repeat(test, [g.constant(1.0, "float64")], body, square)
    return Ran(g.graph(result), host, np.array(7.0))


def test_while(host: Host) -> None:
    ran = newton(host, 1e-12)
    np.testing.assert_allclose(ran.outputs[0], np.sqrt(7.0))
    assert "while True:" in ran.source
    assert float(newton(host, 1e9).outputs[0]) == 1.0


@pytest.mark.parametrize("positive", [True, False])
def test_branches(host: Host, positive: bool) -> None:
    def body(op: str) -> Graph:
        b = Graphs()
        x, y = b.input(4), b.input(4)
        return b.graph(writes=[(0, b(op, x, y))])

    g = Graphs()
    x, y = g.input(4), g.input(4)
    total = g.reduce("add", x)
    (result,) = g.branch(g("greater", total, 0.0), [x], body("add"), body("multiply"), y)
    data = np.ones(4, np.float32) if positive else -np.ones(4, np.float32)
    other = np.full(4, 3, np.float32)
    ran = Ran(g.graph(result), host, data, other)
    np.testing.assert_array_equal(ran.outputs[0], data + other if positive else data * other)
    assert "else:" in ran.source


def test_library_functions_in_a_nested_loop_reuse_memory(host: Host) -> None:
    """Inner loops rotate, library calls run in every iteration, and only those allocate."""
    m = Graphs()
    u, a = m.input(12, dtype="float64"), m.input(12, 12, dtype="float64")
    inner = heat_body()
    (heated,) = m.loop(3, [u], inner, var="k")
    solved = m.extern("numpy.linalg.solve", [a, heated], [12], "float64")
    product = m.reshape(m.matmul(a, m.reshape(solved, 12, 1)), 12)
    body = m.graph(writes=[(0, m("add", product, solved))])
    g = Graphs()
    (result,) = g.loop(2, [g.input(12, dtype="float64")], body, g.input(12, 12, dtype="float64"))
    matrix = np.random.default_rng(2).random((12, 12)) + 12 * np.eye(12)
    ran = Ran(g.graph(writes=[(0, result)]), host, HEAT, matrix)
    want = HEAT
    for _ in range(2):
        w = np.linalg.solve(matrix, heat(want, 3))
        want = matrix @ w + w
    np.testing.assert_allclose(ran.args[0], want)
    body_steps = list(all_steps(ran.step.bodies[0]))
    assert not [s for s in body_steps if isinstance(s, Allocate)]
    assert any(isinstance(u, Extern) for u in ran.control.bodies[0].schedule.units)
    # what can fail must not leave a half written argument
    assert "x0" not in ran.control.writes()


def test_strided_arguments_are_captured_as_they_are(host: Host) -> None:
    b = Graphs()
    s, x = b.input(3, 4), b.input(3, 4)
    body = b.graph(writes=[(0, b("add", s, x))])
    g = Graphs()
    x = g.input(3, 4, strides=(1, 3))
    zeros = g.broadcast(g.constant(0.0), (3, 4))
    (result,) = g.loop(2, [zeros], body, x)
    data = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    schedule = lower(g.graph(result))
    (control,) = (u for u in schedule.units if isinstance(u, Control))
    assert control.args[1] == "x0"
    (out,), _ = evaluate_schedule(schedule, [data], {})
    np.testing.assert_array_equal(out, data * 2)


def test_a_state_that_is_still_needed_is_copied(host: Host) -> None:
    b = Graphs()
    s = b.input(4)
    body = b.graph(writes=[(0, b("multiply", s, 2.0))])
    g = Graphs()
    doubled = g("add", g.input(4), 1.0)
    (result,) = g.loop(2, [doubled], body)
    x = np.arange(4, dtype=np.float32)
    ran = Ran(g.graph(g("add", result, doubled), result), host, x)
    np.testing.assert_array_equal(ran.outputs, [(x + 1) * 5, (x + 1) * 4])


def test_sizes_that_depend_on_the_counter_are_allocated_in_the_loop(host: Host) -> None:
    """s = sort(x[i:])[0] + s"""
    b = Graphs()
    s, x = b.input(dtype="float64"), b.input(8, dtype="float64")
    rest = part(b, x, [I], [as_index(8) - I])
    lowest = b.reshape(part(b, b.extern("numpy.sort", [rest], [as_index(8) - I], "float64"), [ZERO], [ONE]))
    body = b.graph(writes=[(0, b("add", s, lowest))])
    g = Graphs()
    (result,) = g.loop(8, [g.constant(0.0, "float64")], body, g.input(8, dtype="float64"))
    x = np.random.default_rng(0).random(8)
    ran = Ran(g.graph(result), host, x)
    np.testing.assert_allclose(ran.outputs[0], sum(x[i:].min() for i in range(8)))


def test_verification_looks_into_bodies() -> None:
    g = Graphs()
    (result,) = g.loop(2, [g.input(12, dtype="float64")], heat_body())
    schedule = lower(g.graph(result))
    (control,) = (u for u in schedule.units if isinstance(u, Control))
    body = control.bodies[0]
    without = replace(body, schedule=replace(body.schedule, writes=()))
    for wrong, message in (
        (replace(control, bodies=(without,)), "in place"),
        (replace(control, rotate=((0, 1),)), "roles"),
        (replace(control, args=("x0", "nowhere")), "not a buffer"),
    ):
        units = tuple(wrong if u is control else u for u in schedule.units)
        with pytest.raises(VerifyError, match=message):
            verify_schedule(replace(schedule, units=units))
