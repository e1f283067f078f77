"""One test for each mistake a user can make: the class, the argument or the line, and what to do about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import numstax
from numstax import errors
from tests.support import normal

X = normal((3, 4))


def failure(kind: type[errors.NumstaxError], function: Callable[..., object], *args: object, **options: object) -> str:
    """The message of the error that a strict call raises."""
    with pytest.raises(kind) as caught:
        numstax.jit(function, strict=True, **options)(*args)
    return str(caught.value)


def here(function: Callable[..., object], offset: int = 1) -> str:
    """``file:line`` of a line of the function's body, as messages show it."""
    return f"test_messages.py:{inspect.getsourcelines(function)[1] + offset}"


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.array([1, "a"], object), "object"),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), "('a'"),
        (np.array(["text"]), "U4"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
    ],
    ids=["object", "structured", "string", "datetime"],
)
def test_unsupported_dtype_names_the_argument(array: np.ndarray, word: str) -> None:
    def f(first, second):
        return first

    message = failure(errors.UnsupportedDtypeError, f, X, array)
    assert "second" in message
    assert word in message
    assert "remedy" in message


def test_unsupported_argument_names_it() -> None:
    def f(x, thing):
        return x

    assert "thing" in failure(errors.UnsupportedArgumentError, f, X, object())


def test_masked_array_is_refused() -> None:
    def f(values):
        return values + 1

    assert "values" in failure(errors.UnsupportedArrayError, f, np.ma.masked_array([1.0, 2.0], [0, 1]))


def test_argument_count_names_the_function() -> None:
    def needs_two(x, y):
        return x + y

    assert "needs_two" in failure(errors.ArgumentCountError, needs_two, X)
    assert "needs_two" in failure(errors.ArgumentCountError, needs_two, X, X, X)


def test_broadcasting_keeps_numpys_wording_and_shows_the_line() -> None:
    def f(x, y):
        return x + y

    message = failure(errors.ShapeError, f, X, normal((2,)))
    assert "operands could not be broadcast together" in message
    assert "(3,4)" in message.replace(", ", ",")
    assert here(f) in message


def test_matmul_shapes() -> None:
    def f(x, y):
        return x @ y

    message = failure(errors.ShapeError, f, X, X)
    assert "matmul" in message
    assert here(f) in message


def test_reshape_shapes() -> None:
    def f(x):
        return x.reshape(5, 2)

    message = failure(errors.ShapeError, f, X)
    assert "cannot reshape array of size 12" in message
    assert here(f) in message


def test_concatenate_shapes() -> None:
    def f(x):
        return np.concatenate([x, x[:, :2]])

    assert here(f) in failure(errors.ShapeError, f, X)


def test_assignment_shapes() -> None:
    def f(x):
        x[:, 1:] = np.arange(2)

    message = failure(errors.ShapeError, f, X.copy())
    assert "could not broadcast input array" in message
    assert here(f) in message


@pytest.mark.parametrize(
    "function",
    [lambda x: x.sum(2), lambda x: np.flip(x, -3), lambda x: np.concatenate([x, x], 5)],
    ids=["sum", "flip", "cat"],
)
def test_axis_out_of_range(function: Callable[..., object]) -> None:
    message = failure(errors.AxisError, function, X)
    assert "out of bounds for array of dimension 2" in message
    assert "test_messages.py" in message


def test_constant_index_out_of_bounds() -> None:
    def f(x):
        return x[3]

    message = failure(errors.OutOfBoundsError, f, X)
    assert "index 3 is out of bounds for axis 0 with size 3" in message
    assert here(f) in message


def test_index_array_out_of_bounds() -> None:
    def f(x, i):
        return x[i]

    assert "out of bounds" in failure(errors.OutOfBoundsError, f, X, np.array([0, 7]))


def test_too_many_indices() -> None:
    def f(x):
        return x[0, 0, 0]

    assert "too many indices" in failure(errors.NumstaxError, f, X)


def test_read_only_argument() -> None:
    def f(x):
        x += 1

    frozen = X.copy()
    frozen.flags.writeable = False
    message = failure(errors.ReadOnlyError, f, frozen)
    assert "read-only" in message
    assert here(f) in message


def test_assignment_to_broadcast_view() -> None:
    def f(x):
        np.broadcast_to(x[0], (3, 4))[0] = 1

    assert here(f) in failure(errors.ReadOnlyError, f, X.copy())


def test_implicit_cast_in_place() -> None:
    def f(x):
        x += 0.5

    message = failure(errors.CastError, f, np.arange(3))
    assert "int64" in message
    assert here(f) in message


def test_empty_maximum() -> None:
    def f(x):
        return x.max()

    message = failure(errors.EmptyReductionError, f, np.zeros(0, np.float32))
    assert "zero-size array" in message
    assert here(f) in message


def asks(x):
    return x * {x.sum(): 1.0}[x.sum()]


def converts(x):
    return x * [1.0, 2.0][x[0, 0] > 0]


def sizes_by_value(x):
    return np.zeros(int(abs(x).sum()))


def formats(x):
    return f"{x[0, 0]:.2f}"


def takes_the_first(x):
    return x[np.where(x[0] > 0)[0][0]]


def loops(x):
    return sum(v for v in x[x > 0])


def medians(x):
    return np.median(x[x > 0])


DECIDES = (asks, converts, sizes_by_value, formats, takes_the_first, loops, medians)


@pytest.mark.parametrize("function", DECIDES, ids=lambda f: f.__name__)
def test_values_that_decide(function: Callable[..., object]) -> None:
    message = failure(errors.DataDependentError, function, X)
    assert here(function) in message
    assert "remedy" in message


def test_a_size_that_is_no_python_int_is_named() -> None:
    def f(x, count):
        return np.zeros(count) + x[0, 0]

    message = failure(errors.DataDependentError, f, X, np.int64(3))
    assert "the traced number 'count'" in message
    assert "Python int" in message


def test_an_index_from_an_array_that_is_out_of_bounds() -> None:
    def f(x, low, high):
        a = x[low] * 2
        return a + x[high]

    message = failure(errors.OutOfBoundsError, f, X, np.array([0, 2]), np.array([0, 5]))
    assert "index 5 is out of bounds for axis with size 3" in message
    assert here(f, 2) in message


@pytest.mark.parametrize("function", [asks, sizes_by_value], ids=lambda f: f.__name__)
def test_without_strict_the_call_runs_as_numpy_with_one_warning(function: Callable[..., object]) -> None:
    compiled = numstax.jit(function)
    with pytest.warns(errors.NumstaxWarning, match=r"test_messages\.py") as caught:
        first = compiled(X)
    assert len(caught) == 1
    np.testing.assert_array_equal(first, function(X))
    np.testing.assert_array_equal(compiled(X), function(X))  # a second warning would be an error here


def test_wrong_operand_types() -> None:
    def f(x):
        return np.bitwise_and(x, 1)

    message = failure(errors.NumstaxError, f, X)
    assert "bitwise_and" in message
    assert here(f) in message


def test_ufunc_without_a_loop_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="invert"):
        numstax.jit(lambda x: ~x, strict=True)(X)


def test_traced_values_that_escape_are_named() -> None:
    kept = []

    def f(x):
        kept.append(x + 1)
        return x

    assert "'kept'" in failure(errors.SideEffectError, f, X)
    with pytest.warns(errors.NumstaxWarning, match="'kept'"):
        numstax.jit(f)(X)
    np.testing.assert_array_equal(kept[0], X + 1)


def test_a_changed_default_is_named() -> None:
    def f(x, kept=[]):
        kept.append(x)
        return x

    assert "'kept'" in failure(errors.SideEffectError, f, X)


def generates(x):
    yield x


async def awaits(x):
    return x


@pytest.mark.parametrize("function", [generates, awaits], ids=lambda f: f.__name__)
def test_generators_and_coroutines_are_refused(function: Callable[..., object]) -> None:
    assert "remedy" in failure(errors.UnsupportedOperationError, function, X)


def test_operands_that_are_no_arrays() -> None:
    def f(x):
        return x + "text"

    message = failure(errors.UnsupportedArgumentError, f, X)
    assert here(f) in message
    assert "array of dtype <U4" in message


def test_errors_of_the_users_own_code_pass_through() -> None:
    def f(x):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        numstax.jit(f)(X)


def test_jit_of_something_else() -> None:
    with pytest.raises(TypeError):
        numstax.jit(3)


def test_failed_call_changes_nothing() -> None:
    def f(x, i):
        x += 1
        x[i] = 0

    x = X.copy()
    with pytest.raises(IndexError):
        numstax.jit(f, strict=True)(x, np.array([9]))
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    "x",
    [np.ones(1), np.ones(0), np.broadcast_to(np.float64(3), (4,)), np.ones((1, 3)), np.ones((3, 3))[::3]],
    ids=["one", "none", "stride 0", "one row", "one row of more"],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_index_array_out_of_bounds_where_the_element_does_not_depend_on_it(x: np.ndarray, dynamic: bool) -> None:
    compiled = numstax.jit(lambda x, i: x[i] + 1, strict=True, dynamic=dynamic)
    for outside in (len(x), -len(x) - 1):
        with pytest.raises(errors.OutOfBoundsError, match=f"index {outside} is out of bounds"):
            compiled(x, np.array([outside]))
