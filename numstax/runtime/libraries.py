"""Library calls on a GPU: NumPy's functions are CuPy's there.

A dotted path of NumPy or SciPy enters; CuPy's function of that name leaves, which `call` gives views of the memory it
works on.  CuPy is imported only for a program that needs it.  Functions of other kinds run on the host (see
`device_host`).
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from numstax.errors import UnsupportedOperationError
from numstax.ir.values import map_tree
from numstax.records import record
from numstax.runtime.memory import address_of


@record
class OnDevice:
    """A function of CuPy."""

    call: Callable[..., Any]


def on_host(path: str) -> Callable[..., Any]:
    """The function itself."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def function(path: str) -> OnDevice | Callable[..., Any]:
    """CuPy's function for one of NumPy or SciPy; others themselves.  Raises UnsupportedOperationError when CuPy is not
    installed or has no such function."""
    if path.startswith("numstax."):
        return on_host(path)
    try:
        importlib.import_module("cupy")
    except ImportError:
        raise UnsupportedOperationError(
            f"{path} has no kernel of its own on a GPU", remedy="install CuPy, whose function it then calls"
        ) from None
    root, _, names = path.partition(".")
    library = importlib.import_module("cupyx.scipy" if root == "scipy" else "cupy")
    try:
        return OnDevice(reduce(getattr, names.split("."), library))  # type: ignore[arg-type]
    except AttributeError:
        raise UnsupportedOperationError(
            f"{path} has no kernel of its own on a GPU, and CuPy has no such function"
        ) from None


def call(device: int, stream: int, function: OnDevice, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run it in a stream, with arrays of CuPy for those that describe device memory; descriptions of contiguous memory
    of their own come back."""
    cupy = importlib.import_module("cupy")

    def given(leaf: Any) -> Any:
        return cupy_view(leaf, device) if isinstance(leaf, np.ndarray) else leaf

    def taken(leaf: Any) -> Any:
        if not isinstance(leaf, cupy.ndarray):
            return leaf
        return _held(leaf if leaf.base is None and leaf.flags.c_contiguous else leaf.copy(order="C"))

    with cupy.cuda.Device(device), cupy.cuda.ExternalStream(stream, device):
        words = {key: map_tree(value, given) for key, value in kwargs.items()}
        return map_tree(function.call(*map_tree(args, given), **words), taken)


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
