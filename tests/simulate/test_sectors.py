"""Kernels of every form on contiguous arrays: nine tenths of what they touch in global memory is what they want."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from numstax import dtypes
from numstax.pipeline import build
from tests.simulate.running import H200, simulate

F4, BF16 = np.dtype("f4"), dtypes.BFLOAT16


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


CASES: dict[str, tuple[Callable[[np.ndarray], object], tuple[int, ...], np.dtype]] = {
    "pointwise": (lambda x: x * 2 + 1, (64, 256), F4),
    "pointwise, half": (lambda x: x * 2 + 1, (64, 256), BF16),
    "pointwise, bytes": (lambda x: x * 2 + 1, (64, 256), np.dtype("u1")),
    "broadcast": (lambda x: x * x[:1] + x[:, :1], (64, 256), F4),
    "transposed": (lambda x: x.T * 2, (64, 128), F4),
    "transposed, half": (lambda x: x.T * 2, (64, 128), BF16),
    "read both ways": (lambda x: (x + 1, x.T * 2), (64, 128), F4),
    "joined": (lambda x: np.concatenate([x, x * 2], 1), (64, 256), F4),
    "rows of a warp": (lambda x: x.sum(1), (64, 256), F4),
    "rows of a block": (lambda x: x.sum(1), (4, 8192), F4),
    "rows in registers": (_softmax, (200, 1024), F4),
    "rows in shared memory": (_softmax, (140, 16384), BF16),
    "positions": (lambda x: x.argmax(1), (64, 256), F4),
    "columns": (lambda x: x.sum(0), (256, 128), F4),
    "columns read twice": (lambda x: x - x.mean(0), (256, 128), F4),
    "everything": (lambda x: x.sum(), (256, 256), F4),
    "scan of rows": (lambda x: np.cumsum(x, 1), (16, 1024), F4),
    "scan of columns": (lambda x: np.cumsum(x, 0), (128, 256), F4),
    "product": (lambda x: x @ x, (128, 128), F4),
    "product with a transpose": (lambda x: x @ x.T, (64, 64), F4),
}


@pytest.mark.parametrize("case", CASES)
def test_sectors_are_used(case: str) -> None:
    function, shape, dtype = CASES[case]
    x = np.random.default_rng(0).integers(0, 5, shape).astype(dtype)
    schedule = build(function, (x,), machine=H200).schedule
    assert schedule is not None
    for report in simulate(schedule, [x])[2]:
        assert report.sector_use() >= 0.9, report.lines
