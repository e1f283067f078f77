"""A function that changes something outside itself changes it in every call: such calls run as plain NumPy."""

import array
import collections
import contextlib
import itertools
import random
import types
import warnings

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning, TraceError

X = np.arange(4.0)


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


class Plain:
    def __init__(self, value):
        self.value = value


RESULTS = {
    "set": (lambda x: {1, 2}, set.clear),
    "union with a set": (lambda x: MEMBERS | {5}, set.clear),
    "set in a list": (lambda x: [{1}, x], lambda r: r[0].clear()),
    "object": (lambda x: Plain(3), lambda r: setattr(r, "value", 0)),
    "deque": (lambda x: collections.deque([x + 1]), collections.deque.clear),
    "Counter": (lambda x: collections.Counter("aa"), lambda r: r.update("b")),
    "defaultdict": (lambda x: collections.defaultdict(int, a=x + 1), lambda r: r["z"]),
    "OrderedDict": (lambda x: collections.OrderedDict(a=x + 1), lambda r: r.clear()),
    "bytearray": (lambda x: bytearray(b"a"), lambda r: r.clear()),
    "slice": (lambda x: slice(1, x[0]), lambda r: None),
    "classes": (lambda x: (float, np.float32, type(x)), lambda r: None),
}
MEMBERS = {1, 2}


@pytest.mark.parametrize("case", RESULTS)
def test_results_are_new_in_each_call(case) -> None:
    program, change = RESULTS[case]
    compiled = numstax.jit(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumstaxWarning)
        for _ in range(3):
            got, want = compiled(X), program(X)
            assert type(got) is type(want)
            assert state(getattr(got, "value", got)) == state(getattr(want, "value", want))
            change(got)


def test_functions_made_inside_are_not_given_out() -> None:
    compiled = numstax.jit(lambda x: lambda y: y + x + np.zeros(4))
    with pytest.warns(NumstaxWarning, match="returns a function"):
        np.testing.assert_array_equal(compiled(X)(1.0), X + 1)
