"""A mistake in the user's program: the error is named, and what NumPy has done by then is done; or the program catches
it and goes on."""

import numpy as np
import pytest
from numpy._core._exceptions import UFuncTypeError

import numstax
from numstax.errors import (
    AxisError,
    CastError,
    DataDependentError,
    NumstaxWarning,
    OutOfBoundsError,
    ShapeError,
    TraceError,
    UnsupportedOperationError,
)

X = np.arange(40.0)


def picked(x, at, out):
    for i in range(len(x)):
        out[i] = x[at[i]]


def summed(x, y):
    x[0] = 7
    return x + y


def inverse(a, out):
    out += 1
    return np.linalg.inv(a)


@pytest.mark.parametrize(
    ("program", "args", "kind"),
    [
        (picked, (X, np.arange(40) * 2, np.zeros(40)), OutOfBoundsError),
        (summed, (X, np.zeros(3)), ShapeError),
        (inverse, (np.ones((3, 3)), np.zeros(2)), np.linalg.LinAlgError),
    ],
)
def test_arguments_are_as_numpy_leaves_them(program, args, kind):
    ours, theirs = [a.copy() for a in args], [a.copy() for a in args]
    with pytest.raises((IndexError, ValueError)):
        program(*theirs)
    with pytest.raises(kind):
        numstax.jit(program)(*ours)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_strictly_arguments_are_untouched():
    out = np.zeros(40)
    with pytest.raises(OutOfBoundsError, match="index 40 is out of bounds"):
        numstax.jit(picked, strict=True)(X, np.arange(40) * 2, out)
    assert not out.any()


def element(x, at):
    try:
        return x[at[0]]
    except IndexError:
        return x[0] - 1


def column(x, at):
    try:
        return x[:, 0]
    except IndexError:
        return x


def pseudo(x, at):
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(x)


def worded(x, at):
    try:
        return x * len(str(x[0]))
    except Exception:
        return x


def test_what_the_program_catches():
    at = np.array([77])
    compiled = numstax.jit(element)
    with pytest.warns(NumstaxWarning, match="index 77 is out of bounds"):
        got = compiled(X, at)
    np.testing.assert_array_equal(got, element(X, at))
    np.testing.assert_array_equal(numstax.jit(column, strict=True)(X, at), X)


def test_an_exception_that_depends_on_values_is_not_caught_for_good():
    compiled = numstax.jit(pseudo)
    at = np.array([0])
    with pytest.warns(NumstaxWarning, match="LinAlgError, which depends on values, is caught"):
        np.testing.assert_allclose(compiled(np.ones((3, 3)), at), np.full((3, 3), 1 / 9))
    np.testing.assert_allclose(compiled(2 * np.eye(3), at), np.eye(3) / 2)


def test_what_tracing_raises_is_not_caught():
    with pytest.raises(DataDependentError):
        numstax.jit(worded, strict=True)(X, X)
    with pytest.warns(NumstaxWarning):
        got = numstax.jit(worded)(X, X)
    np.testing.assert_array_equal(got, 3 * X)


def test_draws_are_those_of_the_call():
    def f(x, at, rng):
        try:
            return x[at] + rng.random()
        except IndexError:
            return x + rng.random()

    compiled = numstax.jit(f)
    with pytest.warns(NumstaxWarning):
        got = compiled(X, np.array([77]), np.random.default_rng(1))
    np.testing.assert_array_equal(got, f(X, np.array([77]), np.random.default_rng(1)))


def test_the_function_and_line_of_an_error_are_the_user_s():
    def f(x, at):
        total = 0.0
        for i in range(40):
            if x[i] > 3:
                total += x[at[i]]
        return total

    with pytest.raises(OutOfBoundsError, match=r"test_mistakes.py:\d+, in f$"):
        numstax.jit(f, strict=True)(X, np.full(40, 77))

    def g(x):
        for i in range(40):
            if x[i] > 3:
                raise ValueError("large")
        return x

    with pytest.raises(TraceError, match=r"raises ValueError: large\n  at .*mistakes.py:\d+, in g\n  remedy: check"):
        numstax.jit(g, strict=True)(X)


def test_an_index_out_of_bounds_is_named_as_numpy_names_it():
    def rows(a, at):
        return a[:, at]

    a, at = np.arange(12.0).reshape(3, 4), np.array([0, 9])
    with pytest.raises(OutOfBoundsError, match=r"index 9 is out of bounds for axis 1 with size 4\n  at .*, in rows$"):
        numstax.jit(rows)(a, at)


def summed_along(x, at):
    try:
        return x.sum(5)
    except np.exceptions.AxisError:
        return x


def added(x, at):
    try:
        x += 1j
    except UFuncTypeError:
        return x * 2
    return x


@pytest.mark.parametrize("program", [summed_along, added])
def test_exceptions_of_numpy_are_caught_by_their_names(program):
    np.testing.assert_array_equal(numstax.jit(program, strict=True)(X.copy(), X), program(X.copy(), X))


def test_exceptions_reach_the_caller_by_their_names():
    with pytest.raises(np.exceptions.AxisError, match=r"axis 5 is out of bounds.*\n  at .*test_mistakes.py") as found:
        numstax.jit(lambda x: x.sum(5))(X)
    assert isinstance(found.value, AxisError)
    with pytest.raises(UFuncTypeError, match="Cannot cast ufunc 'add' output") as caught:
        numstax.jit(lambda x: np.add(x, 1j, out=x))(X.copy())
    assert isinstance(caught.value, CastError)


# --- floating-point errors -----------------------------------------------------------------------------


def raising(x):
    with np.errstate(divide="raise"):
        return 1 / x


def quiet(x):
    with np.errstate(all="ignore"):
        return 1 / x


def test_floating_point_errors_that_are_to_raise_are_left_to_numpy():
    with pytest.raises(FloatingPointError):
        numstax.jit(raising)(X)
    with pytest.warns(NumstaxWarning, match="floating-point errors"):
        np.testing.assert_array_equal(numstax.jit(raising)(X + 1), 1 / (X + 1))
    with pytest.raises(UnsupportedOperationError, match="floating-point errors"):
        numstax.jit(raising, strict=True)(X + 1)


def test_ignored_floating_point_errors_are_compiled():
    assert np.isinf(numstax.jit(quiet, strict=True)(X)[0])


@pytest.mark.parametrize("setting", ["raise", "call", "print", "log"])
def test_the_setting_of_the_call_counts(setting):
    compiled = numstax.jit(lambda x: 1 / (x + 1))
    compiled(X)
    with np.errstate(all=setting), pytest.warns(NumstaxWarning, match="floating-point errors"):
        compiled(X)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        compiled(X - 1)
    with np.errstate(all="ignore"):
        assert np.isinf(compiled(X - 1)[0])
    with np.errstate(all=setting), pytest.raises(UnsupportedOperationError, match="floating-point errors"):
        numstax.jit(lambda x: 1 / x, strict=True)(X)
