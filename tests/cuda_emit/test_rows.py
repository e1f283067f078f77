"""Reductions along rows on a GPU: every operation, dtype and form, with rows that fit no block."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from numstax.hardware import GPUS
from tests.cuda_emit.running import check, programs, simulated, text
from tests.support import ALL, normal, specials

REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x: np.ndarray) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(1e-5))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_reduction_of_every_dtype(name: str, dtype: np.dtype) -> None:
    if dtype.kind == "c" and name in ("max", "min", "argmax", "argmin"):
        pytest.skip("complex numbers are ordered by a library")
    x = normal((5, 70), dtype)
    if name == "prod":
        x = np.where(np.abs(x.astype(np.complex64)) > 1, x.dtype.type(1), x)
    check(lambda x: getattr(np, name)(x, axis=1), x, ulps=64)


@pytest.mark.parametrize("shape", [(3, 1), (700, 7), (37, 33), (9, 1000), (2, 4100), (300, 64), (1, 9000), (4, 1028)])
@pytest.mark.parametrize("function", [softmax, layernorm, lambda x: x.argmax(-1), lambda x: x.sum(-1)])
def test_rows_of_any_length(function: Callable[..., object], shape: tuple[int, int]) -> None:
    check(function, normal(shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_first_position_and_nan_win(dtype: object) -> None:
    x = np.tile(specials(np.dtype(dtype)), (6, 70))
    for k, value in enumerate((np.nan, 1.0, np.inf, -np.inf, 0.0)):
        x[k] = value
    x[4, 900:] = np.nan
    check(lambda x: (x.argmax(1), x.argmin(1), x.max(1), x.min(1)), x)


def test_several_loops_keep_a_row_in_registers() -> None:
    made = text(layernorm, normal((4096, 1024)))
    assert made.count("load4_f32(") == 1
    assert made.count("x0 = registers_f32(") == 1


def low(x: np.ndarray) -> np.ndarray:
    return softmax(x.astype(np.float32)).astype(x.dtype)


@pytest.mark.parametrize("width", [40_000, 65_536, 65_540, 33_000])
def test_long_rows_stay_in_shared_memory(width: int) -> None:
    check(softmax, normal((60, width)), gpu=GPUS["A100"])
    check(lambda x: x.var(1), normal((60, width)), ulps=64, gpu=GPUS["A100"])


@pytest.mark.parametrize(
    ("width", "cluster", "functions"),
    [
        (20_000, 4, (softmax, layernorm, lambda x: (x.argmax(1), x / x.max(1, keepdims=True)))),
        (65_536, 8, (layernorm,)),
        (65_540, 8, (softmax,)),
    ],
)
def test_long_rows_stay_in_the_registers_of_a_cluster(
    width: int, cluster: int, functions: tuple[Callable[..., object], ...]
) -> None:
    x = normal((66, width))
    for function in functions:
        (made,) = programs(function, x)
        assert made.cluster == cluster
        (report,) = check(function, x)
        assert report.sector_use() > 0.9


def test_rows_of_a_cluster_that_are_not_kept() -> None:
    function = lambda x: x[:, ::-1] / np.exp(x).sum(1, keepdims=True)  # noqa: E731
    check(function, normal((66, 20_000)))


def test_a_long_row_is_read_once() -> None:
    (made,) = programs(low, np.zeros((4096, 65536), ml_dtypes.bfloat16))
    assert (made.cluster, made.block) == (8, 256)
    assert made.text.count("load8_bf16(") == 1


def test_rows_too_long_for_the_chip_are_read_twice() -> None:
    check(softmax, normal((2, 100_000)))


def test_results_of_rows_are_used_along_rows() -> None:
    def function(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        m = x.max(1)
        return m, (x - m[:, None]) * y, (y * m[:, None]).sum(1)

    check(function, normal((50, 300)), normal((50, 300)))


def test_what_other_threads_wrote_is_waited_for() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        e = np.exp(x)
        return e[:, ::-1] / e.sum(1, keepdims=True)

    check(function, normal((40, 500)))
    check(function, normal((2, 5000)))


def test_large_sums_are_nearly_exact() -> None:
    x = (normal((3, 300_000)) + np.float32(100)).astype(np.float32)
    exact = x.astype(np.float64).sum(1)

    ours = simulated(lambda x: x.sum(1), x)[0][0]
    assert (np.abs(ours - exact) <= 1.5 * np.spacing(exact.astype(np.float32))).all()


@pytest.mark.parametrize("axes", [(0, 2), (1, 2), (0, 1), None, 0])
def test_axes(axes: object) -> None:
    check(lambda x: (x.sum(axes), x.max(axes), x.argmax() if axes is None else x.std(axes)), normal((6, 10, 40)))


def test_running_sums_and_updates_in_order() -> None:
    check(lambda x: (np.cumsum(x, 1), np.cumprod(x, 0)), normal((30, 50)) / 2)

    def function(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        out = np.zeros(10, np.float32)
        np.add.at(out, at, x)
        return out

    check(function, normal((200,)), np.arange(200) ** 2 % 10)


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    for function, shape, dtype in (
        (softmax, (4096, 1000), np.float32),
        (softmax, (128, 65536), np.float32),
        (low, (128, 65536), ml_dtypes.bfloat16),
        (layernorm, (64, 32768), np.float32),
        (lambda x: x.argmax(1), (64, 4096), np.float32),
    ):
        for made in programs(function, normal(shape).astype(dtype), gpu=GPUS[target]):
            cubin = compile_cuda.compile_program(made)
            assert cubin.stack == 0
            assert not cubin.notices
