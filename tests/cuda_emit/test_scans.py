"""Running combinations on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numstax
from numstax.hardware import GPUS
from numstax.schedule.split_scans import COLUMN_PART, PART
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


@pytest.mark.parametrize("shape", [(300001,), (1 << 18,), (2, 140001), (3, 1 << 17)])
def test_few_long_rows_are_shared_out(shape: tuple[int, ...]) -> None:
    """Parts of a row are combined, then what they give, then each goes on from what comes before it."""
    x = np.round(normal(shape) * 8)
    check(lambda x: np.cumsum(x, -1), x, ulps=0)
    made = programs(lambda x: np.cumsum(x, -1), x)
    assert [p.name.rstrip("_0123456789") for p in made] == ["red_add", *["scan_add"] * (len(made) - 1)]
    assert len(made) == 3 + (shape[-1] % PART != 0)
    blocks = [eval(p.grid[0]) // p.cluster for p in made]
    assert blocks[0] == blocks[2] == np.prod(shape[:-1], dtype=int) * (shape[-1] // PART)


def test_long_columns_are_shared_out() -> None:
    x = np.round(normal((40001, 6)))
    check(lambda x: np.cumsum(x, 0), x, ulps=0)
    made = programs(lambda x: np.cumsum(x, 0), x)
    assert len(made) == 4
    assert eval(made[2].grid[0]) * made[2].block >= 6 * (40001 // COLUMN_PART)


@pytest.mark.parametrize("dtype", ["i4", "f8", "c8"])
def test_parts_of_every_dtype(dtype: str) -> None:
    x = normal((140003,), dtype) % 3 if dtype == "i4" else (normal((140003,), "f4") > 1).astype(dtype)
    check(np.cumsum, x, ulps=2)


def test_operations_that_are_shared_out() -> None:
    x = np.sign(normal((150001,)))
    x[70000] = 2
    check(np.cumprod, x, ulps=0)
    check(lambda x: np.maximum.accumulate(x), normal((150001,)), ulps=0)
    check(lambda x: np.logical_or.accumulate(x > 3.5), normal((150001,)))
    check(lambda x: (np.cumsum(np.round(x * x)), x + 1), normal((150001,)), ulps=0)
    x = normal((150001,))
    x[100000] = np.nan
    check(lambda x: np.minimum.accumulate(x), x, ulps=0)


def test_a_row_that_is_replaced_by_its_sums() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        x[:] = np.cumsum(x)
        return x[:3] + 1

    check(function, np.round(normal((150001,))), ulps=0)


def test_rows_whose_number_of_parts_comes_with_the_call() -> None:
    jitted = numstax.jit(lambda x: np.cumsum(x), strict=True, dynamic=True, device="cuda", backend="simulate")
    for n in (40, 2, PART - 1, PART, PART + 1, 3 * PART, 5 * PART + 77):
        x = np.round(normal((n,)))
        np.testing.assert_array_equal(jitted(x), np.cumsum(x))
    assert jitted.compile_count == 1


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    for shape in ((8192, 16384), (8, 1 << 20), (4096, 1000)):
        for made in programs(lambda x: np.cumsum(x, 1), normal(shape), gpu=GPUS[target]):
            cubin = compile_cuda.compile_program(made)
            assert cubin.stack == 0
            assert not cubin.notices
