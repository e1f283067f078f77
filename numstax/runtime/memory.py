"""Addresses of arrays, and memory for outputs and temporaries that is reused once nobody can see it.

Large fresh arrays cost more in page faults than most kernels take to fill them, and fresh memory of a GPU costs a
wait for it.  A `Pool` therefore hands out arrays that are views of *roots*, byte arrays it also keeps itself.  NumPy
makes every view of a view point at the root, so a root that only the pool refers to is visible to nobody and may be
handed out again.

Memory of a GPU is described by NumPy arrays as well, which nobody may read or write here: shapes, views and lifetimes
are then the same as on the CPU.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from sys import getrefcount
from typing import Any

import numpy as np

PAGE = 4096
SMALL = 1 << 16
"""Bytes below which malloc reuses warm memory by itself."""

_HEADER = object.__basicsize__
_word_at = ctypes.c_void_p.from_address


def _read_address(array: np.ndarray) -> int:
    """The address of the first element: the first field of NumPy's array struct, read directly because
    ``array.ctypes.data`` takes eight times as long."""
    return _word_at(id(array) + _HEADER).value  # type: ignore[return-value]


def _ask_address(array: np.ndarray) -> int:
    return array.ctypes.data


def _layout_is_known() -> bool:
    probe = np.arange(6).reshape(2, 3)[:, ::-1]
    return sys.implementation.name == "cpython" and _read_address(probe) == _ask_address(probe)


address_of: Callable[[np.ndarray], int] = _read_address if _layout_is_known() else _ask_address


_BASE = PAGE
_EVERYWHERE: Any = (ctypes.c_char * (1 << 62)).from_address(_BASE)


def memory_at(
    address: int, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None = None
) -> np.ndarray:
    """An array that describes memory; it does not keep it alive.  `strides` in bytes."""
    return np.ndarray(shape, dtype, _EVERYWHERE, (address or _BASE) - _BASE, strides)


@lru_cache(maxsize=1 << 12)
def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to four steps for each power of two, so that similar sizes share roots."""
    step = max(1 << max(nbytes.bit_length() - 3, 0), PAGE)
    return -(-nbytes // step) * step


def _references(roots: deque[np.ndarray], k: int = 0) -> int:
    return getrefcount(roots[k])


def _first(roots: deque[np.ndarray], references: int) -> np.ndarray | None:
    """The first root, of a few, to which there are so many references."""
    for root in islice(roots, _LOOKS):
        if getrefcount(root) == references:
            return root
    return None


_LOOKS = 16
"""Roots of one class looked at before making a new one: many kept results must not make calls slow."""
_PROBE = deque([np.empty(1, np.uint8)])
_UNSHARED = _references(_PROBE)
_UNSHARED_FIRST = next(n for n in range(10) if _first(_PROBE, n) is not None)
"""What `_references` and `_first` count for a root that only the pool holds; measured, as interpreters differ."""


def host_root(nbytes: int) -> np.ndarray:
    return np.empty(nbytes, np.uint8)


class Pool:
    """Reusable memory; safe under threads.  It keeps at most `capacity` bytes alive by itself.  `make_root` gives so
    many bytes, `aligned` if they begin at a page or what is as good; arrays of fewer than `small` bytes are none of the
    pool's."""

    def __init__(
        self,
        capacity: int,
        make_root: Callable[[int], np.ndarray] = host_root,
        small: int = SMALL,
        aligned: bool = False,
    ) -> None:
        self.capacity, self.make_root, self.small, self.aligned = capacity, make_root, small, aligned
        self.kept = 0
        self._roots: dict[int, deque[np.ndarray]] = {}
        """Roots by size class; the class used longest ago comes first, the one used last is `_last`."""
        self._last = -1
        self._lock = threading.RLock()  # where memory is short, making a root trims the pool

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A C-contiguous array of undefined contents, page-aligned unless it is small."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < self.small:
            return np.empty(shape, dtype)
        with self._lock:
            kind = size_class(nbytes)
            root = _first(self._roots[kind], _UNSHARED_FIRST) if kind == self._last else None
            if root is None:
                root = self._root(kind)
        return np.ndarray(shape, dtype, root, 0 if self.aligned else -address_of(root) % PAGE)

    def _root(self, nbytes: int) -> np.ndarray:
        if nbytes != self._last:
            self._roots[nbytes] = self._roots.pop(nbytes, deque())
            self._last = nbytes
        roots = self._roots[nbytes]
        # always in the same order: the same calls then get the same memory, which is warm
        root = _first(roots, _UNSHARED_FIRST)
        if root is not None:
            return root
        roots.rotate(-_LOOKS)
        root = self.make_root(nbytes if self.aligned else nbytes + PAGE)
        if root.nbytes <= self.capacity:
            self._make_room(root.nbytes)
            roots.append(root)
            self.kept += root.nbytes
        return root

    def _make_room(self, nbytes: int) -> None:
        """Forget roots of the class used longest ago; one that is still visible lives on without the pool."""
        while self.kept + nbytes > self.capacity:
            oldest = next(size for size, roots in self._roots.items() if roots)
            self.kept -= self._roots[oldest].popleft().nbytes

    def trim(self) -> None:
        """Forget every root that nobody sees."""
        with self._lock:
            for roots in self._roots.values():
                for _ in range(len(roots)):
                    if _references(roots) == _UNSHARED:
                        self.kept -= roots.popleft().nbytes
                    else:
                        roots.rotate(-1)

    def live(self) -> list[int]:
        """Bytes of each root that somebody sees, largest first."""
        with self._lock:
            seen = []
            for roots in self._roots.values():
                seen += [roots[k].nbytes for k in range(len(roots)) if _references(roots, k) != _UNSHARED]
        return sorted(seen, reverse=True)

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()
