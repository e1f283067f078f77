"""jit on a simulated GPU: the same answers as NumPy's, for what wrappers, guards and copies do."""

import numpy as np
import pytest

import numstax
from numstax.errors import DeviceMemoryError, OutOfBoundsError, UnsupportedArgumentError
from numstax.runtime.simulated import SimulatedDevice
from tests.support import check, layouts, normal

GPU = {"device": "cuda", "backend": "simulate"}
X = normal((12, 40))


@pytest.mark.parametrize("name", [name for name, _ in layouts(X)])
def test_layouts(name):
    x = dict(layouts(X))[name]
    check(lambda x: (x * 2 + 1, x.T - x[:1].T, x.max(0) if x.shape[0] else x), x, **GPU)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_dtypes_and_scalars(dtype):
    x = normal((7, 33), dtype)
    check(lambda x: (x + x, x[3, 5], x.sum()), x, ulps=16, **GPU)
    check(lambda x, s: np.where(x == s, s, x), x, x[2, 3], **GPU)


def test_byte_order_and_alignment():
    check(lambda x: x * 2, X.astype(">f4"), **GPU)
    check(lambda x: x * 2, np.frombuffer(bytearray(4 * 33 + 1), np.uint8)[1:].view(np.float32), **GPU)


def test_arguments_that_are_written():
    def step(x, y, z):
        x += y
        x[2:, ::2] = z[2:, ::2]
        y[...] = x.T.copy().T
        return x, y[1:]

    check(step, X.copy(), np.asfortranarray(X), X[:, ::-1], **GPU)
    x, y = X.copy(), X.copy()
    first, second = numstax.jit(step, strict=True, **GPU)(x, y, X)
    assert first is x
    assert np.shares_memory(second, y)


def test_arguments_that_share_memory():
    def shift(a, b):
        a += b

    whole = np.arange(20.0)
    want = whole.copy()
    shift(want[1:], want[:-1])
    numstax.jit(shift, strict=True, **GPU)(whole[1:], whole[:-1])
    np.testing.assert_array_equal(whole, want)


def test_sizes_at_run_time():
    function = numstax.jit(lambda x, y: (x * y, (x + 1).sum(1)), strict=True, dynamic=True, **GPU)
    for n, m in ((3, 5), (12, 40), (33, 2), (7, 129)):
        x, y = normal((n, m)), normal((n, m), seed=1)
        for got, want in zip(function(x, y[:, ::-1]), (x * y[:, ::-1], (x + 1).sum(1)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    assert function.compile_count == 1


def test_loops_and_branches():
    def program(x, n):
        for k in range(n):
            x = x + x.mean() / (k + 1)
        while x.max() > 1:
            x = x / 2
        if x.sum() > 0:
            x = -x
        return x

    check(program, np.abs(X), 20, ulps=64, **GPU)


def test_rotating_states():
    def heat(u):
        v = u.copy()
        for _ in range(33):
            v[1:-1] = u[1:-1] + np.float32(0.25) * (u[:-2] - 2 * u[1:-1] + u[2:])
            u, v = v, u
        return u

    check(heat, normal((50,)), **GPU)


def test_indices_are_checked():
    function = numstax.jit(lambda x, k: x[k] * 2, strict=True, **GPU)
    np.testing.assert_array_equal(function(X, np.array([3, -1])), X[[3, -1]] * 2)
    with pytest.raises(OutOfBoundsError, match="index 12 is out of bounds for axis with size 12"):
        function(X, np.array([3, 12]))


def test_library_calls_and_random_numbers():
    def program(x, generator):
        y = np.sort(x, axis=1)[:, ::2]
        return y @ y.T, generator.random(3), np.unique(x > 0)

    got = numstax.jit(program, strict=True, **GPU)(X, np.random.default_rng(3))
    for a, b in zip(got, program(X, np.random.default_rng(3)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_results_of_several_calls_are_kept():
    function = numstax.jit(lambda x: x * 2, strict=True, **GPU)
    results = [function(X + k) for k in range(5)]
    for k, got in enumerate(results):
        np.testing.assert_array_equal(got, (X + k) * 2)


def test_read_only_arguments():
    x = X.copy()
    x.flags.writeable = False

    def change(x):
        x += 1

    with pytest.raises(ValueError, match="read-only"):
        numstax.jit(change, strict=True, **GPU)(x)


def test_a_full_gpu(monkeypatch):
    def full(self, nbytes):
        raise DeviceMemoryError("no memory")

    monkeypatch.setattr(SimulatedDevice, "root", full)
    with pytest.raises(DeviceMemoryError, match=r"no room for 0.00 GB"):
        numstax.jit(lambda x: x * 3, strict=True, **GPU)(np.zeros(77777, np.float32))


def test_device_cpu_stays_on_the_cpu():
    function = numstax.jit(lambda x: x * 2, strict=True, device="cpu", backend="simulate")
    function(X)
    assert "upload" not in function.artifacts()[0].source


def test_only_arrays_of_numpy():
    class Other:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012

    with pytest.raises(UnsupportedArgumentError, match="takes arrays of NumPy"):
        numstax.jit(lambda x: x * 2, strict=True, **GPU)(Other())
