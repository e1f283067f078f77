"""Teams: the threads of a block that share one outer point, and how values pass between them.

A team is one thread, one warp, a block of whole warps, or a cluster of such blocks.  `Team` names the lane of this
thread in its team; what is printed by its methods is reached by all threads of the team together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from numstax import dtypes
from numstax.cuda_emit.text import DeviceText
from numstax.emit.values import loaded, stored

WARP = 32
State = Sequence[tuple[str, np.dtype]]
"""Names of registers and the dtypes of what they hold."""
Merge = Callable[[Sequence[str]], None]
"""Prints how a state takes in another one, given as expressions."""


class Team:
    """`size` threads for each outer point, `count` teams a block, or `cluster` blocks a team; values are combined
    `exchanges` times."""

    def __init__(self, text: DeviceText, threads: int, size: int, exchanges: int) -> None:
        self.text, self.size, self.count, self.cluster = text, size, max(threads // size, 1), max(size // threads, 1)
        self.warps = max(size // WARP, 1)
        self.number = "0"
        self.lane = "0"
        self._started, self._boxes, self._sent = False, "", 0
        if size == 1:
            self.number = "thread_x()"
        elif self.cluster > 1:
            self.lane = text.assign("t", f"int32(thread_x() + (block_x() & {self.cluster - 1})*{threads})")
            self._boxes = text.array("m", dtypes.INT64, exchanges)
            with text.block(f"if thread_x() < {exchanges}"):
                text.line(f"mailbox_open({self._boxes}, int64(thread_x()))")
            text.line("cluster_start()")
        elif self.count == 1:
            self.lane = text.assign("t", "thread_x()")
        else:
            self.lane = text.assign("t", f"int32(thread_x() & {WARP - 1})")
            self.number = f"thread_x() // {WARP}"

    @property
    def first(self) -> str:
        """Is this the first thread?"""
        return f"{self.lane} == 0"

    @property
    def leads(self) -> str:
        """Is this the first thread of the team in its block?"""
        return "thread_x() == 0" if self.cluster > 1 else self.first

    def sync(self) -> None:
        """What threads of the team wrote is seen by the others from here on."""
        if self.cluster > 1:
            self._start()
            self.text.line("cluster_arrive()")
            self.text.line("cluster_wait()")
        elif self.size > 1:
            self.text.line("barrier()" if self.size > WARP else "warp_barrier()")

    def combine(self, state: State, merge: Merge) -> None:
        """Merge the states of all threads; every thread has the result."""
        if self.size == 1:
            return
        self._within_warps(state, merge, WARP // 2)
        if self.warps == 1:
            return
        slots = [self.text.array("s", dtype, self.warps) for _, dtype in state]
        if self.cluster > 1:
            self._combine_blocks(state, merge, slots)
            return
        with self.text.block(f"if {self.lane} % {WARP} == 0"):
            for slot, (name, dtype) in zip(slots, state, strict=True):
                self.text.line(f"{slot}[{self.lane} // {WARP}] = {stored(name, dtype)}")
        self.text.line("barrier()")
        for slot, (name, dtype) in zip(slots, state, strict=True):
            self.text.line(f"{name} = {loaded(f'{slot}[{self.lane} % {self.warps}]', dtype)}")
        self._within_warps(state, merge, self.warps // 2)

    def _combine_blocks(self, state: State, merge: Merge, slots: Sequence[str]) -> None:
        """Every warp sends every block what it has; a block goes on when all has come."""
        self._start()
        text, lane, box = self.text, f"{self.lane} % {WARP}", f"{self._boxes}, {self._sent}"
        self._sent += 1
        with text.block("if thread_x() == 0"):
            text.line(f"mailbox_expect({box}, uint32({self.warps * sum(dtype.itemsize for _, dtype in state)}))")
        with text.block(f"if {lane} < {self.cluster}"):
            for slot, (name, dtype) in zip(slots, state, strict=True):
                sent = f"{slot}, int64({self.lane} // {WARP}), {stored(name, dtype)}, uint32({lane}), {box}"
                text.line(f"cluster_send_{dtypes.name(dtype)}({sent})")
        text.line(f"mailbox_wait({box})")
        among = min(self.warps, WARP)
        for first in range(0, self.warps, among):
            at = f"{self.lane} % {among}" + (f" + {first}" if first else "")
            got = [loaded(f"{slot}[{at}]", dtype) for slot, (_, dtype) in zip(slots, state, strict=True)]
            if first:
                merge([text.assign("o", value) for value in got])
                continue
            for (name, _), value in zip(state, got, strict=True):
                text.line(f"{name} = {value}")
        self._within_warps(state, merge, among // 2)

    def _start(self) -> None:
        """All blocks of the cluster have started."""
        if not self._started:
            self.text.line("cluster_wait()")
            self._started = True

    def _within_warps(self, state: State, merge: Merge, distance: int) -> None:
        """Merge with the lanes at that distance, half of it, and so on."""
        steps = distance.bit_length()
        k = self.text.fresh("k")
        with self.text.block(f"for {k} in range({steps})"):
            others = (exchange("xor", name, f"{distance} >> {k}", dtype) for name, dtype in state)
            merge([self.text.assign("o", other) for other in others])


def exchange(way: str, value: str, operand: str, dtype: np.dtype) -> str:
    """The value of another lane: ``shuffle_<way>`` for any dtype; half floats are float32 in registers."""
    kind, register = dtypes.kind(dtype), dtypes.compute(dtype)
    if kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        real, imaginary = (exchange(way, f"{value}.{name}", operand, part) for name in ("real", "imag"))
        return f"complex({real}, {imaginary})"
    if kind == "b":
        return f"(shuffle_{way}_i32(int32({value}), {operand}) != 0)"
    if register.itemsize < 4:
        return f"{register.name}(shuffle_{way}_i32(int32({value}), {operand}))"
    return f"shuffle_{way}_{dtypes.name(register)}({value}, {operand})"
