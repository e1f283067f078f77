"""Requirements that hold for every value are found, and none that does not: against what the values are."""

import numpy as np
import pytest

from numstax.ir import ranges
from numstax.ir.graph import Builder, Graph, InputSpec, Literal, Output
from numstax.ir.index import as_index, symbol
from numstax.ir.ops import ELEMENTWISE
from numstax.ir.ranges import index_interval, without_certain
from numstax.ir.reference import evaluate_graph

I8, I64, B = np.dtype(np.int8), np.dtype(np.int64), np.dtype(bool)
CORNERS = [(0, 0), (-1, 1), (0, 7), (-8, -3), (5, 12), (-128, 127)]


@pytest.mark.parametrize("op", [op for op in ranges._EXACT if op != "bitwise_count"])
def test_the_interval_of_a_result_holds_all_results(op):
    count = ELEMENTWISE[op].arity
    for a in CORNERS:
        for b in CORNERS if count == 2 else [None]:
            found = ranges._EXACT[op](*(x for x in (a, b) if x is not None))
            values = [np.arange(x[0], x[1] + 1) for x in (a, b) if x is not None]
            grid = np.meshgrid(*values)
            with np.errstate(all="ignore"):
                results = ELEMENTWISE[op].reference(*grid)
            if found is not None and (op != "left_shift" or b[0] >= 0):
                assert found[0] <= results.min()
                assert results.max() <= found[1]


@pytest.mark.parametrize("op", ranges._CONDITIONS)
def test_a_condition_is_decided_only_when_all_values_agree(op):
    for a in CORNERS:
        for b in CORNERS:
            grid = np.meshgrid(np.arange(a[0], a[1] + 1), np.arange(b[0], b[1] + 1))
            answers = {int(x) for x in np.unique(ELEMENTWISE[op].reference(*grid))}
            assert answers <= set(ranges._CONDITIONS[op](a, b))


def number(b, value):
    return b.node("constant", (), (), I64, value=Literal.of(value, I64))


def loop(update, start, trips=None):
    """The graph of a loop of one state: ``update(builder, state)`` is the state after an iteration."""
    inner = Builder()
    state = inner.node("input", (), (), I64, position=0)
    body = Graph((InputSpec("array", I64, name="state0"),), (), ((0, update(inner, state)),))
    b = Builder()
    x = b.node("input", (), (), I64, position=0)
    head = x if trips is None else number(b, trips)
    node = b.node("for", (head, number(b, start)), (), B, var="k", body=body, states=1)
    return Graph((InputSpec("scalar", I64),), (Output(b.node("result", (node,), (), I64, k=0), scalar=True),))


def required(b, op, *args):
    value = b.node(op, args, (), I64)
    return b.node("require", (value, b.node(f"{op}_fits", args, (), B)), (), I64, requirement="range")


def plus(n):
    return lambda b, state: required(b, "add", state, number(b, n))


def masked(b, state):
    scaled = required(b, "multiply", state, number(b, 1103515245))
    return b.node("bitwise_and", (scaled, number(b, 0x7FFFFFFF)), (), I64)


def chosen(b, state):
    condition = b.node("greater", (state, number(b, 7)), (), B)
    return b.node("where", (condition, required(b, "subtract", state, number(b, 3)), state), (), I64)


def doubled(b, state):
    return required(b, "add", state, state)


def squared(b, state):
    return required(b, "multiply", state, state)


CERTAIN = [(plus(1), 0, None), (plus(-5), 100, None), (plus(1 << 40), 0, 1000), (masked, 1, None), (chosen, 9, None)]
DOUBTFUL = [(plus(1 << 40), 0, None), (plus(1 << 60), 0, 10), (doubled, 1, 70), (squared, 3, 9)]


def count(graph):
    return str(graph).count("require ")


@pytest.mark.parametrize("case", CERTAIN)
def test_states_that_stay_small_are_not_checked(case):
    graph = loop(*case)
    assert count(graph) == 1
    simple = without_certain(graph)
    assert count(simple) == 0
    given = [np.asarray(5)]
    assert evaluate_graph(simple, given, {})[0] == evaluate_graph(graph, given, {})[0]


@pytest.mark.parametrize("case", DOUBTFUL)
def test_states_that_may_grow_are_checked(case):
    assert count(without_certain(loop(*case))) == 1


def test_the_values_of_an_index():
    n = symbol("n", 0, 10)
    assert index_interval(n * n + 3) == (3, 103)
    assert index_interval(n % 4 + n // 2) == (0, 8)
    big = symbol("m", 0, 1 << 40)
    assert index_interval(big * big) is None
    assert index_interval(as_index(-7)) == (-7, -7)
