"""Who touched each granule of memory last, and which accesses race.

A granule is the smallest element that is accessed.  A `Shadow` holds for each the last writer, those who read since,
and how many copies are under way from and to it.  Readers are noted in one of two ways: `LastReaders` for any number of
threads, where "several of the block" stands for some of its warps, and `EachWarp` for the few that share a block's
memory when each warp runs by itself.
"""
# NumPy types the results of some operators as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Protocol

import numpy as np

from numstax.runtime.simulate_order import BLOCK, GRID, LANES, NOBODY, ONE, THREADS, WARP, Array, Order


class Readers(Protocol):
    """Threads that read granules since the last write."""

    def note(self, at: Array, thread: Array, order: Order) -> None: ...

    def note_warp(self, at: Array, warp: int, order: Order) -> None:
        """A warp as a whole read them."""

    def racing(self, at: Array, thread: Array, order: Order) -> Array:
        """Where a write of a thread is not ordered after them."""

    def forget(self, at: Array) -> None: ...


class LastReaders:
    """The last reader, and who is like it: another of its warp, block, grid."""

    def __init__(self, granules: int) -> None:
        self._thread, self._time = np.full(granules, NOBODY, np.int32), np.zeros(granules, np.int32)
        self._level = np.zeros(granules, np.uint8)

    def note(self, at: Array, thread: Array, order: Order) -> None:
        reader, level, time = self._thread[at], self._level[at], self._time[at]
        block, warp = thread // order.threads, thread // LANES
        in_block, in_warp = reader // order.threads == block, reader // LANES == warp
        before = order.precedes(time, reader, np.maximum(level, WARP), thread)
        past = (reader < 0) | in_block & (level <= BLOCK) & before
        among = np.where(reader == thread, ONE, np.where(in_warp, WARP, np.where(in_block, BLOCK, GRID)))
        level = np.where(past, ONE, np.maximum(level, among))
        self._thread[at], self._time[at] = thread, order.now
        last = self._thread[at]  # where several lanes read one granule, one of them is noted
        among = np.where(last // LANES == warp, WARP, np.where(last // order.threads == block, BLOCK, GRID))
        level = np.where(last == thread, level, np.maximum(level, among))
        for each in range(GRID + 1):  # in this order, so that the widest stays
            self._level[at[level == each]] = each

    def note_warp(self, at: Array, warp: int, order: Order) -> None:
        self.note(at, np.full(at.shape, warp * LANES, np.int32), order)

    def racing(self, at: Array, thread: Array, order: Order) -> Array:
        reader = self._thread[at]
        return (reader >= 0) & ~order.precedes(self._time[at], reader, self._level[at], thread)

    def forget(self, at: Array) -> None:
        self._thread[at] = NOBODY


class EachWarp:
    """For each warp of a team when it last read, and which lane."""

    NEVER, SEVERAL = -1, LANES
    EVERY = -1
    """The warp as a whole, which is in order with itself."""

    def __init__(self, granules: int, warps: int) -> None:
        self._time = np.full((granules, warps), self.NEVER, np.int32)
        self._lane = np.zeros((granules, warps), np.int8)

    def note(self, at: Array, thread: Array, order: Order) -> None:
        column, lane = order.column(thread), thread % LANES
        past = order.precedes(self._time[at, column], thread, WARP, thread)
        kept = np.where(past | (self._lane[at, column] == lane), lane, self.SEVERAL)
        self._time[at, column], self._lane[at, column] = order.now, kept
        mixed = self._lane[at, column] != kept
        self._lane[at[mixed], np.broadcast_to(column, at.shape)[mixed]] = self.SEVERAL

    def note_warp(self, at: Array, warp: int, order: Order) -> None:
        self._time[at, warp % order.warps], self._lane[at, warp % order.warps] = order.now, self.EVERY

    def racing(self, at: Array, thread: Array, order: Order) -> Array:
        row, column = thread // LANES - order.first, order.column(thread)
        late = self._time[at] >= order.known[THREADS, row, : order.warps]
        lane = self._lane[at, column]
        late[np.arange(at.size), column] &= (lane != thread % LANES) & (lane != self.EVERY)
        return late.any(-1)

    def forget(self, at: Array) -> None:
        self._time[at] = self.NEVER


class Shadow:
    """Of each granule: the last writer, the readers since, and whether anything was written."""

    def __init__(self, granules: int, written: bool | Array, readers: Readers | None = None) -> None:
        self._writer, self._written_at = np.full(granules, NOBODY, np.int32), np.zeros(granules, np.int32)
        self._strong = np.zeros(granules, bool)
        self.readers = readers or LastReaders(granules)
        self.written = np.array(np.broadcast_to(written, granules))
        self._swizzle = np.zeros(0, np.uint8)
        self.copied: dict[bool, Array] = {}
        """Copies under way: from (False) and to (True) each granule, once there are any."""

    def read_races(self, at: Array, thread: Array, order: Order, strong: bool = False, view: int = THREADS) -> Array:
        """Which reads of granules race with a write?"""
        other = self._writer[at]
        racing = (other != NOBODY) & ~order.precedes(self._written_at[at], other, ONE, thread, view)
        if strong:
            racing &= ~self._strong[at]
        return racing | self._under_way(at, True)

    def read(self, at: Array, thread: Array, order: Order, strong: bool) -> Array:
        """Note reads of granules; which race with a write?"""
        racing = self.read_races(at, thread, order, strong)
        if not strong:
            self.readers.note(at, thread, order)
        return racing

    def write_races(self, at: Array, thread: Array, order: Order, strong: bool = False, view: int = THREADS) -> Array:
        """Which writes race with others, or with reads?"""
        racing = self.read_races(at, thread, order, strong, view)
        return racing | self.readers.racing(at, thread, order) | self._under_way(at, False)

    def note_write(self, at: Array, actor: Array | int, order: Order, strong: bool = False) -> None:
        self._writer[at], self._written_at[at], self._strong[at] = actor, order.now, strong
        self.readers.forget(at)
        self.written[at] = True

    def write(self, at: Array, thread: Array, order: Order, changes: Array, strong: bool) -> Array:
        """Note writes; which race?  A write that changes nothing does not."""
        racing = self.write_races(at, thread, order, strong)
        self.note_write(at, thread, order, strong)
        return racing & changes

    def lay_out(self, at: Array, swizzle: int) -> None:
        """Note that a copy wrote granules as parts of a tile with that swizzle."""
        if not self._swizzle.size:
            self._swizzle = np.zeros(self.written.size, np.uint8)
        self._swizzle[at] = swizzle

    def laid_otherwise(self, at: Array, swizzle: int) -> Array:
        """Which granules a copy wrote last, with another swizzle?"""
        if not self._swizzle.size:
            return np.zeros(at.shape, bool)
        return (self._writer[at] < NOBODY) & (self._swizzle[at] != swizzle)

    def begin_copy(self, at: Array, to: bool) -> None:
        if to not in self.copied:
            self.copied[to] = np.zeros(self.written.size, np.int16)
        np.add.at(self.copied[to], at, 1)

    def end_copy(self, at: Array, to: bool) -> None:
        np.subtract.at(self.copied[to], at, 1)

    def _under_way(self, at: Array, to: bool) -> Array | bool:
        return self.copied[to][at] > 0 if to in self.copied else False
