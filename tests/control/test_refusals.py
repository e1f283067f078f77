"""Branches and loops that cannot be captured: the message names what the user wrote, its line, and a remedy."""

import inspect

import numpy as np
import pytest

import numstax
from numstax.errors import DataDependentError, NumstaxWarning, TraceError
from tests.control.alike import check
from tests.control.statement_programs import asserted_size, asserted_value

X = np.arange(3.0)


def refused(program, *args, kind=TraceError):
    """The error under strict, after a call without it, which is NumPy's."""
    with pytest.raises(kind) as caught:
        numstax.jit(program, strict=True)(*args)
    with pytest.warns(NumstaxWarning, match="runs as plain NumPy"):
        found = numstax.jit(program)(*args)
    np.testing.assert_equal(found, program(*args))
    assert caught.value.remedy
    assert "result_" not in str(caught.value)
    return caught.value


def place(error, program):
    """The text of the line that the error names, and the function."""
    lines, first = inspect.getsourcelines(program)
    assert error.origin.file == __file__
    return lines[error.origin.line - first].strip(), error.origin.function


def test_a_variable_that_only_a_branch_in_a_loop_assigns():
    def f(x):
        n = 0.0
        for i in range(100):
            n = n + x[i % len(x)]
            if n > 3:
                y = i
        return y

    error = refused(f, X)
    assert "'y' is assigned in only one branch" in str(error)
    assert place(error, f) == ("if n > 3:", "f")
    assert error.remedy == "give 'y' a value before the loop"


def test_the_same_in_a_while_loop_in_a_loop():
    def f(x):
        n = 0.0
        for i in range(100):
            while n < i:
                n = n + x[1]
                if n > 3:
                    y = n * 2
        return y + 1

    error = refused(f, X)
    assert place(error, f) == ("if n > 3:", "f")
    assert "'y' is" in error.what
    assert "before the loop" in error.remedy


def test_a_variable_that_is_never_assigned_is_the_users_mistake():
    def f(x):
        if len(x) > 5:
            y = x
        return y + 1

    def g(x):
        y = x
        del y
        return y + 1  # noqa: F821

    for program in (f, g):
        for strict in (True, False):
            with pytest.raises(UnboundLocalError, match="cannot access local variable 'y'"):
                numstax.jit(program, strict=strict)(X)


def test_a_variable_that_only_one_branch_assigns():
    def f(x):
        if x.sum() > 1:
            z = x * 2
        return z

    def caller(x):
        return f(x)

    assert place(refused(caller, X), f) == ("if x.sum() > 1:", "f")


def test_parts_of_conditional_expressions_are_the_functions():
    def f(x):
        return x + np.ones(5) if x.sum() > 1 else x

    def g(x):
        return (lambda y: y + np.ones(5) if y.sum() > 1 else y)(x)

    for program, name in ((f, "f"), (g, "<lambda>")):
        with pytest.raises(TraceError, match="broadcast") as caught:
            numstax.jit(program, strict=True)(X)
        assert caught.value.origin.function == name


def test_returned_values_that_differ():
    def f(x):
        if x.sum() > 1:
            return None
        return 1

    def g(x):
        if x.sum() > 0:
            return x
        return np.zeros(10)

    def h(x):
        return x if x.sum() > 1 else x[:2]

    assert refused(f, X).what == "the returned value is None after one branch and 1 after the other"
    assert refused(g, X).what == "the returned value is float64[3] after one branch and float64[10] after the other"
    assert refused(h, X).what.startswith("the conditional expression is float64[3] after one branch")


def test_an_integer_is_called_one():
    def f(x):
        k = None
        for i in range(100):
            if x[i % 3] > 1:
                k = i
        return k

    error = refused(f, X)
    assert error.what == "'k' is an integer after one branch and None after the other"
    assert "-1" in error.remedy


def test_what_raises_in_a_branch():
    def f(x):
        if np.any(x > 100):
            raise ValueError("too large")
        return x

    error = refused(f, X)
    assert "ValueError: too large" in error.what
    assert "out of the compiled function" in error.remedy


def test_an_assert_on_a_value():
    error = refused(asserted_value, X, kind=DataDependentError)
    assert "assert" in error.what
    assert "out of the compiled function" in error.remedy
    assert error.origin.function == "asserted_value"


def test_an_assert_on_a_size():
    numstax.jit(asserted_size, strict=True, dynamic=True)(X)
    for dynamic in (False, True):
        with pytest.raises(AssertionError, match="limits"):
            numstax.jit(asserted_size, dynamic=dynamic)(np.ones(70))


def test_a_library_error_that_is_caught():
    def f(x):
        try:
            return np.linalg.inv(x)
        except np.linalg.LinAlgError:
            return x

    assert "where the compiled function is called" in refused(f, np.zeros((3, 3))).remedy


@pytest.mark.parametrize("limit", [-1.0, 1.5, 50.0])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_else_of_a_loop_that_returns(limit, backend):
    def f(x, limit):
        for i in range(len(x)):
            if x[i] < limit:
                return i
        else:
            return -1

    def g(x, limit):
        if len(x) > 5:
            for i in range(len(x)):
                if x[i] < limit:
                    return i * 2
            else:
                return -2
        return 5

    def h(x, limit):
        for i in range(len(x)):
            if x[i] < limit:
                break
            if x[i] > 90:
                return 7
        else:
            return -1
        return i

    def w(x, limit):
        i = 0
        while i < len(x):
            if x[i] < limit:
                return i
            i += 1
        else:
            return -1

    for program in (f, g, h, w):
        check(program, (np.arange(100.0)[::-1].copy(), limit), backend)
