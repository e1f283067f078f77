"""The lanes that run together: which are active, and what they do to memory.

This is what the `model` of a `program.Instruction` is called with, ``model(lanes, *operands) -> value | tuple``.
Operands are arrays of shape (warps, 32) of the declared dtypes, or a `Pointer`; so are results (what broadcasts to it
will do).  A model uses:

  active                 bool (warps, 32): the lanes that execute the instruction
  thread, block, grid    index in the block along x; index of the block along x, y, z; blocks along x, y, z
  load(pointer, offset, count=1, weak=True), store(pointer, offset, values, weak=True, rank=None)
                         `count` neighbouring elements as a tuple; `weak` False for volatile, relaxed and the like;
                         `rank` : in the shared memory of the block of that rank in the cluster
  atomic(pointer, offset, function, value)
                         memory becomes function(memory, value), one lane after another; what it was is the result
  fence(), barrier(), barrier(warp=True), cluster_barrier(), proxy_fence()
  limited(condition)     as a context: of the active lanes, those for which it holds
  shared(address, dtype) a pointer to what lies at an address in shared memory
  copy(to, pointer, offset, size, wanted), commit(kind), wait(kind, left)
                         copies that go on by themselves, in groups; kind: 'copy', 'tensor' or 'matrix'
  fetch(warp, addresses, swizzle), in_flight(values)
                         what tensor cores read, and the registers that they compute, until a wait for 'matrix'

and, where warps run by themselves, named_barrier, registers, the mbarrier_ methods, tensor_load and tensor_store of
`simulate_warps.WarpLanes`.
"""
# NumPy types the results of some operators as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from numstax.records import record
from numstax.runtime.simulate_memory import Memory, Pointer
from numstax.runtime.simulate_order import LANES, Order
from numstax.runtime.simulate_report import SAMPLES, Report
from numstax.runtime.simulate_values import Value, converted

Array = np.ndarray
WIDEST = 16
"""Bytes of an access of one lane."""


class Mask:
    """A set of lanes, inside that of what surrounds it."""

    __slots__ = ("count", "full", "lanes", "parent")

    def __init__(self, lanes: Array, parent: Mask | None = None) -> None:
        self.lanes, self.parent = lanes, parent
        self.count = int(np.count_nonzero(lanes))
        self.full = self.count == lanes.size

    def within(self, other: Mask) -> bool:
        """Is it a part of the other, known without looking?"""
        mask: Mask | None = self
        while mask is not None and mask is not other:
            mask = mask.parent
        return mask is not None

    def only(self, condition: Array | np.bool_) -> Mask:
        """The lanes for which it holds; the mask itself when those are all."""
        part = Mask(self.lanes & condition, self)
        return self if part.count == self.count else part

    def without(self, other: Mask) -> Mask:
        return self.only(~other.lanes) if other.count else self


class Lanes:
    """Warps that step together: those numbered `warps` in the grid, of whole blocks or of one block.

    memory : shared memory of their blocks.
    """

    def __init__(
        self,
        report: Report,
        order: Order,
        threads: int,
        grid: tuple[int, int, int],
        warps: Array,
        memory: Memory | None,
    ) -> None:
        self.report, self.order, self.grid, self.warps, self.memory = report, order, grid, warps, memory
        self.shape = warps.size, LANES
        self.number = (warps[:, None] * LANES + np.arange(LANES)).astype(np.int32)
        """Of each thread, in the grid."""
        block, self.thread = np.divmod(self.number, np.int32(order.threads))
        self.block = block[:, :1] % grid[0], block[:, :1] // grid[0] % grid[1], block[:, :1] // (grid[0] * grid[1])
        self.mask = self.alive = Mask(self.thread < threads)
        self.line = 0

    @property
    def active(self) -> Array:
        return self.mask.lanes

    def spread(self, value: Value) -> Array:
        """A value for each lane."""
        return value if np.shape(value) == self.shape else np.broadcast_to(value, self.shape)

    def violation(self, kind: str, where: Any, detail: str) -> None:
        """Report it for the first lane where it holds."""
        if not np.any(where):
            return
        at = np.nonzero(np.broadcast_to(where, self.shape).reshape(-1))[0]
        thread, block = self.thread.reshape(-1)[at[0]], self.number.reshape(-1)[at[0]] // self.order.threads
        self.report.add(kind, self.line, f"{detail} (block {block}, thread {thread}; {at.size} threads)")

    # --- memory

    def load(self, pointer: Pointer, offset: Value, count: int = 1, weak: bool = True) -> Value | tuple[Value, ...]:
        access = self.access(pointer, offset, count, "load")
        if access.memory.shadow is not None:
            granules, thread = access.granules()
            self.order.tick()
            fresh = ~access.memory.shadow.written[granules]
            self.blame("uninitialised", access.memory, granules, thread, fresh, "reads")
            racing = access.memory.shadow.read(granules, thread, self.order, not weak)
            self.blame("race", access.memory, granules, thread, racing, "reads")
        if not weak:
            self.order.met[access.thread // self.order.threads] = True
        got = tuple(self._scattered(access, access.view[access.at + k]) for k in range(count))
        return got if count > 1 else got[0]

    def store(
        self, pointer: Pointer, offset: Value, values: Sequence[Value], weak: bool = True, rank: Value | None = None
    ) -> None:
        access = self.access(pointer, offset, len(values), "store", rank)
        new = [self.spread(converted(v, pointer.dtype))[access.inside] for v in values]
        places = [access.at + k for k in range(len(values))]
        changes = [_differ(access.view[at], value) for at, value in zip(places, new, strict=True)]
        self._note_write(access, np.stack(changes, -1).any(-1), strong=not weak)
        for at, value in zip(places, new, strict=True):
            access.view[at] = value
        for at, value in zip(places, new, strict=True):
            lost = _differ(access.view[at], value)
            self.blame("race", access.memory, at, access.thread, lost, "writes another value than others to")

    def atomic(self, pointer: Pointer, offset: Value, function: Callable[..., Value], value: Value) -> Array:
        access = self.access(pointer, offset, 1, "atomic")
        self.order.met[access.thread // self.order.threads] = True
        self._note_write(access, np.ones(access.at.shape, bool), strong=True)
        operand, old = self.spread(value)[access.inside], np.zeros(access.at.shape, pointer.dtype)
        rest = np.arange(access.at.size)
        while rest.size:  # the first lane for each element, then the second ..
            _, first = np.unique(access.at[rest], return_index=True)
            turn = rest[first]
            old[turn] = access.view[access.at[turn]]
            access.view[access.at[turn]] = converted(function(old[turn], operand[turn]), pointer.dtype)
            rest = np.delete(rest, first)
        return self._scattered(access, old)

    def access(self, pointer: Pointer, offset: Value, count: int, action: str, rank: Value | None = None) -> Access:
        memory, itemsize = pointer.memory, pointer.dtype.itemsize
        size = itemsize * count
        byte = self.spread((pointer.offset + offset) * itemsize) + memory.origin
        inside = self.mask.lanes & (byte >= 0) & (byte + size <= memory.size)
        if np.count_nonzero(inside) != self.mask.count:
            outside = self.mask.lanes & ~inside
            element, limit = ((b - memory.origin) // itemsize for b in (byte[outside][0], memory.size))
            together = f", {count} together" if count > 1 else ""
            self.violation("bounds", outside, f"{action} of element {element}{together} of {memory.name}[{limit}]")
        byte = byte + memory.base
        if rank is not None:
            each = memory.data.size // (self.warps.size * LANES // self.order.threads)
            byte = byte + (rank - self.number % (self.order.warps * LANES) // self.order.threads) * each
        if count > 1:
            wrong = inside & ((size > WIDEST) | ((memory.address + byte) % size != 0))
            self.violation("alignment", wrong, f"{action} of {size} bytes together of {memory.name}")
        site = self.report.site(self.line, memory.space, action)
        if site.sampled < SAMPLES:
            site.sampled += 1
            measure = site.count_sectors if memory.space == "global" else site.count_passes
            measure(byte + memory.address, inside, size)
        at, thread = byte[inside] // itemsize, self.number[inside]
        return Access(memory, memory.view(pointer.dtype), at, thread, inside, itemsize, count)

    def _scattered(self, access: Access, values: Array) -> Array:
        """Values of the lanes that access memory, and 0 for the others."""
        if values.size == access.inside.size:
            return values.reshape(self.shape)
        out = np.zeros(self.shape, values.dtype)
        out[access.inside] = values
        return out

    def _note_write(self, access: Access, changes: Any, strong: bool) -> None:
        shadow = access.memory.shadow
        if shadow is None:  # the status: whoever finds an error may write it, and one is enough
            return
        granules, thread = access.granules()
        self.order.tick()
        racing = shadow.write(granules, thread, self.order, np.repeat(changes, access.parts), strong)
        self.blame("race", access.memory, granules, thread, racing, "writes")

    def blame(self, kind: str, memory: Memory, at: Array, thread: Array, where: Array, does: str) -> None:
        """Report the first access of threads to granules for which it holds."""
        first = int(where.argmax()) if where.size else 0
        if where.size and where[first]:
            block, index = divmod(int(thread[first]), self.order.threads)
            self.report.add(kind, self.line, f"block {block}, thread {index} {does} {memory.name} at {at[first]}")

    # --- order

    def fence(self) -> None:
        self.order.fence(np.unique(self.number[self.active] // self.order.threads))

    def barrier(self, warp: bool = False) -> None:
        """Of each block any thread of which is here, or each warp."""
        warps = self.warps[self.active.any(-1)]
        if warp:
            self.order.warp_barrier(warps)
            return
        each = self.order.threads // LANES
        blocks = np.unique(warps // each)
        missing = self.alive.lanes & ~self.active & np.isin(self.warps // each, blocks)[:, None]
        self.violation("divergence", missing, "does not reach a barrier of its block")
        self.order.meet(blocks[:, None] * each + np.arange(each))

    def cluster_barrier(self) -> None:
        """Of each cluster any thread of which is here."""
        each = self.order.warps
        clusters = np.unique(self.warps[self.active.any(-1)] // each)
        missing = self.alive.lanes & ~self.active & np.isin(self.warps // each, clusters)[:, None]
        self.violation("divergence", missing, "does not reach a barrier of its cluster")
        self.order.meet(clusters[:, None] * each + np.arange(each))

    def proxy_fence(self) -> None:
        self.order.proxy_fence(self.warps[self.active.any(-1)])

    @contextmanager
    def limited(self, condition: Array) -> Iterator[None]:
        """Of the active lanes, those for which it holds."""
        every = self.mask
        self.mask = every.only(condition)
        yield
        self.mask = every

    def pause(self) -> None:
        """Others may go on first, where warps run by themselves."""

    def together(self, name: str) -> None:
        """All threads of each warp that is here must be."""
        missing = self.alive.lanes & ~self.active & self.active.any(-1, keepdims=True)
        self.violation("divergence", missing, f"does not reach {name} with its warp")


@record(eq=False)
class Access:
    """The lanes `inside` access `count` elements of `itemsize` bytes from `at` in the view; `at` and `thread` flat."""

    memory: Memory
    view: Array
    at: Array
    thread: Array
    inside: Array
    itemsize: int
    count: int

    @property
    def parts(self) -> int:
        return max(1, self.itemsize * self.count // self.memory.granule)

    def granules(self) -> tuple[Array, Array]:
        """Every granule accessed, and the thread that does."""
        first = self.at * self.itemsize // self.memory.granule
        if self.parts == 1:
            return first, self.thread
        return (first[:, None] + np.arange(self.parts)).reshape(-1), np.repeat(self.thread, self.parts)


def _differ(a: Array, b: Array) -> Any:
    """Where the bits do."""
    if a.dtype.itemsize == 16:
        return (a.view(np.uint64) != b.view(np.uint64)).reshape(-1, 2).any(-1)
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return a.view(bits) != np.ascontiguousarray(b).view(bits)
