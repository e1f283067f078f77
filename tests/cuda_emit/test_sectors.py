"""Kernels on contiguous arrays want at least nine tenths of the 32-byte sectors that they touch, in every form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from numstax import dtypes
from tests.cuda_emit.running import check
from tests.support import normal

X, LOW = normal((128, 1024)), normal((64, 2048), dtypes.BFLOAT16)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CASES: dict[str, tuple[Callable[..., object], tuple[np.ndarray, ...]]] = {
    "pointwise": (lambda x: np.tanh(x) * 2, (X,)),
    "several dtypes": (lambda x: (x > 0, x.astype(np.float64), x.astype(np.int8)), (X,)),
    "half floats": (lambda x: x * x + x, (LOW,)),
    "a vector for all rows": (lambda x, b: x * b + b, (X, X[0])),
    "a number for each row": (lambda x, a: x - a, (X, X[:, :1].copy())),
    "joined rows": (lambda x: np.concatenate([x, x * 2]), (X,)),
    "joined columns": (lambda x: np.concatenate([x, x * 2], axis=1), (X,)),
    "a stencil": (lambda u: u[1:-1, 1:-1] + u[2:, 1:-1] - u[:-2, 1:-1] + u[1:-1, 2:], (normal((130, 1026)),)),
    "a transpose": (lambda x: x.T + 1, (X,)),
    "rows": (softmax, (X,)),
    "rows of half floats": (lambda x: softmax(x.astype(np.float32)).astype(x.dtype), (LOW,)),
    "sums of rows": (lambda x: (x * x).sum(1), (X,)),
    "sums down columns": (lambda x: x.sum(0), (normal((1024, 256)),)),
    "a full sum": (lambda x: x.sum(), (X,)),
    "running sums": (lambda x: np.cumsum(x, 1), (X,)),
    "running sums down columns": (lambda x: np.cumsum(x, 0), (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_sectors_are_used(name: str) -> None:
    function, arrays = CASES[name]
    largest = max(check(function, *arrays, ulps=64), key=lambda report: sum(s.sectors for s in report.sites.values()))
    assert largest.sector_use() >= 0.9
