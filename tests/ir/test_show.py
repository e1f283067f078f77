"""Printed IR is readable and evaluates back."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from numstax.errors import Origin, VerifyError
from numstax.ir.graph import Arg, Builder, Graph, InputSpec, Literal, Output
from numstax.ir.index import as_index, symbol
from numstax.ir.loops import Extern, Schedule
from numstax.ir.parse import parse_graph, parse_kernel, parse_schedule
from numstax.ir.reference import evaluate_graph
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.show import show, show_graph, show_kernel, show_node, show_schedule, text

GRAPH = """\
graph
symbol n multiple_of=4 hint=8
input 0 array f32[n, 3] strides [3, 1] 'x'
input 1 scalar f32[] "it's"
%0 = input f32[n, 3] {position=0}  # model.py:3 in f
%1 = input f32[] {position=1}      # model.py:3 in f
%2 = broadcast_to f32[n, 3] %1     # a # b.py:4
%3 = multiply f32[n, 3] %0 %2      # a # b.py:4
%4 = slice f32[n - 1, 3] %3 {starts=[1, 2], steps=(1, -1)}
%5 = reduce_add f32[3] %4 {axes=(0,)}
assert eq n, 8 : 'sizes: differ, always'
write 0 = %3
return %5
return %1 scalar
return %0 alias input 0 views (('index', (slice(None, None, -1), 0, ..., None)), ('reshape', [n, 1]))"""

SOFTMAX = """\
schedule
symbol n lo=1
buffer x input f32[5, n] strides [n, 1]
buffer out output f32[5, n]
kernel softmax (i < 5)        # model.py:3 in softmax; model.py:5 in softmax
  buffer m local f32[]
  buffer e local f32[n]
  buffer s local f32[]
  uses x, out, m, e, s
  tiling form='row', vector=Var('j', Index(n)), block=0, tile=None, unroll=4
  loop (j < n)
    v0 = load f32 x[i*n + j]  # model.py:3 in softmax
    reduce maximum f32 m[0] = v0
  loop (j < n)
    v0 = load f32 x[i*n + j]  # model.py:3 in softmax
    v1 = load f32 m[0]        # model.py:3 in softmax
    v2 = subtract f32 v0, v1  # model.py:4 in softmax
    v3 = exp f32 v2           # model.py:4 in softmax
    store e[j] = v3
    reduce add f32 s[0] = v3
  loop (j < n)
    v0 = load f32 e[j]
    v1 = load f32 s[0]
    v2 = divide f32 v0, v1    # model.py:5 in softmax
    store out[i*n + j] = v2
outputs ('out',)
writes ()
refusal 'fuse %3 into %4' : 'three bytes: too many'"""

OTHERS = """\
schedule
buffer x input f64[5] strides [-1]
buffer w input i64[3] strides [1]
buffer b scalar b1[]
buffer g temp f64[3]
buffer at output i64[]
buffer best output f64[]
buffer top output f64[3]
buffer rev output f64[3]
kernel gather (k < 3)
  uses x, w, b, g
  loop ()
    v0 = load b1 b[0]
    v1 = load i64 w[k] if v0
    v2 = wrap i64 v1, v0 of 5 below 5  # g.py:1
    v3 = load f64 x[-v2]
    v4 = index i64 2*k + (k // 2) + (k % 2)
    v5 = cast f64 v4
    v6 = const f64 -inf
    v7 = maximum f64 v5, v6
    v8 = multiply f64 v3, v7
    store g[k] = v8 if v0
kernel best ()
  uses g, at, best, top
  loop (k < 3)
    v0 = load f64 g[k]
    reduce argmin f64 at[0] = v0 at k also best[0]
    scan maximum f64 top[k] = v0
extern function('numpy', 'flip') {args=(BufferView('g', Index(2), [3], [-1]),), kwargs=(('axis', 0),), results=('rev',)}
outputs ('at', 'best', 'top', 'rev', None)
writes ((0, 'x'),)"""


def test_graph_round_trip() -> None:
    assert show_graph(parse_graph(GRAPH)) == GRAPH


def test_parsed_graph_computes() -> None:
    graph = parse_graph(GRAPH)
    x = np.arange(24, dtype="f4").reshape(8, 3)
    (total, _, _), [(_, written)] = evaluate_graph(graph, [x, np.float32(2)], {"n": 8})
    np.testing.assert_array_equal(written, x * 2)
    np.testing.assert_array_equal(total, (x * 2)[1:, ::-1].sum(0))
    assert graph.outputs[0].node.origin is None
    assert next(graph.nodes()).origin == Origin("model.py", 3, "f")


def test_schedule_round_trip_is_equal() -> None:
    for printed in (SOFTMAX, OTHERS):
        schedule = parse_schedule(printed)
        assert show_schedule(schedule) == printed
        assert parse_schedule(show_schedule(schedule)) == schedule


def test_kernel_round_trip_is_equal() -> None:
    for unit in (*parse_schedule(SOFTMAX).units, *parse_schedule(OTHERS).units):
        if not isinstance(unit, Extern):
            assert parse_kernel(show_kernel(unit)) == unit


def test_parsed_schedules_compute() -> None:
    x = np.random.default_rng(1).standard_normal((5, 7)).astype("f4")
    (out,), _ = evaluate_schedule(parse_schedule(SOFTMAX), [x], {"n": 7})
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-6)

    base, where = np.arange(1.0, 6), np.array([-1, 0, 3])
    results, [(_, after)] = evaluate_schedule(parse_schedule(OTHERS), [base[::-1], where, True], {})
    g = base[::-1][where] * np.array([0, 3, 5])
    expected = (g.argmin(), g.min(), np.maximum.accumulate(g), g)
    for got, want in zip(results[:4], expected, strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(after, base[::-1])


@pytest.mark.parametrize("value", [0.1, -0.0, np.inf, np.nan, -np.nan, 3e-42])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", bfloat16, "c8"])
def test_constants_keep_their_bits(value: float, dtype: object) -> None:
    literal = Literal.of(value, np.dtype(dtype))
    b = Builder()
    node = b.node("constant", (), (), literal.dtype, value=literal)
    back = parse_graph(show_graph(Graph((), (Output(node),))))
    assert back.outputs[0].node.attr("value") == literal


def test_attributes_keep_their_type() -> None:
    b, n = Builder(), symbol("n")
    values = (as_index(1), 1, (n, n), (n, 1), (), True, "a, b", None, np.dtype("i4"), Arg(2))
    node = b.node("extern", (), (), np.dtype("f4"), args=values, function=np.sort)
    back = parse_graph(show_graph(Graph((InputSpec("array", np.dtype("f4"), (n,)),), (Output(node),))))
    args = back.outputs[0].node.attr("args")
    assert args == values
    assert [type(a) for a in args] == [type(a) for a in values]
    assert back.outputs[0].node.attr("function") is np.sort


def test_one_node_prints_as_in_the_graph() -> None:
    graph = parse_graph(GRAPH)
    node = graph.outputs[0].node
    assert show_node(graph, node) == "%5 = reduce_add f32[3] %4 {axes=(0,)}"


def test_unreadable_line_is_named() -> None:
    with pytest.raises(VerifyError, match="cannot read the line 'retrun %0'"):
        parse_graph("graph\nretrun %0")


def test_show_takes_any_of_them() -> None:
    schedule = parse_schedule(OTHERS)
    assert show(schedule) == OTHERS
    assert show(parse_graph(GRAPH)) == GRAPH
    assert show(schedule.units[0]) == show_kernel(schedule.units[0])
    assert show(schedule.units[2]) in OTHERS


def test_order_of_buffers_is_kept() -> None:
    schedule = parse_schedule(OTHERS)
    assert [b.name for b in schedule.units[0].buffers] == ["x", "w", "b", "g"]
    assert isinstance(schedule, Schedule)
    assert text(schedule.buffers[0].strides) == "[-1]"


def test_shared_nodes_print_once() -> None:
    builder = Builder()
    node = builder.node("input", (), (), np.dtype("float32"), position=0)
    for _ in range(100):
        node = builder.node("add", (node, node), (), node.dtype)
    graph = Graph((InputSpec("scalar", node.dtype, name="x"),), (Output(node),))
    assert str(graph) == show_graph(graph)
    assert len(str(graph).splitlines()) == 104
    assert len(repr(graph)) < 1000
