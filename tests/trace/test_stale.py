"""A compiled function sees every change of what it reads from outside, and loses no change that it makes there."""

import abc
import array
import collections
import contextlib
import functools
import itertools
import random
import sys
import types
import warnings

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


def changing(change, make):
    """A function that changes something outside, and that."""
    held = make()

    def program(x):
        change(held, x)
        return x + 1

    return program, held


class Recorder:
    def __init__(self):
        self.items, self.count = [], 0

    def __setitem__(self, key, value):
        self.items.append((key, value))

    @property
    def last(self):
        return self.count

    @last.setter
    def last(self, value):
        self.count = value


class Counted:
    total = 0


def in_branch(change):
    def program(held, x):
        if x.sum() > 0:
            change(held)
        else:
            change(held)

    return program


def in_loop(change):
    def program(held, x):
        for _ in range(40):
            change(held)
            x = x + 1

    return program


def in_try(change):
    def program(held, x):
        try:
            change(held)
            x[9]
        except IndexError:
            pass
        except Exception:
            x = x + 100

    return program


def add(held):
    held.add(-len(held))


def set_attribute(held, x):
    held.last = held.last + 1


def count_class(held, x):
    type(held).total += 1


CHANGES = {
    "set.add": (lambda s, x: s.add(7), lambda: {1}),
    "set.update": (lambda s, x: s.update({7}), lambda: {1}),
    "set.clear": (lambda s, x: s.clear(), lambda: {1}),
    "set.discard": (lambda s, x: s.discard(1), lambda: {1}),
    "set.pop": (lambda s, x: s.pop(), lambda: {1, 2}),
    "set in a list": (lambda s, x: s[0].add(7), lambda: [{1}]),
    "set in a dict": (lambda s, x: s["a"].add(7), lambda: {"a": {1}}),
    "set of an object": (lambda s, x: s.kept.add(7), lambda: types.SimpleNamespace(kept={1})),
    "set in a branch": (in_branch(add), lambda: {1}),
    "set in a loop": (in_loop(add), lambda: {1}),
    "set in a try": (in_try(add), lambda: {1}),
    "popped in a try": (in_try(set.pop), lambda: {1, 2}),
    "list in a try": (in_try(lambda s: s.append(1)), lambda: [1]),
    "deque": (lambda d, x: d.append(1), collections.deque),
    "defaultdict": (lambda d, x: d["a"], lambda: collections.defaultdict(int)),
    "Counter": (lambda d, x: d.update("a"), collections.Counter),
    "OrderedDict": (lambda d, x: d.move_to_end("a"), lambda: collections.OrderedDict(a=1, b=2)),
    "bytearray": (lambda b, x: b.append(1), bytearray),
    "array.array": (lambda a, x: a.append(1), lambda: array.array("i", [0])),
    "an iterator": (lambda i, x: next(i), lambda: iter([1, 2, 3, 4])),
    "a generator": (lambda i, x: next(i), lambda: (k for k in range(9))),
    "itertools.count": (lambda i, x: next(i), itertools.count),
    "random.Random": (lambda r, x: r.random(), lambda: random.Random(3)),
    "__setitem__": (lambda o, x: o.__setitem__("a", 1), Recorder),
    "an attribute": (set_attribute, Recorder),
    "a class attribute": (count_class, Counted),
    "bytes of a file": (lambda f, x: f.write("a"), lambda: __import__("io").StringIO()),
}


def state(held):
    """What an object holds, as a value to compare."""
    if isinstance(held, Recorder):
        return held.items, held.count
    if isinstance(held, random.Random):
        return held.getstate()
    if isinstance(held, Counted):
        return type(held).total
    if hasattr(held, "getvalue"):
        return held.getvalue()
    if hasattr(held, "__next__"):
        return next(held)
    return repr(held)


@pytest.mark.parametrize("case", CHANGES)
def test_changes_outside_happen(case) -> None:
    states = []
    for wrap in (lambda f: f, numstax.jit):
        Counted.total = 0
        program, held = changing(*CHANGES[case])
        function = wrap(program)
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            for _ in range(2):
                np.testing.assert_array_equal(function(X), X + 1)
        states.append(state(held))
    assert states[0] == states[1]
    assert [w.category for w in issued] == [NumstaxWarning]
    program, held = changing(*CHANGES[case])
    with pytest.raises(TraceError):
        numstax.jit(program, strict=True)(X)


@pytest.mark.parametrize("case", [c for c in CHANGES if "file" not in c])
def test_changes_of_arguments_happen(case) -> None:
    change, make = CHANGES[case]

    def program(x, held):
        change(held, x)
        return x + 1

    states = []
    for wrap in (lambda f: f, numstax.jit):
        Counted.total = 0
        function, held = wrap(program), make()
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            for _ in range(2):
                np.testing.assert_array_equal(function(X, held), X + 1)
        states.append(state(held))
    assert states[0] == states[1]
    assert [w.category for w in issued] == [NumstaxWarning]


def test_memory_of_what_was_seen() -> None:
    seen: set[int] = set()

    def program(x):
        if 4 in seen:
            return x + 100
        seen.add(len(x))
        return x

    compiled = numstax.jit(program)
    with pytest.warns(NumstaxWarning, match="'seen'"):
        compiled(X)
    np.testing.assert_array_equal(compiled(X), X + 100)


@contextlib.contextmanager
def suppressing():
    try:
        yield
    finally:
        pass


class Suppressing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def with_suppress(x, held):
    with contextlib.suppress(Exception):
        held.append(1)
        random.random()
    return x + 1


def with_own_manager(x, held):
    with suppressing(), Suppressing():
        held.append(1)
        random.random()
    return x + 1


def in_finally(x, held):
    try:
        held.append(1)
        random.random()
    finally:
        return x + 1


without_source = types.FunctionType(
    compile(
        "def f(x, held):\n try:\n  held.append(1)\n except Exception:\n  x = x + 100\n return x + 1", "", "exec"
    ).co_consts[0],
    globals(),
)


@pytest.mark.parametrize("program", [with_suppress, with_own_manager, in_finally, without_source])
def test_refusals_are_not_suppressed(program) -> None:
    held = []
    compiled = numstax.jit(lambda x: program(x, held))
    with pytest.warns(NumstaxWarning):
        np.testing.assert_array_equal(compiled(X), X + 1)
    np.testing.assert_array_equal(compiled(X), X + 1)
    assert held == [1, 1]
