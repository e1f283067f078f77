"""Variables of lanes that run together, and how masks change as control flow divides and joins them.

A variable holds a `Value`, a tuple, a `Pointer` or `Registers`, for the lanes that assigned it; an assignment by some
lanes keeps what the others have.  `jumps` are what lanes left behind in the loops around: those that wait for the next
iteration, and for the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from numstax.errors import CompileError
from numstax.runtime.simulate_copies import CopyingLanes
from numstax.runtime.simulate_lanes import Lanes, Mask
from numstax.runtime.simulate_memory import Pointer
from numstax.runtime.simulate_values import Value, choose, converted


class Cells:
    """Values by number, each for the lanes that assigned it; `every` : the mask of all lanes."""

    def __init__(self, count: int, every: Mask) -> None:
        self.values: list[Any] = [None] * count
        self._assigned: list[Mask | None] = [None] * count
        self._every = every

    def set(self, k: int, value: Any, mask: Mask) -> None:
        assigned = self._assigned[k]
        if assigned is not mask and assigned is not None and not assigned.within(mask):
            value = merged(mask.lanes, value, self.values[k])
            mask = assigned if mask.within(assigned) else Mask(assigned.lanes | mask.lanes, self._every)
        self.values[k], self._assigned[k] = value, mask

    def missing(self, k: int, mask: Mask) -> np.ndarray | None:
        """The lanes that assigned nothing, where it takes a look to know that there are none."""
        assigned = self._assigned[k]
        if assigned is mask or (assigned is not None and mask.within(assigned)):
            return None
        return mask.lanes if assigned is None else mask.lanes & ~assigned.lanes

    def forget(self, numbers: tuple[int, ...]) -> None:
        for k in numbers:
            self._assigned[k] = None


class Registers:
    """An array private to each thread, of elements of the computing type."""

    def __init__(self, count: int, dtype: np.dtype, every: Mask) -> None:
        self._cells, self._dtype = Cells(count, every), dtype

    def get(self, lanes: Lanes, index: Value) -> Value:
        if not np.ndim(index):
            return self._cell(lanes, int(index), lanes.mask)
        out, mask = np.zeros(lanes.shape, self._dtype), lanes.mask
        for k, part in self._by_element(lanes, index):
            out[part.lanes] = lanes.spread(self._cell(lanes, k, part))[part.lanes]
        lanes.mask = mask
        return out

    def set(self, lanes: Lanes, index: Value, value: Value) -> None:
        value = converted(value, self._dtype)
        if np.ndim(index):
            for k, part in self._by_element(lanes, index):
                self._cells.set(k, value, part)
        elif self._inside(lanes, int(index), lanes.mask):
            self._cells.set(int(index), value, lanes.mask)

    def _by_element(self, lanes: Lanes, index: Value) -> Iterator[tuple[int, Mask]]:
        """The elements that lanes want, and which do."""
        index = lanes.spread(index)
        for k in np.unique(index[lanes.active]).tolist():
            part = lanes.mask.only(index == k)
            if self._inside(lanes, k, part):
                yield k, part

    def _inside(self, lanes: Lanes, k: int, mask: Mask) -> bool:
        if 0 <= k < len(self._cells.values):
            return True
        lanes.violation("bounds", mask.lanes, f"element {k} of {len(self._cells.values)} registers")
        return False

    def _cell(self, lanes: Lanes, k: int, mask: Mask) -> Value:
        if not self._inside(lanes, k, mask):
            return self._dtype.type(0)
        missing = self._cells.missing(k, mask)
        if missing is not None:
            lanes.violation("uninitialised", missing, f"reads register {k}")
        value = self._cells.values[k]
        return self._dtype.type(0) if value is None else value


class Frame:
    """The variables of one run, by number."""

    def __init__(self, lanes: CopyingLanes, count: int) -> None:
        self.lanes = lanes
        self.jumps: list[tuple[list[Mask], list[Mask]]] = []
        self.every = lanes.mask
        self._cells = Cells(count, self.every)
        self.forget = self._cells.forget

    def get(self, slot: int, name: str, line: int) -> Any:
        missing = self._cells.missing(slot, self.lanes.mask)
        if missing is not None:
            if self._cells.values[slot] is None:
                raise CompileError(f"line {line}: {name} has no value here")
            self.lanes.line = line
            self.lanes.violation("undefined", missing, f"reads {name}")
        return self._cells.values[slot]

    def set(self, slot: int, value: Any) -> None:
        self._cells.set(slot, value, self.lanes.mask)

    # --- masks

    def join(self, before: Mask, *parts: Mask) -> None:
        """Go on with the lanes of the parts, which were divided from `before`."""
        if sum(part.count for part in parts) == before.count:
            self.lanes.mask = before
        else:
            lanes = np.zeros(self.lanes.shape, bool)
            for part in parts:
                lanes |= part.lanes
            self.lanes.mask = Mask(lanes, before)

    def stop(self, kept: list[Mask] | None = None) -> None:
        """No lane goes on here; they are kept for later, or have returned."""
        mask = self.lanes.mask
        if kept is not None:
            kept.append(mask)
        else:
            self.lanes.alive = self.lanes.alive.without(mask)
        self.lanes.mask = mask.only(np.False_)


def merged(condition: np.ndarray, new: Any, old: Any) -> Any:
    """`new` where the condition holds, else `old`."""
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return tuple(merged(condition, a, b) for a, b in zip(new, old, strict=True))
    if isinstance(new, Pointer) and isinstance(old, Pointer) and new.memory is old.memory:
        return Pointer(new.memory, new.dtype, choose(condition, new.offset, old.offset))
    if isinstance(new, Registers) and new is old:
        return new
    if isinstance(new, np.ndarray | np.generic) and isinstance(old, np.ndarray | np.generic):
        return choose(condition, new, old)
    raise CompileError(f"a variable is {type(old).__name__} for some lanes and {type(new).__name__} for others")
