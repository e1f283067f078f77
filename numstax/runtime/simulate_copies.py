"""Lanes that copy to shared memory and multiply matrices while they go on.

A copy starts with its checks: what it touches must be ordered before, and until it is waited for, nobody else may touch
it.  What it moves is moved when it ends.
"""

# NumPy types the results of some operators as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

import numpy as np

from numstax.errors import CompileError
from numstax.runtime.simulate_flights import Groups, InFlight
from numstax.runtime.simulate_lanes import Lanes
from numstax.runtime.simulate_memory import Memory, Pointer
from numstax.runtime.simulate_order import PROXY, THREADS, Array
from numstax.runtime.simulate_shadow import Shadow
from numstax.runtime.simulate_values import converted

SHARED_START = 1024
"""The address of the first byte of a block's shared memory."""
PIECE = 16
"""Bytes that tensors are copied and matrices read in."""
_BYTE, _WORD = np.dtype(np.uint8), np.dtype(np.uint32)


class CopyingLanes(Lanes):
    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self.groups = {kind: Groups(self.shape) for kind in ("copy", "tensor", "matrix")}

    def shared(self, address: Array, dtype: np.dtype) -> Pointer:
        """What lies at an address in shared memory."""
        byte = np.asarray(address).astype(np.int64) - SHARED_START
        self.violation("alignment", self.active & (byte % dtype.itemsize != 0), f"{dtype} in shared memory")
        memory, _ = self._shared_memory()
        return Pointer(memory, dtype, byte // dtype.itemsize)

    def _shared_memory(self) -> tuple[Memory, Shadow]:
        if self.memory is None or self.memory.shadow is None:
            raise CompileError("the program has no shared memory")
        return self.memory, self.memory.shadow

    # --- copies of threads

    def copy(self, to: Array, pointer: Pointer, offset: Array, size: int, wanted: Array) -> None:
        """Start to copy `size` bytes to an address in shared memory, of which `wanted` are read and the rest is 0."""
        words = self._source(pointer, offset, size, wanted)
        access = self.access(self.shared(to, _WORD), np.int64(0), size // _WORD.itemsize, "store")
        granules, thread = access.granules()
        memory, shadow = self._shared_memory()
        self.order.tick()
        racing = shadow.write_races(granules, thread, self.order)
        self.blame("race", memory, granules, thread, racing, "copies to")
        shadow.begin_copy(granules, True)
        data = np.stack([word[access.inside] for word in words], -1)

        def finish(over: Array) -> None:
            ended = over[access.inside]
            access.view[access.at[ended, None] + np.arange(len(words))] = data[ended]
            self.order.tick()
            done = np.repeat(ended, access.parts)
            shadow.end_copy(granules[done], True)
            shadow.note_write(granules[done], thread[done], self.order)

        self.groups["copy"].start(access.inside, finish)

    def _source(self, pointer: Pointer, offset: Array, size: int, wanted: Array) -> list[Array]:
        """The bytes to copy, as words."""
        every, byte = self.mask, (pointer.offset + offset) * pointer.dtype.itemsize
        wanted = self.spread(wanted)
        self.violation("bounds", every.lanes & ((wanted < 0) | (wanted > size)), f"copies other than 0 to {size} bytes")
        words = np.zeros((size // _WORD.itemsize, *self.shape), _WORD)
        whole = every.only(wanted == size)
        if whole.count:
            self.mask = whole
            astray = whole.lanes & (byte % _WORD.itemsize != 0)
            self.violation("alignment", astray, f"{size} bytes are copied from within a word")
            loaded = self.load(Pointer(pointer.memory, _WORD, np.int64(0)), byte // _WORD.itemsize, len(words))
            words[...] = loaded
        for k in range(size):
            self.mask = every.only((wanted > k) & (wanted < size))
            if not self.mask.count:
                break
            part = self.load(Pointer(pointer.memory, _BYTE, np.int64(0)), byte + k)
            words[k // _WORD.itemsize] |= converted(part, _WORD) << np.uint32(8 * (k % _WORD.itemsize))
        self.mask = every
        return list(words)

    def commit(self, kind: str) -> None:
        self.groups[kind].commit(self.active)

    def wait(self, kind: str, left: int) -> None:
        """Until no more than so many groups are under way."""
        self.groups[kind].wait(self.active, left)

    # --- matrices

    def fetch(self, warp: int, addresses: Array, swizzle: int) -> Array:
        """Pieces of 16 bytes of shared memory that tensor cores read for the warp in that row, until it waits.

        They take them for parts of a tile with that swizzle.
        """
        memory, shadow = self._shared_memory()
        at, granules = self._pieces(memory, warp, addresses)
        threads = np.broadcast_to(self.number[warp, 0], granules.shape)
        self._check_read(granules, threads, "multiplies")
        other = shadow.laid_otherwise(granules, swizzle)
        self.blame("layout", memory, granules, threads, other, f"multiplies with a swizzle of {swizzle} bytes")
        shadow.begin_copy(granules, False)

        def finish(over: Array) -> None:
            self.order.tick()
            shadow.end_copy(granules, False)
            shadow.readers.note_warp(granules, self.warps[warp], self.order)

        lanes = np.zeros(self.shape, bool)
        lanes[warp] = self.active[warp]
        self.groups["matrix"].start(lanes, finish)
        return memory.data.reshape(-1, PIECE)[at]

    def in_flight(self, values: tuple[Array, ...]) -> InFlight:
        """Registers that nobody may touch until the products that are under way are over."""
        made = InFlight(values)
        made.flight = self.groups["matrix"].start(self.active)
        return made

    def settled(self, values: Any) -> Any:
        """Registers that are about to be used otherwise than by tensor cores."""
        if isinstance(values, InFlight):
            self.violation("flight", values.flight.active & self.active, "touches registers that are being computed")
        return values

    def _pieces(self, memory: Memory, warp: int, addresses: Array) -> tuple[Array, Array]:
        """Numbers of pieces, and of their granules."""
        byte = addresses.astype(np.int64).reshape(-1) - SHARED_START
        outside = (byte < 0) | (byte + PIECE > memory.size)
        if outside.any():
            where = np.zeros(self.shape, bool)
            where[warp] = True
            size = f"{memory.size} bytes of shared memory from {SHARED_START}"
            self.violation("bounds", where, f"address {byte[outside][0] + SHARED_START} of {size}")
            byte = np.where(outside, 0, byte)
        at = (byte + np.broadcast_to(memory.base, (self.shape[0], 1))[warp, 0]) // PIECE
        parts = PIECE // memory.granule
        return at, (at[:, None] * parts + np.arange(parts)).reshape(-1)

    def _check_read(self, granules: Array, thread: Array, does: str) -> None:
        """A read of shared memory by tensor cores or a copy of the machine."""
        memory, shadow = self._shared_memory()
        self.order.tick()
        self.blame("uninitialised", memory, granules, thread, ~shadow.written[granules], does)
        racing = shadow.read_races(granules, thread, self.order, view=PROXY)
        if racing.any():
            unseen = racing & ~shadow.read_races(granules, thread, self.order, view=THREADS)
            self.blame("race", memory, granules, thread, racing & ~unseen, does)
            self.blame("race", memory, granules, thread, unseen, f"{does}, without a proxy fence after the writes,")
