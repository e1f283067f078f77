"""Tiled kernels to GPU programs: readable Numba CUDA source, one function each.

A Schedule whose Kernels have tilings for the GPU enters; for each unit, in order, an `Emitted` program, the Extern or
the control flow leaves, whose bodies are emitted alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from numstax.cuda_emit.narrow import narrow
from numstax.cuda_emit.programs import print_group, print_program
from numstax.emit.naming import Names
from numstax.hardware import Gpu
from numstax.ir.loops import Control, EmittedControl, EmittedUnit, Kernel, Schedule
from numstax.schedule.groups import group_of


def emit(schedule: Schedule, gpu: Gpu) -> tuple[EmittedUnit, ...]:
    """The programs and library calls of a schedule, in order."""
    return tuple(_units(schedule, gpu, {}))


def _units(schedule: Schedule, gpu: Gpu, used: Names) -> Iterator[EmittedUnit]:
    for _, run in groupby(schedule.units, key=lambda unit: group_of(unit) or id(unit)):
        units = [narrow(unit) if isinstance(unit, Kernel) else unit for unit in run]
        kernels = [unit for unit in units if isinstance(unit, Kernel)]
        together = print_group(kernels, gpu, used) if 1 < len(units) == len(kernels) else None
        if together is not None:
            yield together
            continue
        for unit in units:
            if isinstance(unit, Kernel):
                yield print_program(unit, gpu, used)
            elif isinstance(unit, Control):
                yield EmittedControl(unit, tuple(tuple(_units(body.schedule, gpu, used)) for body in unit.bodies))
            else:
                yield unit
