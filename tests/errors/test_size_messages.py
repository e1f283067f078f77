"""Refusals about sizes that depend on values, and about generators: what the program has, and remedies that work."""

import re

import numpy as np
import pytest

import numstax
from numstax.errors import DataDependentError, SizeError, TraceError

X = np.array([1.0, -2, 3, 0.5, 7])


def refusal(function, *args, **options) -> str:
    with pytest.raises(DataDependentError) as caught:
        numstax.jit(function, strict=True, **options)(*args)
    return str(caught.value)


def test_an_element_that_may_not_be_there():
    def f(x):
        s = x[x > 0]
        return s[0]

    text = refusal(f, X)
    line = f.__code__.co_firstlineno + 1
    assert re.search(rf"u0 is the number of elements found at .*test_size_messages\.py:{line}\n", text)
    assert "remedy: state it, if it always holds: numstax.check(selected.shape[0] >= 1), where selected is" in text

    def remedied(x):
        s = x[x > 0]
        numstax.check(s.shape[0] >= 1)
        return s[0]

    assert numstax.jit(remedied, strict=True)(X) == 1


def test_sizes_of_arguments_are_named_as_in_the_program():
    def f(x, other):
        return other + x[x > 0]

    text = refusal(f, X, X, dynamic=True)
    assert "whether x.shape[0] == u0" in text
    assert "numstax.check(x.shape[0] == selected.shape[0])" in text
    assert "with sizes of the program for u0 and u1" in refusal(lambda x, y: x[x > 0] + y[y > 1], X, X)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_check_that_fails_shows_the_line_of_the_program(backend):
    def f(x):
        s = x[x > 0]
        numstax.check(s.shape[0] - 1 >= 0)
        return s * 2

    with pytest.raises(SizeError) as caught:
        numstax.jit(f, strict=True, backend=backend)(-np.abs(X))
    assert str(caught.value) == "numstax.check failed: numstax.check(s.shape[0] - 1 >= 0)"


def sampled(n, rng):
    out = np.zeros(n)
    i = 0
    while i < n:
        v = rng.random()
        if v < 0.5:
            continue
        out[i] = v
        i += 1
    return out[:i]


def test_a_part_whose_length_was_counted():
    text = refusal(sampled, 5, np.random.default_rng(1))
    assert "is the value of 'i', which depends on the values of arrays" in text
    assert "return the whole array and this number, and slice outside" in text

    def remedied(n, rng):
        out = np.zeros(n)
        i = 0
        while i < n:
            v = rng.random()
            if v < 0.5:
                continue
            out[i] = v
            i += 1
        return out[np.arange(len(out)) < i], out, i

    part, out, i = numstax.jit(remedied, strict=True)(5, np.random.default_rng(1))
    wanted = sampled(5, np.random.default_rng(1))
    assert part.tolist() == out[:i].tolist() == wanted.tolist()


def test_export_names_the_generator():
    with pytest.raises(TraceError, match=r"(?s)argument 'rng' is a random generator.*draw before the call"):
        numstax.export(lambda x, rng: x + rng.random(5), (X, np.random.default_rng(0)))


def test_a_slice_that_differs_from_iteration_to_iteration():
    def sieve(n):
        prime = np.ones(n, bool)
        for i in range(2, int(n**0.5) + 1):
            prime[i * i :: i] = False
        return prime

    text = refusal(sieve, 5000, dynamic=True)
    assert "whether n >= k0*k0 + 4*k0 + 4 in every iteration, where k0 counts those of a loop" in text
    assert "without dynamic=True, is written out" in text
    assert numstax.jit(sieve, strict=True)(5000).sum() == sieve(5000).sum()
