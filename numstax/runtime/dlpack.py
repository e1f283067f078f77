"""DLPack: arrays on a GPU that libraries hand to each other without copies.

`export` makes a capsule of memory described by a NumPy array; `imported` gives the description of what is in somebody
else's capsule, which lives as long as the description.  Structures: DLPack 1.0, `dlpack.h`, the unversioned ones.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import UnsupportedDtypeError

CUDA = 2
"""The kind of device, as ``__dlpack_device__`` names it."""
_NAME, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


_CODES = {
    np.dtype(f"{kind}{size}"): (code, 8 * size)
    for kind, code, sizes in (("i", 0, (1, 2, 4, 8)), ("u", 1, (1, 2, 4, 8)), ("f", 2, (2, 4, 8)), ("c", 5, (8, 16)))
    for size in sizes
} | {dtypes.BFLOAT16: (4, 16), dtypes.BOOL: (6, 8), dtypes.FLOAT8_E4M3: (10, 8), dtypes.FLOAT8_E5M2: (12, 8)}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}

_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p)
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ctypes.cast(_api.PyCapsule_GetPointer, ctypes.c_void_p).value or 0
)

_exported: dict[int, tuple[Any, ...]] = {}
"""What the capsules out there show, by the address of their structure."""


def _forget(address: int) -> None:
    _exported.pop(address, None)


def _drop(capsule: int) -> None:
    """A capsule is collected; nobody took what is in it."""
    if _is_valid(capsule, _NAME):
        _exported.pop(_raw_pointer(capsule, _NAME), None)


_forgetting, _dropping = _Deleter(_forget), ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


def export(array: np.ndarray, address: int, device: int) -> Any:
    """A capsule; it keeps `array` alive."""
    code, bits = _CODES[array.dtype]
    extents = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    steps = (ctypes.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))
    tensor = _Tensor(address, CUDA, device, array.ndim, code, bits, 1, extents, steps, 0)
    managed = _Managed(tensor, None, _forgetting)
    where = ctypes.addressof(managed)
    _exported[where] = (managed, extents, steps, array)
    return _new(where, _NAME, ctypes.cast(_dropping, ctypes.c_void_p))


def imported(capsule: Any) -> np.ndarray:
    """The description of an array in a capsule.  Raises UnsupportedDtypeError."""
    where = _pointer(capsule, _NAME)
    managed = _Managed.from_address(where)
    tensor = managed.tensor
    dtype = _DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise UnsupportedDtypeError(f"DLPack's dtype with code {tensor.code} and {tensor.bits} bits cannot be compiled")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(dtype.itemsize * s for s in tensor.strides[: tensor.ndim]) if tensor.strides else None
    low, nbytes = _extent(shape, strides, dtype.itemsize)
    first = (tensor.data or 0) + tensor.byte_offset
    held: Any = (ctypes.c_char * max(nbytes, 1)).from_address(first + low or 1)
    _rename(capsule, _USED)
    weakref.finalize(held, managed.deleter, where).atexit = False
    return np.ndarray(shape, dtype, held, -low, strides)


def _extent(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> tuple[int, int]:
    """Bytes from the first element to the lowest one (at most 0), and all that the elements span."""
    if 0 in shape:
        return 0, 0
    if strides is None:
        return 0, itemsize * int(np.prod(shape, dtype=np.int64))
    ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = sum(e for e in ends if e < 0)
    return low, sum(map(abs, ends)) + itemsize
