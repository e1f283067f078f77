"""Comparison of a compiled call with the same call in NumPy."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import numstax
from numstax import dtypes

FLOATS = (np.dtype("f2"), dtypes.BFLOAT16, np.dtype("f4"), np.dtype("f8"))
INTS = tuple(np.dtype(f"{k}{b}") for k in "iu" for b in (1, 2, 4, 8))
COMPLEX = (np.dtype("c8"), np.dtype("c16"))
ALL = (np.dtype("?"), *INTS, *FLOATS, *COMPLEX)


def check(function: Callable[..., object], *args: object, ulps: float = 0, **options: object) -> None:
    """`function` compiled gives NumPy's results, and leaves its arguments as NumPy does."""
    ours, theirs = [copy(a) for a in args], [copy(a) for a in args]
    with np.errstate(all="ignore"):
        want = function(*theirs)
        got = numstax.jit(function, strict=True, **options)(*ours)
    same(got, want, ulps=ulps)
    same(ours, theirs, ulps=ulps, where="arguments afterwards")


def copy(value: object) -> object:
    """A copy with the same strides, so that layouts survive (views keep their gaps and repeats)."""
    if not isinstance(value, np.ndarray) or value.size == 0:
        return value
    low, high = np.lib.array_utils.byte_bounds(value)
    block = np.frombuffer(bytearray(np.ctypeslib.as_array(_pointer(low), (high - low,)).tobytes()), np.uint8)
    start = value.__array_interface__["data"][0] - low
    copy = np.ndarray(value.shape, value.dtype, block, start, value.strides)
    copy.flags.writeable = value.flags.writeable
    return copy


def _pointer(address: int) -> object:
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8))


def same(got: object, want: object, *, ulps: float = 0, where: str = "result") -> None:
    """Equal structure, dtypes, shapes and values; floats within `ulps` units in the last place."""
    differences = list(_differences(got, want, ulps, where))
    assert not differences, "\n".join(differences[:10])


def _differences(got: object, want: object, ulps: float, where: str) -> Iterator[str]:
    if isinstance(want, tuple | list):
        if type(got) is not type(want) or len(got) != len(want):
            yield f"{where}: {type(want).__name__} of {len(want)} wanted, got {got!r:.200}"
            return
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            yield from _differences(g, w, ulps, f"{where}[{k}]")
        return
    if isinstance(want, dict):
        yield from _differences(list(got.items()), list(want.items()), ulps, where)  # type: ignore[attr-defined]
        return
    if type(got) is type(want) is float:
        got, want = np.float64(got), np.float64(want)
    if not isinstance(want, np.ndarray | np.generic):
        if type(got) is not type(want) or got != want:
            yield f"{where}: wanted {want!r}, got {got!r:.200}"
        return
    if isinstance(got, np.ndarray) != isinstance(want, np.ndarray):
        yield f"{where}: wanted {type(want).__name__}, got {type(got).__name__}"
        return
    if got.dtype != want.dtype or got.shape != want.shape:
        yield f"{where}: wanted {want.dtype}{want.shape}, got {got.dtype}{got.shape}"
        return
    bad = np.atleast_1d(~_close(np.asarray(got), np.asarray(want), ulps))
    if bad.any():
        first = tuple(int(k) for k in np.argwhere(bad)[0])
        g, w = np.atleast_1d(got)[first], np.atleast_1d(want)[first]
        yield f"{where}: {int(bad.sum())} of {bad.size} differ, first at {first}: wanted {w!r}, got {g!r}"


def _close(got: np.ndarray, want: np.ndarray, ulps: float) -> np.ndarray:
    kind = dtypes.kind(want.dtype)
    if kind == "c":
        parts = _close(got.real, want.real, ulps) & _close(got.imag, want.imag, ulps)
        with np.errstate(all="ignore"):
            return parts | (np.abs(got - want) <= ulps * _eps(want.real.dtype) * np.abs(want))
    if kind != "f":
        return got == want
    step = ulps * np.float64(_eps(want.dtype))
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(g - w) <= step * np.abs(w) + ulps * 5e-324
    equal = (g == w) & (np.signbit(g) == np.signbit(w))
    return equal | (np.isnan(g) & np.isnan(w)) | (near if ulps else False)


def _eps(dtype: np.dtype) -> float:
    return {"f2": 2.0**-10, "f4": 2.0**-23, "f8": 2.0**-52}.get(dtype.str[1:], 2.0**-7)


def specials(dtype: np.dtype) -> np.ndarray:
    """Values at which functions go wrong, and a few ordinary ones."""
    kind = dtypes.kind(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1]
        return np.array([*values, *((-1, -2, -7) if kind == "i" else ())], dtype)
    if kind == "c":
        parts = np.array([0.0, -0.0, 1.0, -2.5, 0.3])
        return (parts[:, None] + 1j * parts).ravel().astype(dtype)
    ordinary = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.1, 0.7, 10.0, 87.0, 300.0])
    with np.errstate(all="ignore"):
        finite = np.concatenate([ordinary, [1e-3, 1e-30, 1e30]]).astype(dtype)
    return np.concatenate([finite, -finite, np.array([0.0, -0.0, np.inf, -np.inf, np.nan]).astype(dtype)])


def pairs(dtype: np.dtype, other: np.dtype | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Every special value with every other."""
    a, b = specials(dtype), specials(other or dtype)
    return np.repeat(a, len(b)), np.tile(b, len(a))


def normal(shape: tuple[int, ...], dtype: np.dtype | str = "f4", seed: int = 0) -> np.ndarray:
    """Ordinary values of the dtype."""
    dtype = np.dtype(dtype)
    rng, kind = np.random.default_rng(seed), dtypes.kind(dtype)
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -50, 50, shape).astype(dtype)
    if kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def layouts(array: np.ndarray) -> Iterable[tuple[str, np.ndarray]]:
    """The values of a 2-d array in every memory layout that a caller may hand over."""
    rows, columns = array.shape
    yield "C", np.ascontiguousarray(array)
    yield "F", np.asfortranarray(array)
    gaps = np.zeros((2 * rows, 3 * columns), array.dtype)
    gaps[::2, ::3] = array
    yield "sliced", gaps[::2, ::3]
    yield "reversed", np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    yield "one axis reversed", np.ascontiguousarray(array[:, ::-1])[:, ::-1]
    yield "rows repeated", np.broadcast_to(array[0], array.shape)
    yield "columns repeated", np.broadcast_to(array[:, :1], array.shape)
    yield "offset", np.concatenate([array.ravel()[:1], array.ravel()])[1:].reshape(array.shape)
    yield "one row", array[:1]
    yield "one column", array[:, :1]
    yield "no rows", array[:0]
    yield "no columns", array[:, :0]


def in_threads(*works: Callable[[], object]) -> list[object]:
    """Run these at once; what they give, or raise."""
    start, results = threading.Barrier(len(works)), list[object]([None] * len(works))

    def run(k: int) -> None:
        start.wait()
        try:
            results[k] = works[k]()
        except Exception as error:
            results[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
