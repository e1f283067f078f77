"""Which results are views and which are copies: a write through the result shows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numstax
from tests.support import check

LAYOUTS = {
    "C": np.arange(24.0).reshape(4, 6),
    "F": np.arange(24.0).reshape(6, 4).T,
    "gaps in rows": np.arange(48.0).reshape(8, 6)[::2],
    "gaps in columns": np.arange(48.0).reshape(4, 12)[:, ::2],
    "evenly spaced": np.arange(48.0)[::2],
    "reversed": np.arange(24.0)[::-1],
    "one row": np.arange(48.0).reshape(1, 48)[:, ::2],
    "empty": np.zeros((4, 0)),
}

COPIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "itself": lambda x: x,
    "ravel": np.ravel,
    "ravel F": lambda x: np.ravel(x, "F"),
    "reshape": lambda x: x.reshape(-1),
    "reshape 2": lambda x: x.reshape(2, -1) if x.size else x,
    "flatten": lambda x: x.flatten(),
    "conj": lambda x: x.conj(),
    "real": lambda x: x.real,
    "copy of the transpose": lambda x: x.T.copy(),
    "np.copy of the transpose": lambda x: np.copy(x.T),
    "copy F": lambda x: x.copy("F"),
    "astype": lambda x: x.astype("f4"),
    "astype C": lambda x: x.astype("f8", order="C"),
    "astype without need": lambda x: x.astype("f8", copy=False),
    "astype C without need": lambda x: x.astype("f8", order="C", copy=False),
    "array": lambda x: np.array(x, "f4"),
    "asarray": np.asarray,
    "asarray C": lambda x: np.asarray(x, order="C"),
    "asarray F": lambda x: np.asarray(x, order="F"),
    "zeros_like": np.zeros_like,
    "product": lambda x: x * 2,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", COPIES)
def test_what_a_write_reaches(name: str, layout: str) -> None:
    def function(x: np.ndarray) -> tuple[np.ndarray, ...]:
        first = COPIES[name](x)
        second = first.reshape(-1)
        third = first.ravel()
        first += 1
        second *= 3
        third -= 5
        return first, second, third

    check(function, LAYOUTS[layout], backend="reference")


FROM_SCALARS: dict[str, Callable[[np.generic], np.ndarray]] = {
    "expand_dims": lambda s: np.expand_dims(s, 0),
    "None": lambda s: s[None],
    "...": lambda s: s[...],
    "reshape": lambda s: np.reshape(s, (1, 1)),
    "ravel": np.ravel,
    "copy": np.copy,
    "atleast_2d": np.atleast_2d,
}


@pytest.mark.parametrize("name", FROM_SCALARS)
def test_an_array_made_of_a_scalar_is_its_own(name: str) -> None:
    def function(x: np.ndarray) -> tuple[object, ...]:
        s = x.sum()
        made = FROM_SCALARS[name](s)
        made += 2.5
        return s, made

    check(function, np.arange(6.0))


def test_views_of_an_argument_without_axes_are_arrays() -> None:
    def function(x: np.ndarray) -> tuple[np.ndarray, ...]:
        x[...] = 5.0
        return x[...], x[None]

    x = np.array(2.0)
    whole, line = numstax.jit(function, strict=True)(x)
    assert isinstance(whole, np.ndarray)
    assert np.shares_memory(whole, x)
    assert np.shares_memory(line, x)
    assert x == 5.0


SCALARS: dict[str, Callable[[np.generic], object]] = {
    "view": lambda s: s.view("i4"),
    "copy": lambda s: s.copy(),
    "squeeze": lambda s: s.squeeze(),
    "reshape": lambda s: np.reshape(s, ()),
    "nan_to_num": np.nan_to_num,
    "linspace to": lambda s: np.linspace(0, s, 5),
    "linspace from": lambda s: np.linspace(s, 1, 3),
}


@pytest.mark.parametrize("value", [np.float32(2), np.int32(3)])
@pytest.mark.parametrize("name", SCALARS)
def test_scalars_and_their_dtypes(name: str, value: np.generic) -> None:
    check(SCALARS[name], value, backend="reference")


@pytest.mark.parametrize(
    "ends", [(0, 2), (-0.0, 0.0), (0.0, -0.0), (None, 0), (0, None), (2, 1), (np.nan, 1), (0, np.nan)]
)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_clip_of_special_values(dtype: str, ends: tuple[float | None, float | None]) -> None:
    values = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1, 2, 3, -1] * 3, dtype)
    check(lambda x: np.clip(x, *ends), values)


def test_assignment_by_mask_into_an_empty_result() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        joined = np.concatenate([x, x])
        joined[joined > 2] = 1
        return joined.sum()

    check(function, np.ones((0, 5), "i4"))


def test_an_empty_argument_can_be_written() -> None:
    def function(x: np.ndarray) -> None:
        x += 1
        x[:1] = 2

    check(function, np.zeros((3, 0)))
