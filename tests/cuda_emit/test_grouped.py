"""`numstax.grouped_matmul`: products of different sizes in one launch."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import numstax
from numstax.errors import ShapeError
from numstax.pipeline import build
from numstax.program import Emitted
from tests.cuda_emit.running import H200

SIZES = ((40, 72, 64), (200, 136, 72), (17, 64, 136), (5, 200, 8))


def matrices(dtype: object, turned: bool = False) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    lefts = [draw.standard_normal((m, k)).astype(dtype) for m, k, _ in SIZES]  # type: ignore[call-overload]
    rights = [draw.standard_normal((n, k) if turned else (k, n)).astype(dtype) for _, k, n in SIZES]  # type: ignore[call-overload]
    return [*lefts, *rights]


def grouped(*factors: np.ndarray) -> tuple[np.ndarray, ...]:
    half = len(factors) // 2
    return tuple(numstax.grouped_matmul(factors[:half], factors[half:]))


def turned(*factors: np.ndarray) -> tuple[np.ndarray, ...]:
    half = len(factors) // 2
    return tuple(numstax.grouped_matmul(factors[:half], [x.T for x in factors[half:]]))


def names(function: object, *arguments: np.ndarray) -> list[str]:
    return [e.program.name for e in build(function, arguments, machine=H200).emitted if isinstance(e, Emitted)]  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.float16])
def test_one_program_computes_all(dtype: object) -> None:
    for function, factors in ((grouped, matrices(dtype)), (turned, matrices(dtype, turned=True))):
        assert names(function, *factors) == ["tem_matmul_grouped"]
        got = numstax.jit(function, backend="simulate", strict=True)(*factors)
        for g, w in zip(got, function(*(x.astype("f8") for x in factors)), strict=True):
            assert g.dtype == np.dtype(dtype)  # type: ignore[call-overload]
            limit = 8 * float(ml_dtypes.finfo(g.dtype).eps)
            assert np.abs(g.astype("f8") - w).max() <= limit * np.abs(w).max()


def test_views_begin_where_they_do() -> None:
    def function(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(numstax.grouped_matmul([x[:40], x[40:]], [y[0], y[1]]))

    x, y = np.random.default_rng(0).standard_normal((100, 72)), np.random.default_rng(1).standard_normal((2, 72, 24))
    assert names(function, x, y) == ["tem_matmul_grouped"]
    for g, w in zip(numstax.jit(function, backend="simulate")(x, y), (x[:40] @ y[0], x[40:] @ y[1]), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


def test_what_is_before_and_behind_stays_there() -> None:
    def function(*factors: np.ndarray) -> tuple[np.ndarray, ...]:
        half = len(factors) // 2
        made = numstax.grouped_matmul([np.sort(x) for x in factors[:half]], factors[half:])
        return tuple(np.maximum(x, 0).sum(0) for x in made)

    factors = matrices(np.float32)
    assert "tem_matmul_grouped" in names(function, *factors)
    for g, w in zip(numstax.jit(function, backend="simulate")(*factors), function(*factors), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


def test_products_that_are_not_alike_have_programs_of_their_own() -> None:
    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(numstax.grouped_matmul([a, a.astype(np.float16)], [b, c]))

    a, b, c = (np.ones(shape, kind) for shape, kind in (((40, 72), "f4"), ((72, 64), "f4"), ((72, 64), "f2")))
    assert len(names(function, a, b, c)) == 3


def test_without_a_trace_and_on_the_cpu_it_is_numpy() -> None:
    factors = matrices(np.float64)
    for got in (grouped(*factors), numstax.jit(grouped, strict=True)(*factors)):
        for g, a, b in zip(got, factors[:4], factors[4:], strict=True):
            np.testing.assert_allclose(g, a @ b, rtol=1e-12, atol=1e-12)


def test_mistakes() -> None:
    a, b = np.ones((3, 4)), np.ones((4, 5))
    with pytest.raises(ShapeError, match="2 left factors and 1 right"):
        numstax.grouped_matmul([a, a], [b])
    with pytest.raises(ShapeError, match="factors are matrices"):
        numstax.grouped_matmul([a[0]], [b])
    with pytest.raises(ShapeError, match="mismatch in its core dimension"):
        numstax.jit(lambda a, b: numstax.grouped_matmul([a], [b])[0], strict=True)(a, a)
