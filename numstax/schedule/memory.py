"""Lifetimes of arrays and the reuse of their memory.

Enters: a Schedule.  Leaves: a `Lifetimes`.  An array is made before the first step that touches it and released
after the last.  A temporary is held by the array of an earlier one with the same dtype and number of elements
whose last use is past; outputs and what library functions return are never shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from numstax.ir.index import product
from numstax.ir.loops import Buffer, Control, Extern, Schedule
from numstax.program import Allocate, Release
from numstax.records import record


@record
class Lifetimes:
    """array : the array that holds each temporary and output.
    allocations, releases : what to do before and after each step.
    untouched : outputs of no elements, which no unit writes.
    """

    array: dict[str, str]
    allocations: tuple[tuple[Allocate, ...], ...]
    releases: tuple[tuple[Release, ...], ...]
    untouched: tuple[Allocate, ...]


def lifetimes(schedule: Schedule, steps: Sequence[int]) -> Lifetimes:
    """`steps` : how many units each step runs.  Memory is not shared within a step: the parameters of a program
    do not overlap."""
    owned = {b.name: b for b in schedule.buffers if b.kind in ("temp", "output")}
    units = iter(schedule.units)
    groups = [tuple(islice(units, n)) for n in steps]
    touched = [sorted(frozenset().union(*(u.reads() | u.writes() for u in g)) & owned.keys()) for g in groups]
    last = {name: k for k, names in enumerate(touched) for name in names}
    array: dict[str, str] = {}
    free: dict[tuple[object, ...], list[str]] = {}
    released: dict[str, int] = {}
    borrowed = {r for unit in schedule.units if isinstance(unit, Extern) and not unit.draws for r in unit.results}
    # buffers that exchange their parts must have one shape, also where they are library functions' arguments
    turning = {c.args[k] for c in schedule.units if isinstance(c, Control) for pair in c.rotate for k in pair}
    allocations = []
    for k in range(len(groups)):
        fresh = []
        for name in touched[k]:
            if name in array:
                continue
            buffer = owned[name]
            shares = buffer.kind == "temp" and name not in borrowed | turning
            spare = free.get(_size_class(buffer)) if shares else None
            array[name] = spare.pop() if spare else name
            if array[name] == name and name not in borrowed:
                fresh.append(_allocate(buffer))
        allocations.append(tuple(fresh))
        for name in touched[k]:
            if last[name] == k and owned[name].kind == "temp":
                released[array[name]] = k
                if name not in borrowed:
                    free.setdefault(_size_class(owned[name]), []).append(array[name])
    releases = tuple(tuple(Release(name) for name, at in released.items() if at == k) for k in range(len(groups)))
    untouched = tuple(_allocate(b) for b in owned.values() if b.kind == "output" and b.name not in array)
    return Lifetimes(array, tuple(allocations), releases, untouched)


def _size_class(buffer: Buffer) -> tuple[object, ...]:
    return buffer.dtype, product(buffer.shape)


def _allocate(buffer: Buffer) -> Allocate:
    return Allocate(buffer.name, buffer.dtype, tuple(map(str, buffer.shape)))
