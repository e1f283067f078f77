"""Functions that extern nodes call where NumPy itself has only a mutating form, or none that takes arrays alone.

Index keys are plain hashable data here: a slice is ``("slice", start, stop, step)``, Ellipsis and None stand
for themselves, everything else is an integer or an array.
"""

from __future__ import annotations

import copy
import ctypes
import sys
from typing import Any, TypeGuard

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


def flattened(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The results of a function that nests them in lists and tuples, one after the other."""
    found: list[Any] = []
    map_tree(function(*args, **kwargs), found.append)
    return tuple(found)


# --- random numbers -----------------------------------------------------------------------------------


def is_generator(value: object) -> TypeGuard[np.random.Generator]:
    """Is this a ``numpy.random.Generator``?  `numpy.random`, which takes 10 ms, is not imported to know."""
    return _is_random(value, "Generator")


def draws_numbers(value: object) -> bool:
    """Is this a generator of any kind?"""
    return _is_random(value, "Generator", "RandomState", "BitGenerator")


def _is_random(value: object, *kinds: str) -> bool:
    module = sys.modules.get("numpy.random")
    return isinstance(value, tuple(getattr(module, kind) for kind in kinds if hasattr(module, kind)))


class Ticket(int):
    """A generator as a number, which compiled code can pass on; it keeps the generator alive."""

    def __new__(cls, generator: np.random.Generator) -> Ticket:
        self = super().__new__(cls, id(generator))
        self.generator = generator
        return self

    generator: np.random.Generator


def draw(ticket: int, turn: int, method: str, **words: Any) -> tuple[Any, int]:
    """A draw from the generator that the ticket leads to, and the number of the next draw."""
    generator = ctypes.cast(int(ticket), ctypes.py_object).value
    return _draw(generator, method, words), int(turn) + 1


def seeded(seed: Any) -> np.ndarray:
    """The state of ``numpy.random.default_rng(seed)``."""
    return _packed(np.random.default_rng(seed))


def draw_seeded(state: np.ndarray, method: str, **words: Any) -> tuple[Any, np.ndarray]:
    """A draw from a generator in this state, and its state afterwards."""
    bits = np.random.PCG64()
    inner: Any = {"state": _joined(state[:2]), "inc": _joined(state[2:4])}
    bits.state = {
        "bit_generator": "PCG64", "state": inner, "has_uint32": int(state[4]), "uinteger": int(state[5])
    }  # fmt: skip
    generator = np.random.Generator(bits)
    return _draw(generator, method, words), _packed(generator)


def _draw(generator: np.random.Generator, method: str, words: dict[str, Any]) -> Any:
    if method == "shuffle":
        shuffled = words["x"].copy()
        generator.shuffle(shuffled, words["axis"])
        return shuffled
    return getattr(generator, method)(**words)


def _packed(generator: np.random.Generator) -> np.ndarray:
    """The state as six numbers of 64 bits."""
    state: Any = generator.bit_generator.state
    inner, low = state["state"], 2**64 - 1
    halves = [half for value in (inner["state"], inner["inc"]) for half in (value & low, value >> 64)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def _joined(halves: np.ndarray) -> int:
    return int(halves[0]) | int(halves[1]) << 64


def rehearsal(generator: np.random.Generator) -> np.random.Generator:
    """A generator that will draw the same numbers, so that tracing leaves the original alone."""
    return copy.deepcopy(generator)
