"""Control flow in Graphs: what it means, how it is printed, what is wrong with it, and what simplification keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from numstax.errors import OutOfBoundsError, VerifyError
from numstax.ir.graph import Graph, Node, control_args, control_bodies
from numstax.ir.index import ONE, Index, Symbol, as_index, substitute, symbol
from numstax.ir.parse import parse_graph
from numstax.ir.reference import evaluate_graph
from numstax.ir.rewrite import simplify
from numstax.ir.show import show_graph
from numstax.ir.verify import verify_graph
from numstax.trace.resolve import map_sizes
from tests.schedule.graphs import Graphs

I = as_index(Symbol("i", 0, 7))
X = np.linspace(0, 1, 8) ** 2


def run(graph: Graph, *args: np.ndarray) -> list[np.ndarray]:
    verify_graph(graph)
    return evaluate_graph(graph, args, {})[0]


def at(g: Graphs, x: Node, k: Index) -> Node:
    """x[k]"""
    return g.reshape(g.node("slice", (x,), (ONE,), x.dtype, starts=(k,), steps=(ONE,)))


def put(g: Graphs, x: Node, k: Index, value: Node) -> Node:
    return g.node("update", (x, g.reshape(value, 1)), x.shape, x.dtype, starts=(k,), steps=(ONE,))


def running_sum() -> Graph:
    """``for i in range(8): total += x[i]; out[i] = total``, and a state that nobody asks for."""
    b = Graphs()
    total, out, count, x, _ = (
        b.input(dtype="float64"), b.input(8, dtype="float64"), b.input(dtype="int64"),
        b.input(8, dtype="float64"), b.input(3),
    )  # fmt: skip
    new = b("add", total, at(b, x, I))
    more = b("add", count, 1)
    body = b.graph(writes=[(0, new), (1, put(b, out, I, new)), (2, more)])
    g = Graphs()
    x, other = g.input(8, dtype="float64"), g.input(3)
    start = [g.constant(0.0, "float64"), g.empty(8, dtype="float64"), g.constant(0, "int64")]
    results = g.loop(8, start, body, x, other)
    return g.graph(*results[:2])


def collatz() -> Graph:
    """``while n != 1: n = n // 2 if n % 2 == 0 else 3*n + 1; steps += 1``"""
    t = Graphs()
    n = t.input(dtype="int64")
    t.input(dtype="int64")
    test = t.graph(t("not_equal", n, 1))
    halve, grow = Graphs(), Graphs()
    m = halve.input(dtype="int64")
    then = halve.graph(writes=[(0, halve("floor_divide", m, 2))])
    m = grow.input(dtype="int64")
    orelse = grow.graph(writes=[(0, grow("add", grow("multiply", m, 3), 1))])
    b = Graphs()
    n, steps = b.input(dtype="int64"), b.input(dtype="int64")
    even = b("equal", b("remainder", n, 2), 0)
    (new,) = b.branch(even, [n], then, orelse)
    body = b.graph(writes=[(0, new), (1, b("add", steps, 1))])
    g = Graphs()
    return g.graph(*g.repeat(test, [g.input(dtype="int64"), g.constant(0, "int64")], body))


def test_a_loop_carries_its_states() -> None:
    total, sums = run(running_sum(), X, np.zeros(3, "f4"))
    np.testing.assert_allclose(sums, np.cumsum(X))
    assert total == sums[-1]


@pytest.mark.parametrize(("start", "steps"), [(1, 0), (6, 8), (27, 111)])
def test_a_while_runs_as_long_as_its_test_holds(start: int, steps: int) -> None:
    assert [int(x) for x in run(collatz(), np.array(start))] == [1, steps]


@pytest.mark.parametrize("trips", [-3, 0])
def test_a_loop_without_trips_leaves_its_states(trips: int) -> None:
    b = Graphs()
    x = b.input(4)
    body = b.graph(writes=[(0, b("add", x, 1.0))])
    g = Graphs()
    count, y = g.input(dtype="int64"), g.input(4)
    graph = g.graph(*g.loop(count, [y], body))
    np.testing.assert_array_equal(run(graph, np.array(trips), np.arange(4, dtype="f4"))[0], np.arange(4))


@pytest.mark.parametrize("op", ["set", "add", "maximum"])
def test_scatter_is_numpys_at(op: str) -> None:
    g = Graphs()
    base, value, rows = g.input(4, 3), g.input(5, 3), g.input(5, dtype="int64")
    graph = g.graph(g.scatter(base, value, (0,), rows, op=op))
    start = np.arange(12, dtype="f4").reshape(4, 3)
    new, where = np.linspace(-5, 9, 15, dtype="f4").reshape(5, 3), np.array([1, -1, 1, 3, 0])
    want = start.copy()
    if op == "set":
        want[where] = new
    else:
        getattr(np, op).at(want, where, new)
    np.testing.assert_array_equal(run(graph, start, new, where)[0], want)
    with pytest.raises(OutOfBoundsError, match="index 4 is out of bounds"):
        run(graph, start, new, where + 1)


def test_scatter_on_axes_out_of_order() -> None:
    g = Graphs()
    base, value = g.input(4, 2, 3), g.input(5, 2)
    rows, columns = g.input(5, dtype="int64"), g.input(5, dtype="int64")
    graph = g.graph(g.scatter(base, value, (2, 0), rows, columns))
    start, new = np.zeros((4, 2, 3), "f4"), np.arange(10, dtype="f4").reshape(5, 2)
    i, j = np.array([0, 1, 2, 0, 1]), np.array([3, 2, 1, 0, 0])
    want = start.copy()
    want[j, :, i] = new
    np.testing.assert_array_equal(run(graph, start, new, i, j)[0], want)


@pytest.mark.parametrize("make", [running_sum, collatz])
def test_text_evaluates_back(make: Callable[[], Graph]) -> None:
    text = show_graph(make())
    again = parse_graph(text)
    verify_graph(again)
    assert show_graph(again) == text


def test_the_counter_is_shown_where_it_lives() -> None:
    text = show_graph(running_sum())
    assert "\n  symbol i lo=0 hi=7\n" in text
    assert "\nsymbol i" not in text


WRONG = [
    (running_sum, "for b1[] %0", "for b1[] %1", r"number of trips must be int64\[\]"),
    (running_sum, "states=3", "states=7", "there are no 7 states"),
    (running_sum, "result f64[8] %6 {k=1}", "result f64[8] %6 {k=0}", r"the shape must be \[\]"),
    (running_sum, "result f64[8] %6 {k=1}", "result f64[8] %6 {k=3}", "there is no result 3"),
    (running_sum, "return %8", "return %6", "output 1 is for, not one of its results"),
    (running_sum, "%4 %5 {", "%4 {", "a body takes 5 arguments and is given 4"),
    (running_sum, "write 2 = %10", "write 3 = %1", "a body writes what is not a state"),
    (running_sum, "write 1 = %7", "write 1 = %4", r"argument 1 is float64\[8\], what is written to it"),
    (running_sum, "input 3 array f64[8] strides [1]", "input 3 array f64[8] strides [2]", "C-contiguous"),
    (collatz, "not_equal b1[]", "bitwise_or i64[]", r"the output of the test must be bool\[\]"),
    (collatz, "cond b1[] %4", "cond b1[] %0", r"the predicate must be bool\[\]"),
]


@pytest.mark.parametrize(("make", "right", "wrong", "complaint"), WRONG)
def test_what_is_wrong_is_named(make: Callable[[], Graph], right: str, wrong: str, complaint: str) -> None:
    text = show_graph(make())
    assert text.count(right) == 1, text
    with pytest.raises(VerifyError, match=complaint):
        verify_graph(parse_graph(text.replace(right, wrong)))


def test_a_state_whose_shape_depends_on_the_counter() -> None:
    b = Graphs()
    b.input(I + 1)
    g = Graphs()
    graph = g.graph(*g.loop(8, [g.empty(I + 1)], b.graph()))
    with pytest.raises(VerifyError, match="the shape of a state depends on i"):
        verify_graph(graph)


def test_a_test_that_writes() -> None:
    t = Graphs()
    n = t.input(dtype="int64")
    test = t.graph(t("less", n, 5), writes=[(0, t("add", n, 1))])
    b = Graphs()
    n = b.input(dtype="int64")
    g = Graphs()
    graph = g.graph(*g.repeat(test, [g.input(dtype="int64")], b.graph(writes=[(0, b("add", n, 1))])))
    with pytest.raises(VerifyError, match="the test writes a state"):
        verify_graph(graph)


# --- simplification ---------------------------------------------------------------------------------


def controls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes() if node.op in ("for", "while", "cond")]


def check_simplified(graph: Graph, *args: np.ndarray) -> Graph:
    simple = simplify(graph)
    verify_graph(simple)
    ours, theirs = (evaluate_graph(g, args, {}) for g in (simple, graph))
    for a, b in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(a, b)
    return simple


def test_a_state_that_nobody_needs_is_dropped() -> None:
    simple = check_simplified(running_sum(), X, np.zeros(3, "f4"))
    (loop,) = controls(simple)
    _, states, captured = control_args(loop)
    assert [s.dtype.name for s in states] == ["float64", "float64"]
    assert [node.attr("position") for node in captured] == [0]


def test_a_state_that_another_needs_stays() -> None:
    graph = collatz()
    simple = check_simplified(replace(graph, outputs=graph.outputs[1:]), np.array(27))
    (loop,) = controls(simple)
    assert loop.attr("states") == 2


def test_what_no_body_writes_is_captured() -> None:
    b = Graphs()
    x, y = b.input(4), b.input(4)
    body = b.graph(writes=[(0, b("add", x, y)), (1, b.reshape(y, 4))])
    g = Graphs()
    graph = g.graph(*g.loop(3, [g.input(4), g.input(4)], body))
    args = np.ones(4, "f4"), np.arange(4, dtype="f4")
    simple = check_simplified(graph, *args)
    (loop,) = controls(simple)
    assert loop.attr("states") == 1
    assert simple.outputs[1].node.op == "input"


def test_constants_reach_into_bodies() -> None:
    b = Graphs()
    x, factor = b.input(4), b.input(4)
    body = b.graph(writes=[(0, b("add", x, b("multiply", factor, 2.0)))])
    g = Graphs()
    graph = g.graph(*g.loop(3, [g.input(4)], body, g.broadcast(g.constant(1.5), (4,))))
    simple = check_simplified(graph, np.arange(4, dtype="f4"))
    (loop,) = controls(simple)
    assert len(loop.args) == 2
    assert "Literal.of(3.0, f32)" in show_graph(simple)
    assert "multiply" not in show_graph(simple)


def test_a_loop_that_never_runs_is_gone() -> None:
    b = Graphs()
    x = b.input(4)
    g = Graphs()
    graph = g.graph(*g.loop(0, [g.input(4)], b.graph(writes=[(0, b("add", x, 1.0))])))
    assert not controls(check_simplified(graph, np.arange(4, dtype="f4")))


def test_one_argument_captured_twice_is_handed_over_once() -> None:
    b = Graphs()
    x, y, z = b.input(4), b.input(4), b.input(4)
    body = b.graph(writes=[(0, b("add", b("multiply", x, y), z))])
    g = Graphs()
    state, other = g.input(4), g.input(4)
    simple = check_simplified(
        g.graph(*g.loop(3, [state], body, other, other)), np.ones(4, "f4"), np.arange(4, dtype="f4")
    )
    (loop,) = controls(simple)
    assert len(loop.args) == 3


def test_sizes_found_out_later_reach_into_bodies() -> None:
    n = symbol("n")
    b = Graphs()
    x = b.input(n)
    body = b.graph(writes=[(0, b("add", x, 1.0))])
    g = Graphs()
    graph = g.graph(*g.loop(3, [g.input(n)], body))
    (atom,) = (mono[0] for mono, _ in n.terms)
    found = map_sizes(graph, lambda size: substitute(size, {atom: as_index(4)}))
    (loop,) = controls(found)
    assert control_bodies(loop)[0].inputs[0].shape == (as_index(4),)
    np.testing.assert_array_equal(run(found, np.zeros(4, "f4"))[0], np.full(4, 3))
