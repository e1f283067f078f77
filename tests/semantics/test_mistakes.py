"""What NumPy refuses: the compiled function raises the same kind of exception and leaves its arguments alone.

Where NumPy only looks as if it had to refuse, the result is NumPy's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning
from tests.support import copy, same

X = np.arange(10.0)
I = np.arange(10)
U = I.astype("u1")
A = np.arange(20.0).reshape(4, 5)
Z = X * 1j
Program = Callable[..., object]


def outcome(program: Program) -> tuple[object, list[object]]:
    """What a call gives or raises, and its arguments after it."""
    args = [copy(value) for value in (X, I, U, A, Z)]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=RuntimeWarning)
            return program(*args), args
    except Exception as error:
        return error, args


def agree(program: Program, *, compiled: bool) -> None:
    """The outcome is NumPy's; `compiled`: it is a mistake, or no call of plain NumPy was needed."""
    wanted, theirs = outcome(program)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if compiled else "ignore", NumstaxWarning)
        got, ours = outcome(numstax.jit(program))
    if isinstance(wanted, Exception):
        assert isinstance(got, type(wanted)), got
    elif isinstance(got, Exception):
        raise got
    else:
        same(got, wanted, ulps=2)
    same(ours, theirs, where="arguments")


MASKS: dict[str, Program] = {
    "list": lambda x, i, u, a, z: x[[True, False]],
    "array": lambda x, i, u, a, z: x[np.array([True, False])],
    "longer": lambda x, i, u, a, z: x[[True] * 11],
    "second axis": lambda x, i, u, a, z: a[:, [True, False, True]],
    "after an ellipsis": lambda x, i, u, a, z: a[..., [True, False, True]],
    "beside positions": lambda x, i, u, a, z: a[[True, False], [0, 1]],
    "of two axes": lambda x, i, u, a, z: a[np.ones((5, 4), bool)],
    "assigned": lambda x, i, u, a, z: x.__setitem__([True, False], 5),
    "ufunc.at": lambda x, i, u, a, z: np.add.at(x, [True, False], 5),
    "fits": lambda x, i, u, a, z: (a[..., [True, False, True, False, False]], a[[True, False] * 2, 1:], a[A > 3]),
    "fits beside positions": lambda x, i, u, a, z: a[[True, False, True, False], [0, 1]],
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_of_known_values_has_the_size_of_its_axis(name):
    agree(MASKS[name], compiled=True)


POWERS: dict[str, Program] = {
    "of a number": lambda x, i, u, a, z: 2**-i,
    "of arrays": lambda x, i, u, a, z: i ** (i - 3),
    "known array": lambda x, i, u, a, z: i ** np.array([-2]),
    "function": lambda x, i, u, a, z: np.power(i + 1, np.array(-2)),
    "NumPy integer": lambda x, i, u, a, z: i ** np.int64(-1),
    "Python integer": lambda x, i, u, a, z: np.power(i, -1),
    "outer": lambda x, i, u, a, z: np.power.outer(i, -i),
    "unsigned base": lambda x, i, u, a, z: u ** (-i),
    "boolean base": lambda x, i, u, a, z: (x > 3) ** (-i),
    "elements": lambda x, i, u, a, z: i[2] ** -i[1],
    "in place": lambda x, i, u, a, z: i.__ipow__(-i),
    "at": lambda x, i, u, a, z: np.power.at(i, [1, 2], -i[1:3]),
    "of unsigned": lambda x, i, u, a, z: (u**u, i**u, u ** (u.astype("i8") + 1), i[2] ** u[3]),
    "not negative": lambda x, i, u, a, z: (2**i, i**3, np.power.outer(i, i), i[2] ** i[3], i ** np.array([0] * 10)),
    "under a mask": lambda x, i, u, a, z: i[i > 3] ** (i[i > 3] - 4),
    "of floats": lambda x, i, u, a, z: (x**-i, i**-2.0, np.float_power(i, -i)),
}


@pytest.mark.parametrize("name", POWERS)
def test_integers_have_no_negative_integer_powers(name):
    agree(POWERS[name], compiled=True)


def test_a_program_may_catch_that_a_power_is_negative():
    def program(i):
        try:
            return 2**-i
        except ValueError:
            return i

    with pytest.warns(NumstaxWarning, match="negative integer power"):
        same(numstax.jit(program)(I), I)


def test_nothing_is_checked_where_no_exponent_can_be_negative():
    graphs = (
        numstax.make_graph(function, (I, U))
        for function in (lambda i, u: i ** u.astype("u8") + i**3, lambda i, u: u**u + u ** np.array([1] * 10, "u1"))
    )
    assert not any(node.op == "require" for graph in graphs for node in graph.nodes())


INTEGERS: dict[str, Program] = {
    "full": lambda x, i, u, a, z: np.full(3, 300, "u1"),
    "full, computed": lambda x, i, u, a, z: np.full(3, int(x[9]) * 100, "u1"),
    "full_like": lambda x, i, u, a, z: np.full_like(u, -1),
    "full of floats": lambda x, i, u, a, z: (
        np.full(3, -1.5, "u1"),
        np.full(3, 1j, "f8"),
        np.full(3, [300, 1, 2], "u1"),
    ),
    "array": lambda x, i, u, a, z: np.array([[3, 1], [300, 1]], "u1"),
    "array, nothing computed": lambda x, i, u, a, z: np.array([x[1], 300], "u1"),
    "array of elements": lambda x, i, u, a, z: np.array([x[9] * 1000, 3], "u1"),
    "asarray": lambda x, i, u, a, z: np.asarray([-1], dtype="u8"),
    "array that fits": lambda x, i, u, a, z: (
        np.array([[x[1], 2], [3, 4]], "u1"),
        np.array([x, x], "i4"),
        np.array([], "i4"),
    ),
    "insert": lambda x, i, u, a, z: np.insert(u, 0, 300),
    "insert several": lambda x, i, u, a, z: np.insert(u, 0, [300, 2]),
    "place": lambda x, i, u, a, z: np.place(u, u > 3, [300]),
    "putmask": lambda x, i, u, a, z: np.putmask(u, u > 3, 300),
    "put": lambda x, i, u, a, z: np.put(u, [1, 2], [300, 1]),
    "copyto": lambda x, i, u, a, z: np.copyto(u, 300),
    "copyto, computed": lambda x, i, u, a, z: np.copyto(u, int(x[9]) * 100),
    "flat": lambda x, i, u, a, z: u.flat.__setitem__(slice(None), 300),
    "list": lambda x, i, u, a, z: u.__setitem__(slice(1, 3), [300, 1]),
    "clip": lambda x, i, u, a, z: np.clip(u, 300, 400),
    "clip below": lambda x, i, u, a, z: np.clip(u, 3, -1),
    "clip, computed": lambda x, i, u, a, z: np.clip(u, int(x[9]) * 100, None),
    "clip beyond all": lambda x, i, u, a, z: (
        np.clip(u, -1, 400),
        np.clip(u, 1.5, 300),
        u.clip(max=300),
        np.clip(i, 3, 2**70),
    ),
    "max": lambda x, i, u, a, z: np.max(u, initial=300),
    "max, computed": lambda x, i, u, a, z: np.max(u, initial=int(x[9]) * 100),
    "min": lambda x, i, u, a, z: np.min(u, initial=-1),
    "min of some": lambda x, i, u, a, z: np.min(u, initial=-1, where=u > 3),
    "sum": lambda x, i, u, a, z: np.sum(u, initial=-5),
    "sum of bytes": lambda x, i, u, a, z: np.sum(u, dtype="u1", initial=300),
    "prod": lambda x, i, u, a, z: np.prod(u, initial=-1),
    "reduce": lambda x, i, u, a, z: np.add.reduce(u, initial=-1),
    "nanmax": lambda x, i, u, a, z: np.nanmax(u, initial=300),
    "initial that fits": lambda x, i, u, a, z: (
        np.sum(u, initial=5.5),
        np.max(u, initial=np.int64(300)),
        np.max(u, initial=3.7),
    ),
    "ldexp": lambda x, i, u, a, z: np.ldexp(x, 2**40),
    "ldexp of NumPy's": lambda x, i, u, a, z: (np.ldexp(x, np.int64(2**40)), np.ldexp(x, 3)),
    "not in products": lambda x, i, u, a, z: (np.dot(u, 300), np.inner(u, 300), np.outer(u, 300)),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_python_integers_fit_the_dtype(name):
    agree(INTEGERS[name], compiled="computed" not in name or name.startswith("array"))


NUMBERS: dict[str, Program] = {
    "negative": lambda x, i, u, a, z: u.__setitem__(0, -1.5),
    "large": lambda x, i, u, a, z: u.__setitem__(1, 256.0),
    "very large": lambda x, i, u, a, z: u.__setitem__(1, 1e30),
    "slice": lambda x, i, u, a, z: u.__setitem__(slice(None), -1.0),
    "mask": lambda x, i, u, a, z: u.__setitem__(u > 5, -1.0),
    "positions": lambda x, i, u, a, z: u.__setitem__([1, 2], -1.0),
    "list": lambda x, i, u, a, z: u.__setitem__(slice(1, 3), [-1.0, 1.0]),
    "fill": lambda x, i, u, a, z: u.fill(-1.0),
    "put": lambda x, i, u, a, z: np.put(u, [1, 2], -1.0),
    "fill_diagonal": lambda x, i, u, a, z: np.fill_diagonal(u.reshape(2, 5), -1.0),
    "copyto": lambda x, i, u, a, z: np.copyto(u, -1.0),
    "copyto that casts": lambda x, i, u, a, z: np.copyto(u, -1.0, casting="unsafe"),
    "computed": lambda x, i, u, a, z: u.__setitem__(0, float(x[9]) * -1),
    "computed for a slice": lambda x, i, u, a, z: u.__setitem__(slice(None), float(x[9]) * 1000),
    "NumPy's": lambda x, i, u, a, z: (u.__setitem__(0, x[9] * -1), u.__setitem__(1, np.float64(-1.5))),
    "computed and fits": lambda x, i, u, a, z: (u.__setitem__(0, float(x[9]) * 1.5), u.__setitem__(1, np.array(-1.5))),
    "complex as integer": lambda x, i, u, a, z: i.__setitem__(0, 1j),
    "complex as float": lambda x, i, u, a, z: x.__setitem__(0, 1j),
    "complex, computed": lambda x, i, u, a, z: x.__setitem__(0, complex(z[1])),
    "complex as bool": lambda x, i, u, a, z: (x > 3).__setitem__(0, complex(z[1])),
    "complex array": lambda x, i, u, a, z: np.array(1j, dtype=float),
    "complex initial": lambda x, i, u, a, z: np.sum(x, initial=1j),
    "nan": lambda x, i, u, a, z: np.array([1.5, np.nan], dtype=int),
    "nan initial": lambda x, i, u, a, z: np.max(i, initial=np.nan),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_python_floats_and_complex_numbers_fit_the_dtype(name):
    agree(NUMBERS[name], compiled=True)


WEIGHTS: dict[str, Program] = {
    "zero": lambda x, i, u, a, z: np.average(x, weights=x * 0),
    "one of them": lambda x, i, u, a, z: np.average(a, axis=1, weights=a * (x[:4] > 1)[:, None]),
    "list": lambda x, i, u, a, z: np.average(a, axis=0, weights=[0, 0, 0, 0]),
    "complex": lambda x, i, u, a, z: np.average(z, weights=z * 0),
    "not zero": lambda x, i, u, a, z: (np.average(x, weights=x, returned=True), np.average(a, axis=1, weights=x[:5])),
    "nan": lambda x, i, u, a, z: np.average(x, weights=x * np.nan),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_do_not_sum_to_zero(name):
    agree(WEIGHTS[name], compiled=True)


OTHERS: dict[str, Program] = {
    "pad": lambda x, i, u, a, z: np.pad(x, -1),
    "pad on one side": lambda x, i, u, a, z: np.pad(x, (1, -1)),
    "pad by a float": lambda x, i, u, a, z: np.pad(x, 1.5),
    "matrix_power": lambda x, i, u, a, z: np.linalg.matrix_power(a, 2),
    "matrix_power of a row": lambda x, i, u, a, z: np.linalg.matrix_power(x, 2),
    "std as bool": lambda x, i, u, a, z: np.std(x, dtype=bool, axis=()),
    "std as integers": lambda x, i, u, a, z: np.std(a, dtype="i4", axis=0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_mistakes(name):
    agree(OTHERS[name], compiled=True)
