"""Updates at positions that are data, on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from numstax.hardware import GPUS
from numstax.pipeline import build
from tests.cuda_emit.running import H200, check, programs, simulated
from tests.support import normal

AT = (np.arange(3000, dtype=np.int64) ** 2) % 37


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.multiply], ids=["add", "maximum", "multiply"])
def test_updates_meet(ufunc: np.ufunc, dtype: str) -> None:
    def function(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        out = np.ones(40, x.dtype)
        ufunc.at(out, at, x)
        return out

    x = normal((3000,), dtype) if ufunc is not np.multiply else np.sign(normal((3000,), dtype))
    check(function, x, AT, ulps=256)


def test_updates_of_rows_and_of_an_argument() -> None:
    def function(x: np.ndarray, at: np.ndarray, rows: np.ndarray) -> None:
        np.add.at(x, at, rows)

    check(lambda x, at, rows: function(x, at, rows) or x.sum(), normal((40, 9)), AT[:300], normal((300, 9)), ulps=256)


def test_sums_are_atomic_updates_of_all_threads() -> None:
    def function(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        out = np.zeros(1000, x.dtype)
        np.add.at(out, at, x)
        return out

    made = programs(function, normal((1 << 20,)), np.zeros(1 << 20, np.int64))
    assert "atomic_add_f32(" in made[-1].text
    assert int(made[-1].grid[0]) >= 132


def test_the_last_of_several_values_wins() -> None:
    def function(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        out = np.zeros(40, x.dtype)
        out[at] = x
        return out

    check(function, np.arange(3000, dtype=np.float32), AT)
    refusals = build(function, (np.zeros(3000, "f4"), AT), machine=H200).schedule.refusals  # type: ignore[union-attr]
    assert any("in order: one thread" in r.reason for r in refusals)


def test_a_position_out_of_bounds_is_reported() -> None:
    with pytest.raises(IndexError, match="index 99 is out of bounds for size 50"):
        simulated(lambda x, at: x[at] + 1, normal((50,)), np.array([1, 99, 3]))


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")

    def function(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        out = np.zeros(1000, x.dtype)
        np.add.at(out, at, x)
        return out

    for dtype in ("f4", "f8", "i4", "i8", "u8"):
        for made in programs(function, normal((4096,), dtype), np.zeros(4096, np.int64), gpu=GPUS[target]):
            cubin = compile_cuda.compile_program(made)
            assert cubin.stack == 0
            assert not cubin.notices
