"""Local rows that neither registers nor the shared memory of a block can hold: they become temporaries in memory.

Enters: a tiled Schedule.  Leaves: the same, with such a local buffer replaced by one that has a row for each outer
point.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.hardware import Gpu
from numstax.ir.index import Index, as_index, bounds, contiguous_strides, product
from numstax.ir.loops import Buffer, Effect, Instr, Kernel, Loop, Reduce, Schedule
from numstax.tiles.cpu import access
from numstax.tiles.cuda_rows import is_own

SLOTS = 2048
"""Bytes of shared memory kept for what threads exchange."""


def in_memory(schedule: Schedule, gpu: Gpu) -> Schedule:
    changed: dict[str, Buffer] = {}
    units = []
    for unit in schedule.units:
        if isinstance(unit, Kernel):
            moved = _too_large(unit, gpu)
            changed |= moved
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
    room = gpu.shared_block - SLOTS
    moved = {}
    for buffer in rows:
        most = bounds(product(buffer.shape))[1]
        teams = tiling.threads // tiling.team
        if tiling.form == "row" and most is not None and most * buffer.dtype.itemsize * teams <= room:
            room -= most * buffer.dtype.itemsize * teams
            continue
        shape = (*(v.extent for v in kernel.outer), *buffer.shape)
        moved[buffer.name] = Buffer(buffer.name, buffer.dtype, shape, contiguous_strides(shape), "temp")
    return moved


def _moved(kernel: Kernel, moved: dict[str, Buffer]) -> Kernel:
    def place(name: str, offset: Index) -> Index:
        if name not in moved:
            return offset
        strides = moved[name].strides
        return offset + sum((as_index(v) * s for v, s in zip(kernel.outer, strides, strict=False)), as_index(0))

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
