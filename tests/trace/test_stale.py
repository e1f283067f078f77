"""A compiled function sees every change of what it reads from outside."""

import abc
import dataclasses
import enum
import functools
import sys
import types
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning, TraceError

X = np.arange(4.0)
THIS = sys.modules[__name__]


class Base:
    rate = 1.0

    def gain(self):
        return 2.0

    def __call__(self, x):
        return x * 3.0


class Derived(Base):
    def shifted(self, x):
        return x + self.gain()


class Other:
    rate = 123.0


class Stretched(Base):
    def gain(self):
        return super().gain() + 1


class Abstract(abc.ABC):
    level = 1.0

    @abc.abstractmethod
    def run(self, x): ...


class Concrete(Abstract):
    def run(self, x):
        return np.zeros(4) + x * self.level


@pytest.fixture
def fresh():
    """Classes that a test may change."""

    class Lower(Base):
        pass

    class Upper(Lower):
        @property
        def twice(self):
            return 2 * self.rate

        @staticmethod
        def fixed():
            return 1.0

        @classmethod
        def named(cls):
            return cls.rate

    return types.SimpleNamespace(lower=Lower, upper=Upper, one=Upper())


READS = {
    "instance over class": (lambda x, n: x + n.one.rate, lambda n: setattr(n.one, "rate", 7.0)),
    "class over base": (lambda x, n: x + n.one.rate, lambda n: setattr(n.upper, "rate", 7.0)),
    "base": (lambda x, n: x + n.one.rate, lambda n: setattr(n.lower, "rate", 7.0)),
    "through the class": (lambda x, n: x + n.upper.rate, lambda n: setattr(n.lower, "rate", 7.0)),
    "in a property": (lambda x, n: x + n.one.twice, lambda n: setattr(n.one, "rate", 7.0)),
    "a property": (lambda x, n: x + n.one.twice, lambda n: setattr(n.upper, "twice", property(lambda s: 9.0))),
    "in a class method": (lambda x, n: x + n.one.named(), lambda n: setattr(n.upper, "rate", 7.0)),
    "a static method": (lambda x, n: x + n.one.fixed(), lambda n: setattr(n.upper, "fixed", lambda *s: 9.0)),
    "a method of a base": (lambda x, n: x + n.one.gain(), lambda n: setattr(n.lower, "gain", lambda s: 9.0)),
    "a method on the object": (lambda x, n: x + n.one.gain(), lambda n: setattr(n.one, "gain", lambda: 9.0)),
    "a special method": (lambda x, n: n.one(x), lambda n: setattr(n.upper, "__call__", lambda s, x: x * 9.0)),
    "a special method that was not": (
        lambda x, n: x + (1.0 if n.one else 2.0),
        lambda n: setattr(n.upper, "__bool__", lambda s: False),
    ),
    "hasattr": (lambda x, n: x + 1 if hasattr(n.one, "later") else x, lambda n: setattr(n.one, "later", 2.0)),
    "hasattr in a base": (lambda x, n: x + 1 if hasattr(n.one, "later") else x, lambda n: setattr(n.lower, "later", 2)),
    "hasattr of a class": (
        lambda x, n: x + 1 if hasattr(n.upper, "later") else x,
        lambda n: setattr(n.lower, "later", 2.0),
    ),
    "getattr": (lambda x, n: x + getattr(n.one, "later", 0.0), lambda n: setattr(n.one, "later", 2.0)),
    "the class of the object": (lambda x, n: x + n.one.rate, lambda n: setattr(n.one, "__class__", Other)),
    "the bases of a class": (lambda x, n: x + n.one.rate, lambda n: setattr(n.upper, "__bases__", (Other,))),
    "all attributes": (lambda x, n: x + n.one.rate, lambda n: setattr(n.one, "__dict__", {"rate": 7.0})),
    "the object": (lambda x, n: x + n.one.rate, lambda n: setattr(n, "one", Other())),
}


@pytest.mark.parametrize("case", READS)
def test_attributes_are_looked_up_as_they_are_now(case, fresh) -> None:
    read, change = READS[case]

    def program(x):
        return read(x, fresh)

    compiled = numstax.jit(program, strict=True)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), program(X))
    assert compiled.compile_count == 1
    before = program(X)
    change(fresh)
    assert (program(X) != before).any()
    np.testing.assert_array_equal(compiled(X), program(X))


def test_a_module_gets_an_attribute() -> None:
    def program(x):
        return x + getattr(THIS, "later", 0.0)

    compiled = numstax.jit(program, strict=True)
    np.testing.assert_array_equal(compiled(X), X)
    THIS.later = 2.0
    try:
        np.testing.assert_array_equal(compiled(X), X + 2)
    finally:
        del THIS.later


def test_a_method_reads_its_object() -> None:
    class Scaled:
        gain = 1.0

        @numstax.jit(strict=True)
        def run(self, x):
            return x * self.gain

    scaled = Scaled()
    np.testing.assert_array_equal(scaled.run(X), X)
    scaled.gain = 3.0
    np.testing.assert_array_equal(scaled.run(X), X * 3)


def test_super_and_abstract_classes() -> None:
    stretched, concrete = Stretched(), Concrete()
    compiled = numstax.jit(lambda x: x * stretched.gain() + concrete.run(x), strict=True)
    np.testing.assert_array_equal(compiled(X), 4 * X)


def test_copies_do_not_stand_for_other_objects(fresh) -> None:
    fresh.one.cache = 5.0

    def program(x):
        return x + getattr(type(fresh.one)(), "cache", 0.0) + fresh.one.cache

    np.testing.assert_array_equal(numstax.jit(program, strict=True)(X), X + 5)


def test_classes_of_copies_are_those_of_the_originals(fresh) -> None:
    members = {1}

    def program(x):
        one = fresh.one
        answers = type(one) is fresh.upper, one.__class__ is fresh.upper, isinstance(one, Base), type(members) is set
        return x + sum(answers)

    np.testing.assert_array_equal(numstax.jit(program, strict=True)(X), X + 4)


def helper(x, shift=1.0):
    return x + shift


def test_parts_of_helpers_may_be_replaced() -> None:
    compiled = numstax.jit(lambda x: helper(x), strict=True)
    saved = helper.__defaults__, helper.__code__
    try:
        np.testing.assert_array_equal(compiled(X), X + 1)
        helper.__defaults__ = (5.0,)
        np.testing.assert_array_equal(compiled(X), X + 5)
        helper.__code__ = (lambda x, shift: x - shift).__code__
        np.testing.assert_array_equal(compiled(X), X - 5)
    finally:
        helper.__defaults__, helper.__code__ = saved


def closes_over(kept):
    def inner(x):
        return x + kept[0]

    return inner


class Holder:
    value = 1.0


def positional(x, kept=[1.0]):
    return x + kept[0]


def nested(x, kept=([1.0],)):
    return x + kept[0][0]


def keyword(x, *, kept={"a": 1.0}):
    return x + kept["a"]


def keywords(x, *, kept={"a": 1.0}):
    return x + kept["a"]


def of_an_object(x, kept=Holder()):
    return x + kept.value


DEFAULTS = {
    "positional": (positional, lambda f: f.__defaults__[0].__setitem__(0, 5.0)),
    "nested": (nested, lambda f: f.__defaults__[0][0].__setitem__(0, 5.0)),
    "keyword": (keyword, lambda f: f.__kwdefaults__["kept"].update(a=5.0)),
    "keywords": (keywords, lambda f: f.__kwdefaults__.update(kept={"a": 5.0})),
    "object": (of_an_object, lambda f: setattr(f.__defaults__[0], "value", 5.0)),
    "partial": (functools.partial(positional, kept=[1.0]), lambda f: f.keywords["kept"].__setitem__(0, 5.0)),
    "partial's keywords": (functools.partial(positional, kept=[1.0]), lambda f: f.keywords.update(kept=[5.0])),
    "partial's arguments": (functools.partial(lambda k, x: x + k[0], [1.0]), lambda f: f.args[0].__setitem__(0, 5.0)),
    "cell": (closes_over([1.0]), lambda f: setattr(f.__closure__[0], "cell_contents", [5.0])),
    "in a cell": (closes_over(([1.0][0], 2)), lambda f: setattr(f.__closure__[0], "cell_contents", (5.0, 2))),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_defaults_and_keywords_are_those_of_now(case) -> None:
    function, change = DEFAULTS[case]
    compiled = numstax.jit(function, strict=True)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), X + 1)
    assert compiled.compile_count == 1
    change(function)
    np.testing.assert_array_equal(compiled(X), X + 5)


def test_tuples_and_sets_are_compared_by_what_they_hold() -> None:
    pair, members = ([1.0],), {1, 2}

    def program(x):
        return x + pair[0][0] + sum(members) + (10.0 if 3 in members else 0.0)

    compiled = numstax.jit(program, strict=True)
    for change in (lambda: None, lambda: pair[0].__setitem__(0, 2.0), lambda: members.add(3), lambda: members.clear()):
        change()
        np.testing.assert_array_equal(compiled(X), program(X))
    members.update((1, 2))
    members.discard(4)
    compiled(X)
    assert compiled.compile_count <= 5


def test_sets_are_gone_through_in_their_order() -> None:
    members = {17 + 8 * k for k in range(20)}
    for k in range(18):
        members.discard(17 + 8 * k)
    members |= {2, 1, 0}
    compiled = numstax.jit(lambda x: [x + k for k in members], strict=True)
    np.testing.assert_array_equal(compiled(X), [X + k for k in members])


def test_sets_as_arguments_count_by_what_they_hold() -> None:
    compiled = numstax.jit(lambda x, s: x + len(s) if 1 in s else x, strict=True)
    for members in ({1}, {1}, {1, 2}, {2}, frozenset({1})):
        np.testing.assert_array_equal(compiled(X, members), X + len(members) if 1 in members else X)
    assert compiled.compile_count == 4


FACTOR = types.SimpleNamespace(now=1.0)


class Colour(enum.Enum):
    RED = [1.0]  # noqa: RUF012


class Scaling(enum.Enum):
    PLAIN = 1.0

    def apply(self, x):
        return x * FACTOR.now * self.value


class Metres(float):
    def apply(self, x):
        return x * FACTOR.now + self


class Side(enum.IntEnum):
    LEFT = 1


HEIGHT = Metres(2.0)


def clock(x):
    return x * 0 + datetime.now().timestamp()


KINDS_OF_CLASSES = {
    "value of an enumeration": (lambda x: x + Colour.RED.value[0], lambda v: Colour.RED.value.__setitem__(0, v)),
    "method of an enumeration": (lambda x: Scaling.PLAIN.apply(x), lambda v: setattr(FACTOR, "now", v)),
    "method of a number": (lambda x: HEIGHT.apply(x), lambda v: setattr(FACTOR, "now", v)),
    "a setting": (
        lambda x: x + sys.getrecursionlimit(),
        lambda v: sys.setrecursionlimit(1000 if v == 1.0 else 2000),
    ),
}


@pytest.mark.parametrize("case", KINDS_OF_CLASSES)
def test_what_is_not_copied_runs_as_numpy(case) -> None:
    program, change = KINDS_OF_CLASSES[case]
    compiled = numstax.jit(program)
    limit = sys.getrecursionlimit()
    try:
        change(1.0)
        with pytest.warns(NumstaxWarning):
            np.testing.assert_array_equal(compiled(X), program(X))
        change(5.0)
        np.testing.assert_array_equal(compiled(X), program(X))
    finally:
        sys.setrecursionlimit(limit)
        FACTOR.now = 1.0


def test_enumerations_are_compiled() -> None:
    compiled = numstax.jit(lambda x, side: x + side if side is Side.LEFT else x, strict=True)
    np.testing.assert_array_equal(compiled(X, Side.LEFT), X + 1)


def test_the_time_is_not_a_constant() -> None:
    with pytest.raises(TraceError, match="datetime"):
        numstax.jit(clock, strict=True)(X)


@numstax.jit(strict=True)
def tuned(x):
    return x * getattr(tuned, "factor", 1.0)


def test_attributes_of_compiled_functions() -> None:
    np.testing.assert_array_equal(tuned(X), X)
    tuned.factor = 3.0
    try:
        np.testing.assert_array_equal(tuned(X), 3 * X)
        np.testing.assert_array_equal(numstax.jit(lambda x: tuned(x) + tuned.factor, strict=True)(X), 3 * X + 3)
    finally:
        del tuned.factor
    np.testing.assert_array_equal(tuned(X), X)


advance = next


def test_builtins_under_other_names() -> None:
    items = iter([1.0, 2.0, 3.0])

    def program(x):
        inner = iter([1.0, 2.0])
        if x.sum() > 100:
            advance(inner)
        return x + advance(inner)

    compiled = numstax.jit(program)
    with pytest.warns(NumstaxWarning, match="iterator"):
        np.testing.assert_array_equal(compiled(X), X + 1)
    compiled = numstax.jit(lambda x: x + advance(items))
    with pytest.warns(NumstaxWarning, match="items"):
        np.testing.assert_array_equal(compiled(X), X + 1)
    np.testing.assert_array_equal(compiled(X), X + 2)


class Record(NamedTuple):
    shift: float

    def apply(self, x):
        return np.zeros(4) + x * FACTOR.now + self.shift


@dataclasses.dataclass
class Extended:
    shift: float

    def __post_init__(self):
        self.more = 1.0


def test_methods_and_further_attributes_of_arguments() -> None:
    compiled = numstax.jit(lambda x, r, e: r.apply(x) + e.shift + e.more, strict=True)
    extended = Extended(2.0)
    for factor, more in ((1.0, 1.0), (2.0, 1.0), (2.0, 7)):
        FACTOR.now, extended.more = factor, more
        np.testing.assert_array_equal(compiled(X, Record(3.0), extended), X * factor + 5 + more)
    FACTOR.now = 1.0


def test_results_are_the_objects_themselves() -> None:
    held, members, box = [1.0], {2}, Holder()
    compiled = numstax.jit(lambda x: (x + 1, held, members, box, [box], helper), strict=True)
    _, *others = compiled(X)
    wanted = [held, members, box, [box], helper]
    assert all(a is b for a, b in zip((*others[:3], others[3][0], others[4]), (*wanted[:3], box, helper), strict=True))


@pytest.mark.parametrize("kind", ["dict", "list", "object"])
def test_static_arguments_are_watched(kind) -> None:
    def program(x, held):
        return x + (held.value if kind == "object" else held["a"][0] if kind == "dict" else held[0])

    def put(held, value):
        if kind == "object":
            held.value = value
        else:
            (held["a"] if kind == "dict" else held)[0] = value

    held = {"dict": {"a": [1.0]}, "list": [1.0], "object": Holder()}[kind]
    compiled = numstax.jit(program, static_argnames="held", strict=True)
    for value in (1.0, 2.0):
        put(held, value)
        np.testing.assert_array_equal(compiled(X, held), X + value)
    with pytest.raises(TraceError):
        numstax.jit(put, static_argnames="held", strict=True)(held, X)
