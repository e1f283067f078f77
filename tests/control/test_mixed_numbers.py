"""Variables that are Python's numbers or elements of arrays, as values decide: results and exceptions are NumPy's."""

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning, PythonNumberError, UnsupportedOperationError
from tests.control.alike import N, alike
from tests.control.numbers import check


def test_a_variable_that_is_replaced_has_the_type_of_what_replaces_it():
    def f(x):
        last, seen = 2.5, 0
        for i in range(len(x)):
            last = int(x[i])
            seen = float(x[i]) > 3.0
        return last, seen

    check(f, np.arange(N), again=False)


def test_an_operation_that_depends_on_where_a_number_came_from():
    def f(x):
        number = 100
        for i in range(len(x)):
            if x[i] > 100:
                number = x[i]
        return number * 3

    x = np.arange(N, dtype=np.int8)
    with pytest.raises(UnsupportedOperationError, match="multiply of a number that is a Python integer or an element"):
        numstax.jit(f, strict=True)(x)
    with pytest.warns(NumstaxWarning):
        assert numstax.jit(f)(x) == 300


def _branch(x):
    number = 1 << 62
    if x[0] > 2:
        number = x[1]
    return number * 4 - 1


def _loop(x):
    product = 1
    for i in range(len(x)):
        if x[i] > 500:
            product = x[i]
        product = product * 10
    return product


def _largest(x):
    found = (1 << 61) - len(x)
    for i in range(len(x)):
        found = max(found, x[i])
    return found << 3, -found, found // 7


@pytest.mark.parametrize("program", [_branch, _loop, _largest])
def test_an_integer_that_no_element_replaces_is_python_s(program):
    """Where an element has replaced it, and nothing overflows, the compiled result counts."""
    x = np.arange(N)
    check(program, x)
    x[:2] = 3, 5
    if program is _branch:
        check(program, x, again=False)
    strictly = numstax.jit(program, strict=True)
    with pytest.raises(PythonNumberError, match="beyond 64 bits"):
        strictly(np.arange(N))


def test_the_larger_of_an_element_and_a_python_integer_may_be_either():
    def f(x):
        return max(5, x[0]) * 100

    for value, want in ((3, 500), (30, 184)):
        with pytest.warns((NumstaxWarning, RuntimeWarning)):
            assert numstax.jit(f)(np.array([value], np.uint8)) == want
    with pytest.raises(UnsupportedOperationError, match="multiply of a number that is a Python integer or an element"):
        numstax.jit(f, strict=True)(np.array([3], np.uint8))
    check(f, np.array([30]), again=False)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
def test_where_takes_python_integers_modulo_the_size_of_the_dtype(dtype):
    def f(x, k):
        return np.where(x > 2, x, 300), np.where(x > 2, -1, x), np.where(x > 2, x, k), np.where(x > 2, 1 << 40, x)

    compiled = numstax.jit(f, strict=True)
    x = np.arange(N).astype(dtype)
    for k in (77777, -(1 << 50)):
        alike(compiled(x, k), f(x, k))
