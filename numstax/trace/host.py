"""Functions that extern nodes call where NumPy itself has only a mutating form, or none that takes arrays alone.

Index keys are plain hashable data here: a slice is ``("slice", start, stop, step)``, Ellipsis and None stand
for themselves, everything else is an integer or an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from numstax.ir.values import map_tree


def _key(parts: tuple[Any, ...]) -> Any:
    return tuple(slice(*p[1:]) if isinstance(p, tuple) and p[:1] == ("slice",) else p for p in parts)


def setitem(base: np.ndarray, key: tuple[object, ...], value: object) -> np.ndarray:
    """A copy of `base` after ``base[key] = value``."""
    out = base.copy()
    out[_key(key)] = value
    return out


def ufunc_at(ufunc: np.ufunc, base: np.ndarray, key: tuple[object, ...], *values: object) -> np.ndarray:
    """A copy of `base` after ``ufunc.at(base, key, *values)``."""
    out = base.copy()
    at: Any = ufunc.at  # its stub knows fewer keys than it takes
    at(out, _key(key), *values)
    return out


def put_along_axis(base: np.ndarray, indices: np.ndarray, values: Any, axis: int | None) -> np.ndarray:
    """A copy of `base` after ``np.put_along_axis(base, indices, values, axis)``."""
    out = base.copy()
    np.put_along_axis(out, indices, values, axis)
    return out


def put(base: np.ndarray, indices: Any, values: Any, mode: Any) -> np.ndarray:
    """A copy of `base` after ``np.put(base, indices, values, mode)``."""
    out = base.copy()
    np.put(out, indices, values, mode)
    return out


def fill_diagonal(base: np.ndarray, value: object, wrap: bool) -> np.ndarray:
    """A copy of `base` after ``np.fill_diagonal(base, value, wrap)``."""
    out = base.copy()
    np.fill_diagonal(out, value, wrap)
    return out


def place(base: np.ndarray, mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A copy of `base` after ``np.place(base, mask, values)``."""
    out = base.copy()
    np.place(out, mask, values)
    return out


def where_assign(base: np.ndarray, mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A copy of `base` after ``np.putmask(base, mask, values)``."""
    out = base.copy()
    np.putmask(out, mask, values)
    return out


def byteswapped(x: np.ndarray) -> np.ndarray:
    """``x.byteswap()``."""
    return x.byteswap()


def rounded(x: Any, digits: int) -> Any:
    """Python's ``round`` of a number that NumPy hands on as its own."""
    return round(x.item(), digits)


def select(base: np.ndarray, mask: np.ndarray, at: int) -> np.ndarray:
    """``base[..., mask, ...]``: the mask covers the axes from `at` on."""
    key: Any = (*(slice(None),) * at, mask)
    return base[key]


def count(mask: np.ndarray) -> np.ndarray:
    """As many elements as the mask has that are not 0; their values mean nothing."""
    return np.empty(np.count_nonzero(mask), np.bool_)


def as_many(size: int) -> np.ndarray:
    """An array of so many elements, or of none where the number is negative; their values mean nothing."""
    return np.empty(max(size, 0), np.bool_)


def flattened(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The results of a function that nests them in lists and tuples, one after the other."""
    found: list[Any] = []
    map_tree(function(*args, **kwargs), found.append)
    return tuple(found)
