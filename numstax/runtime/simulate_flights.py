"""Work that goes on by itself after the instruction that started it, until its thread waits for it.

Threads start flights, close groups of them, and wait until all groups but the last few are over (PTX: ``commit_group``
and ``wait_group``).  A `Flight` belongs to lanes; it calls `finish` for those that waited for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from numstax.runtime.simulate_order import Array


class Flight:
    """`active` : the lanes that started it and have not waited for it; `group` : for each, the number of its group."""

    def __init__(self, active: Array, group: Array, finish: Callable[[Array], None]) -> None:
        self.active, self._group, self._finish = active.copy(), group.copy(), finish

    def end(self, waiting: Array, closed: Array) -> None:
        """For the lanes that wait for groups below `closed`."""
        over = self.active & waiting & (self._group < closed)
        if over.any():
            self._finish(over)
            self.active &= ~over


class Groups:
    """The flights of one kind: copies of threads, copies of tensors, or products of matrices."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._closed = np.zeros(shape, np.int64)
        self._flights: list[Flight] = []

    def start(self, active: Array, finish: Callable[[Array], None] = lambda over: None) -> Flight:
        flight = Flight(active, self._closed, finish)
        self._flights.append(flight)
        return flight

    def commit(self, active: Array) -> None:
        self._closed += active

    def wait(self, active: Array, left: int) -> None:
        """Until no more than so many groups of each thread are left."""
        for flight in self._flights:
            flight.end(active, self._closed - left)
        self._flights = [flight for flight in self._flights if flight.active.any()]

    def under_way(self) -> Array | None:
        """The lanes of some flight that is not over."""
        return self._flights[0].active if self._flights else None


class InFlight(tuple[Array, ...]):
    """Registers that tensor cores still work on."""

    flight: Flight
