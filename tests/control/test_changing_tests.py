"""Tests of ``while`` loops that change something: they run once before each iteration, and once at the end."""

import numpy as np
import pytest

import numstax
from tests.support import same


def array(x):
    def goes_on():
        x[0] += 1
        return x[0] < 10

    while goes_on():
        x[1] += x[0]
    return x.copy()


def variable(x):
    n = 0.0

    def goes_on():
        nonlocal n
        n = n + x[0]
        return n < 50

    while goes_on():
        x[1] += n
    return x.copy(), n


def walrus(x):
    n = 0
    while (n := n + x[0]) < 50:
        x[1] += n
    return x.copy(), n


def generator(x):
    rng = np.random.default_rng(11)
    tries = 0
    while rng.standard_normal() < x[0]:
        tries += 1
    return tries, rng.random()


def nested(x):
    rng = np.random.default_rng(12)
    k = 0
    for _ in range(100):
        while rng.random() < 0.5 and rng.random() < 0.9:
            k += 1
        x[0] += k
    return x.copy(), rng.random()


@pytest.mark.parametrize("program", [array, variable, walrus, generator, nested])
def test_as_in_python(program):
    x, y = np.array([2.0, 3.0]), np.array([2.0, 3.0])
    same(numstax.jit(program, strict=True)(x), program(y))
    same(x, y)
