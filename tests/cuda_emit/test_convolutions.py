"""conv2d in warpgroup instructions: boxes of pixels are rows of a product, copied from padded images tap by tap."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import numstax
from numstax.hardware import GPUS
from numstax.ir.loops import Kernel, MatrixTiling
from numstax.pipeline import build
from numstax.tiles import cuda_products

BF16 = ml_dtypes.bfloat16


def layer(stride: int, padding: int, relu: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def run(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        made = numstax.conv2d(x, w, stride=stride, padding=padding)
        return np.maximum(made, 0) if relu else made

    return run


def matrices(function: Callable, *args: np.ndarray) -> list[MatrixTiling]:
    schedule = build(function, args, machine=GPUS["H200"]).schedule
    assert schedule is not None
    kernels = [unit for unit in schedule.units if isinstance(unit, Kernel)]
    return [k.tiling.matrix for k in kernels if k.tiling is not None and k.tiling.matrix is not None]


@pytest.fixture
def tile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Choose the tile of warpgroup instructions, which take turns with large ones; there are no others."""

    def choose(*block: int) -> None:
        turns = block[0] == 128
        made = MatrixTiling("wgmma", "bf16", block, (128 if turns else 64, block[1]), 3, 2, 4, 4, turns=turns)  # type: ignore[arg-type]
        monkeypatch.setattr(cuda_products, "_served", lambda *given: (made,) if given[3] == "wgmma" else ())

    return choose


@pytest.mark.parametrize(
    ("images", "size", "channels", "filters", "window", "stride", "padding", "relu", "block"),
    [
        (2, 13, 64, 64, 3, 1, 1, False, (64, 64, 64)),
        (3, 9, 64, 128, 3, 1, 1, True, (128, 128, 64)),
        (3, 16, 64, 64, 3, 1, 1, True, (128, 64, 64)),
        (2, 12, 64, 64, 3, 2, 1, False, (64, 64, 64)),
        (1, 7, 128, 64, 2, 1, 0, True, (64, 64, 64)),
        (2, 11, 128, 64, 1, 1, 0, False, (64, 64, 64)),
    ],
)
def test_boxes_of_pixels(
    images: int, size: int, channels: int, filters: int, window: int, stride: int, padding: int, relu: bool,
    block: tuple[int, int, int], tile: Callable[..., None],
) -> None:  # fmt: skip
    tile(*block)
    random = np.random.default_rng(0)
    x = random.standard_normal((images, size, size, channels)).astype(BF16)
    w = random.standard_normal((window, window, channels, filters)).astype(BF16)
    function = layer(stride, padding, relu)
    expected = function(x.astype(np.float64), w.astype(np.float64))
    made = numstax.jit(function, strict=True, backend="simulate")(x, w).astype(np.float64)
    np.testing.assert_allclose(made, expected, rtol=2e-2, atol=4e-3 * np.abs(expected).max())
    (matrix,) = matrices(function, x, w)
    assert matrix.family == "wgmma"
    assert bool(matrix.box) == (window > 1)


@pytest.mark.parametrize(
    ("size", "channels", "filters", "box"),
    [(56, 64, 64, (4, 8, 8)), (28, 256, 256, (8, 4, 4)), (14, 256, 256, (16, 2, 2))],
)
def test_boxes_leave_nothing_over(size: int, channels: int, filters: int, box: tuple[int, ...]) -> None:
    x, w = np.zeros((32, size, size, channels), BF16), np.zeros((3, 3, channels, filters), BF16)
    (matrix,) = matrices(layer(1, 1, True), x, w)
    assert (matrix.family, matrix.box) == ("wgmma", box)
    assert np.prod(matrix.box) == matrix.block[0]


def test_what_the_copy_engine_cannot_read_is_for_other_instructions() -> None:
    """Three channels are no multiple of 16 bytes."""
    x, w = np.zeros((2, 32, 32, 3), BF16), np.zeros((7, 7, 3, 64), BF16)
    assert [matrix.family for matrix in matrices(layer(2, 3, False), x, w)] == ["mma"]


def test_a_border_is_one_kernel() -> None:
    schedule = build(layer(1, 1, False), (np.zeros((2, 16, 16, 64), BF16), np.zeros((3, 3, 64, 64), BF16)),
                     machine=GPUS["H200"]).schedule  # fmt: skip
    assert schedule is not None
    assert len(schedule.units) == 2


def test_windows_of_few_channels_are_copied(tile: Callable[..., None]) -> None:
    """To rows of whole pieces of 16 bytes, which the copy engine can read."""
    tile(64, 64, 64)
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 6, 130, 3)).astype(BF16)
    w = random.standard_normal((3, 3, 3, 64)).astype(BF16)
    function = layer(2, 1, False)
    (matrix,) = matrices(function, x, w)
    assert (matrix.family, matrix.box) == ("wgmma", ())
    expected = function(x.astype(np.float64), w.astype(np.float64))
    made = numstax.jit(function, strict=True, backend="simulate")(x, w).astype(np.float64)
    np.testing.assert_allclose(made, expected, rtol=2e-2, atol=4e-3 * np.abs(expected).max())
