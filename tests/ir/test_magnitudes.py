"""Magnitudes of complex numbers are compared by their squares, where that changes nothing."""

import numpy as np
import pytest

import numstax
from numstax.ir.rewrite import simplify

EDGE = [0.0, -0.0, 1e-300, 0.3, 1.0, -1.2, 1.6, 2.0, 1e200, np.inf, -np.inf, np.nan]


def points(dtype):
    z = np.empty((len(EDGE), len(EDGE)), dtype)
    with np.errstate(over="ignore"):
        z.real, z.imag = np.meshgrid(EDGE, EDGE)
    return z


def operations(function, *args):
    return {n.op for n in simplify(numstax.make_graph(function, args)).nodes()}


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("limit", [2, 0.5, 1.5, 1024.0])
def test_every_comparison_is_numpys(dtype, limit):
    def program(z):
        size = np.abs(z)
        return size > limit, size >= limit, size < limit, size <= limit, limit > size, limit <= size

    z = points(dtype)
    assert "absolute" not in operations(program, z)
    for got, want in zip(numstax.jit(program, strict=True)(z), program(z), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("limit", [0.1, 0.0, -2.0, np.inf, np.nan, 1e200, 1e-200])
def test_limits_without_an_exact_square_are_compared_with_the_magnitude(limit):
    def program(z):
        return np.abs(z) > limit

    z = points(np.complex128)
    assert "absolute" in operations(program, z)
    np.testing.assert_array_equal(numstax.jit(program, strict=True)(z), program(z))


def test_other_magnitudes_stay():
    def program(x, z):
        return np.abs(x) > 2, np.abs(z) > x, np.abs(z) == 2

    args = np.linspace(-3, 3, 7), np.linspace(-3, 3, 7) * 1j
    for got, want in zip(numstax.jit(program, strict=True)(*args), program(*args), strict=True):
        np.testing.assert_array_equal(got, want)
