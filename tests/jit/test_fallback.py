"""What cannot be compiled runs as plain NumPy, with one warning, and is a named error under strict."""

import array
import collections
import fractions
import warnings

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxError, NumstaxWarning, UnsupportedArgumentError, UnsupportedDtypeError

X = np.arange(4.0)
RECORD = np.dtype([("a", "f4"), ("b", "i4")])
DTYPES = (">f8", ">i4", "U3", "S2", object, "M8[s]", "m8[s]", np.longdouble, np.clongdouble, RECORD)


def outcome(function, *args):
    """The result of a call as text, or the kind of NumPy's exception."""
    try:
        return repr(function(*args))
    except Exception as error:
        return next(kind for kind in type(error).__mro__ if kind.__module__ != "numstax.errors")


def check(function, *makes) -> None:
    """Two calls, each with new arguments, do what NumPy does, with at most one warning; strictly, an error is named."""
    compiled = numstax.jit(function)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        for _ in range(2):
            assert outcome(compiled, *[m() for m in makes]) == outcome(function, *[m() for m in makes])
    assert [w.category for w in issued] in ([], [NumstaxWarning])
    if issued:
        with pytest.raises(NumstaxError):
            numstax.jit(function, strict=True)(*[m() for m in makes])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_inside(dtype) -> None:
    for function in (
        lambda x: x.astype(dtype),
        lambda x: x.view(dtype),
        lambda x: (np.zeros(3, dtype), x + 1),
        lambda x: np.zeros_like(x, dtype=dtype),
    ):
        check(function, X.copy)


def put_text(x):
    x[0] = "3.5"
    return x


def put_nothing(x):
    x[0] = None
    return x


def put_several(x):
    x[1:] = [None, 1, 2]
    return x


def caught(x):
    try:
        return x.astype("S2")
    except TypeError:
        return x


VALUES = (
    put_text, put_nothing, put_several, caught,
    lambda x: (np.array(["a", "b"]), x + 1),
    lambda x: np.array([2**64, 1]),
    lambda x: np.array([x[0], "a"]),
    lambda x: np.where(x > 1, "a", "b"),
    lambda x: x.sum(dtype=np.longdouble),
    lambda x: np.full(3, None),
    lambda x: np.concatenate([x, np.array(["a"])]),
    lambda x: x + "text",
)  # fmt: skip


@pytest.mark.parametrize("function", VALUES)
def test_values_inside(function) -> None:
    check(function, X.copy)


ARGUMENTS = {
    "list iterator": lambda: iter([1.0, 2.0]),
    "generator": lambda: (float(k) for k in range(3)),
    "zip": lambda: zip([1.0], [2.0], strict=True),
    "map": lambda: map(float, "12"),
    "deque": lambda: collections.deque([1.0, 2.0]),
    "defaultdict": lambda: collections.defaultdict(float, a=1.0),
    "bytearray": lambda: bytearray(b"ab"),
    "memoryview": lambda: memoryview(b"ab"),
    "array": lambda: array.array("d", [1.0]),
    "Fraction": lambda: fractions.Fraction(1, 2),
    "long double": lambda: np.longdouble(2),
    "datetime": lambda: np.datetime64("2020-01-01"),
    "object": object,
}


def use(x, thing):
    if isinstance(thing, np.generic | fractions.Fraction) or type(thing) is object:
        return x + len(type(thing).__name__)
    return [x + 1, *thing]


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_arguments(kind) -> None:
    check(use, X.copy, ARGUMENTS[kind])
    with pytest.raises(UnsupportedArgumentError, match="'thing'"):
        numstax.jit(use, strict=True)(X, ARGUMENTS[kind]())


def test_arrays_of_other_dtypes_are_refused() -> None:
    for values in (np.array([None]), np.zeros(2, RECORD)):
        with pytest.raises(UnsupportedDtypeError, match="'values'"):
            numstax.jit(lambda values: values)(values)


def test_captured_arrays_of_other_dtypes() -> None:
    things = np.array([1, None], object)
    check(lambda x: x + things[0], X.copy)
