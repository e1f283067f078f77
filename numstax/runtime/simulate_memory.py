"""Memory of a simulated GPU: buffers in global memory, and the shared memory of blocks, with pointers into them."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from numstax import dtypes
from numstax.records import record
from numstax.runtime.simulate_shadow import Shadow

Array = np.ndarray


class Memory:
    """Bytes of a buffer.

    space : 'global' or 'shared'.  origin : position of the byte that pointers to it start from.  size : the bytes that
    may be accessed from `base`, which for shared memory is where the part of each block starts.  shadow : of its
    granules, where it can be written.  allocation : the address that counts as aligned.
    """

    def __init__(
        self,
        name: str,
        data: Array,
        space: str = "global",
        origin: int = 0,
        size: int | None = None,
        base: Array | int = 0,
        granule: int = 1,
        shadow: Shadow | None = None,
        allocation: int = 0,
    ) -> None:
        self.name, self.data, self.space, self.origin, self.base = name, data, space, origin, base
        self.size = data.size if size is None else size
        self.granule, self.shadow = granule, shadow
        self.address = data.ctypes.data - allocation
        self._views: dict[np.dtype, Array] = {}

    def view(self, dtype: np.dtype) -> Array:
        """The whole as elements of a type."""
        if dtype not in self._views:
            whole = self.data.size // dtype.itemsize * dtype.itemsize
            self._views[dtype] = self.data[:whole].view(dtype)
        return self._views[dtype]


def _allocation(array: Array) -> int:
    """Where the memory that holds an array starts: allocations of a GPU are aligned well.  0 where that is unknown."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.ctypes.data if array.base is None else 0


@record(eq=False)
class Pointer:
    """An address: `offset` elements from the start of memory."""

    memory: Memory
    dtype: np.dtype
    offset: Array | np.int64

    def moved(self, elements: Array | np.integer) -> Pointer:
        return Pointer(self.memory, self.dtype, self.offset + elements)


def pointer_to(name: str, array: Array, granule: int | None, written: bool | Array = True) -> Pointer:
    """The memory that an array covers, from its first element.  Without a `granule` it is only read."""
    dtype = dtypes.storage(array.dtype)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    first = sum(min(0, r) for r in reach)
    size = 0 if array.size == 0 else sum(map(abs, reach)) + array.itemsize
    data = np.empty(0, np.uint8)
    if size:
        lowest = array.view(dtype)[(*(slice(-1, None) if r < 0 else slice(None, 1) for r in reach), ...)]
        data = as_strided(lowest, (size // dtype.itemsize,), (dtype.itemsize,)).view(np.uint8)
    shadow = Shadow(data.size // granule, written) if granule else None
    memory = Memory(name, data, origin=-first, granule=granule or 1, shadow=shadow, allocation=_allocation(array))
    return Pointer(memory, dtype, np.int64(0))
