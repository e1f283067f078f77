"""Schedules over size symbols: one schedule, right for every size, with the kernels that known sizes give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from numstax.hardware import host
from numstax.ir.graph import Graph
from numstax.ir.index import ONE, ZERO, as_index, symbol
from numstax.ir.loops import Kernel, Schedule
from numstax.ir.reference import evaluate_graph
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.verify_loops import verify_schedule
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.schedule.split import split
from tests.schedule.graphs import Graphs

N = symbol("s0", hint=512)
M = symbol("s1", hint=600)
BIG = symbol("s2", hint=1 << 17)
SIZES = [(2, 2), (5, 3), (3, 7), (8, 64)]
Make = Callable[[Graphs], Graph]


def softmax(g: Graphs) -> Graph:
    x = g.input(N, M)
    e = g("exp", g("subtract", x, g.reduce("maximum", x, -1, keepdims=True)))
    return g.graph(g("divide", e, g.reduce("add", e, -1, keepdims=True)))


def transposed(g: Graphs) -> Graph:
    x, y = g.input(N, M), g.input(M, N)
    return g.graph(g("add", g.transpose(x), y))


def flattened(g: Graphs) -> Graph:
    x, y = g.input(N, M), g.input(N * M)
    return g.graph(g("multiply", g.reshape(g("tanh", x), N * M), y), g.reduce("add", g.reshape(y, N, M), 0))


def columns(g: Graphs) -> Graph:
    x = g.input(N, M)
    return g.graph(g("subtract", x, g.reduce("maximum", x, 0)), g.scan("add", x, 0))


def joined(g: Graphs) -> Graph:
    x, y = g.input(N, 4), g.input(M, 4)
    whole = g.empty(N + M, 4)
    for value, start in ((g("multiply", x, 2), 0), (y, N)):
        place = {"starts": (as_index(start), ZERO), "steps": (ONE, ONE)}
        whole = g.node("update", (whole, value), whole.shape, whole.dtype, **place)
    return g.graph(whole)


def product(g: Graphs) -> Graph:
    x, y = g.input(N, M), g.input(N, 4)
    return g.graph(g("maximum", g.matmul(g.transpose(x), y), 0))


def arguments(graph: Graph, sizes: dict[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    from_index = [[_number(n, sizes) for n in spec.shape] for spec in graph.inputs]
    return [rng.standard_normal(shape).astype(np.float32) for shape in from_index]


def _number(n: object, sizes: dict[str, int]) -> int:
    return int(eval(str(n), {}, dict(sizes)))


def compiled(graph: Graph) -> Schedule:
    cores = replace(host(), cores=2)
    schedule = split(fuse(lower(graph), cores), cores)
    verify_schedule(schedule)
    return schedule


@pytest.mark.parametrize("make", [softmax, transposed, flattened, columns, joined, product], ids=lambda f: f.__name__)
def test_right_for_every_size(make: Make) -> None:
    graph = make(Graphs())
    schedule = compiled(graph)
    for n, m in SIZES:
        symbols = {"s0": n, "s1": m}
        inputs = arguments(graph, symbols)
        expected, _ = evaluate_graph(graph, inputs, symbols)
        got, _ = evaluate_schedule(schedule, inputs, symbols)
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_softmax_is_one_kernel() -> None:
    (kernel,) = compiled(softmax(Graphs())).units
    assert isinstance(kernel, Kernel)
    assert len(kernel.loops) == 3


def test_symbolic_dimensions_merge() -> None:
    g = Graphs()
    (kernel,) = compiled(g.graph(g("multiply", g.input(N, M), g.input(N, M)))).units
    assert isinstance(kernel, Kernel)
    assert [v.extent for v in kernel.outer] == [N * M]


@pytest.mark.parametrize("size", [2, 63, 64, 65, 1000])
def test_parts_of_a_reduction_cover_any_size(size: int) -> None:
    g = Graphs()
    x = g.input(BIG)
    graph = g.graph(g.reduce("add", x), g.reduce("maximum", x))
    schedule = compiled(graph)
    assert len(schedule.units) == 2
    inputs = arguments(graph, {"s2": size})
    expected, _ = evaluate_graph(graph, inputs, {"s2": size})
    got, _ = evaluate_schedule(schedule, inputs, {"s2": size})
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)
