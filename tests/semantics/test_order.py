"""Medians of few values, by a sorting network, equal NumPy's; a network sorts."""

import itertools

import numpy as np
import pytest

import numstax
from numstax.trace.functions.order import FEW, network
from tests.support import same


@pytest.mark.parametrize("count", range(1, 12))
def test_a_network_sorts(count):
    """What sorts every sequence of zeros and ones sorts all."""
    for values in itertools.product((0, 1), repeat=count):
        line = list(values)
        for low, high in network(count):
            line[low], line[high] = sorted((line[low], line[high]))
        assert line == sorted(values)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize(
    ("shape", "axis", "keepdims"),
    [
        ((7, 1), 1, False),
        ((3, 40), 0, True),
        ((4, 6), None, True),
        ((2, 5, 6), (0, -2), False),
        ((FEW + 1, 3), 0, False),
    ],
)
def test_medians(dtype, shape, axis, keepdims):
    x = np.random.default_rng(len(shape)).normal(0, 50, shape).astype(dtype)

    def program(x):
        return np.median(x, axis=axis, keepdims=keepdims)

    same(numstax.jit(program, strict=True)(x), program(x))


def test_medians_of_what_is_not_a_number_and_of_windows():
    x = np.random.default_rng(3).normal(size=(12, 9))
    x[3, 4], x[7, 1], x[7, 2], x[7, 3] = np.nan, np.inf, np.inf, -np.inf

    def program(x, out):
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
        np.median(windows, axis=(2, 3), out=out)
        return np.median(x, axis=1)

    ours, theirs = np.zeros((10, 7)), np.zeros((10, 7))
    compiled = numstax.jit(program, strict=True)
    same(compiled(x, ours), program(x, theirs))
    same(ours, theirs)
    assert "extern" not in compiled.inspect()
