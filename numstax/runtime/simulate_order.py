"""Which accesses happen before which: what each warp of a simulated GPU knows of the others.

Every access has the time of its instruction.  For each warp that runs, an `Order` holds up to which time it knows what
each warp of its team (its block, or the blocks that run at once) has done, and what copies that run by themselves have;
barriers hand that knowledge on.  Blocks are ordered by a fence after the write and a fence after an atomic access of
the reader (the release and acquire patterns of the PTX memory model, chapter 8, for whole blocks).

Copies by the machine and tensor cores go to shared memory by another way, the asynchronous proxy.  They find what
threads wrote only after a proxy fence, by those that wrote or by those that start them; so there is a second view.
"""
# NumPy types the results of some operators as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

LANES = 32
Array = np.ndarray

ONE, WARP, BLOCK, GRID = range(4)
"""Who did something: one thread, or several of a warp, block or grid."""
NOBODY = -1
THREADS, PROXY = range(2)
"""Views: what accesses of threads find, and what the asynchronous proxy does."""


class Order:
    """Threads are numbered through the grid, each block from a multiple of `threads` (whole warps).  Copies are actors
    with numbers below `NOBODY`.

    team : so many blocks know of each other.
    """

    def __init__(self, blocks: int, threads: int, team: int = 1) -> None:
        self.now, self.threads, self.warps = 1, threads, team * threads // LANES
        self.released, self.acquired = np.full(blocks, -1, np.int32), np.full(blocks, -1, np.int32)
        self.met = np.zeros(blocks, bool)
        """Did the block access memory atomically?"""
        self._fenced = False
        self.begin(0, 0)

    def begin(self, first: int, blocks: int) -> None:
        """The blocks that run from now on, which are whole teams."""
        self.first = first * self.threads // LANES
        self.known = np.zeros((2, blocks * self.threads // LANES, self.warps), np.int32)
        """By view, warp and actor: what that did before this time is known."""
        self._of_team = np.zeros(self.known.shape[1], np.int32)

    def tick(self) -> int:
        self.now += 1
        return self.now

    def actor(self) -> int:
        """A new actor besides the threads."""
        self.known = np.pad(self.known, ((0, 0), (0, 0), (0, 1)))
        return NOBODY - (self.known.shape[2] - self.warps)

    def column(self, actor: Array | int) -> Array | int:
        """Where what is known of a thread or another actor stands."""
        if self.known.shape[2] == self.warps:
            return actor // LANES % self.warps
        return np.where(actor >= 0, actor // LANES % self.warps, self.warps + NOBODY - 1 - actor)

    # --- what orders

    def fence(self, blocks: Array) -> None:
        now, self._fenced = self.tick(), True
        self.released[blocks] = now
        self.acquired[blocks[self.met[blocks]]] = now

    def warp_barrier(self, warps: Array) -> None:
        rows = warps - self.first
        self.known[THREADS, rows, rows % self.warps] = self.tick()

    def meet(self, warps: Array) -> None:
        """Warps know of each other, and what the others know; in each row of a matrix of warps."""
        rows = warps - self.first
        self.known[THREADS, rows, rows % self.warps] = self.tick()
        self.known[:, rows] = self.known[:, rows].max(axis=-2, keepdims=True)
        self._of_team[rows] = self.known[THREADS, rows, : self.warps].min(-1)

    def send(self, warp: int) -> Array:
        """What a warp that arrives somewhere can tell others."""
        row = warp - self.first
        told = self.known[:, row].copy()
        told[THREADS, row % self.warps] = self.tick()
        return told

    def receive(self, warp: int, told: Array) -> None:
        row, count = warp - self.first, told.shape[1]
        np.maximum(self.known[:, row, :count], told, out=self.known[:, row, :count])
        self._of_team[row] = self.known[THREADS, row, : self.warps].min()

    def proxy_fence(self, warps: Array) -> None:
        rows = warps - self.first
        self.known[PROXY, rows] = self.known[:, rows].max(0)
        self.known[PROXY, rows, rows % self.warps] = self.tick()

    # --- what is ordered

    def precedes(self, time: Array, other: Array, level: Array | int, thread: Array, view: int = THREADS) -> Array:
        """Was what `other`, or several like it, did at that time before what `thread` does now?"""
        warp = thread // LANES
        known = self.known[view, warp - self.first, self.column(other)]
        if not np.isscalar(level):
            known = np.where(level == BLOCK, self._of_team[warp - self.first], known)
        in_team = (other < 0) | (other // LANES // self.warps == warp // self.warps)
        before = in_team & (time < known) & (level <= BLOCK)
        if self._fenced:
            block, other_block = thread // self.threads, np.maximum(other, 0) // self.threads
            in_grid = (time < self.acquired[block]) & ((time <= self.released[other_block]) | (level == GRID))
            before |= ((other_block != block) & (other >= 0) | (level == GRID)) & in_grid
        return before if view == PROXY else before | (other == thread) & (level == ONE)
