"""Pointwise kernels for GPUs: what is accessed at once, and launch formulas."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from numstax.hardware import GPUS, Gpu
from numstax.pipeline import build
from numstax.program import Emitted, Program

H200 = GPUS["H200"]


def program(function: Callable[..., object], *args: object, gpu: Gpu = H200) -> Program:
    (emitted,) = build(function, args, machine=gpu).emitted
    assert isinstance(emitted, Emitted)
    return emitted.program


def zeros(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("dtype", "load"),
    [
        (np.float32, "load4_f32("),
        (ml_dtypes.bfloat16, "load8_bf16("),
        (np.float64, "load2_f64("),
        (np.uint8, "load16_u8("),
    ],
)
def test_an_access_has_16_bytes(dtype: object, load: str) -> None:
    made = program(lambda x, y: x + y, zeros(1 << 16, dtype=dtype), zeros(1 << 16, dtype=dtype))
    assert made.text.count(load) == 2
    assert made.text.count(load.replace("load", "store")) == 1


def test_small_grids_have_a_block_for_every_sm() -> None:
    made = program(lambda x: x + 1, zeros(1 << 15))
    assert int(made.grid[0]) * made.block * 4 == 1 << 15
    assert int(made.grid[0]) >= H200.sms - 4


def test_points_outside_are_masked_only_where_there_are_some() -> None:
    assert "if " not in program(lambda x: x + 1, zeros(1 << 20)).text
    assert "if p1 < 1000003:" in program(lambda x: x + 1, zeros(1000003)).text


def test_loads_are_under_way_together() -> None:
    text = program(lambda x: x[:, 0] + 1, zeros(1 << 20, 3)).text
    loads, computed = text.index("in0["), text.index("float32(1.0)")
    assert text.index("for c") < loads < text.rindex("for c") < computed


def test_a_row_shared_by_all_rows_is_read_at_once_too() -> None:
    text = program(lambda x, b: x * b, zeros(300, 512), zeros(512)).text
    assert text.count("load4_f32(") == 2


def test_misaligned_rows_are_read_element_by_element() -> None:
    text = program(lambda x: x[:, 1:] + x[:, :-1], zeros(300, 513)).text
    assert "store4_f32(" in text
    assert "load" not in text.replace("store", "")


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")

    def costly(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.tanh(x) * np.exp(-y) + np.log(np.abs(x)) / np.sqrt(y)

    for made in (
        program(costly, zeros(1 << 20), zeros(1 << 20), gpu=GPUS[target]),
        program(lambda x: x[1:, 3] + 1, zeros(1 << 20, 5), gpu=GPUS[target]),
    ):
        cubin = compile_cuda.compile_program(made)
        assert cubin.stack == 0
        assert not cubin.notices
