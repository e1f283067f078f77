"""Memory of a simulated GPU: bytes, who touched them last, and which accesses happen before which.

A `Memory` is a buffer in global memory, or the shared memory of several blocks.  Where it can be written its `Shadow`
holds, for each granule (the smallest element accessed), the last writer and the last readers.  An `Order` says what is
ordered: threads of a block by a barrier, lanes of a warp by a barrier of the warp, blocks by a fence after the write
and a fence after an atomic access of the reader (the release and acquire patterns of the PTX memory model, chapter 8,
for whole blocks).
"""
# NumPy types the results of some operators as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from numstax import dtypes
from numstax.records import record

LANES = 32
Array = np.ndarray

_ONE, _WARP, _BLOCK, _GRID = range(4)
"""Who read a granule: one thread, or several of a warp, block or grid."""


class Order:
    """Threads are numbered through the grid, each block from a multiple of `threads` (whole warps); accesses by the
    time of their instruction."""

    def __init__(self, blocks: int, threads: int) -> None:
        self.now, self.threads = 1, threads
        self.barrier = np.zeros(blocks, np.int32)
        self.warp_barrier = np.zeros(blocks * threads // LANES, np.int32)
        self.released, self.acquired = np.full(blocks, -1, np.int32), np.full(blocks, -1, np.int32)
        self.met = np.zeros(blocks, bool)
        """Did the block access memory atomically?"""

    def tick(self) -> int:
        self.now += 1
        return self.now

    def fence(self, blocks: Array) -> None:
        now = self.tick()
        self.released[blocks] = now
        self.acquired[blocks[self.met[blocks]]] = now

    def precedes(self, time: Array, other: Array, level: Array | int, thread: Array) -> Array:
        """Was what `other`, or several like it, did at that time before what `thread` does now?"""
        block, warp = thread // self.threads, thread // LANES
        other_block = other // self.threads
        in_warp = (other // LANES == warp) & (time < self.warp_barrier[warp]) & (level <= _WARP)
        in_block = (time < self.barrier[block]) & (level <= _BLOCK)
        in_grid = (time < self.acquired[block]) & ((time <= self.released[other_block]) | (level == _GRID))
        return (
            (other == thread) & (level == _ONE)
            | in_warp
            | (other_block == block) & in_block
            | ((other_block != block) | (level == _GRID)) & in_grid
        )


class Shadow:
    """Of each granule: the last writer, the readers since, and whether anything was written."""

    def __init__(self, granules: int, written: bool | Array) -> None:
        self.writer, self.written_at = np.full(granules, -1, np.int32), np.zeros(granules, np.int32)
        self.strong = np.zeros(granules, bool)
        self.reader, self.read_at = np.full(granules, -1, np.int32), np.zeros(granules, np.int32)
        self.level = np.zeros(granules, np.uint8)
        self.written = np.array(np.broadcast_to(written, granules))

    def read(self, at: Array, thread: Array, order: Order, strong: bool) -> Array:
        """Note reads of granules; which of them race with a write?"""
        other = self.writer[at]
        racing = (other >= 0) & ~order.precedes(self.written_at[at], other, _ONE, thread)
        if strong:
            return racing & ~self.strong[at]
        reader, level, time = self.reader[at], self.level[at], self.read_at[at]
        block, warp = thread // order.threads, thread // LANES
        in_block, in_warp = reader // order.threads == block, reader // LANES == warp
        past = (reader < 0) | in_block & (level <= _BLOCK) & (time < order.barrier[block])
        past |= in_warp & (level <= _WARP) & (time < order.warp_barrier[warp])
        among = np.where(reader == thread, _ONE, np.where(in_warp, _WARP, np.where(in_block, _BLOCK, _GRID)))
        level = np.where(past, _ONE, np.maximum(level, among))
        self.reader[at], self.read_at[at] = thread, order.now
        last = self.reader[at]  # where several lanes read one granule, one of them is noted
        among = np.where(last // LANES == warp, _WARP, np.where(last // order.threads == block, _BLOCK, _GRID))
        level = np.where(last == thread, level, np.maximum(level, among))
        for each in range(_GRID + 1):  # in this order, so that the widest stays
            self.level[at[level == each]] = each
        return racing

    def write(self, at: Array, thread: Array, order: Order, changes: Array, strong: bool) -> Array:
        """Note writes; which race with others?  A write that changes nothing does not."""
        other = self.writer[at]
        racing = (other >= 0) & ~order.precedes(self.written_at[at], other, _ONE, thread)
        if strong:
            racing &= ~self.strong[at]
        reader = self.reader[at]
        racing |= (reader >= 0) & ~order.precedes(self.read_at[at], reader, self.level[at], thread)
        self.writer[at], self.written_at[at], self.strong[at] = thread, order.now, strong
        self.reader[at] = -1
        self.written[at] = True
        return racing & changes


class Memory:
    """Bytes of a buffer.

    space : 'global' or 'shared'.  origin : position of the byte that pointers to it start from.  size : the bytes that
    may be accessed from `base`, which for shared memory is where the part of each block starts.  allocation : the
    address that counts as aligned.
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
        written: bool | Array | None = None,
        allocation: int = 0,
    ) -> None:
        self.name, self.data, self.space, self.origin, self.base = name, data, space, origin, base
        self.size = data.size if size is None else size
        self.granule = granule
        self.shadow = None if written is None else Shadow(data.size // granule, written)
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
    shadow = written if granule else None
    start = _allocation(array)
    memory = Memory(name, data, origin=-first, granule=granule or 1, written=shadow, allocation=start)
    return Pointer(memory, dtype, np.int64(0))
