"""Reductions and scans down columns on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from numstax.hardware import GPUS
from tests.cuda_emit.running import check, programs, text
from tests.support import ALL, normal, specials


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(0))
    return e / e.sum(0)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", ["sum", "max", "argmin", "any"])
def test_every_dtype(name: str, dtype: np.dtype) -> None:
    if dtype.kind == "c" and name in ("max", "argmin"):
        pytest.skip("complex numbers are ordered by a library")
    check(lambda x: getattr(np, name)(x, axis=0), normal((70, 36), dtype), ulps=64)


@pytest.mark.parametrize("shape", [(1, 5), (300, 3), (7, 1000), (1000, 64), (33, 130), (4, 5, 36), (5000, 8)])
@pytest.mark.parametrize(
    "function", [softmax, lambda x: x.var(0), lambda x: x.argmax(0), lambda x: np.cumsum(np.round(x), 0)]
)
def test_any_shape(function: Callable[..., object], shape: tuple[int, ...]) -> None:
    check(function, normal(shape), ulps=64)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_first_position_and_nan_win(dtype: object) -> None:
    x = np.repeat(specials(np.dtype(dtype))[:, None], 24, 1)
    check(lambda x: (x.argmax(0), x.argmin(0), x.max(0), x.min(0)), np.concatenate([x, x[::-1], x]))


def test_middle_axis() -> None:
    check(lambda x: (x.mean(1), x.max(1)), normal((6, 50, 20)))


def test_rows_are_split_among_blocks_where_columns_are_few() -> None:
    made = programs(lambda x: x.mean(0), normal((65536, 64)))
    assert len(made) == 2
    assert int(made[0].grid[0]) >= 64
    assert "load4_f32(" in made[0].text
    check(lambda x: x.mean(0), normal((20000, 12), "f8") + 1, ulps=4096)


def test_columns_are_read_with_16_bytes() -> None:
    assert "load8_bf16(" in text(lambda x: x.max(0), normal((512, 512), ml_dtypes.bfloat16))


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    functions = (softmax, lambda x: x.mean(0), lambda x: np.cumsum(x, 0))
    for function, shape in zip(functions, ((4096, 1000), (65536, 2048), (64, 4096)), strict=True):
        for made in programs(function, normal(shape), gpu=GPUS[target]):
            cubin = compile_cuda.compile_program(made)
            assert cubin.stack == 0
            assert not cubin.notices
