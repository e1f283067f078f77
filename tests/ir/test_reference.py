"""The evaluators are the oracle for everything else, so they are compared with hand-written NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from numstax.errors import OutOfBoundsError, VerifyError
from numstax.ir.graph import Arg, Builder, Graph, InputSpec, Literal, Node, Output
from numstax.ir.index import ONE, ZERO, Index, Ref, Var, as_index, contiguous_strides, symbol
from numstax.ir.loops import (
    Buffer,
    BufferView,
    Extern,
    Instr,
    Kernel,
    Loop,
    Reduce,
    Scan,
    Schedule,
    Store,
)
from numstax.ir.reference import evaluate_graph
from numstax.ir.reference_loops import evaluate_schedule

F32, F64, I64, B1 = (np.dtype(t) for t in ("f4", "f8", "i8", "?"))
RNG = np.random.default_rng(0)


def shape(*sizes: int | Index) -> tuple[Index, ...]:
    return tuple(as_index(n) for n in sizes)


def buffer(name: str, dtype: np.dtype, kind: str, *sizes: int | Index) -> Buffer:
    dims = shape(*sizes)
    return Buffer(name, dtype, dims, contiguous_strides(dims), kind)


def argument(b: Builder, x: np.ndarray, position: int = 0) -> Node:
    return b.node("input", (), shape(*x.shape), x.dtype, position=position)


def spec(x: np.ndarray) -> InputSpec:
    return InputSpec("array", x.dtype, shape(*x.shape), shape(*(s // x.itemsize for s in x.strides)))


def run(node: Node, *inputs: np.ndarray) -> np.ndarray:
    graph = Graph(tuple(map(spec, inputs)), (Output(node),))
    (out,), writes = evaluate_graph(graph, inputs, {})
    assert writes == []
    assert not any(np.shares_memory(out, x) for x in inputs)
    return out


X = RNG.standard_normal((4, 6)).astype(F32)


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("transpose", {"axes": (1, 0)}, X.T),
        ("reshape", {}, X.reshape(3, 8)),
        ("slice", {"starts": shape(3, 5), "steps": (-1, -2)}, X[::-1, ::-2]),
        ("slice", {"starts": (1, 0), "steps": (1, 1)}, X[1:1, 0:3]),
        ("diagonal", {"axis1": 0, "axis2": 1, "offset": 1}, np.diagonal(X, 1)),
        ("window", {"axes": (1,)}, np.lib.stride_tricks.sliding_window_view(X, 3, axis=1)),
        ("broadcast_to", {}, np.broadcast_to(X, (2, 4, 6))),
        ("bitcast", {}, X.view(np.uint32)),
        ("cast", {}, X.astype(bfloat16)),
        ("reduce_add", {"axes": (0, 1)}, X.sum()),
        ("reduce_argmax", {"axes": (1,)}, X.argmax(1)),
        ("reduce_maximum", {"axes": (0,)}, X.max(0)),
        ("scan_add", {"axis": 1}, X.cumsum(1)),
        ("exp", {}, np.exp(X)),
    ],
)
def test_one_argument_node_is_numpy(op: str, attrs: dict, expected: np.ndarray) -> None:
    b = Builder()
    expected = np.asarray(expected)
    got = run(b.node(op, (argument(b, X),), shape(*expected.shape), expected.dtype, **attrs), X)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_gather_puts_index_shape_first_and_checks_bounds() -> None:
    b = Builder()
    rows, cols = np.array([[0, -1], [2, 1]]), np.array([[5, 0], [-6, 3]])
    x, i, j = argument(b, X), argument(b, rows, 1), argument(b, cols, 2)
    both = b.node("gather", (x, i, j), shape(2, 2), F32, axes=(0, 1))
    np.testing.assert_array_equal(run(both, X, rows, cols), X[rows, cols])
    second = b.node("gather", (x, i), shape(2, 2, 4), F32, axes=(1,))
    np.testing.assert_array_equal(run(second, X, rows), np.moveaxis(X[:, rows], 0, -1))
    with pytest.raises(OutOfBoundsError):
        run(second, X, rows + 5)


def test_update_leaves_its_base_alone() -> None:
    b = Builder()
    x = argument(b, X)
    zero = b.node("constant", (), (), F32, value=Literal.of(0, F32))
    zeros = b.node("broadcast_to", (zero,), shape(2, 3), F32)
    new = b.node("update", (x, zeros), x.shape, F32, starts=shape(2, 0), steps=(-2, 2))
    graph = Graph((spec(X),), (Output(x), Output(new)), writes=((0, new),))
    (old, out), [(position, written)] = evaluate_graph(graph, [X], {})
    expected = X.copy()
    expected[2::-2, ::2] = 0
    np.testing.assert_array_equal(old, X)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(written, expected)
    assert position == 0


def test_aliases_are_views_and_scalars_are_scalars() -> None:
    b = Builder()
    x = argument(b, X)
    total = b.node("reduce_add", (x,), (), F32, axes=(0, 1))
    graph = Graph(
        (spec(X),),
        (
            Output(x, alias=("input", 0), views=(("index", (slice(1, None), None)), ("transpose", (2, 1, 0)))),
            Output(total, scalar=True),
            Output(x, alias=("output", 0), views=(("reshape", (6, as_index(3))), ("dtype", "int32"))),
        ),
    )
    (view, scalar, second), _ = evaluate_graph(graph, [X], {})
    assert np.shares_memory(view, X)
    np.testing.assert_array_equal(view, X[1:, None].transpose(2, 1, 0))
    assert type(scalar) is np.float32
    assert second.shape == (6, 3)
    assert second.dtype == np.int32


def test_sizes_are_symbols() -> None:
    b, n = Builder(), symbol("n")
    x = b.node("input", (), (n, n + 1), F64, position=0)
    pos = b.node("cast", (b.node("iota", (), x.shape, I64, axis=1),), x.shape, F64)
    scale = b.node("cast", (b.node("size", (), (), I64, index=n * 2),), (), F64)
    scaled = b.node("multiply", (pos, b.node("broadcast_to", (scale,), x.shape, F64)), x.shape, F64)
    graph = Graph((InputSpec("array", F64, x.shape),), (Output(b.node("add", (x, scaled), x.shape, F64)),))
    value = RNG.standard_normal((3, 4))
    (out,), _ = evaluate_graph(graph, [value], {"n": 3})
    np.testing.assert_array_equal(out, value + np.arange(4.0) * 6)


def test_extern_with_two_results() -> None:
    b = Builder()
    x = np.array([3, 1, 3, 2])
    results = ((shape(3), I64), (shape(3), I64))
    node = b.node(
        "extern",
        (argument(b, x),),
        (),
        I64,
        function="numpy.unique",
        args=(Arg(0),),
        kwargs=(("return_counts", True),),
        results=results,
    )
    counts = b.node("result", (node,), shape(3), I64, k=1)
    np.testing.assert_array_equal(run(counts, x), [1, 1, 2])
    with pytest.raises(VerifyError, match="extern promises"):
        run(counts, np.array([1, 1, 1, 1]))


def test_a_wrong_promise_is_found() -> None:
    b = Builder()
    with pytest.raises(VerifyError, match=r"exp promises float64\(4, 6\), but is float32\(4, 6\)"):
        run(b.node("exp", (argument(b, X),), shape(4, 6), F64), X)
    with pytest.raises(VerifyError, match="no node operation 'frobnicate'"):
        run(b.node("frobnicate", (argument(b, X),), shape(4, 6), F32), X)


# --- schedules ------------------------------------------------------------------------------------


def softmax() -> Schedule:
    """Three loops over each row, as in the docstring of `loops`."""
    i, j = Var("i", as_index(5)), Var("j", as_index(7))
    at = as_index(i) * 7 + j
    load_x, load_m = Instr("load", (), F32, ("x", at)), Instr("load", (), F32, ("m", ZERO))
    first = Loop((j,), (load_x,), (Reduce("maximum", 0, "m", ZERO, F32),))
    second = Loop(
        (j,),
        (load_x, load_m, Instr("subtract", (0, 1), F32), Instr("exp", (2,), F32)),
        (Store("e", as_index(j), 3), Reduce("add", 3, "s", ZERO, F32)),
    )
    third = Loop(
        (j,),
        (Instr("load", (), F32, ("e", as_index(j))), Instr("load", (), F32, ("s", ZERO)), Instr("divide", (0, 1), F32)),
        (Store("out", at, 2),),
    )
    x, out = buffer("x", F32, "input", 5, 7), buffer("out", F32, "output", 5, 7)
    local = (buffer("m", F32, "local"), buffer("e", F32, "local", 7), buffer("s", F32, "local"))
    kernel = Kernel("softmax", (i,), (first, second, third), (x, out, *local))
    return Schedule((kernel,), (x, out), ("out",), ())


def pointwise(
    body: tuple[Instr, ...], effects: tuple, extents: dict[str, int], *buffers: Buffer, inner: int = 0
) -> Schedule:
    """One kernel with one loop; the last `inner` variables are inner."""
    variables = [Var(name, as_index(n)) for name, n in extents.items()]
    cut = len(variables) - inner
    kernel = Kernel("k", tuple(variables[:cut]), (Loop(tuple(variables[cut:]), body, effects),), buffers)
    outputs = tuple(b.name for b in buffers if b.kind == "output")
    return Schedule((kernel,), buffers, outputs, ())


def test_softmax_schedule() -> None:
    x = RNG.standard_normal((5, 7)).astype(F32)
    (out,), _ = evaluate_schedule(softmax(), [x], {})
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_inputs_keep_their_strides() -> None:
    base = RNG.standard_normal((6, 8))
    x = base[::-2, 1::3]
    i, j = Var("i", as_index(3)), Var("j", as_index(3))
    at = as_index(i) * -16 + as_index(j) * 3
    xb = Buffer("x", F64, shape(3, 3), shape(-16, 3), "input")
    out = buffer("out", F64, "output", 3, 3)
    s = pointwise(
        (Instr("load", (), F64, ("x", at)),), (Store("out", as_index(j) * 3 + i, 0),), {"i": 3, "j": 3}, xb, out
    )
    (got,), _ = evaluate_schedule(s, [x], {})
    np.testing.assert_array_equal(got, x.T)


def test_masked_load_touches_nothing_and_masked_store_leaves_memory() -> None:
    i = as_index(Var("i", as_index(6)))
    x, out = buffer("x", F64, "input", 4), buffer("out", F64, "output", 6)
    body = (
        Instr("index", (), I64, i),
        Instr("const", (), I64, 4),
        Instr("less", (0, 1), B1),
        Instr("load", (2,), F64, ("x", i)),
    )
    data = np.arange(1.0, 5)
    (got,), _ = evaluate_schedule(pointwise(body, (Store("out", i, 3),), {"i": 6}, x, out), [data], {})
    np.testing.assert_array_equal(got, [1, 2, 3, 4, 0, 0])
    (got,), _ = evaluate_schedule(pointwise(body, (Store("out", i, 3, 2),), {"i": 6}, x, out), [data], {})
    np.testing.assert_array_equal(got, [1, 2, 3, 4, np.nan, np.nan])
    unmasked = (Instr("load", (), F64, ("x", i)),)
    with pytest.raises(VerifyError, match="leave x"):
        evaluate_schedule(pointwise(unmasked, (Store("out", i, 0),), {"i": 6}, x, out), [data], {})


def test_gather_wraps_and_reports() -> None:
    i = as_index(Var("i", as_index(3)))
    x, n = buffer("x", F64, "input", 5), as_index(5)
    where, out = buffer("w", I64, "input", 3), buffer("out", F64, "output", 3)
    body = (
        Instr("load", (), I64, ("w", i)),
        Instr("wrap", (0,), I64, n),
        Instr("load", (), F64, ("x", as_index(Ref(1, n)))),
    )
    s = pointwise(body, (Store("out", i, 2),), {"i": 3}, x, where, out)
    data = np.arange(5.0)
    (got,), _ = evaluate_schedule(s, [data, np.array([-5, 4, -1])], {})
    np.testing.assert_array_equal(got, [0, 4, 4])
    with pytest.raises(OutOfBoundsError, match="index 5 is out of bounds for axis with size 5"):
        evaluate_schedule(s, [data, np.array([0, 5, 0])], {})


@pytest.mark.parametrize("values", [[1.0, 3, 3, 2], [1, np.nan, 5, np.nan], [-np.inf] * 4])
def test_argmax_takes_the_first_and_nan(values: list[float]) -> None:
    j = as_index(Var("j", as_index(4)))
    x, at, best = buffer("x", F64, "input", 4), buffer("at", I64, "output"), buffer("best", F64, "output")
    effect = Reduce("argmax", 0, "at", ZERO, F64, position=j, value_buffer="best", value_offset=ZERO)
    s = pointwise((Instr("load", (), F64, ("x", j)),), (effect,), {"j": 4}, x, at, best, inner=1)
    (position, value), _ = evaluate_schedule(s, [np.array(values)], {})
    assert position == np.argmax(values)
    np.testing.assert_array_equal(value, np.max(values))


def test_online_softmax_combines_partial_results() -> None:
    j = as_index(Var("j", as_index(8)))
    x, m, d = buffer("x", F64, "input", 8), buffer("m", F64, "output"), buffer("d", F64, "output")
    effect = Reduce("online_softmax", 0, "m", ZERO, F64, value_buffer="d", value_offset=ZERO)
    body = (Instr("load", (), F64, ("x", j)),)
    data = RNG.standard_normal(8)
    (top, total), _ = evaluate_schedule(pointwise(body, (effect,), {"j": 8}, x, m, d, inner=1), [data], {})
    assert top == data.max()
    np.testing.assert_allclose(total, np.exp(data - data.max()).sum())

    halves = data.reshape(2, 4)
    tops = halves.max(1)
    sums = np.exp(halves - tops[:, None]).sum(1)
    t, s = buffer("t", F64, "input", 2), buffer("s", F64, "input", 2)
    k = as_index(Var("k", as_index(2)))
    body = (Instr("load", (), F64, ("t", k)), Instr("load", (), F64, ("s", k)))
    effect = Reduce("online_softmax", 0, "m", ZERO, F64, position_in=1, value_buffer="d", value_offset=ZERO)
    again, _ = evaluate_schedule(pointwise(body, (effect,), {"k": 2}, t, s, m, d, inner=1), [tops, sums], {})
    np.testing.assert_allclose(again, [top, total])


def test_scan_runs_along_the_last_inner_variable() -> None:
    x, out = buffer("x", F64, "input", 3, 4), buffer("out", F64, "output", 3, 4)
    at = as_index(Var("i", as_index(3))) * 4 + Var("j", as_index(4))
    s = pointwise(
        (Instr("load", (), F64, ("x", at)),), (Scan("add", 0, "out", at, F64),), {"i": 3, "j": 4}, x, out, inner=1
    )
    data = RNG.standard_normal((3, 4))
    (got,), _ = evaluate_schedule(s, [data], {})
    np.testing.assert_array_equal(got, data.cumsum(1))


def test_two_writes_to_one_element_are_found() -> None:
    i = as_index(Var("i", as_index(4)))
    x, out = buffer("x", F64, "input", 4), buffer("out", F64, "output", 4)
    s = pointwise((Instr("load", (), F64, ("x", i)),), (Store("out", i // 2, 0),), {"i": 4}, x, out)
    with pytest.raises(VerifyError, match="written at several points"):
        evaluate_schedule(s, [np.ones(4)], {})


def test_empty_reduction_gives_the_identity() -> None:
    j = as_index(Var("j", ZERO))
    x, total = buffer("x", F64, "input", 0), buffer("s", F64, "output")
    s = pointwise((Instr("load", (), F64, ("x", j)),), (Reduce("add", 0, "s", ZERO, F64),), {}, x, total)
    loop = Loop((Var("j", ZERO),), s.units[0].loops[0].body, s.units[0].loops[0].effects)
    kernel = Kernel("k", (), (loop,), (x, total))
    (got,), _ = evaluate_schedule(Schedule((kernel,), (x, total), ("s",), ()), [np.empty(0)], {})
    assert got == 0


def test_extern_reads_views_and_writes_out() -> None:
    x = RNG.standard_normal((4, 4))
    xb, out, top = buffer("x", F64, "input", 4, 4), buffer("out", F64, "output", 4, 4), buffer("top", F64, "output", 4)
    view = BufferView("x", as_index(3), shape(4, 2), shape(4, -1))
    product = Extern(
        "numpy.matmul",
        (view, BufferView("x", ZERO, shape(2, 4), shape(4, 1))),
        out=BufferView("out", ZERO, shape(4, 4), shape(4, 1)),
    )
    biggest = Extern(np.max, (BufferView("out", ZERO, shape(4, 4), shape(4, ONE)),), (("axis", 0),), results=("top",))
    (got, tops), _ = evaluate_schedule(Schedule((product, biggest), (xb, out, top), ("out", "top"), ()), [x], {})
    np.testing.assert_allclose(got, x[:, :1:-1] @ x[:2])
    np.testing.assert_array_equal(tops, got.max(0))


def test_argument_updated_in_place() -> None:
    i = as_index(Var("i", as_index(3)))
    x = Buffer("x", F64, shape(4), shape(2), "input")
    kernel = Kernel(
        "k",
        (Var("i", as_index(3)),),
        (Loop((), (Instr("load", (), F64, ("x", i * 2)), Instr("negative", (0,), F64)), (Store("x", i * 2, 1),)),),
        (x,),
    )
    data = np.arange(1.0, 9)[::2]
    outputs, [(position, after)] = evaluate_schedule(Schedule((kernel,), (x,), (None,), ((0, "x"),)), [data], {})
    assert outputs == [None]
    assert position == 0
    np.testing.assert_array_equal(after, [-1, -3, -5, 7])
    np.testing.assert_array_equal(data, [1, 3, 5, 7])
