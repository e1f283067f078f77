"""Globals, closures, modules, classes and callables that a traced function uses."""

import dataclasses
import functools
import math
import types
from collections import namedtuple
from math import tanh

import numpy as np
import pytest
from numpy import zeros
from scipy import special

import numstax
from numstax.errors import DataDependentError, SideEffectError, TraceError
from numstax.trace.tracer import trace
from tests.trace.support import check, run

SCALE = 2.0
TABLE = np.arange(4.0)
SETTINGS = {"a": 3.0, "b": [1.0, np.ones(4)]}
STASH: list[object] = []
HELPER = types.SimpleNamespace(gain=4.0)
COUNTER = 0
Pair = namedtuple("Pair", "left right")
X = np.arange(4.0)


def doubled(x):
    y = zeros(4)
    y[:] = x * SCALE
    return y


@dataclasses.dataclass
class Model:
    weight: np.ndarray
    bias: float

    def __call__(self, x):
        out = np.zeros(4)
        out += x * self.weight + self.bias
        return out


class Plain:
    rate = 0.5

    def __init__(self, table):
        self.table = table
        self.count = 0

    @property
    def twice(self):
        return self.table * 2

    def run(self, x):
        work = np.empty_like(x)
        work[:] = self.twice * self.rate
        return work + x

    def count_up(self, x):
        self.count += 1
        return x


PLAIN = Plain(np.arange(4.0))


@pytest.fixture
def restored():
    """Puts the module's names back."""
    saved = dict(globals())
    yield globals()
    globals().update(saved)


def test_helpers_globals_and_creation() -> None:
    check(lambda x: doubled(x) + TABLE + SETTINGS["a"] * SETTINGS["b"][1] + HELPER.gain, X)


def test_closures_partials_and_nested_functions() -> None:
    offset, table = 3.0, np.arange(4.0)

    def outer(x):
        def inner(y):
            z = np.zeros(4)
            z += y * offset
            return z

        return functools.partial(np.add, table)(inner(x)) + sum(inner(v)[0] for v in x)

    check(outer, X)


def test_imports_inside() -> None:
    def program(x):
        import math as m  # noqa: PLC0415

        import numpy as xp  # noqa: PLC0415
        from numpy import ones as one  # noqa: PLC0415

        return xp.zeros(4) + one(4) * x + m.pi

    check(program, X)


def test_math_builtins_and_scalar_types() -> None:
    def program(x, s):
        a = math.sqrt(s) + tanh(s) + math.log(s, 2) + math.pi + math.sqrt(4.0)
        b = max(s, 1.0) + min(s, 2.0, 0.5) + abs(-s) + float(s)
        return a * x, b, np.float32(s), isinstance(s, float), isinstance(x, np.ndarray), s**2 / 3

    check(program, X, 1.75)
    check(program, X.astype("f4"), 0.75)


def test_scipy() -> None:
    def program(x):
        return special.erf(x), special.expit(x), special.gamma(x + 1), special.logsumexp(x), special.xlogy(x, x)

    check(program, X)
    check(program, X.astype("f4"))


def test_classes_and_objects() -> None:
    model = Model(np.arange(4.0), 0.5)
    check(lambda x: model(x) + PLAIN.run(x) + Plain(x).run(x), X)
    check(lambda x: Pair(x, x + 1), X)
    made = run(trace(lambda x: Model(x + 1, 2.0), (X,), {}), (X,))
    assert type(made) is Model
    np.testing.assert_array_equal(made.weight, X + 1)


def test_methods_as_functions() -> None:
    check(PLAIN.run, X)


def test_guards_see_changes(restored) -> None:
    traced = trace(lambda x: doubled(x) + SETTINGS["a"] + HELPER.gain + PLAIN.rate + TABLE, (X,), {})
    assert traced.outside.conditions
    changes = (
        lambda: restored.update(SCALE=3.0),
        lambda: restored.update(doubled=lambda x: x),
        lambda: restored.update(TABLE=np.arange(4)),
        lambda: restored.update(zeros=np.ones),
    )
    saved = dict(restored)
    for change in changes:
        assert traced.outside.holds()
        change()
        assert not traced.outside.holds()
        restored.update(saved)
    for holder, key, value in ((SETTINGS, "a", 4.0), (vars(HELPER), "gain", 5.0)):
        old = holder[key]
        holder[key] = value
        assert not traced.outside.holds()
        holder[key] = old
    assert traced.outside.holds()


def test_equal_values_keep_the_guard(restored) -> None:
    traced = trace(lambda x: x * SCALE, (X,), {})
    restored["SCALE"] = float("2.0")
    assert traced.outside.holds()
    restored["SCALE"] = 2
    assert not traced.outside.holds()


def test_arrays_are_read_again(restored) -> None:
    traced = trace(lambda x: x + TABLE, (X,), {})
    restored["TABLE"] = np.full(4, 100.0)
    np.testing.assert_array_equal(run(traced, (X,)), X + 100)


def test_write_to_a_captured_array() -> None:
    table = np.zeros(4)

    def program(x):
        table[1:3] = x[:2] * 2
        return x.sum()

    traced = trace(program, (X,), {})
    run(traced, (X,))
    np.testing.assert_array_equal(table, [0, 0, 2, 0])


def append(x):
    STASH.append(x)
    return x


def set_item(x):
    SETTINGS["a"] = x
    return x


def set_global(x):
    global COUNTER
    COUNTER += 1
    return x


def set_attribute(x):
    HELPER.gain = x
    return x


def set_module(x):
    math.last = x
    return x


@pytest.mark.parametrize("program", [append, set_item, set_global, set_attribute, set_module, PLAIN.count_up])
def test_effects_are_refused_and_do_not_happen(program) -> None:
    with pytest.raises(SideEffectError):
        trace(program, (X,), {})
    assert not STASH
    assert SETTINGS["a"] == 3.0
    assert HELPER.gain == 4.0
    assert COUNTER == PLAIN.count == 0


def test_nonlocal_of_the_surroundings_is_refused() -> None:
    total = 0

    def program(x):
        nonlocal total
        total += 1
        return x

    with pytest.raises(SideEffectError, match="total"):
        trace(program, (X,), {})

    def own(x):
        count = 0

        def bump():
            nonlocal count
            count += 1

        bump()
        return x + count

    check(own, X)


def test_changed_argument_containers_are_refused() -> None:
    with pytest.raises(SideEffectError, match="'items'"):
        trace(lambda items: items.append(items[0] + 1), ([X],), {})
    with pytest.raises(SideEffectError, match="'table'"):
        trace(lambda table: table.update(a=table["a"] + 1), ({"a": X},), {})


def test_impure_modules_are_refused() -> None:
    import random  # noqa: PLC0415
    import time  # noqa: PLC0415
    from time import perf_counter  # noqa: PLC0415

    for program in (
        lambda x: x + np.random.rand(4),
        lambda x: x + random.random(),
        lambda x: x + time.time(),
        lambda x: x + perf_counter(),
        lambda x: open("f"),  # noqa: SIM115
    ):
        with pytest.raises(TraceError, match="inside a traced function"):
            trace(program, (X,), {})
    generator = np.random.RandomState(1)
    with pytest.raises(TraceError, match="generator"):
        trace(lambda x: x + generator.normal(size=4), (X,), {})


def test_values_are_asked_for() -> None:
    for program in (
        lambda x: [*x[x > 1]], lambda x: np.trim_zeros(x), lambda x: {x[0].item(): 1},
        lambda x: list(range(x[0].astype(int))), lambda x: f"{x[0]:.2f}",
    ):  # fmt: skip
        with pytest.raises(DataDependentError):
            trace(program, (X,), {})


def test_tracing_leaves_numpy_alone() -> None:
    before = {name: getattr(np, name) for name in dir(np)}
    trace(doubled, (X,), {})
    assert {name: getattr(np, name) for name in dir(np)} == before
    assert isinstance(doubled(X), np.ndarray)


def counted(x):
    counted.calls += 1
    return x


counted.calls = 0


def scaled_by_attribute(x):
    return x * scaled_by_attribute.factor


scaled_by_attribute.factor = 3.0


def set_class_attribute(x):
    Plain.rate = x
    return x


def test_attributes_of_functions_and_classes() -> None:
    traced = check(scaled_by_attribute, X)
    scaled_by_attribute.factor = 4.0
    assert not traced.outside.holds()
    for program in (counted, set_class_attribute):
        with pytest.raises(SideEffectError, match="outside the function"):
            trace(program, (X,), {})
    assert counted.calls == 0
    assert Plain.rate == 0.5


@pytest.mark.parametrize("parts", [(1.5, -0.0), (np.float32(2), np.inf), (1 + 2j, 3.0), (0.5, 2 - 1j), (3, True)])
def test_complex_of_two_traced_numbers(parts):
    def joined(x, y):
        return complex(x[0], y[0])

    check(joined, *(np.array([p]) for p in parts))


def test_an_element_of_a_small_captured_array_is_a_constant_as_long_as_it_stays():
    shifts = np.array([1, -1])

    def moved(x):
        return np.roll(x, shifts[0])

    compiled = numstax.jit(moved, strict=True)
    for shift, count in ((1, 1), (1, 1), (2, 2)):
        shifts[0] = shift
        np.testing.assert_array_equal(compiled(X), np.roll(X, shift))
        assert compiled.compile_count == count


def test_guards_name_what_they_are_about() -> None:
    scale = 2.5

    def step(x):
        return x * scale

    def function(x):
        return step(x) + 1

    compiled = numstax.jit(function, strict=True, backend="reference")
    compiled(np.ones(3))
    (artifact,) = compiled.artifacts()
    assert "function.__code__ is unchanged" in str(artifact)
    assert "step.__code__ is unchanged" in str(artifact)
    assert "2.5, found outside, is unchanged" in str(artifact)
    assert "outside_" not in str(artifact)
    scale = 3.5
    assert "3.5" not in str(artifact)
    assert artifact.guard.failing((np.ones(3),), {}) == "not any more: 2.5, found outside, is unchanged"
