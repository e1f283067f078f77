"""Products in matrix instructions: every kind of template, layout and epilogue, in the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import numstax
from numstax.ir.loops import MatrixTiling
from numstax.tiles import cuda_copies, cuda_products
from tests.cuda_emit.running import programs, simulated

BF16 = ml_dtypes.bfloat16
STEP = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-20}
LAYOUTS = ("NN", "NT", "TN", "TT")
Function = Callable[..., object]


def matrix(*shape: int, dtype: object = BF16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)  # type: ignore[call-overload, no-any-return]


def compare(function: Function, *arguments: np.ndarray, start: str) -> None:
    """The one program calls an instruction whose name starts so, and gives what float64 does."""
    (program,) = programs(function, *arguments)
    assert f"{start}" in program.text
    got, _, _ = simulated(function, *arguments)
    wide = function(*(a.astype("f8") for a in arguments))
    for g, w in zip(got, wide if isinstance(wide, tuple) else (wide,), strict=True):
        # the product itself has the dtype of its factors
        limit = 4 * max(STEP[g.dtype.name], STEP[arguments[0].dtype.name]) * np.abs(w).max()
        assert np.abs(g.reshape(w.shape).astype("f8") - w).max() <= limit


def product(layout: str) -> Function:
    def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left = a.swapaxes(-1, -2) if layout[0] == "T" else a
        return left @ (b.swapaxes(-1, -2) if layout[1] == "T" else b)  # type: ignore[no-any-return]

    return multiply


def factors(layout: str, m: int, n: int, k: int, dtype: object = BF16) -> tuple[np.ndarray, np.ndarray]:
    a = matrix(m, k, dtype=dtype) if layout[0] == "N" else matrix(k, m, dtype=dtype)
    b = matrix(k, n, dtype=dtype, seed=1) if layout[1] == "N" else matrix(n, k, dtype=dtype, seed=1)
    return a, b


@pytest.fixture
def tile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Choose the tile of warpgroup instructions; without one there are none."""

    def choose(*block: int, rows: int = 64, turns: bool = False) -> None:
        made = MatrixTiling("wgmma", "bf16", block, (rows, block[1]), 3, 2, 4, 4, turns=turns) if block else None  # type: ignore[arg-type]
        monkeypatch.setattr(cuda_products, "_wgmma", lambda *_: (made,) if made else ())

    return choose


@pytest.mark.parametrize("layout", LAYOUTS)
def test_warpgroups_multiply_every_layout(layout: str, tile: Callable[..., None]) -> None:
    tile(128, 128, 64)
    compare(product(layout), *factors(layout, 200, 136, 200), start="wgmma_bf16_n128_")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("m", "n", "k"), [(136, 72, 40), (70, 50, 33)])
def test_warps_multiply_every_layout_and_size(layout: str, m: int, n: int, k: int, tile: Callable[..., None]) -> None:
    tile()
    compare(product(layout), *factors(layout, m, n, k), start="mma_bf16_")


@pytest.mark.parametrize("rows", [64, 128])
def test_warpgroups_take_turns(rows: int, tile: Callable[..., None]) -> None:
    tile(rows, 64, 64, rows=rows, turns=True)
    compare(product("NT"), *factors("NT", 280, 200, 200), start="mbarrier_wait(f2 + w1*8, turn)")


def test_a_warpgroup_has_two_instructions_of_rows(tile: Callable[..., None]) -> None:
    tile(128, 64, 64, rows=128)
    compare(product("TN"), *factors("TN", 200, 72, 136), start="acc1 = wgmma_bf16_n64_mm(")


EPILOGUES: dict[str, Function] = {
    "relu": lambda a, b, c: np.maximum(a @ b + c[0], 0),
    "residual": lambda a, b, c: a @ b + c,
    "two results": lambda a, b, c: (a @ b, (a @ b) * c),
    "float32": lambda a, b, c: (a @ b).astype("f4"),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_results_leave_through_shared_memory(name: str, tile: Callable[..., None]) -> None:
    tile(64, 64, 64)
    arguments = matrix(128, 72), matrix(72, 192, seed=1), matrix(128, 192, seed=2)
    compare(EPILOGUES[name], *arguments, start="tensor_store_2d(")


def test_results_whose_rows_begin_anywhere_are_stored_by_threads(tile: Callable[..., None]) -> None:
    tile(64, 64, 64)
    (program,) = programs(lambda a, b: a @ b[:, :61], matrix(70, 72), matrix(72, 64))
    assert "tensor_store" not in program.text
    compare(lambda a, b: a @ b[:, :61], matrix(70, 72), matrix(72, 64, seed=1), start="wgmma_first_bf16_n64_km(")


def test_a_batch_is_a_dimension_of_the_maps() -> None:
    with numstax.matmul_template("wgmma"):
        compare(product("NN"), matrix(3, 72, 200), matrix(3, 200, 72, seed=1), start="tensor_load_3d(")
        compare(product("NN"), matrix(2, 1, 72, 40), matrix(3, 40, 72, seed=1), start="tensor_load_3d(")


@pytest.mark.parametrize("dtype", ["f2", "i1"])
def test_other_dtypes(dtype: str) -> None:
    a, b = np.arange(136 * 72).reshape(136, 72) % 11 - 5, np.arange(72 * 40).reshape(72, 40) % 7 - 3
    (got,), _, _ = simulated(lambda a, b: a @ b, a.astype(dtype), b.astype(dtype))
    assert np.array_equal(got, (a @ b).astype(dtype))


def test_factors_that_the_copy_engine_cannot_read_go_to_warps() -> None:
    compare(lambda a, b: a[:, 1:] @ b[1:], matrix(64, 73), matrix(73, 64, seed=1), start="mma_bf16_")


def test_large_factors_are_copied_to_where_the_copy_engine_can_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(a: np.ndarray, b: np.ndarray) -> object:
        return np.maximum(a[:, 1:] @ b, 0)

    big = programs(function, np.zeros((4096, 4097), BF16), np.zeros((4096, 4096), BF16))
    assert [p.name[:3] for p in big] == ["poi", "tem"]
    assert "tensor_load_2d(" in big[1].text
    monkeypatch.setattr(cuda_copies, "_seconds", lambda *_: -1.0)
    a, b = matrix(70, 68), matrix(67, 71, seed=1)
    assert [p.name[:3] for p in programs(function, a, b)] == ["poi", "poi", "tem"]
    (got,), _, _ = simulated(function, a, b)
    want = np.maximum(a[:, 1:].astype("f8") @ b.astype("f8"), 0)
    assert np.abs(got.astype("f8") - want).max() <= STEP["bfloat16"] * want.max()


@pytest.mark.parametrize("dtype", [BF16, np.float32])
def test_long_sums_with_few_results_are_computed_in_parts(dtype: object) -> None:
    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> object:
        return np.maximum(a @ b + c, 0)

    arguments = matrix(40, 2048, dtype=dtype), matrix(2048, 24, dtype=dtype, seed=1), matrix(24, dtype=dtype, seed=2)
    names = [p.name for p in programs(function, *arguments)]
    assert names == ["tem_matmul", "red_add_add_maximum"]
    (got,), _, _ = simulated(function, *arguments)
    want = function(*(x.astype("f8") for x in arguments))
    assert np.abs(got.astype("f8") - want).max() <= 4 * STEP[got.dtype.name] * np.abs(want).max()
