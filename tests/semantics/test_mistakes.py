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
    """The outcome is NumPy's; `compiled`: no call of plain NumPy was needed for it."""
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
        for function in (lambda i, u: i**u.astype("u8") + i**3, lambda i, u: u**u + u ** np.array([1] * 10, "u1"))
    )
    assert not any(node.op == "require" for graph in graphs for node in graph.nodes())
