"""simplify keeps every bit of every result, and removes what it promises to."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

from numstax import dtypes
from numstax.ir.graph import Builder, Graph, InputSpec, Literal, Node, Output
from numstax.ir.index import as_index, symbol
from numstax.ir.parse import parse_graph
from numstax.ir.reference import evaluate_graph
from numstax.ir.rewrite import lossless, simplify
from numstax.ir.show import show_graph
from numstax.ir.values import cast
from numstax.ir.verify import verify_graph

F32, F64 = np.dtype("f4"), np.dtype("f8")


def simplified(*lines: str) -> list[str]:
    """The node lines after simplification of ``%0 = input f32[4, 6]`` and these lines."""
    head = "graph\nsymbol n\ninput 0 array f32[4, 6] strides [6, 1] 'x'\n%0 = input f32[4, 6] {position=0}\n"
    graph = parse_graph(head + "\n".join(lines))
    verify_graph(graph)
    new = simplify(graph)
    verify_graph(new)
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("f4")
    for a, b in zip(evaluate_graph(graph, [x], {"n": 6})[0], evaluate_graph(new, [x], {"n": 6})[0], strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    return [line for line in show_graph(new).splitlines() if line.startswith(("%", "return"))][1:]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["%1 = transpose f32[6, 4] %0 {axes=(1, 0)}", "%2 = transpose f32[4, 6] %1 {axes=(1, 0)}"], ["return %0"]),
        (
            ["%1 = reshape f32[24] %0", "%2 = reshape f32[2, 12] %1"],
            ["%1 = reshape f32[2, 12] %0", "return %1"],
        ),
        (["%1 = reshape f32[24] %0", "%2 = reshape f32[4, 6] %1"], ["return %0"]),
        (
            [
                "%1 = slice f32[2, 6] %0 {starts=[3, 0], steps=[-2, 1]}",
                "%2 = slice f32[2, 3] %1 {starts=[1, 5], steps=[-1, -2]}",
            ],
            ["%1 = slice f32[2, 3] %0 {starts=[1, 5], steps=[2, -2]}", "return %1"],
        ),
        (["%1 = slice f32[4, 6] %0 {starts=[0, 0], steps=[1, 1]}", "%2 = cast f32[4, 6] %1"], ["return %0"]),
        (
            ["%1 = broadcast_to f32[2, 4, 6] %0", "%2 = broadcast_to f32[3, 2, 4, 6] %1"],
            ["%1 = broadcast_to f32[3, 2, 4, 6] %0", "return %1"],
        ),
        (["%1 = cast f64[4, 6] %0", "%2 = cast f32[4, 6] %1"], ["return %0"]),
        (["%1 = cast f64[4, 6] %0", "%2 = cast f16[4, 6] %1"], ["%1 = cast f16[4, 6] %0", "return %1"]),
        (
            ["%1 = cast f16[4, 6] %0", "%2 = cast f32[4, 6] %1"],
            ["%1 = cast f16[4, 6] %0", "%2 = cast f32[4, 6] %1", "return %2"],
        ),
        (
            ["%1 = cast f64[4, 6] %0", "%2 = cast i8[4, 6] %1"],
            ["%1 = cast f64[4, 6] %0", "%2 = cast i8[4, 6] %1", "return %2"],
        ),
        (
            [
                "%1 = constant b1[] {value=Literal.of(True, b1)}",
                "%2 = broadcast_to b1[4, 6] %1",
                "%3 = negative f32[4, 6] %0",
                "%4 = where f32[4, 6] %2 %0 %3",
            ],
            ["return %0"],
        ),
        (
            [
                "%1 = constant f32[] {value=Literal.of(2.0, f32)}",
                "%2 = broadcast_to f32[4, 6] %1",
                "%3 = sqrt f32[4, 6] %2",
                "%4 = multiply f32[4, 6] %3 %3",
                "%5 = transpose f32[6, 4] %4 {axes=(1, 0)}",
                "%6 = cast f64[6, 4] %5",
            ],
            [],
        ),
    ],
)
def test_what_is_removed(lines: list[str], expected: list[str]) -> None:
    got = simplified(*lines, f"return %{len(lines)}")
    if expected:
        assert got == expected
    else:
        value = float(np.sqrt(np.float32(2)) * np.sqrt(np.float32(2)))
        constant = f"%0 = constant f64[] {{value=Literal.of({value}, f64)}}"
        assert [constant, *got] == [constant, "%1 = broadcast_to f64[6, 4] %0", "return %1"]


@pytest.mark.parametrize("op", ["multiply", "add", "subtract", "divide"])
def test_floating_point_identities_stay(op: str) -> None:
    value = {"multiply": 0.0, "divide": 1.0}.get(op, 0.0)
    lines = simplified(
        f"%1 = constant f32[] {{value=Literal.of({value}, f32)}}",
        "%2 = broadcast_to f32[4, 6] %1",
        f"%3 = {op} f32[4, 6] %0 %2",
        f"%4 = {op} f32[4, 6] %3 %3",
        "return %4",
    )
    assert sum(op in line for line in lines) == 2


def test_symbolic_shapes() -> None:
    lines = simplified(
        "%1 = reshape f32[n, 4] %0",
        "%2 = slice f32[n - 1, 4] %1 {starts=[1, 0], steps=[1, 1]}",
        "%3 = slice f32[n - 2, 4] %2 {starts=[1, 0], steps=[1, 1]}",
        "return %3",
    )
    assert lines[1] == "%2 = slice f32[n - 2, 4] %1 {starts=[2, 0], steps=[1, 1]}"


def test_writes_and_aliases_keep_their_meaning() -> None:
    lines = simplified(
        "%1 = transpose f32[6, 4] %0 {axes=(1, 0)}",
        "%2 = transpose f32[4, 6] %1 {axes=(1, 0)}",
        "return %0 alias input 0 views (('transpose', (1, 0)),)",
        "return %2",
    )
    assert lines == ["return %0 alias input 0 views (('transpose', (1, 0)),)", "return %0"]


def test_lossless_casts_are_lossless() -> None:
    samples = {"b": [0, 1], "i": [-1, 0, 1], "u": [0, 1], "f": [0.0, -0.0, 1.5, np.inf], "c": [1.5 - 2j]}
    for source in dtypes.SUPPORTED:
        values = np.array(samples[dtypes.kind(source)]).astype(source)
        if dtypes.kind(source) in "iu":
            info = np.iinfo(source)
            values = np.array([info.min, info.max, info.max - 1], source)
        for target in dtypes.SUPPORTED:
            if lossless(source, target):
                assert cast(cast(values, target), source).tobytes() == values.tobytes(), (source, target)
    assert not lossless(np.dtype("i8"), F64)
    assert lossless(np.dtype(bfloat16), F32)
    assert lossless(F32, F64)


CASTS = [
    np.dtype(t) for t in ("?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", bfloat16, float8_e4m3fn, float8_e5m2)
]


@settings(max_examples=150)
@given(st.sampled_from(CASTS), st.lists(st.sampled_from(CASTS), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_chains_of_casts_keep_every_bit(first: np.dtype, chain: list[np.dtype], seed: int) -> None:
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        x = cast(rng.standard_normal(50) * rng.choice([4, 1e5, 1e10]), first)
    b = Builder()
    node = b.node("input", (), (as_index(50),), first, position=0)
    for dtype in chain:
        node = b.node("cast", (node,), node.shape, dtype)
    graph = Graph((InputSpec("array", first, node.shape, (as_index(1),)),), (Output(node),))
    new = simplify(graph)
    assert sum(1 for _ in new.nodes()) <= sum(1 for _ in graph.nodes())
    assert evaluate_graph(new, [x], {})[0][0].tobytes() == evaluate_graph(graph, [x], {})[0][0].tobytes()


def test_a_long_region_takes_a_few_milliseconds() -> None:
    b, n = Builder(), symbol("n")
    x: Node = b.node("input", (), (n, as_index(64)), F32, position=0)
    for k in range(150):
        two = b.node("constant", (), (), F32, value=Literal.of(float(k), F32))
        x = b.node("add", (x, b.node("broadcast_to", (two,), x.shape, F32)), x.shape, F32)
        x = b.node("transpose", (x,), x.shape[::-1], F32, axes=(1, 0))
    graph = Graph((InputSpec("array", F32, (n, as_index(64))),), (Output(x),))
    start = time.perf_counter()
    simplify(graph)
    assert time.perf_counter() - start < 0.1


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize(("op", "instead"), [("remainder", "bitwise_and"), ("floor_divide", "right_shift")])
def test_division_by_a_power_of_two_needs_no_division(op: str, instead: str, dtype: str) -> None:
    of = np.dtype(dtype)
    limits = np.iinfo(of)
    x = np.array([limits.min, limits.min + 1, 0, 1, 5, limits.max - 1, limits.max, *range(20)], of)
    x = np.concatenate([x, (0 - x).astype(of)])
    powers = [1 << k for k in range(8 * of.itemsize) if 1 << k <= limits.max]
    others = [3, 7, limits.max] + ([-2, -4, limits.min] if limits.min < 0 else [])
    for number in [*powers, *others]:
        builder = Builder()
        shape = (as_index(len(x)),)
        source = builder.node("input", (), shape, of, position=0)
        divisor = builder.node("constant", (), (), of, value=Literal.of(np.asarray(number, of), of))
        spread = builder.node("broadcast_to", (divisor,), shape, of)
        node = builder.node(op, (source, spread), shape, of)
        graph = Graph((InputSpec("array", "x", of, shape, (as_index(1),)),), (Output(node),))
        new = simplify(graph)
        assert (new.outputs[0].node.op == instead) == (number in powers)
        np.testing.assert_array_equal(evaluate_graph(new, [x], {})[0][0], getattr(np, op)(x, np.asarray(number, of)))
