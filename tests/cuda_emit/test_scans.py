"""Running combinations on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from numstax.hardware import GPUS
from tests.cuda_emit.running import check, programs, simulated, text
from tests.support import normal, specials


@pytest.mark.parametrize("shape", [(3, 1), (700, 7), (37, 33), (9, 1000), (2, 4100), (5, 512), (1, 9000), (2, 70001)])
@pytest.mark.parametrize("function", [np.cumsum, np.cumprod])
def test_rows_of_any_length(function: Callable[..., np.ndarray], shape: tuple[int, int]) -> None:
    x = np.round(normal(shape) * 8) if function is np.cumsum else np.sign(normal(shape))
    check(lambda x: function(x, axis=1), x, ulps=0)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8"])
def test_every_dtype(dtype: str) -> None:
    check(lambda x: np.cumsum(x, axis=1), normal((3, 300), dtype), ulps=256)


def test_nan_and_signs_of_zero_carry_on() -> None:
    x = np.full((4, 300), -0.0, np.float32)
    x[1, 7], x[2, 150], x[3] = np.nan, np.inf, np.resize(specials(np.dtype("f4")), 300)
    got = simulated(lambda x: np.cumsum(x, 1), x)[0][0]
    with np.errstate(all="ignore"):
        want = np.cumsum(x, 1)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.signbit(got[0]), np.signbit(want[0]))


def test_a_long_row_is_scanned_by_a_block() -> None:
    made = programs(lambda x: np.cumsum(x, 1), normal((8192, 16384)))[0]
    assert made.block == 512
    assert made.text.count("load4_f32(") == made.text.count("store4_f32(") == 1
    assert made.text.count("barrier()") == 1


def test_what_is_scanned_is_computed_in_place() -> None:
    def function(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        e = np.exp(x)
        return np.cumsum(e / e.sum(1, keepdims=True), 1), x.max(1)

    check(function, normal((20, 700)))
    assert "shuffle_up" in text(function, normal((20, 700)))


def test_few_long_columns() -> None:
    check(lambda x: np.cumsum(x, 0), np.round(normal((5000, 2))), ulps=0)


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    for shape in ((8192, 16384), (8, 1 << 20), (4096, 1000)):
        for made in programs(lambda x: np.cumsum(x, 1), normal(shape), gpu=GPUS[target]):
            cubin = compile_cuda.compile_program(made)
            assert cubin.stack == 0
            assert not cubin.notices
