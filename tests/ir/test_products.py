"""Small matrix products become reductions; larger ones stay with the library."""

import numpy as np
import pytest

import numstax
from numstax.ir.rewrite import simplify

RNG = np.random.default_rng(5)


def operations(f, *args):
    return {node.op for node in simplify(numstax.make_graph(f, args)).nodes()}


@pytest.mark.parametrize(
    ("left", "right", "is_reduced"),
    [
        ((7,), (7,), True),
        ((300, 400), (400,), True),
        ((400,), (400, 300), True),
        ((5, 4), (4, 6), True),
        ((90, 3, 4), (90, 4, 5), True),
        ((64, 64), (64, 64), False),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4", "f2", "?"])
def test_products(left, right, is_reduced, dtype):
    a, b = ((RNG.standard_normal(s) * 4).astype(dtype) for s in (left, right))
    found = operations(np.matmul, a, b)
    assert ("matmul" in found) != (is_reduced and dtype not in ("f2", "?"))
    got, want = numstax.jit(np.matmul, strict=True)(a, b), np.matmul(a, b)
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    tolerance = {"f4": 1e-5, "c16": 1e-13, "f8": 1e-13, "f2": 1e-2}.get(dtype, 0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(a).max() * 20)


@pytest.mark.parametrize("shapes", [((3, 0), (0,)), ((0, 3), (3,)), ((2, 3, 0), (2, 0, 4)), ((0,), (0,))])
def test_empty_products_are_zero(shapes):
    a, b = map(np.ones, shapes)
    np.testing.assert_array_equal(numstax.jit(np.matmul, strict=True)(a, b), np.matmul(a, b))


def test_a_product_with_a_vector_fuses_with_what_follows():
    def f(a, b, x):
        return 2.0 * a @ x + np.exp(b @ x)

    a, b, x = RNG.random((40, 30)), RNG.random((40, 30)), RNG.random(30)
    compiled = numstax.jit(f, strict=True)
    np.testing.assert_allclose(compiled(a, b, x), f(a, b, x), rtol=1e-13)
    (artifact,) = compiled.artifacts()
    assert len(artifact.region.schedule.units) == 1


def test_products_with_parts_of_a_matrix_keep_a_loop_native():
    def solve(lower, b):
        x = np.zeros_like(b)
        for i in range(b.shape[0]):
            x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
        return x

    lower, b = np.tril(RNG.random((40, 40))) + 40 * np.eye(40), RNG.random(40)
    compiled = numstax.jit(solve, strict=True)
    np.testing.assert_allclose(compiled(lower, b), solve(lower, b), rtol=1e-12)
    assert "matmul(" not in compiled.inspect().split("wrapper:")[1]
