"""Tiled kernels and loops to programs: readable Numba source, one function each.

A Schedule whose Kernels have tilings enters; for each unit, in order, an `Emitted` program, the Extern or control flow
leaves.  Neighbouring kernels that are too small to share out among threads become one program, so that a small region
is one compiled call; a loop becomes one program where all it runs is compiled.
"""

from __future__ import annotations

from numstax.cpu_emit.driver import emit_loop
from numstax.cpu_emit.programs import grouped, print_program
from numstax.cpu_emit.random_draws import print_draws
from numstax.emit.naming import Names
from numstax.ir.loops import Control, EmittedControl, EmittedLoop, EmittedUnit, Extern, Kernel, Refusal, Schedule
from numstax.knobs import Knobs


def emit(schedule: Schedule, parallel_threshold: int = Knobs().parallel_threshold) -> tuple[EmittedUnit, ...]:
    """The programs and library calls of a schedule, in order."""
    return _emit(schedule, parallel_threshold, {})


def _emit(schedule: Schedule, parallel_threshold: int, used: Names) -> tuple[EmittedUnit, ...]:
    out: list[EmittedUnit] = []
    buffers = {b.name: b for b in schedule.buffers}
    arguments = frozenset(b.name for b in schedule.buffers if b.kind == "input" and not schedule.private)
    for units, small in grouped(schedule.units, parallel_threshold, arguments):
        first = units[0]
        if isinstance(first, Extern):
            out.append(print_draws(first, buffers, used).emitted if first.draws else first)
        elif isinstance(first, Control):
            out.append(_control(first, schedule, parallel_threshold, used))
        else:
            kernels = [k for k in units if isinstance(k, Kernel)]
            out.append(print_program(kernels, not small, used).emitted)
    return tuple(out)


def _control(control: Control, schedule: Schedule, parallel_threshold: int, used: Names) -> EmittedUnit:
    refused: tuple[Refusal, ...] = ()
    if control.kind != "cond":
        native = emit_loop(control, {b.name: b for b in schedule.buffers}, parallel_threshold, used)
        if isinstance(native, EmittedLoop):
            return native
        refused = (native,)
    bodies = (_emit(body.schedule, parallel_threshold, used) for body in control.bodies)
    return EmittedControl(control, tuple(bodies), refused)
