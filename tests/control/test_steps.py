"""Time loops: nothing is allocated in a step; what a branch only hands on, and what is replaced part by part, is not
copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from numstax.ir.index import product
from numstax.ir.loops import Buffer, Control, EmittedLoop, Kernel, Schedule, Unit
from numstax.pipeline import Region, build
from tests.control.programs import accepted, damped, exchanged, sharpened, streamed

N = 5000
U, V = np.random.default_rng(0).random((2, N))


def region(function: Callable, *arrays: np.ndarray) -> Region:
    return build(function, (*arrays, np.int64(20)))


def bodies(schedule: Schedule) -> Iterator[Schedule]:
    """Those of all control flow."""
    for unit in schedule.units:
        if isinstance(unit, Control):
            for body in unit.bodies:
                yield body.schedule
                yield from bodies(body.schedule)


def is_large(buffer: Buffer) -> bool:
    return product(buffer.shape).value == N


def copies(unit: Unit) -> bool:
    """Is this a kernel that only moves an array?"""
    return isinstance(unit, Kernel) and unit.name == "poi_copy" and all(map(is_large, unit.buffers))


@pytest.mark.parametrize(
    ("function", "arrays"), [(damped, [U]), (sharpened, [U]), (accepted, [U]), (exchanged, [U, V])]
)
def test_a_step_is_native_code_in_memory_that_is_there(function: Callable, arrays: list[np.ndarray]) -> None:
    *_, loop = (item for item in region(function, *arrays).emitted if isinstance(item, EmittedLoop))
    assert loop.control.kind == "for"


def test_a_value_that_is_changed_now_and_then_stays_where_it_is() -> None:
    schedule = region(damped, U).schedule
    assert schedule is not None
    inner = list(bodies(schedule))
    assert not any(copies(unit) for body in inner for unit in body.units)
    assert not any(is_large(b) for body in inner for b in body.buffers if b.kind == "temp")


def test_a_value_that_is_accepted_is_there_already() -> None:
    """Only where it is refused, the old one is copied."""
    schedule = region(accepted, U).schedule
    assert schedule is not None
    inner = list(bodies(schedule))
    assert sum(copies(unit) for body in inner for unit in body.units) == 1
    assert not any(is_large(b) for body in inner for b in body.buffers if b.kind == "temp")


def test_a_state_that_is_replaced_part_by_part_changes_its_buffer() -> None:
    schedule = region(streamed, np.ones((N, 3))).schedule
    assert schedule is not None
    (loop,) = (unit for unit in schedule.units if isinstance(unit, Control))
    assert loop.rotate == ((0, 1), (1, 0))
    (kernel,) = loop.bodies[0].schedule.units
    assert isinstance(kernel, Kernel)
    assert {b.name for b in kernel.buffers if b.kind != "local"} == {"x0", "x1"}
