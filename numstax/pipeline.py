"""The pipeline: one ordered list of named passes from Graph to Plan.

A Graph enters; a Region leaves: the graph, schedule, programs and plan, and how long each pass took.  Each
pass is a function from values to one value.  With NUMSTAX_LOG=passes each prints what it changed; with
NUMSTAX_CHECK=2 what it made is verified (1: only what is about to be printed as code).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from textwrap import indent
from typing import TYPE_CHECKING, Any

from numstax.cpu_emit.emit import emit
from numstax.emit.verify_text import verify_text
from numstax.errors import Origin, UnsupportedOperationError
from numstax.hardware import Gpu, Hardware
from numstax.ir.graph import Graph
from numstax.ir.loops import EmittedControl, EmittedLoop, EmittedUnit, Schedule
from numstax.ir.ranges import without_certain
from numstax.ir.rewrite import simplify
from numstax.ir.show import show
from numstax.ir.verify import verify_graph
from numstax.ir.verify_loops import verify_schedule
from numstax.knobs import Knobs
from numstax.later import Later
from numstax.program import Emitted, Plan, runs
from numstax.records import record
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.schedule.plan import plan
from numstax.schedule.split import split
from numstax.tiles.cpu import tile
from numstax.tiles.cpu_products import chosen_products
from numstax.trace.tracer import trace

if TYPE_CHECKING:
    from numstax.cuda_emit import emit as cuda_emit
    from numstax.runtime.tune import Tuned
    from numstax.tiles import cuda as cuda_tiles
    from numstax.tiles import cuda_products
else:
    # what only code for GPUs needs
    cuda_emit, cuda_tiles = Later("numstax.cuda_emit.emit"), Later("numstax.tiles.cuda")
    cuda_products = Later("numstax.tiles.cuda_products")

Machine = Hardware | Gpu


@record
class Region:
    """All that is known of one graph on its way to code; passes fill the fields in order.

    `machine` : what the code is for; None is this CPU.
    `tuned` : what was searched for tilings.  `times` : (name of the pass, seconds).
    """

    graph: Graph
    machine: Machine | None = None
    schedule: Schedule | None = None
    emitted: tuple[EmittedUnit, ...] = ()
    plan: Plan | None = None
    tuned: tuple[Tuned, ...] = ()
    times: tuple[tuple[str, float], ...] = ()


Value = Graph | Schedule | tuple[EmittedUnit, ...] | Plan


@record
class Pass:
    """`run` makes the new value of the Region's field `makes`."""

    name: str
    makes: str
    run: Callable[[Region, Knobs], Value]


PASSES = (
    Pass("ranges", "graph", lambda r, knobs: without_certain(r.graph)),
    Pass("simplify", "graph", lambda r, knobs: simplify(r.graph)),
    Pass("lower", "schedule", lambda r, knobs: _lower(r.graph, r.machine)),
    Pass("fuse", "schedule", lambda r, knobs: fuse(_schedule(r), r.machine)),
    Pass("split", "schedule", lambda r, knobs: split(_schedule(r), r.machine)),
    Pass("tile", "schedule", lambda r, knobs: _tile(_schedule(r), r.machine)),
    Pass("emit", "emitted", lambda r, knobs: emitted(_schedule(r), r.machine, knobs)),
    Pass("plan", "plan", lambda r, knobs: plan(r.graph, _schedule(r), r.emitted)),
)


def _with_tuning(tune: Callable[[Schedule], Schedule]) -> tuple[Pass, ...]:
    after = [step.name for step in PASSES].index("tile") + 1
    return (*PASSES[:after], Pass("tune", "schedule", lambda r, knobs: tune(_schedule(r))), *PASSES[after:])


def _schedule(region: Region) -> Schedule:
    assert region.schedule is not None
    return region.schedule


def _lower(graph: Graph, machine: Machine | None) -> Schedule:
    if isinstance(machine, Gpu):
        return lower(graph, True, cuda_products.chosen_products, cuda_products.computes_factors)
    return lower(graph, False, chosen_products)


def _tile(schedule: Schedule, machine: Machine | None) -> Schedule:
    return cuda_tiles.tile(schedule, machine) if isinstance(machine, Gpu) else tile(schedule)


def emitted(schedule: Schedule, machine: Machine | None, knobs: Knobs) -> tuple[EmittedUnit, ...]:
    """A tiled schedule as programs for the machine."""
    return cuda_emit.emit(schedule, machine) if isinstance(machine, Gpu) else emit(schedule, knobs.parallel_threshold)


PROGRAM, LINE, LONG = 0.03, 0.005, 700
"""Seconds to compile a program, and each of its lines; lines of this number take twice as long each."""
LONGEST = 30
"""Seconds that compiling a function may take: a loop that was unrolled to more is better run as it is."""


def compile_graph(
    graph: Graph, knobs: Knobs, machine: Machine | None = None, tune: Callable[[Schedule], Schedule] | None = None
) -> Region:
    """Run all passes, for the machine or (None) for this CPU; `tune` is one more, after the formulas for tilings.
    Raises VerifyError when a pass made something inconsistent and checks are on, UnsupportedOperationError when
    compiling would take too long."""
    region = Region(graph, machine)
    for step in PASSES if tune is None else _with_tuning(tune):
        start = time.perf_counter()
        made = step.run(region, knobs)
        seconds = time.perf_counter() - start
        if "passes" in knobs.log:
            _report(step, getattr(region, step.makes), made, seconds)
        region = replace(region, times=(*region.times, (step.name, seconds)), **{step.makes: made})  # type: ignore[arg-type]
        if knobs.check >= 2 or (knobs.check and step.name in ("simplify", "tile")):
            _verify(made)
    _check_length(region)
    return region


def _check_length(region: Region) -> None:
    assert region.plan is not None
    texts = {program.name: program.text for program in region.plan.programs}
    needed = {max((texts[call.program] for call in run), key=len) for run in runs(region.plan.steps)}
    lengths = [text.count("\n") for text in needed]
    seconds = sum(PROGRAM + LINE * n * (1 + n / LONG) for n in lengths)
    if seconds > LONGEST:
        raise UnsupportedOperationError(
            f"compiling its {len(lengths)} programs of {sum(lengths)} lines would take about {seconds:.0f} s",
            _busiest(region.graph),
            remedy="jit the body of the loop, or write the loop with array operations",
        )


def _busiest(graph: Graph) -> Origin | None:
    """The line that most of the graph comes from."""
    found = Counter(node.origin for node in graph.nodes() if node.origin is not None)
    return max(found, key=found.__getitem__, default=None)


def build(
    function: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any] | None = None,
    knobs: Knobs | None = None,
    machine: Machine | None = None,
    tune: Callable[[Schedule], Schedule] | None = None,
) -> Region:
    """Trace `function` for these arguments and run all passes: everything before machine code."""
    return compile_graph(trace(function, args, kwargs or {}).graph, knobs or Knobs(), machine, tune)


def _verify(made: Value) -> None:
    if isinstance(made, Graph):
        verify_graph(made)
    elif isinstance(made, Schedule):
        verify_schedule(made)
    elif isinstance(made, Plan):
        for program in made.programs:
            verify_text(program)


def _report(step: Pass, before: Value | None, made: Value, seconds: float) -> None:
    old, new = display(before), display(made)
    body = "(unchanged)" if old == new else new
    sys.stderr.write(f"--- {step.name}, {seconds * 1e3:.1f} ms\n{body}\n")


def display(value: Value | None) -> str:
    """A field of a Region as readable text."""
    if isinstance(value, Plan):
        return "\n".join(map(str, value.steps))
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "\n".join(map(_printed, value))
    return show(value)


def _printed(item: EmittedUnit) -> str:
    if isinstance(item, EmittedControl):
        return "\n".join((item.control.kind, *(indent(_printed(i), "    ") for body in item.bodies for i in body)))
    if isinstance(item, EmittedLoop):
        return "\n".join(program.text for program in (*item.calls, item.emitted.program))
    if isinstance(item, Emitted):
        cases = (f"# where {condition}:\n{_printed(case)}" for condition, case in item.cases)
        return "\n".join((*cases, item.program.text))
    return show(item)
