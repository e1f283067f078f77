"""Tiled kernels to programs: readable Numba source, one function each.

A Schedule whose Kernels have tilings enters; for each unit, in order, an `Emitted` program or the Extern
leaves.  Neighbouring kernels that are too small to share out among threads become one program, so that a
small region is one compiled call.  Size, task and work expressions of a Program are over its own 'size'
parameters.  Buffers that a program writes are called out0, out1, ..., the others in0, in1, ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import PurePath

from numstax.cpu_emit.lanes import print_lanes
from numstax.cpu_emit.nest import KernelText
from numstax.cpu_emit.row import print_rows
from numstax.cpu_emit.scalars import find
from numstax.cpu_emit.text import Text
from numstax.cpu_emit.transpose import print_tiles
from numstax.dtypes import name
from numstax.ir.index import ONE, ZERO, Index, bounds
from numstax.ir.loops import Control, EmittedControl, EmittedUnit, Extern, Kernel, Schedule, Unit
from numstax.knobs import Knobs
from numstax.program import Emitted, Intrinsic, Program
from numstax.schedule.kernels import can_fail
from numstax.tiles.cpu import vector_work

TARGET = "cpu"
MOST_TOGETHER = 8
"""Kernels in one program at most: the compile time of a function grows faster than its length."""
_CALL = re.compile(r"\b([a-z]\w*)\(")
_PRINTERS = {"pointwise": print_lanes, "column": print_lanes, "transpose": print_tiles}


def emit(schedule: Schedule, parallel_threshold: int = Knobs().parallel_threshold) -> tuple[EmittedUnit, ...]:
    """The programs and library calls of a schedule, in order."""
    return _emit(schedule, parallel_threshold, {})


def _emit(schedule: Schedule, parallel_threshold: int, used: dict[str, list[Program]]) -> tuple[EmittedUnit, ...]:
    out: list[EmittedUnit] = []
    arguments = {b.name for b in schedule.buffers if b.kind == "input" and not schedule.private}
    for together, units in groupby(schedule.units, key=lambda u: _is_small(u, parallel_threshold)):
        for group in _groups(units, MOST_TOGETHER if together else 1, arguments):
            first = group[0]
            if isinstance(first, Extern):
                out.append(first)
            elif isinstance(first, Control):
                bodies = (_emit(body.schedule, parallel_threshold, used) for body in first.bodies)
                out.append(EmittedControl(first, tuple(bodies)))
            else:
                kernels = [k for k in group if isinstance(k, Kernel)]
                out.append(_program(kernels, parallel=not together and bool(kernels[0].outer), used=used))
    return tuple(out)


def _groups(units: Iterable[Unit], size: int, arguments: set[str]) -> Iterator[Sequence[Unit]]:
    """What writes an argument is not in one program with what may fail before."""
    group: list[Unit] = []
    for unit in units:
        if len(group) == size or (any(map(can_fail, group)) and not unit.writes().isdisjoint(arguments)):
            yield group
            group = []
        group.append(unit)
    yield group


def _is_small(unit: Unit, threshold: int) -> bool:
    """Is one thread certainly enough?"""
    if not isinstance(unit, Kernel):
        return False
    most = bounds(vector_work(unit))[1]
    return most is not None and most < threshold


def _program(kernels: Sequence[Kernel], parallel: bool, used: dict[str, list[Program]]) -> Emitted:
    written = frozenset().union(*(k.writes() for k in kernels))
    text = Text(written)
    tasks: Index | None = None
    for kernel in kernels:
        for line in _heading(kernel):
            text.line(line)
        form = kernel.tiling.form if kernel.tiling is not None else "row"
        tasks = _PRINTERS.get(form, print_rows)(KernelText(text, kernel), parallel)
    total = sum((vector_work(k) for k in kernels), ZERO)
    launch = (total, text.scratch, *((tasks, _grain(total, tasks)) if parallel and tasks is not None else ()))
    # sizes named only by the launch formula are parameters too
    expressions = [text.index(e) for e in launch]
    params = tuple(text.params.values())
    base = _name(kernels)
    source = f"def {base}({', '.join(p.name for p in params)}):\n{text.body()}\n"
    program = Program(
        name=base,
        target=TARGET,
        text=source,
        entry=base,
        params=params,
        tasks=expressions[2] if parallel else "",
        work=expressions[0],
        scratch=expressions[1],
        grain=expressions[3] if parallel else "1",
        intrinsics=_intrinsics(source),
    )
    args = tuple(text.args[p.name] for p in params if p.name in text.args)
    return Emitted(_named(program, used), args, len(kernels), tuple(text.checks))


def _heading(kernel: Kernel) -> Iterator[str]:
    """Comments: the kernel, its form and the user's lines."""
    places = dict.fromkeys(f"{PurePath(o.file).name}:{o.line}" for o in kernel.origins)
    form = kernel.tiling.form if kernel.tiling is not None else "row"
    yield f"# {kernel.name}, {form} form" + (f", from {', '.join(places)}" if places else "")
    for buffer in kernel.buffers:
        if buffer.kind == "local":
            yield f"# local {buffer.name}: {name(buffer.dtype)}[{', '.join(map(str, buffer.shape))}]"


def _name(kernels: Sequence[Kernel]) -> str:
    names = list(dict.fromkeys(k.name for k in kernels))
    joined = "_and_".join(names)
    return joined if len(joined) <= 64 else f"{names[0][:48]}_and_{len(kernels) - 1}_more"


def _named(program: Program, used: dict[str, list[Program]]) -> Program:
    """Equal programs share a name; others of the same base get a number."""
    known = used.setdefault(program.name, [])
    if program not in known:
        known.append(program)
    position = known.index(program)
    return replace(program, name=f"{program.name}_{position}") if position else program


GRAIN_WORK = 8192
"""Elementary operations worth handing to another thread."""


def _grain(total: Index, tasks: Index) -> Index:
    """So many tasks that their share of the work is worth it."""
    return ONE + tasks * GRAIN_WORK // (total + 1)


def _intrinsics(source: str) -> tuple[Intrinsic, ...]:
    """The scalar functions given as data that a text calls."""
    found = (find(called) for called in sorted(set(_CALL.findall(source))))
    return tuple(i for i in found if i is not None)
