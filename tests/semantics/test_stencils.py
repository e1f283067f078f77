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


def five_points(p: np.ndarray) -> np.ndarray:
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * p[1:-1, 1:-1]


def bordered(x: np.ndarray) -> None:
    p = np.pad(x, 2, mode="edge")
    x += p[:-4, 2:-2]
    x[:, :1] = p[2:-2, -1:]


BORDERS: dict[str, Callable[..., object]] = {
    "zeros": lambda x: five_points(np.pad(x, 1)),
    "values": lambda x: np.pad(x, ((2, 1), (0, 3)), constant_values=7)[1:] * 2,
    **{mode: (lambda x, mode=mode: five_points(np.pad(x, 1, mode=mode))) for mode in ("edge", "wrap", "symmetric")},
    "wide": lambda x: [np.pad(x, ((3, 7), (5, 0)), mode=m) + 1 for m in ("edge", "wrap", "reflect", "symmetric")],
    "joined": lambda x: np.concatenate([x[-1:], x[:-1]]) * np.hstack([x[:, 1:], x[:, :1]]),
    "equal parts": lambda x: np.concatenate([x * 2, x + 1]) - np.vstack([x, x[::-1]])[::-1],
    "strides": lambda x: np.concatenate([x[:, :1], x], 1)[:, ::2] + np.concatenate([x, x[:, -1:]], 1)[:, ::-2],
    "sums": lambda x: (np.pad(x, 1).sum(), np.pad(x, 1, mode="edge").sum(0), np.pad(x, 2).max(1)),
    "positions": lambda x: (np.pad(x, 3).argmax(1), np.pad(x, 1, mode="edge").argmin()),
    "three axes": lambda x: np.pad(x[None] * 2, 1)[:-1, 1:, :-1] + np.pad(x[None], 1)[1:, :-1, 1:],
    "transposed": lambda x: np.pad(x, 1).T[1:, 1:] * 2 + np.pad(x.T, 1)[:-1, :-1],
    "bordered": bordered,
}


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (9, 37), (70, 4)])
@pytest.mark.parametrize("name", BORDERS)
def test_borders(name: str, shape: tuple[int, int]) -> None:
    check(BORDERS[name], whole(shape))


@pytest.mark.parametrize("name", BORDERS)
def test_borders_of_any_size(name: str) -> None:
    check(BORDERS[name], whole((7, 11)), dynamic=True)


def test_slopes() -> None:
    """Differences along both axes, one-sided at the border."""
    check(lambda x: np.hypot(*np.gradient(x)), whole((30, 41)), ulps=2)


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
