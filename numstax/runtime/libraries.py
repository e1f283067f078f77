"""Library calls on a GPU: NumPy's functions are CuPy's there.

A dotted path of NumPy or SciPy enters; CuPy's function of that name leaves, which `call` gives views of the memory it
works on.  CuPy is imported only for a program that needs it.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from numstax.errors import UnsupportedOperationError
from numstax.runtime.memory import address_of


def function(path: str) -> Callable[..., Any]:
    """Raises UnsupportedOperationError when CuPy is not installed or has no such function."""
    try:
        importlib.import_module("cupy")
    except ImportError:
        raise UnsupportedOperationError(
            f"{path} has no kernel of its own on a GPU", remedy="install CuPy, whose function it then calls"
        ) from None
    root, _, names = path.partition(".")
    library = importlib.import_module("cupyx.scipy" if root == "scipy" else "cupy")
    try:
        return reduce(getattr, names.split("."), library)  # type: ignore[return-value]
    except AttributeError:
        raise UnsupportedOperationError(
            f"{path} has no kernel of its own on a GPU, and CuPy has no such function"
        ) from None


def call(device: int, stream: int, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run it in a stream, with arrays of CuPy for those that describe device memory; descriptions of contiguous memory
    of their own come back."""
    cupy = importlib.import_module("cupy")
    with cupy.cuda.Device(device), cupy.cuda.ExternalStream(stream, device):
        return _exchanged(function(*_exchanged(args, device), **_exchanged(kwargs, device)), device)


def _exchanged(tree: Any, device: int) -> Any:
    """Descriptions of memory in a tree become arrays of CuPy, and those descriptions that keep them alive."""
    if isinstance(tree, tuple | list):
        items = [_exchanged(item, device) for item in tree]
        return tuple(items) if isinstance(tree, tuple) else items
    if isinstance(tree, dict):
        return {key: _exchanged(item, device) for key, item in tree.items()}
    if isinstance(tree, np.ndarray):
        return cupy_view(tree, device)
    cupy = importlib.import_module("cupy")
    if not isinstance(tree, cupy.ndarray):
        return tree
    return _held(tree if tree.base is None and tree.flags.c_contiguous else tree.copy(order="C"))


def _held(array: Any) -> np.ndarray:
    held: Any = (ctypes.c_char * max(array.nbytes, 1)).from_address(array.data.ptr or 1)
    held.owner = array
    return np.ndarray(array.shape, array.dtype, held)


def cupy_view(layout: np.ndarray, device: int) -> Any:
    """An array of CuPy on the same memory, which it keeps alive."""
    cupy = importlib.import_module("cupy")
    start = address_of(layout)
    low, high = np.lib.array_utils.byte_bounds(layout) if layout.size else (start, start)
    first = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(low, high - low, layout, device), start - low)
    return cupy.ndarray(layout.shape, layout.dtype, first, layout.strides)
