"""What every row of a kernel reads again, sorted into contiguous rows beforehand.

The sums of many rows may read the same elements with a stride: the x, y and z of points, one point behind the other.
The compiler sorts them into vectors at each reading, which costs as much as the arithmetic.  A small kernel before it
sorts them once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from numstax.ir.index import (
    ONE,
    ZERO,
    Index,
    Symbol,
    Var,
    as_index,
    atoms,
    contiguous_strides,
    hint,
    product,
    stride_of,
)
from numstax.ir.loops import Buffer, Instr, Kernel, Loop, Reduce, Schedule, Store, Unit, access

LEAST = 1 << 14
"""Iterations of all rows together that are worth one more kernel."""
LEAST_ROWS = 32
"""Fewer rows read too little again."""
LEAST_COLUMNS = 2
"""One strided load of an iteration costs little."""

_Line = tuple[str, Index]
"""Elements of a buffer that lie so far apart."""


def with_packed(schedule: Schedule) -> Schedule:
    """The schedule with such elements sorted before each kernel; bodies of control flow are left alone."""
    units: list[Unit] = []
    buffers = {b.name: b for b in schedule.buffers}
    for unit in schedule.units:
        made = _packed(unit, len(buffers)) if isinstance(unit, Kernel) else ()
        units += made or (unit,)
        buffers |= {b.name: b for kernel in made for b in kernel.buffers if b.kind != "local"}
    return replace(schedule, units=tuple(units), buffers=tuple(buffers.values()))


def _packed(kernel: Kernel, number: int) -> tuple[Kernel, ...]:
    """The kernels that sort, and the kernel that reads what they made; `number` makes names unique."""
    made: list[Kernel] = []
    for place, loop in enumerate(kernel.loops):
        for (name, _), offsets in _read_again(loop, kernel).items():
            along, source = loop.inner[-1], kernel.buffer(name)
            shape = (as_index(len(offsets)), along.extent)
            packed = Buffer(f"sorted{number + len(made)}", source.dtype, shape, contiguous_strides(shape), "temp")
            places = {offset: k * along.extent + as_index(along) for k, offset in enumerate(offsets)}
            made.append(_sorting(source, packed, along, places))
            kernel = _reading(kernel, place, source, packed, places)
    return (*made, kernel)


def _read_again(loop: Loop, kernel: Kernel) -> dict[_Line, list[Index]]:
    """The offsets of what is read with a stride along the innermost variable, the same elements for every row."""
    rows = hint(product(v.extent for v in kernel.outer))
    steps = hint(product(v.extent for v in loop.inner))
    if not any(isinstance(e, Reduce) for e in loop.effects) or rows < LEAST_ROWS or rows * steps < LEAST:
        return {}
    along, written = loop.inner[-1], kernel.writes()
    found: dict[_Line, list[Index]] = {}
    for instr in loop.body:
        if instr.op != "load" or instr.args:
            continue
        name, offset = access(instr)
        stride = stride_of(offset, along)
        fixed = all(atom == along or isinstance(atom, Symbol) for atom in atoms(offset))
        if fixed and stride is not None and stride not in (ZERO, ONE, as_index(-1)) and name not in written:
            offsets = found.setdefault((name, stride), [])
            offsets += [offset] if offset not in offsets else []
    return {line: offsets for line, offsets in found.items() if len(offsets) >= LEAST_COLUMNS}


def _sorting(source: Buffer, packed: Buffer, along: Var, places: Mapping[Index, Index]) -> Kernel:
    body = tuple(Instr("load", (), source.dtype, (source.name, offset)) for offset in places)
    stores = tuple(Store(packed.name, place, k) for k, place in enumerate(places.values()))
    return Kernel("poi_sort", (along,), (Loop((), body, stores),), (source, packed))


def _reading(kernel: Kernel, place: int, source: Buffer, packed: Buffer, places: Mapping[Index, Index]) -> Kernel:
    def moved(instr: Instr) -> Instr:
        if instr.op != "load" or instr.args or access(instr)[0] != source.name:
            return instr
        found = places.get(access(instr)[1])
        return instr if found is None else replace(instr, attr=(packed.name, found))

    loop = kernel.loops[place]
    loop = replace(loop, body=tuple(map(moved, loop.body)))
    loops = (*kernel.loops[:place], loop, *kernel.loops[place + 1 :])
    named = frozenset().union(*(each.reads() | each.writes() for each in loops))
    return replace(kernel, loops=loops, buffers=(*(b for b in kernel.buffers if b.name in named), packed))
