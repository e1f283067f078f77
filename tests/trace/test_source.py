# ruff: noqa: UP028, F841
"""Rewritten code gives what the user's code gives: results, exceptions, order of evaluation."""

import operator
import sys
import traceback
import types

import pytest

from numstax.trace import source
from tests.trace import source_programs
from tests.trace.source_programs import CASES, LOG, dead_store, swaps


class Undefined:
    def __bool__(self):
        raise UnboundLocalError


class Plain:
    """The operators, all run as Python."""

    def __init__(self):
        self.names = []

    def unbound(self, name):
        return Undefined()

    def asserted(self, value):
        return value

    def if_(self, condition, then, orelse, get, put, names):
        self.names.append(("if", names))
        then() if condition else orelse()

    def while_(self, test, body, get, put, names):
        self.names.append(("while", names))
        while test():
            put(get())
            body()

    def for_(self, iterable, body, more, get, put, names):
        self.names.append(("for", names))
        for item in iterable:
            put(get())
            body(item)
            if more is not None and not more():
                break

    def if_exp(self, condition, then, orelse):
        return then() if condition else orelse()

    def and_(self, *thunks):
        for thunk in thunks:
            value = thunk()
            if not value:
                break
        return value

    def or_(self, *thunks):
        for thunk in thunks:
            value = thunk()
            if value:
                break
        return value

    def truth(self, value):
        return bool(value)

    def not_(self, value):
        return not value

    def caught(self):
        assert sys.exception() is not None

    raised = caught

    def begins(self):
        pass

    ends = begins

    def compare(self, signs, first, *thunks):
        ops = {"Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq}
        a = first()
        for sign, thunk in zip(signs, thunks):
            b = thunk()
            result = ops[sign](a, b)
            if not result:
                return result
            a = b
        return result


def rewritten(function):
    code = source.rewrite(function)
    assert code is not None
    assert code.co_freevars == function.__code__.co_freevars
    assert code.co_filename == function.__code__.co_filename
    control = Plain()
    scope = {**function.__globals__, "__control__": control}
    made = types.FunctionType(code, scope, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made, control


def outcome(function, args):
    LOG.clear()
    try:
        return "value", function(*args), list(LOG)
    except Exception as error:
        line = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == source_programs.__file__]
        return type(error), str(error), line[-1], list(LOG)


@pytest.mark.parametrize(("function", "args"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_same_as_written(function, args):
    made, _ = rewritten(function)
    assert outcome(made, args) == outcome(function, args)


def test_blocks_have_the_name_of_their_function():
    def outer(x):
        if x:
            for _ in range(x):
                raise ValueError("here")

    made, _ = rewritten(outer)
    with pytest.raises(ValueError, match="here") as caught:
        made(1)
    assert caught.traceback[-1].name == "outer"


def test_defaults_and_keywords():
    made, _ = rewritten(swaps)
    assert made(3, base=2, z=1) == swaps(3, base=2, z=1)


def test_what_a_loop_alone_uses_is_not_among_its_names():
    made, control = rewritten(dead_store)
    made(3)
    assert control.names == [("for", ())]


def test_names_of_a_recurrence():
    def f(n):
        a, b, unused = 0, 1, 5
        for _ in range(n):
            a, b = b, a + b
        return a

    made, control = rewritten(f)
    assert made(10) == 55
    assert control.names == [("for", ("a", "b"))]


def test_closures_and_methods():
    step = 3

    class Counter:
        def __init__(self, top):
            self.top = top

        def run(self):
            total = 0
            while total < self.top:
                total += step
            return total

    made, _ = rewritten(Counter.run)
    assert made(Counter(10)) == 12


def test_super_works():
    class Base:
        def value(self, x):
            return x

    class Child(Base):
        def value(self, x):
            if x > 1:
                return super().value(x) + 1
            return super().value(x)

    made, _ = rewritten(Child.value)
    assert [made(Child(), x) for x in (1, 2)] == [1, 3]


@pytest.mark.parametrize("text", ["def f(x):\n    return x + 1\n", "f = lambda x: x * 2\n"])
def test_straight_lines_are_left_alone(text):
    scope: dict = {}
    exec(text, scope)
    assert source.rewrite(scope["f"]) is None


def test_without_source_nothing_is_rewritten():
    scope: dict = {}
    exec("def f(x):\n    if x:\n        return 1\n    return 2\n", scope)
    assert source.rewrite(scope["f"]) is None


def test_what_is_left_alone():
    def generate(n):
        for i in range(n):
            yield i

    def count():
        global COUNT
        if COUNT:
            COUNT += 1

    def drops(x):
        for _ in range(2):
            try:
                1 // x
            finally:
                break
        return "end"

    def reuses(x):
        try:
            1 // x
        except ZeroDivisionError as x:
            x = 3
        return x

    def hides(x):
        return (y := x) and y > 1

    for function in (generate, count, drops, reuses, hides):
        assert source.rewrite(function) is None


COUNT = 0
