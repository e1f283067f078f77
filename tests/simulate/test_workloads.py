"""The benchmark's functions at small and awkward sizes, against float64 NumPy, and how well contiguous ones load."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bench import workloads as w
from numstax import dtypes
from numstax.pipeline import build
from tests.simulate.running import H200, simulate
from tests.support import normal

ROWS: list[tuple[Callable[..., object], tuple[str, ...]]] = [
    (w.relu_sum, ("nm", "m")),
    (w.transpose_add, ("nm", "mn")),
    (w.gelu_backward, ("nm", "nm")),
    (w.sum_squares, ("nm",)),
    (w.softmax, ("nm",)),
    (w.layernorm, ("nm", "m", "m")),
    (w.rmsnorm_residual, ("nm", "nm", "m")),
    (w.col_mean, ("nm",)),
    (w.row_var, ("nm",)),
    (w.black_scholes, ("nm", "nm", "nm")),
    (w.stencil5, ("nm",)),
    (w.full_sum, ("nm",)),
    (w.full_argmax, ("nm",)),
    (w.cumsum_rows, ("nm",)),
    (w.bcast_chain, ("nm", "n1", "1m")),
    (w.small_chain, ("nm",)),
]
SIZES = ((64, 48), (5, 257), (3, 4096))


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize(("function", "shapes"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_workload(function: Callable[..., object], shapes: tuple[str, ...], n: int, m: int) -> None:
    sizes = {"n": n, "m": m, "1": 1}
    args = [np.abs(normal(tuple(sizes[k] for k in shape), seed=k)) + 0.5 for k, shape in enumerate(shapes)]
    compare(function, args, 2e-5)


@pytest.mark.parametrize("function", [w.softmax, w.layernorm, w.rmsnorm_residual], ids=lambda f: f.__name__)
def test_bfloat16(function: Callable[..., object]) -> None:
    def single(*args: np.ndarray) -> object:
        made = function(*(a.astype(np.float32) for a in args))
        return tuple(x.astype(args[0].dtype) for x in made) if isinstance(made, tuple) else made.astype(args[0].dtype)

    x, g = normal((17, 1000), dtypes.BFLOAT16), normal((1000,), dtypes.BFLOAT16, 1)
    args = {w.softmax: [x], w.layernorm: [x, g, g], w.rmsnorm_residual: [x, x, g]}[function]
    compare(single, args, 2e-2)


def compare(function: Callable[..., object], args: list[np.ndarray], tolerance: float) -> None:
    want = function(*(a.astype(np.float64) for a in args))
    schedule = build(function, tuple(args), machine=H200).schedule
    assert schedule is not None
    got, *_ = simulate(schedule, args)
    for g, r in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        assert g is not None
        scale = np.abs(np.asarray(r, np.float64)).max()
        np.testing.assert_allclose(g.astype(np.float64), np.asarray(r, np.float64), tolerance, tolerance * scale)
