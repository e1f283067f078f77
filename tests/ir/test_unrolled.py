"""Short reductions become chains: which do, and that they keep every bit, through simplification and compiled."""

import numpy as np
import pytest

import numstax
from numstax.ir.rewrite import simplify
from tests.support import same

LONG = 2000


def reductions(function, *args):
    return sum(n.op.startswith("reduce_") for n in simplify(numstax.make_graph(function, args)).nodes())


@pytest.mark.parametrize(
    ("shape", "axis", "left"),
    [
        ((LONG, 3), 1, 0),
        ((9, LONG), 0, 0),
        ((LONG, 5), 1, 1),
        ((10, LONG), 0, 1),
        ((LONG, 3), 0, 1),
        ((3, 3), 0, 1),
        ((9 * LONG, 2), 0, 2),
        ((LONG, 2, 3), (1, 2), 1),
    ],
)
def test_which_reductions_become_chains(shape, axis, left):
    assert reductions(lambda x: (x * x).sum(axis=axis), np.ones(shape)) == left


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all"])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint32, np.float16, np.float32, np.complex128])
def test_results_are_those_of_numpy(name, dtype):
    x = np.random.default_rng(1).integers(-2, 3, (3, LONG, 2)).astype(dtype)
    if dtype == np.float32:
        x[0, :9], x[1, 3], x[:, 4], x[:, 5] = -0.0, np.nan, -0.0, np.inf

    def program(x):
        return [getattr(np, name)(np.negative(x) if x.dtype != bool else ~x, axis=k) for k in range(3)]

    exact = name not in ("sum", "prod") or dtype not in (np.complex128, np.float32, np.float16)
    with np.errstate(all="ignore"):
        got, want = numstax.jit(program, strict=True)(x), program(x)
    same(got[0], want[0])
    same(got[2], want[2])
    same(got[1], want[1]) if exact else np.testing.assert_allclose(got[1], want[1], rtol=1e-2)


def test_a_chain_is_made_of_what_it_needs():
    """Distances of all pairs, used twice, with constants, a mask and positions on the way."""

    def program(x, weights):
        away = x[None, :, :] - x[:, None, :]
        close = ((away**2).sum(axis=-1) + 1.0) ** -1.5 * weights
        kept = np.where(np.arange(3) > 0, away * close[:, :, None], 0.5)
        return kept.sum(axis=1), kept.max(axis=2), close.sum(axis=1)

    rng = np.random.default_rng(2)
    x, weights = rng.normal(size=(70, 3)), rng.random(70)
    for got, want in zip(numstax.jit(program, strict=True)(x, weights), program(x, weights), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(("terms", "zeros"), [(np.square, 0), (np.abs, 0), (np.negative, 1)])
def test_a_sum_starts_with_zero_where_its_first_term_may_be_a_negative_one(terms, zeros):
    def program(x):
        return terms(x).sum(axis=-1)

    x = np.zeros((LONG, 3))
    graph = simplify(numstax.make_graph(program, (x,)))
    assert sum(n.op == "constant" for n in graph.nodes()) == zeros
    got = numstax.jit(program, strict=True)(x)
    assert not np.signbit(got).any()
