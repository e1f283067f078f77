"""Barriers that warps wait at by themselves: those of a block with a number, and mbarriers in shared memory.

An arrival brings what its warp knows (`Order.send`); whoever waits until a barrier is complete knows all of that
(`Order.receive`).  An mbarrier goes through phases.  The one that runs is complete once `count` threads have
arrived and the bytes that they expect have landed; a wait with a parity is over once no phase of that parity runs
(PTX ISA, chapter 9, "Parallel Synchronization and Communication Instructions: mbarrier").
"""

from __future__ import annotations

import numpy as np

from numstax.runtime.simulate_order import LANES, Array, Order
from numstax.runtime.simulate_team import Team

MOST_BYTES, MOST_THREADS, NAMED = (1 << 20) - 1, (1 << 20) - 1, 16
"""An mbarrier expects so many bytes and arrivals at most; so many barriers of a block have a number."""
REGISTERS = 1 << 16
"""Of an SM, which a block whose warps exchange them has to itself."""


class Mbarrier:
    """`actor` : stands for the copies that it waits for; `maker` made it at the time `made`; `visible` : to copies."""

    def __init__(self, count: int, actor: int, maker: int, made: int) -> None:
        self.count, self.actor, self.maker, self.made, self.visible = count, actor, maker, made, False
        self.phase, self.missing, self.bytes = 0, count, 0
        self._told: list[Array] = []
        self.complete: Array | None = None
        """What those know who wait for the last complete phase."""

    def arrive(self, told: Array, times: int, expected: int) -> str:
        """So many threads of a warp arrive, and expect bytes.  What is wrong with it, or ''."""
        self.bytes += expected
        self.missing -= times
        self._told.append(told)
        wrong = ""
        if self.missing < 0:
            wrong = f"{-self.missing} more threads arrive in a phase than the {self.count} it waits for"
        elif abs(self.bytes) > MOST_BYTES:
            wrong = f"{self.bytes} bytes are expected in a phase"
        self._finish()
        return wrong

    def land(self, told: Array, nbytes: int) -> None:
        self.bytes -= nbytes
        self._told.append(told)
        self._finish()

    def passed(self, parity: int) -> bool:
        return self.phase % 2 != parity

    def __str__(self) -> str:
        return f"phase {self.phase} runs, {self.missing} threads and {self.bytes} bytes are to come"

    def _finish(self) -> None:
        if self.missing <= 0 and self.bytes == 0:
            self.complete = combined([*self._told, *([] if self.complete is None else [self.complete])])
            self.phase, self.missing, self._told = self.phase + 1, self.count, []


class Named:
    """A barrier for so many threads, again and again."""

    def __init__(self) -> None:
        self.threads = 0
        self.warps: list[int] = []
        self._told: list[Array] = []
        self.complete: list[Array] = []
        """What those know who wait for each turn, once it is complete."""

    def arrive(self, warp: int, told: Array, threads: int) -> None:
        self.warps.append(warp)
        self._told.append(told)
        self.threads = threads
        self.finish(threads)

    def finish(self, threads: int) -> None:
        """Go on to the next turn if so many threads are here."""
        if self.warps and LANES * len(self.warps) >= threads:
            self.complete.append(combined(self._told))
            self.warps, self._told = [], []

    def __str__(self) -> str:
        here = ", ".join(map(str, sorted(self.warps)))
        return f"{self.threads} threads at a barrier, where warps {here} are"


class Barriers:
    """All barriers of a team, by block and number or address, and the registers that the threads of each warp have."""

    def __init__(self, team: Team, order: Order) -> None:
        self.mbarriers: dict[tuple[int, int], Mbarrier] = {}
        each = REGISTERS // order.threads // 8 * 8
        self._registers = dict.fromkeys(range(order.first, order.first + len(order.known[0])), each)
        self._most = each * len(self._registers)
        self._team, self._order = team, order
        self._named: dict[tuple[int, int], Named] = {}

    def named(self, block: int, number: int, warp: int, threads: int | None) -> str:
        """A warp arrives, for `threads` of its block (None: all that are there), and waits for them.

        What is wrong with that, or ''.
        """
        barrier = self._named.setdefault((block, number), Named())
        if threads is not None and (threads % LANES or not 0 <= number < NAMED):
            return f"there is no barrier {number} for {threads} threads"
        if barrier.warps and threads is not None and threads != barrier.threads:
            return f"barrier {number} is for {threads} threads here, and for {barrier.threads} where others arrived"
        if warp in barrier.warps:
            return f"the warp arrives twice at barrier {number}"
        turn = len(barrier.complete)
        barrier.arrive(warp, self._order.send(warp), self._present(block) if threads is None else threads)

        def over() -> bool:
            if threads is None:
                barrier.finish(self._present(block))
            return len(barrier.complete) > turn

        self._team.wait(over, barrier.__str__)
        self._order.receive(warp, barrier.complete[turn])
        return ""

    def _present(self, block: int) -> int:
        """Threads of a block whose warps are not done."""
        each = self._order.threads // LANES
        return LANES * sum(warp // each == block for warp in self._team.alive())

    def registers(self, warp: int, count: int) -> None:
        """Wait for so many registers in each thread of a warp, which others may have to give back."""

        def there() -> bool:
            return sum(self._registers.values()) - self._registers[warp] + count <= self._most

        self._team.wait(there, lambda: f"{count} registers in each thread")
        self._registers[warp] = count

    def wait(self, barrier: Mbarrier, warp: int, parity: int, address: int) -> None:
        def wants() -> str:
            return f"parity {parity} of the mbarrier at {address} ({barrier})"

        self._team.wait(lambda: barrier.passed(parity), wants)
        if barrier.complete is not None:
            self._order.receive(warp, barrier.complete)


def combined(told: list[Array]) -> Array:
    """All that is known of any."""
    columns = max(t.shape[1] for t in told)
    out = np.zeros((2, columns), np.int32)
    for t in told:
        np.maximum(out[:, : t.shape[1]], t, out=out[:, : t.shape[1]])
    return out
