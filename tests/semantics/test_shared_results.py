"""Results of functions that are views of an argument in NumPy: what is written through one is seen in the other."""

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning, SideEffectError, TraceError, UnsupportedOperationError
from tests.support import copy, same

A = np.arange(16.0).reshape(4, 4)

VIEWS = {
    "transposed by einsum": lambda a: np.einsum("ij->ji", a),
    "the same by einsum": lambda a: np.einsum("ij->ij", a),
    "a diagonal by einsum": lambda a: np.einsum("ii->i", a),
    "a diagonal of three axes by einsum": lambda a: np.einsum("iij->ji", a.reshape(2, 2, 4)),
    "raveled in memory order": lambda a: np.ravel(a.T, "K"),
    "raveled as it lies": lambda a: np.ravel(a.T, "A"),
    "a power of one": lambda a: np.linalg.matrix_power(a, 1),
}
PARTS = {
    "checked": np.asarray_chkfinite,
    "real if close": np.real_if_close,
    "strided": lambda a: np.lib.stride_tricks.as_strided(a, (2, 2), (8, 32)),
}


def written(view):
    def f(a):
        v = view(a)
        v[...] = 7
        return v

    return f


def read_later(view):
    def f(a):
        v = view(a)
        a += 1000
        return v

    return f


@pytest.mark.parametrize("use", [written, read_later])
@pytest.mark.parametrize("name", VIEWS)
def test_views(name, use):
    program = use(VIEWS[name])
    ours, theirs = copy(A), copy(A)
    same(numstax.jit(program, strict=True)(ours), program(theirs))
    same(ours, theirs)


@pytest.mark.parametrize("use", [written, read_later])
@pytest.mark.parametrize("name", PARTS)
def test_what_cannot_be_a_view_runs_as_numpy(name, use):
    program = use(PARTS[name])
    with pytest.raises(UnsupportedOperationError):
        numstax.jit(program, strict=True)(copy(A))
    ours, theirs = copy(A), copy(A)
    with pytest.warns(NumstaxWarning):
        got = numstax.jit(program)(ours)
    same(got, program(theirs))
    same(ours, theirs)


@pytest.mark.parametrize("name", PARTS)
def test_what_is_only_read_is_compiled(name):
    same(numstax.jit(lambda a: PARTS[name](a) + a.sum(), strict=True)(copy(A)), PARTS[name](A) + A.sum())


def test_the_order_of_elements_in_memory():
    a = np.swapaxes(np.arange(24.0).reshape(2, 3, 4), 0, 2)
    for order in "AKFC":
        same(numstax.jit(lambda a: a.ravel(order), strict=True)(a), a.ravel(order))
        same(numstax.jit(lambda a: a.flatten(order), strict=True)(a), a.flatten(order))


def test_a_library_function_that_changes_its_argument_runs_as_numpy():
    special = pytest.importorskip("scipy.ndimage")

    def f(a):
        special.uniform_filter1d(a, 3, output=a)
        return a

    with pytest.raises(TraceError):
        numstax.jit(f, strict=True)(copy(A))
    ours = copy(A)
    with pytest.warns(NumstaxWarning):
        same(numstax.jit(f)(ours), f(copy(A)))
    same(ours, f(copy(A)))


def test_a_dtype_that_is_assigned():
    def f(a):
        a.dtype = np.int64
        return a

    with pytest.raises(SideEffectError, match=r"remedy: use a\.view"):
        numstax.jit(f, strict=True)(copy(A))


def test_a_view_of_an_argument_in_another_byte_order_is_left_to_numpy():
    a = np.arange(5.0).astype(">f8")
    with pytest.warns(NumstaxWarning, match="native byte order"):
        part = numstax.jit(lambda a: a[1:])(a)
    assert part.dtype == a.dtype
    assert np.shares_memory(part, a)
    same(numstax.jit(lambda a: a[1:] * 2, strict=True)(a), np.arange(1.0, 5) * 2)


PICKED = {
    "row": lambda a, i, j: a[i],
    "column": lambda a, i, j: a[1:, i],
    "plane": lambda a, i, j: a.reshape(2, 2, 4)[:, :, i],
    "part of a row": lambda a, i, j: a[i][1:],
    "row of the transpose": lambda a, i, j: a.T[j],
    "two positions": lambda a, i, j: a.reshape(2, 2, 2, 2)[j, :, j],
    "Python integer": lambda a, i, j: a[int(i)],
    "several": lambda a, i, j: (a[i], a[:, j], a + i),
}


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "reference"}], ids=str)
@pytest.mark.parametrize("name", PICKED)
def test_parts_at_positions_that_are_arguments(name, options):
    got, want = (
        f(A, np.int64(2), np.int8(-1)) for f in (numstax.jit(PICKED[name], strict=True, **options), PICKED[name])
    )
    same(got, want)
    for ours, theirs in zip(*(x if type(x) is tuple else (x,) for x in (got, want)), strict=True):
        assert np.shares_memory(ours, A) == np.shares_memory(theirs, A)
        assert ours.strides == theirs.strides


def test_a_part_out_of_bounds():
    def caught(a, i):
        try:
            return a[i]
        except IndexError:
            return a[0]

    compiled = numstax.jit(lambda a, i: a[i])
    compiled(A, np.int64(1))
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 4"):
        compiled(A, np.int64(9))
    catching = numstax.jit(caught)
    same(catching(A, np.int64(1)), A[1])
    with pytest.warns(NumstaxWarning, match="index 9 is out of bounds"):
        same(catching(A, np.int64(9)), A[0])
