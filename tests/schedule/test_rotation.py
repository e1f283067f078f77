"""Buffers that change places hold what the states hold, whatever bodies write and read in between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numstax.ir.graph import Graph, Node
from numstax.ir.loops import Control
from numstax.ir.reference import evaluate_graph
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.verify_loops import verify_schedule
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from tests.schedule.graphs import Graphs

ROWS, COLUMNS = 5, 6


def box(draw: st.DrawFn) -> tuple[slice, slice]:
    parts = []
    for n in (ROWS, COLUMNS):
        start = draw(st.integers(0, n - 1))
        parts.append(slice(start, draw(st.integers(start + 1, n))))
    return parts[0], parts[1]


def like(draw: st.DrawFn, part: tuple[slice, slice]) -> list[slice]:
    """A box of the same shape somewhere."""
    out = []
    for p, n in zip(part, (ROWS, COLUMNS), strict=True):
        length = p.stop - p.start
        start = draw(st.integers(0, n - length))
        out.append(slice(start, start + length))
    return out


@st.composite
def bodies(draw: st.DrawFn, states: int) -> Graph:
    """Chains of updates whose values read other parts of the states and of earlier updates."""
    g = Graphs()
    pool: list[Node] = [g.input(ROWS, COLUMNS, dtype="float64") for _ in range(states)]
    ends: list[Node] = []
    for k in range(states):
        node = draw(st.sampled_from(pool)) if draw(st.integers(0, 3)) == 0 else pool[k]
        for _ in range(draw(st.integers(0, 3))):
            part = box(draw)
            value = g.slice(draw(st.sampled_from(pool)), *like(draw, part))
            if draw(st.booleans()):
                value = g("add", value, g.slice(draw(st.sampled_from(pool)), *like(draw, part)))
            node = g.update(node, g("multiply", value, 0.5), *part)
            pool.append(node)
        ends.append(node)
    return g.graph(writes=[(k, node) for k, node in enumerate(ends) if draw(st.integers(0, 9))])


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_random_bodies(data: st.DataObject) -> None:
    states = data.draw(st.integers(1, 3))
    body = data.draw(bodies(states))
    g = Graphs()
    results = g.loop(
        data.draw(st.integers(0, 4)), [g.input(ROWS, COLUMNS, dtype="float64") for _ in range(states)], body
    )
    written = data.draw(st.booleans())
    graph = g.graph(*([] if written else results), writes=list(enumerate(results)) if written else [])
    args = [np.random.default_rng(k).random((ROWS, COLUMNS)) for k in range(states)]
    outputs, writes = evaluate_graph(graph, args, {})
    for schedule in (lower(graph), fuse(lower(graph))):
        verify_schedule(schedule)
        got, got_writes = evaluate_schedule(schedule, args, {})
        for a, b in zip(got, outputs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        for (_, a), (_, b) in zip(got_writes, writes, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("edges", [1, 2, 4])
def test_boundary_conditions_copy_edges_only(edges: int) -> None:
    """p[1:-1, 1:-1] = average(p); p[:, -1] = p[:, -2]; p[0] = p[1]; ..."""
    n = 40
    g = Graphs()
    p = g.input(n, n, dtype="float64")
    inner = (slice(1, -1), slice(1, -1))
    around = g("add", g.slice(p, slice(2, None), inner[1]), g.slice(p, inner[0], slice(0, -2)))
    node = g.update(p, g("multiply", around, 0.5), *inner)
    whole, first, last = slice(None), slice(0, 1), slice(-1, None)
    second, before_last = slice(1, 2), slice(-2, -1)
    lines = [((whole, last), (whole, before_last)), ((first,), (second,)), ((whole, first), (whole, second)),
             ((last,), (before_last,))]  # fmt: skip
    for to, of in lines[:edges]:
        node = g.update(node, g.slice(node, *of), *to)
    body = g.graph(writes=[(0, node)])
    outer = Graphs()
    (result,) = outer.loop(3, [outer.input(n, n, dtype="float64")], body)
    graph = outer.graph(result)
    schedule = fuse(lower(graph))
    (control,) = (u for u in schedule.units if isinstance(u, Control))
    assert control.rotate == ((0, 1), (1, 0))
    moved = 0
    for unit in control.bodies[0].schedule.units:
        (loop,) = unit.loops  # type: ignore[union-attr]
        sizes = [v.extent.value for v in (*unit.outer, *loop.inner)]  # type: ignore[union-attr]
        moved += int(np.prod(sizes))  # type: ignore[arg-type]
        assert not any(i.op == "where" for i in loop.body)
    assert moved <= (n - 2) ** 2 + 2 * edges * n
    x = np.random.default_rng(0).random((n, n))
    np.testing.assert_allclose(evaluate_schedule(schedule, [x], {})[0][0], evaluate_graph(graph, [x], {})[0][0])
