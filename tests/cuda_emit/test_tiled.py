"""Transposes through shared memory, and stencils, on a GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from numstax import dtypes
from numstax.hardware import GPUS
from tests.cuda_emit.running import check, programs, text
from tests.support import normal


def stencil(u: np.ndarray) -> np.ndarray:
    c = u[1:-1, 1:-1]
    return c + 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * c)


@pytest.mark.parametrize("dtype", ["?", "u1", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("shape", [(64, 128), (100, 70), (16, 300), (129, 65)])
def test_transposes(shape: tuple[int, int], dtype: str) -> None:
    check(lambda x, y: x.T + y, normal(shape, dtype), normal(shape[::-1], dtype, seed=1))


def test_both_sides_are_read_in_wide_accesses() -> None:
    made = text(lambda x, y: x.T + y, normal((8192, 256)), normal((256, 8192)))
    assert made.count("load4_f32(") == 2
    assert "shared_f32" in made
    half = text(lambda x, y: x.T * y, *(np.zeros((512, 512), ml_dtypes.bfloat16) for _ in range(2)))
    assert half.count("load8_bf16(") == 2


def test_whole_sectors_are_used_and_no_bank_is_met_again_and_again() -> None:
    (report,) = check(lambda x: np.ascontiguousarray(x.T), normal((256, 512)))
    assert report.sector_use() >= 0.99
    shared = [site for site in report.sites.values() if site.space == "shared"]
    assert all(site.passes <= 4 * site.requests for site in shared)


def test_permutations_of_three_axes() -> None:
    x = normal((20, 30, 40))
    for axes in ((0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1), (1, 0, 2)):
        check(lambda x, a=axes: np.ascontiguousarray(x.transpose(a)) * 2, x)


@pytest.mark.parametrize("shape", [(10, 300), (70, 34), (258, 514), (33, 5)])
def test_stencils(shape: tuple[int, int]) -> None:
    check(stencil, normal(shape))


def test_a_thread_loads_what_its_rows_share_once() -> None:
    made = programs(stencil, normal((8194, 8194)))[0]
    assert made.name.startswith("poi_")
    assert "for c0 in range(8)" in made.text
    assert int(made.grid[0]) == 1024 * 16
    assert made.text.count("load2_f32(") == 6  # of three rows a window each


def test_windows_of_chunks() -> None:
    """Rows that begin at no multiple of a chunk, loads far apart along a row, several dtypes and arrays."""
    check(lambda u: u[1:-1, 8:] - u[1:-1, 3:-5] + u[2:, 1:-7] * u[:-2, :-8], normal((40, 264)))
    check(lambda u, v: u[1:-1, 1:-1] + v[2:, :-2] - u[:-2, 2:], normal((40, 102)), normal((40, 102)))
    check(lambda u: (u[1:-1, 1:-1] + u[2:, :-2]) * u[:-2, 2:], normal((40, 104), dtypes.BFLOAT16), ulps=2)
    check(lambda u: u[1:-1, 1:-1] + u[2:, :-2] - u[:-2, 2:], normal((40, 103)))


def test_three_dimensions() -> None:
    check(lambda u: u[1:-1] + u[2:] - u[:-2], normal((12, 20, 30)))
    check(lambda u: u[1:-1, 1:-1, 1:-1] - u[2:, 1:-1, 1:-1] * u[1:-1, :-2, 1:-1], normal((12, 20, 30)))


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    square = normal((512, 512))
    for made in (
        *programs(lambda x, y: x.T + y, square, square, gpu=GPUS[target]),
        *programs(stencil, square, gpu=GPUS[target]),
        *programs(lambda x: np.tanh(x.T) * np.exp(x), square, gpu=GPUS[target]),
    ):
        cubin = compile_cuda.compile_program(made)
        assert cubin.stack == 0
        assert not cubin.notices
