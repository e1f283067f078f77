"""A warp that runs by itself: it waits at barriers, and tensors are copied for it by the machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from numstax.records import record
from numstax.runtime.simulate_barriers import MOST_THREADS, Barriers, Mbarrier
from numstax.runtime.simulate_copies import PIECE, CopyingLanes
from numstax.runtime.simulate_memory import Pointer
from numstax.runtime.simulate_order import LANES, ONE, PROXY, THREADS, Array
from numstax.runtime.simulate_team import Team

FEWEST, MOST = 24, 256
"""Registers of a thread that a warp may ask for, in eights."""


@record(eq=False)
class TensorView:
    """A tensor in global memory, as copies of the machine see it: `sizes` and `box` in elements, `strides` too (without
    the innermost, which is 1), innermost first; `swizzle` in bytes."""

    pointer: Pointer
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int


class WarpLanes(CopyingLanes):
    def __init__(self, *where: Any, team: Team, barriers: Barriers) -> None:
        super().__init__(*where)
        self._team, self._barriers = team, barriers
        self._warp = int(self.warps[0])
        self._of = self._warp * LANES // self.order.threads

    def pause(self) -> None:
        self._team.pause()

    def end(self) -> None:
        """The warp is done."""
        for kind, does in (("tensor", "copies that read shared memory"), ("matrix", "products")):
            under_way = self.groups[kind].under_way()
            if under_way is not None:
                self.violation("flight", under_way, f"ends while {does} are under way")

    # --- barriers

    def barrier(self, warp: bool = False) -> None:
        if warp:
            super().barrier(warp)
        else:
            self.named_barrier(0, None)

    def named_barrier(self, number: int, threads: int | None) -> None:
        """Arrive at a barrier for so many threads of the block (None: all there are), and wait for them."""
        self.together(f"barrier {number}")
        wrong = self._barriers.named(self._of, number, self._warp, threads)
        self.violation("barrier", bool(wrong), wrong)

    def registers(self, count: int) -> None:
        """Give registers back, or wait for more."""
        wrong = count % 8 != 0 or not FEWEST <= count <= MOST
        self.violation("launch", wrong, f"{count} registers in each thread")
        self._barriers.registers(self._warp, count)

    def mbarrier_init(self, address: Array, count: Array) -> None:
        for (at, number), (lane, *_) in self._alike(address, count).items():
            wrong = "" if 0 < number <= MOST_THREADS else f"an mbarrier for {number} threads"
            self.violation("barrier", bool(wrong) or at % 8 != 0, wrong or f"an mbarrier at {at}")
            thread = int(self.number[0, lane])
            made = Mbarrier(number, self.order.actor(), thread, self.order.tick())
            self._barriers.mbarriers[self._of, at] = made

    def mbarrier_fence(self) -> None:
        """Mbarriers that this warp made can be used by copies."""
        for mbarrier in self._barriers.mbarriers.values():
            mbarrier.visible |= mbarrier.maker // LANES == self._warp

    def proxy_fence(self) -> None:
        super().proxy_fence()
        self.mbarrier_fence()

    def mbarrier_arrive(self, address: Array, expected: Array | int = 0) -> None:
        """Each lane arrives, and expects so many more bytes in the phase."""
        for (at, nbytes), lanes in self._alike(address, expected).items():
            mbarrier = self._mbarrier(at, lanes[0])
            if mbarrier is not None:
                wrong = mbarrier.arrive(self.order.send(self._warp), len(lanes), nbytes * len(lanes))
                self.violation("barrier", bool(wrong), wrong)

    def mbarrier_wait(self, address: Array, parity: Array) -> None:
        """Until no phase of that parity runs."""
        for (at, which), (lane, *_) in self._alike(address, parity).items():
            mbarrier = self._mbarrier(at, lane)
            if mbarrier is not None:
                self._barriers.wait(mbarrier, self._warp, which, at)

    def _alike(self, *values: Array | int) -> dict[tuple[int, ...], list[int]]:
        """The active lanes by their values."""
        lanes = np.nonzero(self.active[0])[0].tolist()
        alike: dict[tuple[int, ...], list[int]] = {}
        for lane, *own in zip(lanes, *(self.spread(v)[0, lanes].tolist() for v in values), strict=True):
            alike.setdefault(tuple(own), []).append(lane)
        return alike

    def _mbarrier(self, address: int, lane: int, copied: bool = False) -> Mbarrier | None:
        found = self._barriers.mbarriers.get((self._of, address))
        if found is None:
            self.violation("barrier", True, f"there is no mbarrier at {address}")
            return None
        maker, made, thread = (np.array([n]) for n in (found.maker, found.made, self.number[0, lane]))
        if not self.order.precedes(made, maker, ONE, thread, THREADS)[0] or (copied and not found.visible):
            self.violation("race", True, f"uses the mbarrier at {address}, which thread {found.maker} made, unordered")
        return found

    # --- copies of tensors

    def tensor_load(
        self, lane: int, source: Pointer, offsets: Array, inside: Array, to: Array, mbarrier: int, swizzle: int
    ) -> None:
        """Start to copy elements to pieces of shared memory, 0 for those that are not inside; the mbarrier of that
        address is told.  `offsets`, `inside` : for each piece, its elements; the tile has that swizzle."""
        barrier = self._mbarrier(mbarrier, lane, copied=True)
        memory, shadow = self._shared_memory()
        at, granules = self._pieces(memory, 0, to)
        thread = self.number[0, lane]
        threads = np.broadcast_to(thread, granules.shape)
        self.order.tick()
        racing = shadow.write_races(granules, threads, self.order, view=PROXY)
        self.blame("race", memory, granules, threads, racing, "copies to")
        shadow.begin_copy(granules, True)
        self._note_tensor(source, offsets, inside, thread, changes=False)

        def move() -> None:
            data = np.zeros(offsets.shape, source.dtype)
            data[inside] = source.memory.view(source.dtype)[self._elements(source, offsets[inside])]
            memory.data.reshape(-1, PIECE)[at] = data.view(np.uint8)
            shadow.end_copy(granules, True)
            shadow.lay_out(granules, swizzle)
            if barrier is not None:
                told = np.zeros((2, self.order.known.shape[2]), np.int32)
                self.order.tick()
                shadow.note_write(granules, barrier.actor, self.order)
                told[:, self.order.column(barrier.actor)] = self.order.tick()
                barrier.land(told, data.nbytes)

        self._team.later(move, self.line)

    def tensor_store(self, lane: int, target: Pointer, offsets: Array, inside: Array, source: Array) -> None:
        """Start to copy pieces of shared memory to elements, those that are inside."""
        memory, shadow = self._shared_memory()
        at, granules = self._pieces(memory, 0, source)
        thread = self.number[0, lane]
        threads = np.broadcast_to(thread, granules.shape)
        self._check_read(granules, threads, "copies")
        shadow.begin_copy(granules, False)
        self._note_tensor(target, offsets, inside, thread, changes=True)

        def move() -> None:
            data = memory.data.reshape(-1, PIECE)[at].view(target.dtype)
            target.memory.view(target.dtype)[self._elements(target, offsets[inside])] = data[inside]

        landing = self._team.later(move, self.line)

        def finish(over: Array) -> None:
            landing.land()
            self.order.tick()
            shadow.end_copy(granules, False)
            shadow.readers.note(granules, threads, self.order)

        self.groups["tensor"].start(np.arange(LANES)[None] == lane, finish)

    def _elements(self, pointer: Pointer, offsets: Array) -> Array:
        return offsets + pointer.offset + pointer.memory.origin // pointer.dtype.itemsize

    def _note_tensor(self, pointer: Pointer, offsets: Array, inside: Array, thread: int, changes: bool) -> None:
        """What a copy of a tensor does in global memory."""
        memory, elements = pointer.memory, self._elements(pointer, offsets[inside])
        size = memory.size // pointer.dtype.itemsize
        if elements.size and not 0 <= elements.min() <= elements.max() < size:
            reach = f"from element {elements.min()} to {elements.max()} of {size}"
            self.violation("bounds", True, f"a tensor reaches {reach}")
        shadow = memory.shadow
        if shadow is None:
            return
        parts = max(1, pointer.dtype.itemsize // memory.granule)
        granules = (elements[:, None] * parts + np.arange(parts)).reshape(-1)
        threads = np.broadcast_to(thread, granules.shape)
        if changes:
            racing = shadow.write(granules, threads, self.order, np.ones(granules.shape, bool), strong=False)
        else:
            self.blame("uninitialised", memory, granules, threads, ~shadow.written[granules], "copies")
            racing = shadow.read(granules, threads, self.order, strong=False)
        self.blame("race", memory, granules, threads, racing, "writes" if changes else "reads")
