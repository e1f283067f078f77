"""Products of matrices compiled to machine code, without a GPU: sums never leave the registers."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import numstax
from numstax.hardware import GPUS
from tests.cuda_emit.running import programs

pytest.importorskip("numba_cuda", reason="needs the cuda extra")
compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")

BF16 = ml_dtypes.bfloat16
Function = Callable[..., object]


def zeros(*shape: int, dtype: object = BF16) -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), shape).copy()  # type: ignore[call-overload]


def gelu(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> object:
    x = a @ b + c
    return x * 0.5 * (1 + np.tanh(0.8 * (x + 0.045 * x * x * x)))


CASES: dict[str, tuple[str, str, Function, tuple[np.ndarray, ...]]] = {
    "warpgroups": ("H200", "", lambda a, b: a.T @ b, (zeros(8192, 8192), zeros(8192, 8192))),
    "turns, with an epilogue": ("H200", "", gelu, (zeros(4000, 1024), zeros(1024, 4000), zeros(4000))),
    "warps on Ampere": ("A100", "", gelu, (zeros(4096, 1024), zeros(1024, 4096), zeros(4096))),
    "warps, any strides": ("B200", "mma", lambda a, b: a @ b, (zeros(1000, 1001), zeros(1001, 1003))),
    "int8": ("A100", "", lambda a, b: a @ b, (zeros(1024, 1024, dtype="i1"), zeros(1024, 1024, dtype="i1"))),
    "ordinary arithmetic": (
        "H200",
        "",
        gelu,
        tuple(zeros(*s, dtype="f4") for s in ((4096, 512), (512, 4096), (4096,))),
    ),
    "ordinary arithmetic, of factors that are computed": (
        "H200",
        "",
        lambda a, b, c: np.maximum((a * c + 1) @ (b - 1), 0),
        tuple(zeros(*s, dtype="f4") for s in ((4096, 4096), (4096, 4096), (4096,))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_spills_and_no_notices(name: str) -> None:
    gpu, template, function, arguments = CASES[name]
    with numstax.matmul_template(template):
        made = programs(function, *arguments, gpu=GPUS[gpu])
    cubin = compile_cuda.compile_program(made[-1])
    assert (cubin.stack, cubin.notices) == (0, ())
