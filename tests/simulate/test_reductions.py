"""Reductions, positions and scans over rows, columns and everything: values, special values, use of sectors."""

from __future__ import annotations

import numpy as np
import pytest

from numstax import dtypes
from tests.simulate.running import check
from tests.support import normal

DTYPES = [np.dtype(d) for d in ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8")] + [dtypes.BFLOAT16]
SHAPES = ((1,), (33,), (1000,), (5, 7), (70, 33), (4, 5, 6), (2, 4097), (300, 3))


@pytest.mark.parametrize("dtype", DTYPES, ids=dtypes.name)
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "argmax", "argmin", "cumsum"])
def test_reductions(op: str, dtype: np.dtype) -> None:
    if dtype.kind == "c" and op in ("max", "min", "argmax", "argmin"):
        pytest.skip("a library call")
    ulps = 1e4 if dtype.kind in "fc" and not dtypes.is_low(dtype) else 0
    for shape in SHAPES if op != "cumsum" else SHAPES[3:6]:
        x = normal(shape, dtype)
        x = np.where(x < 0, -1, 1).astype(dtype) if op == "prod" else x
        if dtypes.is_low(dtype):  # NumPy rounds at every step, and these sums it does not have to
            x = np.rint(x / 2) + x.dtype.type(0)
        for axis in (None, 0, -1):
            check(lambda x: getattr(x, op)(axis), x, ulps=ulps)


def test_nothing_to_reduce() -> None:
    check(lambda x: (x.sum(0), x.sum(1), x.all()), np.zeros((0, 5), np.float32))
    check(lambda x: x.mean(), np.array(3.0))


@pytest.mark.parametrize("size", [7, 100, 5000])
def test_nan_and_ties(size: int) -> None:
    x = (np.arange(6 * size).reshape(6, size) * 7 % 5).astype(np.float32)
    x[1, size // 2 :] = np.nan
    x[2] = -np.inf
    x[3, ::3] = np.inf
    x[4] = 0.0
    for op in ("max", "min", "argmax", "argmin", "sum", "any"):
        check(lambda x: getattr(x, op)(1), x)
        check(lambda x: getattr(x.T, op)(0), x)


def test_several_reductions_together() -> None:
    def statistics(x: np.ndarray) -> tuple[np.ndarray, ...]:
        mean = x.mean(1, keepdims=True)
        return (x - mean) / np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-5), x.max(1), x.argmin(1)

    for shape in ((3, 5), (17, 1000), (2, 3001)):
        check(statistics, normal(shape, "f8"), ulps=1e4)


def test_rows_are_read_in_whole_sectors() -> None:
    for function in (lambda x: x.sum(1), lambda x: x - x.max(1, keepdims=True), lambda x: x.var(1)):
        for dtype in (np.dtype("f4"), dtypes.BFLOAT16):
            report = check(function, normal((64, 1024), dtype), ulps=64)[0]
            largest = max(report.sites.values(), key=lambda site: site.wanted)
            assert (largest.action, largest.sector_use) == ("load", 1.0)
