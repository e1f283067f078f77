"""Arguments taken apart, results put together, and arguments that are refused by name."""

import dataclasses
from collections import namedtuple

import numpy as np
import pytest

from numstax.errors import (
    ArgumentCountError,
    SideEffectError,
    UnsupportedArgumentError,
    UnsupportedArrayError,
    UnsupportedDtypeError,
    UnsupportedOperationError,
)
from numstax.trace import nodes
from numstax.trace.tracer import trace
from tests.trace.support import check, run

Pair = namedtuple("Pair", "left right")
X = np.arange(6.0).reshape(2, 3)


@dataclasses.dataclass(frozen=True)
class State:
    position: np.ndarray
    mass: float


def step(state, dt):
    return State(state.position + dt * state.mass, state.mass)


def test_nested_containers() -> None:
    def program(p, items, table, n, mode, none):
        total = p.left + p.right[0] * n + items[1][0]
        assert none is None
        return {"t": total, mode: [table["w"], (p, items)], "n": n, "f": items[1][1]}

    check(program, Pair(X, (X + 1, 2.5)), [X, (X, 1.5)], {"w": np.float32(3), "k": 7}, 3, "sum", None)


def test_dataclasses() -> None:
    state = State(X, 2.0)
    got = run(trace(step, (state, 0.5), {}), (X, 2.0, 0.5))
    assert type(got) is State
    assert got.mass == 2.0
    assert type(got.mass) is float
    np.testing.assert_array_equal(got.position, X + 1.0)


def test_weak_numbers_stay_weak() -> None:
    def program(x, s, c):
        return x * s, x + np.float64(s), s * 2, s > 1, -s, np.sqrt(s), x * c, [s, c]

    check(program, X.astype("f4"), 1.5, 2j)
    check(program, X.astype("f2"), 1.5, 2j)


def test_numpy_scalars_are_run_time_values() -> None:
    traced = check(lambda a, b, x: (a + b, a * x, b), np.float32(2), np.int8(3), X)
    assert [i.kind for i in traced.graph.inputs] == ["scalar", "scalar", "array"]


def test_keywords_and_static_names() -> None:
    def program(x, *rest, scale=1.0, power=2.0):
        return x**power * scale + len(rest)

    traced = trace(program, (X, 1, 2), {"scale": 3.0, "power": 2.0}, static_argnames=("power",))
    assert [i.name for i in traced.graph.inputs] == ["x", "scale"]
    np.testing.assert_array_equal(run(traced, (X, 3.0)), program(X, 1, 2, scale=3.0))


def test_wrong_number_of_arguments() -> None:
    def program(x, y):
        return x + y

    with pytest.raises(ArgumentCountError, match=r"missing a required argument: 'y'.*program\(x, y\)"):
        trace(program, (X,), {})


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (UnsupportedDtypeError, np.array([None]), "'thing' has dtype object"),
        (UnsupportedDtypeError, np.zeros(2, "M8[D]"), "'thing' has dtype datetime64"),
        (UnsupportedDtypeError, [X, np.zeros(2, "f4,i4")], r"'thing\[1\]' has dtype"),
        (UnsupportedArrayError, np.ma.masked_array([1.0], [True]), "'thing' is a masked array"),
        (UnsupportedArrayError, np.rec.array([1.0]), "'thing' is a numpy.rec.recarray"),
        (UnsupportedArgumentError, object(), "'thing' is of type builtins.object"),
        (SideEffectError, np.random.RandomState(1), "'thing' is a RandomState, which draws random numbers"),
    ],
    ids=lambda v: getattr(v, "__name__", type(v).__name__),
)
def test_refused_by_name(kind, value, words) -> None:
    with pytest.raises(kind, match=words):
        trace(lambda x, thing: x, (X, value), {})


def test_constants_in_results() -> None:
    check(lambda x: (1, "a", None, np.float32(2), np.arange(3), x.shape, len(x), x.ndim), X)


def test_endless_unrolling_stops(monkeypatch) -> None:
    monkeypatch.setattr(nodes, "LIMIT", 500)

    def program(x):
        seen = []
        while len(seen) >= 0:
            seen.append(x + len(seen))

    with pytest.raises(UnsupportedOperationError, match="unrolls to more than") as caught:
        trace(program, (X,), {})
    assert caught.value.origin.line == program.__code__.co_firstlineno + 3
