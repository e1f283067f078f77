"""Plans over size symbols: where the sizes come from, what is checked and when, and that big sizes run in parallel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from numstax.errors import OutOfBoundsError, SizeError, VerifyError
from numstax.ir.graph import Arg
from numstax.ir.index import Symbol, as_index, symbol
from numstax.program import Check, ExternCall
from tests.dynamic.symbolic import KNOBS, Symbolic, check, compiled, host

S, T = symbol("s0", hint=64), symbol("s1", hint=48)


def test_symbols_are_solved_for() -> None:
    """A symbol that stands nowhere alone comes from an expression that is linear in it."""
    g = Symbolic()
    x = g.input(3 * S + 1, S * T, dtype="float64")
    y = g.input(T + S, dtype="float64", strides=(2,))
    region = check(
        g.graph(g("multiply", x, g.size(T)), g("negative", y)), [{"s0": a, "s1": b} for a, b in ((2, 9), (50, 3))]
    )
    assert region.plan is not None
    assert dict(region.plan.sizes) == {"s0": "(x0.shape[0] - (1)) // (3)", "s1": "x0.shape[1] // (s0)"}


def test_a_symbol_from_a_stride() -> None:
    g = Symbolic()
    pitch = symbol("p", hint=80)
    x = g.input(4, 3, dtype="float32", strides=(2 * pitch, 1))
    region, call = compiled(g.graph(g("negative", x)))
    assert region.plan is not None
    assert dict(region.plan.sizes) == {"p": "x0.strides[0] // 4 // (2)"}
    base = np.arange(4 * 14, dtype="f4").reshape(4, 14)
    np.testing.assert_array_equal(call(base[:, :3])[0], -base[:, :3])


def test_conditions_are_checked_before_anything_is_written() -> None:
    g = Symbolic()
    x, y = g.input(S, dtype="float64"), g.input(T, dtype="float64")
    graph = g.graph(g("negative", y), writes=[(0, g("add", x, 1))])
    asserts = (("eq", S, 2 * T, "x is to be twice as long as y"), ("le", T, as_index(10), "y is too long"))
    _, call = compiled(replace(graph, asserts=asserts))
    a, b = np.zeros(6), np.zeros(4)
    with pytest.raises(SizeError, match=r"^x is to be twice as long as y$"):
        call(a, b)
    with pytest.raises(SizeError, match=r"^y is too long$"):
        call(np.zeros(22), np.zeros(11))
    assert not a.any()
    call(a, b[:3])
    assert a.all()


@pytest.mark.parametrize("function", [np.flatnonzero, np.nonzero])
def test_sizes_that_depend_on_data(function: Callable[..., object]) -> None:
    """The length of a library function's result is a symbol; a condition on it is checked right after the call."""
    count = as_index(Symbol("u0", 0, None))
    g = Symbolic()
    x = g.input(S, dtype="float64")
    attrs = {"function": function, "args": (Arg(0),), "kwargs": (), "results": (((count,), np.dtype("int64")),)}
    call = g.node("extern", (g("greater", x, 0),), (), "int64", **attrs)
    places = g.node("result", (call,), (count,), "int64", k=0)
    picked = g.gather(x, (0,), places)
    graph = g.graph(g("sqrt", picked), g.reduce("add", picked, 0), g.size(count + S), writes=[(0, g("add", x, 1))])
    graph = replace(graph, asserts=(("le", count, S - 1, "not all may be positive"), ("le", as_index(2), S, "too few")))
    region, run = compiled(graph)
    assert region.plan is not None
    steps = region.plan.steps
    assert [type(s) for s in steps if isinstance(s, Check | ExternCall)] == [Check, ExternCall, Check]
    for n in (2, 5, 64, 3001):
        given = np.linspace(-1, 1, n)
        want = given[given > 0]
        roots, total, size = run(changed := given.copy())
        np.testing.assert_array_equal(roots, np.sqrt(want))
        np.testing.assert_allclose(total, want.sum())
        assert size == len(want) + n
        np.testing.assert_array_equal(changed, given + 1)
    roots, total, _ = run(-np.ones(4))
    assert roots.shape == (0,)
    assert total == 0
    ones = np.ones(7)
    with pytest.raises(SizeError, match=r"^not all may be positive$"):
        run(ones)
    assert (ones == 1).all()


def test_a_condition_on_unknown_sizes_is_refused() -> None:
    g = Symbolic()
    x = g.input(S, dtype="float64")
    with pytest.raises(VerifyError, match="no argument or result shows the sizes"):
        compiled(replace(g.graph(g("negative", x)), asserts=(("eq", T, T + S, "never"),)))


def test_an_index_is_checked_against_the_size_of_this_call() -> None:
    g = Symbolic()
    x, index = g.input(S, 3, dtype="float64"), g.input(T, dtype="int64")
    _, call = compiled(g.graph(g("negative", g.gather(x, (0,), index))))
    for n in (2, 5, 200):
        a = np.arange(3.0 * n).reshape(n, 3)
        inside = np.array([0, n - 1, -n, -1])
        np.testing.assert_array_equal(call(a, inside)[0], -a[inside])
        for bad in (n, -n - 1):
            with pytest.raises(OutOfBoundsError, match=f"index {bad} is out of bounds for axis with size {n}"):
                call(a, np.array([0, bad]))


@pytest.mark.parametrize("hints", [(2, 2), (4096, 2), (2, 4096)])
@pytest.mark.parametrize("name", ["pointwise", "rows", "columns", "full", "softmax"])
def test_big_sizes_are_shared_out(name: str, hints: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the hint, a call with large arrays gives several workers something to do."""
    rows, columns = symbol("r", hint=hints[0]), symbol("c", hint=hints[1])
    g = Symbolic()
    x = g.input(rows, columns)
    outputs = {
        "pointwise": lambda: g("add", x, g.input(columns)),
        "rows": lambda: g.reduce("add", x, 1),
        "columns": lambda: g.reduce("add", x, 0),
        "full": lambda: g.reduce("maximum", x, 0, 1),
        "softmax": lambda: g("subtract", x, g.reduce("maximum", x, 1, keepdims=True)),
    }
    graph = g.graph(outputs[name]())
    jobs: list[tuple[int, int]] = []
    monkeypatch.setattr(
        host().workers, "parallel_for", lambda part, words, tasks, grain, scratch: jobs.append((tasks, grain))
    )
    _, call = compiled(graph, replace(KNOBS, parallel_threshold=1 << 15))
    call(*(np.zeros((2048, 2048), "f4") if len(s.shape) == 2 else np.zeros(2048, "f4") for s in graph.inputs))
    assert any(tasks >= 2 * grain for tasks, grain in jobs)
