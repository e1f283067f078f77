"""A CuPy that is not one: its arrays are memory of the fake driver, its functions NumPy's.

It offers what `numstax.runtime` uses of the package.  `work` notes the stream of every function that was called.
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from numstax.runtime.memory import address_of, memory_at


class ndarray:  # noqa: N801 (CuPy's name)
    def __init__(self, shape, dtype, memptr, strides=None):
        self.seen = memory_at(memptr.ptr, shape, np.dtype(dtype), strides)
        self.data = memptr
        self.base = None

    dtype = property(lambda self: self.seen.dtype)
    shape = property(lambda self: self.seen.shape)
    strides = property(lambda self: self.seen.strides)
    flags = property(lambda self: self.seen.flags)
    nbytes = property(lambda self: self.seen.nbytes)

    def copy(self, order="C"):
        return made(np.array(self.seen, order=order))


ndarray.__module__ = "cupy"
work: list[tuple[str, int]] = []
_streams = [0]


class Memory:
    """`owner` keeps it alive."""

    def __init__(self, ptr, size, owner, device_id=0):
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, memory, offset):
        self.mem, self.ptr, self.device_id = memory, memory.ptr + offset, memory.device_id


def allocated(nbytes):
    device = sys.modules["numstax.runtime.device"].device(0)
    root = device.root(max(nbytes, 1))
    return MemoryPointer(Memory(address_of(root), nbytes, root), 0)


def empty(shape, dtype):
    return ndarray(shape, dtype, allocated(int(np.prod(shape)) * np.dtype(dtype).itemsize))


def made(array):
    """The array as one of this library."""
    found = empty(array.shape, array.dtype)
    found.seen[...] = array
    return found


def function(name, library=np):
    def call(*args, **kwargs):
        def plain(value):
            if isinstance(value, tuple | list):
                return type(value)(map(plain, value))
            assert not isinstance(value, np.ndarray), "CuPy takes no arrays of NumPy"
            return value.seen if isinstance(value, ndarray) else value

        work.append((name, _streams[-1]))
        result = getattr(library, name)(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
        return kwargs.get("out") or (tuple(map(made, result)) if isinstance(result, tuple) else made(result))

    return call


@contextlib.contextmanager
def _external(stream, device_id=-1):
    _streams.append(stream)
    yield
    _streams.pop()


def module(*functions: str) -> ModuleType:
    """The package, with these functions."""
    cupy = ModuleType("cupy")
    cupy.ndarray, cupy.empty = ndarray, empty
    for name in functions:
        setattr(cupy, name, function(name))
    cupy.cuda = SimpleNamespace(
        Device=lambda number: contextlib.nullcontext(),
        ExternalStream=_external,
        UnownedMemory=Memory,
        MemoryPointer=MemoryPointer,
        runtime=SimpleNamespace(getDeviceCount=lambda: 1),
        get_current_stream=lambda number: SimpleNamespace(ptr=_streams[-1]),
    )
    return cupy
