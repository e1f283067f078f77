"""Kernels to one program: its text, parameters, and how much there is to do.

Tiled kernels enter; a `Printed` leaves.  Size, task and work expressions of a Program are over its own 'size'
parameters.  Buffers that a program writes are called out0, out1, ..., the others in0, in1, ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from numstax.cpu_emit.lanes import print_lanes
from numstax.cpu_emit.product import print_product
from numstax.cpu_emit.row import print_rows
from numstax.cpu_emit.transpose import print_tiles
from numstax.emit.naming import Names, heading, joined_name, numbered, scalar_functions
from numstax.emit.nest import KernelText
from numstax.emit.text import Text
from numstax.ir.index import ONE, ZERO, Index, bounds
from numstax.ir.loops import Kernel, Unit
from numstax.program import Callee, Emitted, Program
from numstax.records import record
from numstax.schedule.kernels import can_fail
from numstax.tiles.cpu import vector_work

TARGET = "cpu"
MOST_TOGETHER = 8
"""Kernels in one program at most: the compile time of a function grows faster than its length."""
_PRINTERS = {"pointwise": print_lanes, "column": print_lanes, "transpose": print_tiles, "product": print_product}


@record
class Printed:
    """A program and what it takes to run, over the symbols of the schedule.  `tasks` None: it cannot be shared out;
    `calls`: the programs that it calls, each after those it calls itself."""

    emitted: Emitted
    work: Index
    scratch: Index
    tasks: Index | None
    grain: Index
    calls: tuple[Program, ...] = ()


def grouped(
    units: Sequence[Unit], threshold: int, arguments: frozenset[str] = frozenset()
) -> Iterator[tuple[Sequence[Unit], bool]]:
    """The units, those that one program runs together; (units, is one thread certainly enough?).  What writes an
    argument is not in one program with what may fail before."""
    for small, run in groupby(units, key=lambda u: _is_small(u, threshold)):
        group: list[Unit] = []
        for unit in run:
            full = len(group) == (MOST_TOGETHER if small else 1)
            if full or (any(map(can_fail, group)) and not unit.writes().isdisjoint(arguments)):
                yield group, small
                group = []
            group.append(unit)
        yield group, small


def _is_small(unit: Unit, threshold: int) -> bool:
    if not isinstance(unit, Kernel):
        return False
    most = bounds(vector_work(unit))[1]
    return most is not None and most < threshold


def print_program(kernels: Sequence[Kernel], parallel: bool, used: Names) -> Printed:
    """`parallel` : its tasks can be shared out, when it has any."""
    parallel = parallel and bool(kernels[0].outer)
    text = Text(frozenset().union(*(k.writes() for k in kernels)))
    tasks: Index | None = None
    for kernel in kernels:
        for line in heading(kernel):
            text.line(line)
        form = kernel.tiling.form if kernel.tiling is not None else "row"
        tasks = _PRINTERS.get(form, print_rows)(KernelText(text, kernel), parallel)
    tasks = tasks if parallel else None
    total = sum((vector_work(k) for k in kernels), ZERO)
    grain = ONE if tasks is None else least_tasks(total, tasks)
    emitted = finish(text, joined_name([k.name for k in kernels]), used, total, tasks, grain, len(kernels))
    return Printed(emitted, total, text.scratch, tasks, grain)


def finish(
    text: Text,
    base: str,
    used: Names,
    total: Index,
    tasks: Index | None = None,
    grain: Index = ONE,
    units: int = 1,
    calls: tuple[Callee, ...] = (),
) -> Emitted:
    """The program of a text."""
    # sizes named only by the launch formula are parameters too
    work, scratch, least = text.index(total), text.index(text.scratch), text.index(grain)
    count = "" if tasks is None else text.index(tasks)
    params = tuple(text.params.values())
    source = f"def {base}({', '.join(p.name for p in params)}):\n{text.body()}\n"
    program = Program(
        name=base,
        target=TARGET,
        text=source,
        entry=base,
        params=params,
        tasks=count,
        work=work,
        scratch=scratch,
        grain=least,
        intrinsics=scalar_functions(source),
        calls=calls,
    )
    args = tuple(text.args[p.name] for p in params if p.name in text.args)
    return Emitted(numbered(program, used), args, units, tuple(text.checks))


GRAIN_WORK = 8192
"""Elementary operations worth handing to another thread."""


def least_tasks(total: Index, tasks: Index) -> Index:
    """So many tasks that their share of the work is worth it."""
    return ONE + tasks * GRAIN_WORK // (total + 1)
