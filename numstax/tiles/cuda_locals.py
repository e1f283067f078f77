"""Local rows that neither registers nor the shared memory of a block can hold: they become temporaries in memory.

Enters: a tiled Schedule.  Leaves: the same, with such a local buffer replaced by one that has a row for each outer
point, and without the cases of kernels that have such.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.hardware import Gpu
from numstax.ir.index import ZERO, Index, Var, as_index, bounds, contiguous_strides, product
from numstax.ir.loops import Buffer, Effect, Instr, Kernel, Loop, Reduce, Schedule, Tiling, access
from numstax.tiles.cuda_rows import is_own, slots


def in_memory(schedule: Schedule, gpu: Gpu) -> Schedule:
    changed: dict[str, Buffer] = {}
    units = []
    for unit in schedule.units:
        if isinstance(unit, Kernel):
            moved = _too_large(unit, gpu)
            changed |= moved
            unit = replace(unit, cases=tuple(case for case in unit.cases if not _too_large(case.kernel, gpu)))
            unit = _moved(unit, moved) if moved else unit
        units.append(unit)
    buffers = tuple(changed.get(b.name, b) for b in schedule.buffers)
    return replace(schedule, units=tuple(units), buffers=buffers)


def _too_large(kernel: Kernel, gpu: Gpu) -> dict[str, Buffer]:
    """The local rows that have to move, as they will be."""
    tiling = kernel.tiling
    assert tiling is not None
    rows = [b for b in kernel.buffers if b.kind == "local" and b.shape]
    if tiling.cache == "registers":
        rows = [b for b in rows if not is_own(kernel, b.name)]
    room = gpu.shared_block - slots(kernel)
    moved = {}
    for buffer in rows:
        most = bounds(product(buffer.shape))[1]
        teams = tiling.threads // tiling.team
        if tiling.form == "row" and most is not None and most * buffer.dtype.itemsize * teams <= room:
            room -= most * buffer.dtype.itemsize * teams
            continue
        points = tuple(v.extent for v in _slowest_first(kernel))
        shape = (*buffer.shape, *points) if _side_by_side(tiling) else (*points, *buffer.shape)
        moved[buffer.name] = Buffer(buffer.name, buffer.dtype, shape, contiguous_strides(shape), "temp")
    return moved


def _side_by_side(tiling: Tiling) -> bool:
    """Do neighbouring threads have rows of their own, whose elements then lie side by side?"""
    return tiling.form != "row" or tiling.team == 1


def _slowest_first(kernel: Kernel) -> list[Var]:
    lane = kernel.tiling.vector if kernel.tiling is not None else None
    return sorted(kernel.outer, key=lambda v: v == lane)


def _moved(kernel: Kernel, moved: dict[str, Buffer]) -> Kernel:
    def place(name: str, offset: Index) -> Index:
        if name not in moved:
            return offset
        variables, number = _slowest_first(kernel), ZERO
        for var in variables:
            number = number * var.extent + as_index(var)
        assert kernel.tiling is not None
        if _side_by_side(kernel.tiling):
            return offset * product(v.extent for v in variables) + number
        return number * product(kernel.buffer(name).shape) + offset

    def instruction(instr: Instr) -> Instr:
        if instr.op != "load":
            return instr
        name, offset = access(instr)
        return replace(instr, attr=(name, place(name, offset)))

    def effect(old: Effect) -> Effect:
        new = replace(old, offset=place(old.buffer, old.offset))
        if isinstance(new, Reduce) and new.value_buffer is not None and new.value_offset is not None:
            new = replace(new, value_offset=place(new.value_buffer, new.value_offset))
        return new

    loops = tuple(
        Loop(loop.inner, tuple(map(instruction, loop.body)), tuple(map(effect, loop.effects))) for loop in kernel.loops
    )
    return replace(kernel, loops=loops, buffers=tuple(moved.get(b.name, b) for b in kernel.buffers))
