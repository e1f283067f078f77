"""Addresses of arrays, and memory for outputs and temporaries that is reused once nobody can see it.

Large fresh arrays cost more in page faults than most kernels take to fill them.  A `Pool` therefore hands
out arrays that are views of *roots*, byte arrays it also keeps itself.  NumPy makes every view of a view
point at the root, so a root that only the pool refers to is visible to nobody and may be handed out again.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections import deque
from collections.abc import Callable

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


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to four steps for each power of two, so that similar sizes share roots."""
    step = max(1 << max(nbytes.bit_length() - 3, 0), PAGE)
    return -(-nbytes // step) * step


def _references(roots: deque[np.ndarray]) -> int:
    return sys.getrefcount(roots[0])


_UNSHARED = _references(deque([np.empty(1, np.uint8)]))
"""What `_references` counts for a root that only the pool holds; measured, as interpreters differ."""


class Pool:
    """Reusable memory; safe under threads.  It keeps at most `capacity` bytes alive by itself."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.kept = 0
        self._roots: dict[int, deque[np.ndarray]] = {}
        """Roots by size class; the class used longest ago and the root used longest ago come first."""
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A C-contiguous array of undefined contents, page-aligned unless it is small."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < SMALL:
            return np.empty(shape, dtype)
        with self._lock:
            root = self._root(size_class(nbytes))
        return np.ndarray(shape, dtype, root, -address_of(root) % PAGE)

    def _root(self, nbytes: int) -> np.ndarray:
        roots = self._roots[nbytes] = self._roots.pop(nbytes, deque())
        for _ in range(min(len(roots), _LOOKS)):
            unshared = _references(roots) == _UNSHARED
            roots.rotate(-1)
            if unshared:
                return roots[-1]
        root = np.empty(nbytes + PAGE, np.uint8)
        if root.nbytes <= self.capacity:
            self._make_room(root.nbytes)
            roots.append(root)
            self.kept += root.nbytes
        return root

    def _make_room(self, nbytes: int) -> None:
        """Forget roots used longest ago; one that is still visible lives on without the pool."""
        while self.kept + nbytes > self.capacity:
            oldest = next(size for size, roots in self._roots.items() if roots)
            self.kept -= self._roots[oldest].popleft().nbytes

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()


_LOOKS = 16
"""Roots of one class looked at before making a new one: many kept results must not make calls slow."""
