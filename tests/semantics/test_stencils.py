"""Rolled arrays, read where they are used, against NumPy: every element exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support import check, layouts, normal

roll = np.roll


def whole(shape: tuple[int, ...]) -> np.ndarray:
    """Whole numbers, of which sums are exact, and no negative zero."""
    return np.round(normal(shape, "f8") * 8) + 0.0


def assigned(x: np.ndarray) -> None:
    x[:] = roll(x, 1, 0) - roll(x, -1, 1)


def streamed(x: np.ndarray) -> None:
    for k in range(len(x)):
        x[k] = roll(x[k], k)


def stepped(x: np.ndarray) -> np.ndarray:
    for _ in range(20):
        x = roll(x, 1, 0) + roll(x, -1, 1) - x
    return x


STENCILS: dict[str, Callable[..., object]] = {
    "laplacian": lambda x: roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x,
    "diagonal neighbours": lambda x: sum(roll(x, s, (0, 1)) for s in ((1, 1), (-1, -1), (1, -1), (-2, 3))),
    "flat": lambda x: (roll(x, 1) + roll(x, -3) * x, roll(x, x.size)),
    "rolled twice": lambda x: roll(roll(x, 2, 1), -5, 1) + roll(roll(x, 1, 0), -1, 0),
    "parts": lambda x: (
        roll(x, 1, 1)[:, 1:] - roll(x, 2, 1)[:, :-1],
        roll(x, 3, 1)[::-1, ::-1],
        roll(x, -1, 1)[:, ::2],
    ),
    "transposed": lambda x: roll(x.T, 1, 0) * roll(x.T, -1, 1) + roll(x, 1, 1).T,
    "sums": lambda x: ((x * roll(x, 1, 0)).sum(), (x - roll(x, 2, 1)).sum(1), (x + roll(x, 1, 1)).max(0)),
    "positions": lambda x: ((x - roll(x, 1, 1)).argmax(1), (x * roll(x, -1, 1)).argmin()),
    "running": lambda x: (np.cumsum(roll(x, 1, 1), 1), np.cumsum(roll(x, 1, 0), 0)),
    "gathered": lambda x: roll(x, 1, 0)[np.arange(len(x)) // 2] + roll(x, 1, 1)[:, :1],
    "broadcast": lambda x: roll(x, 1, 0) + roll(x[0], 2) * roll(x[:, :1], 1, 0),
    "tiled": lambda x: np.tile(roll(x, 1, 1), 2) + roll(np.repeat(x, 2, 1), 3, 1),
    "shifted to the middle": lambda x: np.fft.ifftshift(np.fft.fftshift(x) * 2),
    "assigned": assigned,
    "streamed": streamed,
    "stepped": stepped,
}


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (5, 2), (9, 37), (3, 4500)])
@pytest.mark.parametrize("name", STENCILS)
def test_stencils(name: str, shape: tuple[int, int]) -> None:
    check(STENCILS[name], whole(shape))


@pytest.mark.parametrize("name", STENCILS)
def test_stencils_of_any_size(name: str) -> None:
    if name not in ("gathered", "streamed"):  # the number of rows is part of these programs
        check(STENCILS[name], whole((7, 11)), dynamic=True)


@pytest.mark.parametrize("dtype", ["?", "u1", "f2", "c8"])
def test_stencils_of_other_dtypes(dtype: str) -> None:
    check(lambda x: (roll(x, 1, 0) * roll(x, -1, 1), roll(x, 5, 1)), np.round(normal((6, 70)) * 8).astype(dtype))


def test_stencils_of_any_layout() -> None:
    for _, x in layouts(np.round(normal((9, 12)) * 8)):
        check(STENCILS["laplacian"], x)
