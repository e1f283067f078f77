"""Everything from a Graph over size symbols to running code: right at every size, however far from the hint."""

from __future__ import annotations

import numpy as np
import pytest

from numstax.ir.index import Index, as_index, symbol
from numstax.ir.ops import REDUCTIONS
from tests.dynamic.symbolic import Symbolic, check, sizes

S, T = symbol("s0", hint=64), symbol("s1", hint=48)
FAR = (2, 3, 7, 64, 97, 1031)


def test_pointwise_with_broadcasting() -> None:
    g = Symbolic()
    x, row, column = g.input(S, T, dtype="float64"), g.input(T, dtype="float64"), g.input(S, 1, dtype="float64")
    check(g.graph(g("add", g("multiply", x, row), column), g("maximum", x, g.scalar("float64"))), sizes("s0", "s1"))


def test_outer_sum_of_two_lines() -> None:
    g = Symbolic()
    x, y = g.input(S, 1, dtype="float64"), g.input(1, T, dtype="float64")
    check(g.graph(g("subtract", x, y)), sizes("s0", "s1", values=FAR))


@pytest.mark.parametrize("layout", ["transposed", "gaps", "reversed"])
def test_strides(layout: str) -> None:
    g = Symbolic()
    strides = {"transposed": (1, S), "gaps": (3 * T, 3), "reversed": (-T, -1)}[layout]
    x, y = g.input(S, T, dtype="float64", strides=strides), g.input(S, T, dtype="float64")
    check(g.graph(g("add", g("tanh", x), y), g.reduce("add", x, 1), g.reduce("add", x, 0)), sizes("s0", "s1"))


def test_stride_symbol() -> None:
    g = Symbolic()
    pitch = symbol("p", hint=80)
    x = g.input(S, 40, dtype="float64", strides=(pitch, 1))
    check(g.graph(g("square", x)), [{"s0": n, "p": p} for n in (2, 5, 71) for p in (40, 41, 200)])


def test_transposed_operand() -> None:
    g = Symbolic()
    x, y = g.input(S, T, dtype="float64"), g.input(T, S, dtype="float64")
    check(g.graph(g("add", g.transpose(x), y)), sizes("s0", "s1", values=FAR))


@pytest.mark.parametrize(
    "axis", [(1, 1, S - 1), (0, 1, S - 1), (S - 1, -1, S), (S // 2, 1, S - S // 2), (S - 2, 1, 2), (0, 2, (S + 1) // 2)]
)
def test_slices_with_computed_bounds(axis: tuple[Index | int, Index | int, Index | int]) -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    part = g.cut(x, axis, (0, 1, T))
    check(g.graph(g("tanh", part), g.reduce("add", part, 0), g.reduce("add", part, 1)), sizes("s0", "s1"))


def test_differences_of_neighbours() -> None:
    g = Symbolic()
    x = g.input(S, dtype="float64")
    check(g.graph(g("subtract", g.cut(x, (1, 1, S - 1)), g.cut(x, (0, 1, S - 1)))), sizes("s0", values=(*FAR, 20011)))


def test_reshapes() -> None:
    g = Symbolic()
    x, line = g.input(S, 128, dtype="float64"), g.input(S * 128, dtype="float64")
    flat = g("add", g.reshape(x, S * 128), line)
    rows = g("multiply", x, g.reshape(line, S, 128))
    other = g("tanh", g.reshape(x, 128, S))
    check(g.graph(flat, rows, other, g.reduce("add", g.reshape(line, S, 128), 1)), sizes("s0"))


def test_reshape_of_two_symbols() -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    y = g.reshape(x, T, S)
    check(
        g.graph(g("add", y, g.transpose(x)), g.reduce("add", y, 0), g.scan("add", g.reshape(x, S * T), 0)),
        sizes("s0", "s1"),
    )


def test_halves() -> None:
    g = Symbolic()
    even = symbol("e", multiple_of=2, hint=64)
    x = g.input(even, T, dtype="float64")
    y = g.reshape(x, 2, even // 2, T)
    check(
        g.graph(g.reduce("maximum", y, 1), g("exp", y)), [{"e": n, "s1": m} for n in (2, 6, 64, 1022) for m in (3, 50)]
    )


@pytest.mark.parametrize("op", [*REDUCTIONS, "argmax", "argmin"])
def test_reductions(op: str) -> None:
    g = Symbolic()
    logical = "bitwise" in op or "logical" in op
    x = g.input(S, T, dtype="bool" if "logical" in op else "int32" if logical else "float64")
    flat = g.reshape(x, S * T)
    outputs = [g.reduce(op, x, 0), g.reduce(op, x, 1), g.reduce(op, flat, 0)]
    if op == "multiply":
        outputs = [
            g.reduce(op, g("add", 1, g("divide", g("sign", y), 4096)), a) for y, a in ((x, 0), (x, 1), (flat, 0))
        ]
    check(g.graph(*outputs), sizes("s0", "s1", values=FAR), 1e-9)


@pytest.mark.parametrize("op", ["add", "argmax", "maximum"])
@pytest.mark.parametrize("hint", [2, 64, 1 << 22])
def test_full_reduction_split_at_any_hint(op: str, hint: int) -> None:
    g = Symbolic()
    n = symbol("n", hint=hint)
    x = g.input(n, dtype="float64")
    check(g.graph(g.reduce(op, x, 0)), [{"n": k} for k in (2, 3, 63, 64, 65, 1024, 65537, 1 << 20)])


def test_argmax_of_equal_values() -> None:
    """Parts without elements lose against parts whose elements are all the smallest value there is."""
    g = Symbolic()
    n = symbol("n", hint=1 << 22)
    x = g.input(n, dtype="float64")
    y = g("minimum", g("absolute", x), g.constant(-np.inf, "float64"))
    check(
        g.graph(g.reduce("argmax", y, 0), g.reduce("argmin", g("negative", y), 0)), [{"n": k} for k in (2, 63, 70000)]
    )


def test_softmax_and_layernorm() -> None:
    g = Symbolic()
    x, gain = g.input(S, T, dtype="float64"), g.input(T, dtype="float64")
    e = g("exp", g("subtract", x, g.reduce("maximum", x, 1, keepdims=True)))
    softmax = g("divide", e, g.reduce("add", e, 1, keepdims=True))
    count = g.cast(g.size(T), "float64")
    d = g("subtract", x, g("divide", g.reduce("add", x, 1, keepdims=True), count))
    variance = g("divide", g.reduce("add", g("square", d), 1, keepdims=True), count)
    norm = g("multiply", g("divide", d, g("sqrt", g("add", variance, 1e-5))), gain)
    check(g.graph(softmax, norm), sizes("s0", "s1", values=FAR), 1e-9)


def test_column_softmax() -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    e = g("exp", g("subtract", x, g.reduce("maximum", x, 0, keepdims=True)))
    check(g.graph(g("divide", e, g.reduce("add", e, 0, keepdims=True))), sizes("s0", "s1", values=FAR), 1e-9)


@pytest.mark.parametrize("op", ["add", "maximum"])
def test_scans(op: str) -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    check(g.graph(g.scan(op, x, 0), g.scan(op, x, 1)), sizes("s0", "s1", values=FAR))


def test_concatenation() -> None:
    g = Symbolic()
    x, y = g.input(S, 5, dtype="float64"), g.input(T, 5, dtype="float64")
    whole = g.put(g.put(g.empty(S + T, 5, dtype="float64"), x, (0, 1), (0, 1)), y, (S, 1), (0, 1))
    check(
        g.graph(whole, g.reduce("add", whole, 0), g("exp", g.cut(whole, (1, 1, S + T - 1), (0, 1, 5)))),
        sizes("s0", "s1"),
    )


def test_padding() -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    zero = g.broadcast(g.constant(0, "float64"), (S + 3, T + 2))
    padded = g.put(zero, x, (2, 1), (1, 1))
    check(g.graph(padded, g.reduce("add", padded, 1)), sizes("s0", "s1"))


@pytest.mark.parametrize("shift", [1, S // 2, S - 1])
def test_roll(shift: Index | int) -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    out = g.put(g.empty(S, T, dtype="float64"), g.cut(x, (S - shift, 1, 0 + shift), (0, 1, T)), (0, 1), (0, 1))
    out = g.put(out, g.cut(x, (0, 1, S - shift), (0, 1, T)), (shift, 1), (0, 1))
    check(g.graph(out, g("add", out, x)), sizes("s0", "s1"))


def test_strided_and_reversed_updates() -> None:
    g = Symbolic()
    x, y = g.input(S, dtype="float64"), g.input(S // 2, dtype="float64")
    every_second = g.put(x, y, (0, 2))
    backwards = g.put(every_second, g("tanh", x), (S - 1, -1))
    check(g.graph(every_second, backwards), sizes("s0", values=FAR))


def test_gathers() -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    line = g.iota((T,), 0)
    index = g("subtract", g("remainder", g("multiply", line, 5), g.size(S)), g.size(S))
    check(g.graph(g.gather(x, (0,), index), g.gather(x, (0, 1), index, line)), sizes("s0", "s1"))


def test_iota_and_size() -> None:
    g = Symbolic()
    g.input(S, T)
    line = g.cast(g.iota((S, T), 0), "float64")
    check(g.graph(g("divide", line, g.cast(g.size(S * T - 1), "float64")), g.size(S // 2)), sizes("s0", "s1"))


def test_matmul() -> None:
    g = Symbolic()
    x, y = g.input(S, T, dtype="float64"), g.input(T, S, dtype="float64")
    product = g.matmul(x, y)
    check(g.graph(g("maximum", g("add", product, 1), 0), g.matmul(g.transpose(x), x)), sizes("s0", "s1"), 1e-9)


def test_batched_matmul_of_slices() -> None:
    g = Symbolic()
    x = g.input(4, S, T, dtype="float64")
    left = g.cut(x, (0, 1, 4), (1, 1, S - 1), (0, 1, T))
    check(g.graph(g.reduce("add", g.matmul(left, g.transpose(x, 0, 2, 1)), 2)), sizes("s0", "s1"), 1e-9)


def test_extern() -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    check(g.graph(g("add", g.extern("numpy.negative", (g("tanh", x),), (S, T), "float64"), 1)), sizes("s0", "s1"))


def test_arguments_written() -> None:
    g = Symbolic()
    x, y = g.input(S, T, dtype="float64"), g.input(T, dtype="float64")
    check(g.graph(g.reduce("add", x, 0), writes=[(0, g("add", x, y)), (1, g.reduce("add", x, 0))]), sizes("s0", "s1"))


def test_part_of_an_argument_written() -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    inner = g.cut(x, (1, 1, S - 1), (0, 1, T))
    check(g.graph(writes=[(0, g.put(x, g("multiply", inner, 2), (1, 1), (0, 1)))]), sizes("s0", "s1"))


def test_overlapping_part_of_an_argument_written() -> None:
    g = Symbolic()
    x = g.input(S, dtype="float64")
    check(g.graph(writes=[(0, g.put(x, g.cut(x, (0, 1, S - 1)), (1, 1)))]), sizes("s0", values=(*FAR, 30011)))


def test_parts_that_may_be_empty() -> None:
    """Sizes that a symbolic expression makes 0 only for some values."""
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    rest = g.cut(x, (2, 1, S - 2), (0, 1, T))
    check(
        g.graph(g("exp", rest), g.reduce("add", rest, 0), g.reduce("add", rest, 1), g.reduce("add", rest)),
        sizes("s0", "s1"),
    )


def test_low_floats_and_complex() -> None:
    g = Symbolic()
    x, z = g.input(S, T, dtype="float16"), g.input(S, T, dtype="complex64")
    check(g.graph(g("add", x, x), g.reduce("maximum", x, 0), g.reduce("add", z, 1)), sizes("s0", "s1"), 1e-5)


def test_window() -> None:
    g = Symbolic()
    x = g.input(S, T, dtype="float64")
    windows = g.node("window", (x,), (S - 1, T, as_index(2)), x.dtype, axes=(0,))
    check(g.graph(g.reduce("add", windows, 2)), sizes("s0", "s1"))


def test_diagonal() -> None:
    g = Symbolic()
    x = g.input(S, S, dtype="float64")
    diagonal = g.node("diagonal", (x,), (S,), x.dtype, axis1=0, axis2=1, offset=0)
    check(g.graph(g("exp", diagonal), g.reduce("add", diagonal, 0)), sizes("s0", values=FAR))
