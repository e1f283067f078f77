"""Reductions without identity over as many elements as values decide: NumPy's results, and its exceptions for none."""

import numpy as np
import pytest

import numstax
from numstax.errors import EmptyReductionError
from tests.support import copy, same

X = np.array([1.0, -2, 3, 0.5, 7])
M = np.arange(12.0).reshape(4, 3) - 5


def extremes(x):
    s = x[x > 0]
    return s.max(), np.min(s), np.ptp(s), s.argmax(), np.argmin(s), np.maximum.reduce(s), s[s.argmax()]


def extremes_of_rows(m):
    s = m[m[:, 0] > 0]
    return s.max(axis=0), s.argmin(0), s.max(axis=1), s.min(axis=(0, 1), keepdims=True)


def writes_before_and_after(x):
    x[0] = 9
    s = x[x > 10].max()
    x[1:] += s
    return s


def counts(x):
    return np.unique(x).max(), np.nonzero(x > 2)[0].max(), np.argwhere(x > 2).max(axis=0)


def guarded(x):
    m = x > 0
    r = -1.0
    if m.any():
        r = x[m].max()
    s = x[m]
    t = s.argmin() if s.size > 0 else 99
    if len(s) < 1:
        return np.array([r, t, 5.0])
    return np.array([r, t, s.min()])


PROGRAMS = [(extremes, X), (extremes_of_rows, M), (writes_before_and_after, X * 10), (counts, X), (guarded, X)]


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "reference"}], ids=str)
@pytest.mark.parametrize(("function", "x"), PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_with_elements_and_without(function, x, options):
    compiled = numstax.jit(function, strict=True, **options)
    for values in (x, -np.abs(x) - 1, x + 0.25):
        mine, theirs = copy(values), copy(values)
        try:
            wanted = function(theirs)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                compiled(mine)
        else:
            same(compiled(mine), wanted)
        same(mine, theirs)
    assert compiled.compile_count == 1


def test_parts_whose_length_a_loop_counts():
    x = np.sin(np.arange(200.0))

    def running(x):
        out = np.zeros(len(x))
        for k in range(len(x)):
            if k > 0:
                out[k] = x[:k].max()
        return out

    same(numstax.jit(running, strict=True)(x), running(x))

    def from_none(x):
        out = np.zeros(len(x))
        for k in range(len(x)):
            out[k] = x[:k].max()
        return out

    with pytest.raises(ValueError, match="maximum which has no identity"):
        numstax.jit(from_none, strict=True)(x)


def test_the_program_may_catch_it():
    def caught(x):
        try:
            return x[x > 0].max()
        except ValueError:
            return -3.0

    compiled = numstax.jit(caught)
    assert compiled(X) == 7
    with pytest.warns(numstax.NumstaxWarning, match="zero-size array"):
        assert compiled(-np.abs(X)) == -3


def test_exported():
    n = numstax.Dim("n", min=2)
    exported = numstax.export(lambda x: x[x > 0].max(), (X,), dynamic_shapes={"x": {0: n}})
    assert exported(X) == 7
    assert exported(X[:3]) == 3
    with pytest.raises(EmptyReductionError, match="zero-size array to a reduction"):
        exported(-np.abs(X))
