"""Every inconsistency is found, named with its line, and right IR passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from numstax.errors import VerifyError
from numstax.ir.graph import Builder, Graph, Node, Output
from numstax.ir.index import Var, as_index
from numstax.ir.parse import parse_graph, parse_schedule
from numstax.ir.verify import verify_graph, verify_schedule

GRAPH = """\
graph
symbol n
input 0 array f32[n, 4] strides [4, 1] 'x'
input 1 array i64[3] strides [1] 'i'
%0 = input f32[n, 4] {position=0}    # model.py:3
%1 = input i64[3] {position=1}       # model.py:3
%2 = gather f32[3, 4] %0 %1 {axes=(0,)}    # model.py:4
%3 = constant f32[] {value=Literal.of(2.0, f32)}
%4 = broadcast_to f32[3, 4] %3
%5 = multiply f32[3, 4] %2 %4    # model.py:5
%6 = transpose f32[4, 3] %5 {axes=(1, 0)}
%7 = reshape f32[2, 6] %6
%8 = slice f32[2, 3] %7 {starts=[0, 5], steps=[1, -2]}
%9 = update f32[2, 6] %7 %8 {starts=[0, 0], steps=[1, 1]}
%10 = reduce_add f32[6] %9 {axes=(0,)}
%11 = scan_multiply f32[6] %10 {axis=0}
%12 = reduce_argmax i64[] %11 {axes=(0,)}
%13 = cast f64[6] %11
%14 = bitcast i64[6] %13
%15 = window i64[4, 3] %14 {axes=(0,)}
%16 = diagonal i64[3] %15 {axis1=0, axis2=1, offset=-1}
%17 = extern f64[] %16 {args=(Arg(0),), function='numpy.mean', kwargs=(), results=(((), f64),)}
%18 = result f64[] %17 {k=0}
%19 = iota i64[4, 3] {axis=1}
%20 = cast f32[4, 3] %19
%21 = matmul f32[4, 4] %20 %2 {group='', precision='highest', template=''}
%22 = size i64[] {index=Index(n)}
%23 = empty f32[n, 4]
write 0 = %23
return %12 scalar
return %18
return %21
return %22
return %0 alias input 0 views (('index', (slice(None, None, 2),)),)"""

WRONG_GRAPHS = [
    ("%0 = input f32[n, 4] {position=0}", "%0 = input f32[n, 4] {position=2}", "there is no argument 2"),
    ("input 0 array f32[n, 4]", "input 0 array f32[n, 5]", r"the shape must be \[n, 5\]"),
    ("%0 %1 {axes=(0,)}", "%0 %1 {axes=(0, 1)}", "one index array for each"),
    ("gather f32[3, 4]", "gather f32[4, 3]", r"the shape must be \[3, 4\]"),
    ("constant f32[]", "constant f32[1]", r"the shape must be \[\]"),
    ("broadcast_to f32[3, 4] %3", "broadcast_to f32[3] %2", "does not broadcast"),
    ("multiply f32[3, 4]", "multiply f64[3, 4]", "dtypes must be float32, float32 -> float32"),
    ("multiply f32[3, 4]", "bitwise_and f32[3, 4]", "not supported"),
    ("multiply f32[3, 4] %2 %4", "multiply f32[3, 4] %2 %3", "operands must have the shape"),
    ("multiply f32[3, 4] %2 %4", "multiply f32[3, 4] %2", "takes 2 arguments"),
    ("multiply f32[3, 4]", "times f32[3, 4]", "no node operation 'times'"),
    ("{axes=(1, 0)}", "{axes=(1, 1)}", "not a permutation"),
    ("{axes=(1, 0)}", "{perm=(1, 0)}", "attributes must be: axes"),
    ("reshape f32[2, 6]", "reshape f32[2, 7]", "keeps the number of elements"),
    ("starts=[0, 5]", "starts=[0, 3]", r"elements 3..-1 leave an axis of 6"),
    ("starts=[0, 5]", "starts=[5]", "one entry for each axis"),
    ("starts=[0, 0]", "starts=[1, 0]", r"elements 1..2 leave an axis of 2"),
    ("%9 {axes=(0,)}", "%9 {axes=(2,)}", "not different axes"),
    ("reduce_argmax i64[]", "reduce_argmax i32[]", "the dtype must be int64"),
    ("bitcast i64[6]", "bitcast i32[6]", "keeps the item size"),
    ("window i64[4, 3]", "window i64[5, 3]", r"the shape must be \[4, 3\]"),
    ("args=(Arg(0),)", "args=(Arg(1),)", "names arguments"),
    ("{k=0}", "{k=1}", "there is no result 1"),
    ("%18 = result f64[] %17 {k=0}", "%18 = negative f64[] %17", "without choosing a result"),
    ("iota i64[4, 3] {axis=1}", "iota i64[4, 3] {axis=2}", "not different axes"),
    ("matmul f32[4, 4] %20 %2", "matmul f32[4, 4] %2 %20", r"cannot be multiplied|shape must be"),
    ("size i64[]", "size i32[]", "dtype must be int64"),
    ("write 0 = %23", "write 1 = %23", "argument 1 is int64"),
    ("write 0 = %23", "write 0 = %23\nwrite 0 = %0", "written twice"),
    ("alias input 0", "alias output 4", "alias of output 4, which is not there"),
    ("return %21", "return %21 scalar", "a scalar of shape"),
]


def test_right_graph_passes() -> None:
    verify_graph(parse_graph(GRAPH))


@pytest.mark.parametrize(("old", "new", "complaint"), WRONG_GRAPHS)
def test_wrong_graph_is_refused(old: str, new: str, complaint: str) -> None:
    assert GRAPH.count(old) == 1
    with pytest.raises(VerifyError, match=complaint):
        verify_graph(parse_graph(GRAPH.replace(old, new)))


def test_the_line_is_shown() -> None:
    with pytest.raises(VerifyError) as caught:
        verify_graph(parse_graph(GRAPH.replace("multiply f32[3, 4]", "multiply f64[3, 4]")))
    assert "%5 = multiply f64[3, 4] %2 %4" in str(caught.value)
    assert caught.value.origin is not None
    assert str(caught.value.origin) == "model.py:5"


def test_equal_nodes_must_be_one() -> None:
    def one() -> Node:
        return Builder().node("iota", (), (as_index(3),), parse_graph(GRAPH).outputs[0].node.dtype, axis=0)

    with pytest.raises(VerifyError, match="equal nodes must be one object"):
        verify_graph(Graph((), (Output(one()), Output(one()))))


SCHEDULE = """\
schedule
symbol n
buffer x input f32[5, n] strides [n, 1]
buffer w input i64[3] strides [-1]
buffer t temp f32[5]
buffer out output f32[5, n]
buffer at output i64[5]
buffer g output f32[3]
buffer s output f64[3]
kernel rows (i < 5)
  buffer m local f32[]
  buffer e local f32[n]
  uses x, m, e, t, out, at
  loop (j < n)
    v0 = load f32 x[i*n + j]        # model.py:3
    reduce maximum f32 m[0] = v0
    reduce argmax f32 at[i] = v0 at j also t[i]
  loop (j < n)
    v0 = load f32 x[i*n + j]
    v1 = load f32 m[0]
    v2 = subtract f32 v0, v1        # model.py:4
    store e[j] = v2
    store out[i*n + j] = v2
  loop (j < n)
    v0 = load f32 e[j]
    v1 = exp f32 v0
    store out[i*n + j] = v1
kernel picks (k < 3)
  uses w, t, g
  loop ()
    v0 = load i64 w[-k]
    v1 = const i64 5
    v2 = less b1 v0, v1
    v3 = wrap i64 v0, v2 of 5 below 5
    v4 = load f32 t[v3] if v2
    v5 = index i64 k
    v6 = cast f32 v5
    v7 = bitcast f32 v6
    v8 = multiply f32 v4, v7
    store g[k] = v8 if v2
extern 'numpy.cumsum' {args=(BufferView('g', Index(2), [3], [-1]),), kwargs=(('dtype', f64),), results=('s',)}
outputs ('out', 'at', 's')
writes ()"""

WRONG_SCHEDULES = [
    ("buffer s output", "buffer g output", "two buffers have one name"),
    ("buffer t temp f32[5]", "buffer t temp f64[5]", "t holds float64"),
    ("buffer t temp", "buffer t tmp", "no kind of buffer 'tmp'"),
    (
        "loop (j < n)\n    v0 = load f32 e[j]",
        "loop (j < n, j < 2)\n    v0 = load f32 e[j]",
        "two variables have one name",
    ),
    ("v1 = load f32 m[0]\n", "v1 = load f32 t[0]\n", r"t\[0\] is read and t\[i\] written by different values of i"),
    ("store e[j] = v2\n", "store e[n] = v2\n", "leaves e|each value of j writes"),
    ("store e[j] = v2\n", "", "reads e, which is not written before"),
    ("v0 = load i64 w[-k]", "v0 = load i64 w[k]", "the offset leaves w"),
    ("v0 = load i64 w[-k]", "v0 = load i32 w[-k]", "w holds int64"),
    ("load f32 t[v3] if v2", "load f32 t[v3] if v3", "mask of a load is one bool"),
    ("v2 = subtract f32 v0, v1", "v2 = subtract f64 v0, v1", "dtypes are float32, float32, but must be"),
    ("v2 = subtract f32 v0, v1", "v2 = subtract f32 v0", "takes 2 operands"),
    ("v2 = subtract f32 v0, v1", "v2 = subtract f32 v0, v3", "operand is defined later"),
    ("v2 = subtract f32 v0, v1", "v2 = minus f32 v0, v1", "no instruction 'minus'"),
    ("v1 = exp f32 v0\n    store out[i*n + j] = v1", "v1 = exp f32 v0\n    store out[i*n + j] = v0", "not used"),
    ("store out[i*n + j] = v1", "store out[j] = v1", "each value of i writes the same element"),
    ("store out[i*n + j] = v1", "store out[i*n + j + 5*n] = v1", "the offset leaves out"),
    ("store g[k] = v8 if v2", "store g[k + 3] = v8", "the offset leaves g"),
    ("store g[k] = v8 if v2", "store g[k] = v8 if v4", "mask of a store is a bool"),
    ("store g[k] = v8 if v2", "store g[k] = v9 if v2", "operand is not in the body"),
    ("reduce maximum f32 m[0]", "reduce median f32 m[0]", "no reduction 'median'"),
    (" at j also t[i]", " also t[i]", "either a position or partial positions"),
    ("at[i] = v0 at j", "at[j] = v0 at j", "depends on an inner variable"),
    ("bitcast f32 v6", "bitcast f64 v6", "same item size"),
    ("index i64 k", "index i8 k", "an index is an int64"),
    ("wrap i64 v0, v2 of 5 below 5", "wrap i64 v2 of 5 below 5", "wrap takes an integer"),
    ("Index(2), [3], [-1]", "Index(1), [3], [-1]", "a view of g leaves it"),
    ("results=('s',)", "results=()", "either results or out"),
    ("outputs ('out', 'at', 's')", "outputs ('out', 'm', 's')", "the result m is never written"),
    ("uses w, t, g", "uses w, t, g, x", r"buffers \['x'\] are not used"),
]


def test_right_schedule_passes() -> None:
    verify_schedule(parse_schedule(SCHEDULE))


@pytest.mark.parametrize(("old", "new", "complaint"), WRONG_SCHEDULES)
def test_wrong_schedule_is_refused(old: str, new: str, complaint: str) -> None:
    assert SCHEDULE.count(old) == 1
    with pytest.raises(VerifyError, match=complaint):
        verify_schedule(parse_schedule(SCHEDULE.replace(old, new)))


def test_what_runs_for_no_element_leaves_nothing() -> None:
    text = """schedule
symbol n lo=1 hi=1
symbol m lo=2
buffer x input f32[n]
buffer out output f32[%s - 1]
kernel differences (i < %s - 1)
  uses x, out
  loop ()
    v0 = load f32 x[i + 1]
    store out[i] = v0
outputs ('out',)
writes ()"""
    verify_schedule(parse_schedule(text % ("n", "n")))
    with pytest.raises(VerifyError, match="the offset leaves x"):
        verify_schedule(parse_schedule(text % ("m", "m")))


def test_the_line_of_a_loop_is_shown() -> None:
    with pytest.raises(VerifyError) as caught:
        verify_schedule(parse_schedule(SCHEDULE.replace("subtract f32 v0", "subtract f64 v0")))
    message = str(caught.value)
    assert "v2 = subtract f64 v0, v1" in message
    assert "in kernel rows, loop 1" in message
    assert "model.py:4" in message


def test_a_kernel_cannot_read_what_comes_later() -> None:
    head, rest = SCHEDULE.split("kernel rows")
    rows, tail = rest.split("kernel picks")
    picks, end = tail.split("extern")
    swapped = f"{head}kernel picks{picks}kernel rows{rows}extern{end}"
    with pytest.raises(VerifyError, match="kernel picks, loop 0 reads t, which is not written before"):
        verify_schedule(parse_schedule(swapped))


def test_variables_of_other_loops_are_refused() -> None:
    schedule = parse_schedule(SCHEDULE)
    rows = replace(schedule.units[0], outer=(Var("i", as_index(4)),))
    with pytest.raises(VerifyError, match=r"i \(below 5\) is not a variable of this loop"):
        verify_schedule(replace(schedule, units=(rows, *schedule.units[1:])))
