"""libraries, and arrays of CuPy: what is given to library functions on a GPU, and what comes back."""

import sys

import numpy as np
import pytest

import numstax
from numstax.errors import UnsupportedOperationError
from tests import fake_cupy

X = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)


@pytest.fixture
def cupy(api, monkeypatch):
    made = fake_cupy.module("sort", "matmul", "argsort")
    monkeypatch.setitem(sys.modules, "cupy", made)
    fake_cupy.work.clear()
    return made


def test_arrays_of_cupy_stay_on_the_device(cupy, api):
    function, x = numstax.jit(lambda x: (x * 2 + 1, x.T), strict=True), fake_cupy.made(X)
    api.calls.clear()
    for _ in range(2):
        y, turned = function(x)
        assert isinstance(y, fake_cupy.ndarray)
        np.testing.assert_array_equal(y.seen, X * 2 + 1)
        np.testing.assert_array_equal(turned.seen, X.T)
        assert turned.data.ptr == x.data.ptr
    assert not [c for c in api.calls if "cpy" in c]
    assert function.compile_count == 1


def test_their_current_stream_is_used(cupy, api):
    function, x = numstax.jit(lambda x: x * 2, strict=True), fake_cupy.made(X)
    with cupy.cuda.ExternalStream(9):
        function(x)
    assert api.launched[-1][1] == 9


@pytest.mark.parametrize("there", [numstax.to_device, fake_cupy.made, lambda x: x])
def test_library_calls(cupy, there):
    def program(x):
        ordered = np.sort(x * 2, axis=0)
        return ordered[1:] - ordered[:-1], np.argsort(x[:, ::2], axis=1)

    function = numstax.jit(program, strict=True, device="cuda")
    for _ in range(2):
        for got, want in zip(function(there(X)), program(X), strict=True):
            np.testing.assert_array_equal(np.asarray(getattr(got, "seen", got)), want)
    assert [name for name, _ in fake_cupy.work] == ["sort", "argsort"] * 2
    assert "library call" in function.artifacts()[0].note


def test_results_of_library_calls_can_be_kept(cupy):
    function = numstax.jit(lambda x: np.sort(x, axis=0), strict=True)
    results = [function(fake_cupy.made(X + k)) for k in range(4)]
    for k, got in enumerate(results):
        np.testing.assert_array_equal(got.seen, np.sort(X + k, axis=0))


def test_shapes_of_library_calls_are_those_of_the_values(cupy):
    cupy.linalg = cupy
    cupy.solve = fake_cupy.function("solve", np.linalg)
    a = np.eye(30, dtype=np.float32) * 3
    got = numstax.jit(lambda a, b: np.linalg.solve(a, b), strict=True)(fake_cupy.made(a), fake_cupy.made(X.T.copy()))
    np.testing.assert_allclose(got.seen, X.T / 3, rtol=1e-5)


def test_functions_of_other_kinds_run_on_the_host(cupy):
    def program(x, generator):
        y = x * 2
        np.put(y, [3, 5], [7, 8])
        return y + generator.standard_normal(30, np.float32)

    got = numstax.jit(program, strict=True, device="cuda")(X, np.random.default_rng(1))
    np.testing.assert_array_equal(got, program(X, np.random.default_rng(1)))


def test_what_cupy_lacks_is_refused_by_name(cupy):
    with pytest.raises(UnsupportedOperationError, match=r"numpy.partition has no kernel.*CuPy has no such function"):
        numstax.jit(lambda x: np.partition(x, 3), strict=True, device="cuda")(X)


def test_without_cupy_library_calls_are_refused_by_name(api, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(
        UnsupportedOperationError, match=r"numpy.sort has no kernel of its own on a GPU\n  remedy: install"
    ):
        numstax.jit(lambda x: np.sort(x), strict=True, device="cuda")(X)
    with pytest.warns(numstax.NumstaxWarning, match=r"runs as plain NumPy: numpy.sort"):
        np.testing.assert_array_equal(numstax.jit(lambda x: np.sort(x), device="cuda")(X), np.sort(X))
    with pytest.raises(UnsupportedOperationError, match=r"numpy.sort"):
        numstax.jit(lambda x: np.sort(x))(numstax.to_device(X))
