"""Loops and branches on traced values: compiled and interpreted, against plain NumPy; arguments written alike."""

import warnings

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning, TraceError
from tests.control.programs import PROGRAMS
from tests.support import same


def copies(args):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=[f"{f.__name__}{k}" for k, (f, _) in enumerate(PROGRAMS)])
def test_program(program, args, backend):
    given, expected = copies(args), copies(args)
    result = numstax.jit(program, strict=True, backend=backend)(*given)
    wanted = program(*expected)
    for got, want in zip([result, *given], [wanted, *expected], strict=True):
        if isinstance(want, tuple | list):
            for a, b in zip(got, want, strict=True):
                same(a, b, ulps=4096)
        else:
            same(got, want, ulps=4096)


def test_a_longer_loop_compiles_to_the_same_graph():
    def f(u, n):
        for _ in range(n):
            u[1:-1] += 0.1 * (u[2:] + u[:-2] - 2 * u[1:-1])
        return u

    sizes = {len(list(numstax.make_graph(f, (np.ones(50), n)).nodes())) for n in (100, 1000, 100_000)}
    assert len(sizes) == 1


def test_a_branch_that_raises_runs_as_numpy():
    @numstax.jit
    def f(x):
        if x.min() < 0:
            raise ValueError("negative")
        return np.sqrt(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumstaxWarning)
        same(f(np.ones(3)), np.ones(3))
        with pytest.raises(ValueError, match="negative"):
            f(-np.ones(3))


def test_a_list_that_grows_in_a_long_loop_is_unrolled():
    def f(x):
        out = []
        for k in range(40):
            out.append(x * k)
        return out

    got = numstax.jit(f, strict=True)(np.ones(2))
    assert len(got) == 40
    same(got[7], np.ones(2) * 7)


def test_a_carried_value_that_changes_its_shape_is_named():
    def f(x):
        while x.sum() < 100:
            x = np.concatenate([x, x])
        return x

    with pytest.raises(numstax.errors.TraceError, match="'x' is"):
        numstax.jit(f, strict=True)(np.ones(3))
    with pytest.warns(NumstaxWarning, match="'x' is"):
        same(numstax.jit(f)(np.ones(3)), f(np.ones(3)))


def test_an_alias_sees_what_is_written_after_a_swap():
    def f(u, n):
        first = u
        v = np.zeros_like(u)
        for _ in range(n):
            v[...] = u + 1
            u, v = v, u
        return first, u

    for n in (20, 21):
        x = np.arange(4.0)
        y = x.copy()
        for got, want in zip(numstax.jit(f, strict=True)(x, n), f(y, n), strict=True):
            same(got, want)
        same(x, y)


def test_a_short_loop_of_many_operations_is_captured():
    def program(x):
        for _ in range(10):
            for _ in range(10):
                for _ in range(10):
                    x = np.sin(x) + 1
        return x

    x = np.linspace(0, 1, 5)
    compiled = numstax.jit(program, strict=True)
    np.testing.assert_allclose(compiled(x), program(x), rtol=1e-12)
    assert len(list(numstax.make_graph(program, (x,)).nodes())) < 100


def test_why_a_loop_cannot_be_captured_is_said():
    def program(x):
        shapes = []
        for _ in range(100):
            shapes.append(1)
            if x.sum() > len(shapes):
                break
        return x

    with pytest.raises(TraceError, match="a list, dict or object is changed in a loop"):
        numstax.jit(program, strict=True)(np.ones(3))


def test_a_loop_reads_an_array_with_axes_of_one_element():
    weights = np.arange(5)

    def program(x, steps):
        for _ in range(steps):
            x = (weights[:, None, None] * x).sum(axis=0) + x
        return x

    x = np.linspace(0, 1, 15).reshape(5, 3, 1)
    np.testing.assert_allclose(numstax.jit(program, strict=True)(x, 40), program(x, 40), rtol=1e-12)
