"""`explain`: what became of a function for given arguments.

A function and arguments enter; an `Explanation` leaves, with text for people: the kernels and the lines they came
from, what was not fused and why, bytes that any program would have to move and bytes that these kernels move,
and where the time of a call goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from numstax.ir.handlers import bytes_moved, bytes_needed
from numstax.ir.loops import Control, EmittedControl, EmittedUnit, Extern, Kernel, Refusal, Schedule, unit_name
from numstax.jit import Jitted, jit
from numstax.picture import draw, nbytes_text
from numstax.program import Emitted
from numstax.records import record
from numstax.specialisation import Artifact

RUNS = 5


@record
class Unit:
    """A program, extern call or control flow: bytes its kernels read and write, and the median of the seconds it took.
    `inside` : what the bodies of control flow run; their times are not measured."""

    name: str
    lines: tuple[str, ...]
    nbytes: int
    seconds: float = 0
    inside: tuple[Unit, ...] = ()


@record
class Explanation:
    """`needed` : bytes of arguments and results, each once.  `schedule` and `seconds` : what
    ran, and the time of each of its units, 0 where several were one program.  `reason` : why nothing was compiled, or
    ''.  `note` : what else is to be said about how it runs."""

    name: str
    units: tuple[Unit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    needed: int = 0
    schedule: Schedule | None = None
    seconds: tuple[float, ...] = ()
    reason: str = ""
    note: str = ""

    @property
    def moved(self) -> int:
        return sum(unit.nbytes for unit in self.units)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.reason:
            yield f"{self.name} runs as plain NumPy: {self.reason}"
            return
        yield f"{self.name}: {len(self.units)} compiled or library call{'s' * (len(self.units) != 1)}"
        width = max((len(unit.name) for unit in self.units), default=0)
        for unit in self.units:
            rate = f", {unit.nbytes / unit.seconds / 1e9:.1f} GB/s" if unit.seconds else ""
            yield f"  {unit.name:{width}}  {unit.seconds * 1e6:9.1f} us  {nbytes_text(unit.nbytes)}{rate}"
            yield from (f"  {'':{width}}  from {line}" for line in unit.lines)
            yield from _inside(unit, "    ")
        if self.note:
            yield self.note
        yield f"bytes needed {nbytes_text(self.needed)}, moved {nbytes_text(self.moved)}"
        yield "not fused:" if self.refusals else "nothing was left unfused"
        yield from (f"  {refusal.what}: {refusal.reason}" for refusal in self.refusals)

    def plot(self, path: str | Path) -> None:
        """Draw the fused graph as a picture; needs matplotlib.  Raises ValueError when nothing was compiled."""
        if self.schedule is None:
            raise ValueError(f"{self.name} has no graph: {self.reason}")
        draw(self.schedule, self.seconds).savefig(path)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What numstax does with ``function(*args, **kwargs)``.  Runs the call a few times to measure it, so arguments
    that the function writes to change as they would in that many calls."""
    jitted = function if isinstance(function, Jitted) else jit(function, strict=False)
    artifact = jitted.artifact(*args, **kwargs)
    if artifact.region is None or artifact.region.schedule is None:
        return Explanation(jitted.__name__, reason=artifact.reason or "the reference backend runs op by op")
    graph, schedule = artifact.region.graph, artifact.region.schedule
    sizes = {buffer.name: buffer for buffer in schedule.buffers}
    left = iter(schedule.units)
    units: list[Unit] = []
    each: list[float] = []
    for item, (name, seconds) in zip(artifact.region.emitted, _measure(artifact, args, kwargs), strict=True):
        run = list(islice(left, item.units if isinstance(item, Emitted) else 1))
        lines = tuple(dict.fromkeys(line for unit in run for line in _lines_of(unit)))
        each += [seconds] if len(run) == 1 else [0.0] * len(run)
        inside = tuple(part for unit in run if isinstance(unit, Control) for part in _parts(unit))
        units.append(Unit(name, lines, sum(bytes_moved(unit, sizes) for unit in run), seconds, inside))
    refusals = (*schedule.refusals, *_refusals(artifact.region.emitted))
    needed, note = bytes_needed(graph), artifact.note
    return Explanation(jitted.__name__, tuple(units), refusals, needed, schedule, tuple(each), note=note)


def _measure(artifact: Artifact, args: tuple, kwargs: dict) -> list[tuple[str, float]]:
    """(name, median seconds) of each kernel and extern call, in order of execution."""
    assert artifact.observed is not None
    marks: list[tuple[str, float]] = []
    observed = artifact.observed(lambda name: marks.append((name, time.perf_counter())))
    run = artifact.guard.enter(f"call({artifact.arguments})", call=observed.call)
    times: list[list[float]] = []
    for _ in range(RUNS):
        marks.clear()
        last = time.perf_counter()
        run(args, kwargs)
        ends = [last, *(end for _, end in marks)]
        times.append([end - start for start, end in pairwise(ends)])
    return [(name, median(t)) for (name, _), t in zip(marks, zip(*times, strict=True), strict=True)]


def _parts(control: Control) -> Iterator[Unit]:
    """What the bodies run in one iteration."""
    for body in control.bodies:
        sizes = {buffer.name: buffer for buffer in body.schedule.buffers}
        for unit in body.schedule.units:
            inside = tuple(_parts(unit)) if isinstance(unit, Control) else ()
            yield Unit(unit_name(unit), tuple(_lines_of(unit)), bytes_moved(unit, sizes), inside=inside)


def _inside(unit: Unit, indent: str) -> Iterator[str]:
    for part in unit.inside:
        lines = f", from {', '.join(part.lines)}" if part.lines else ""
        yield f"{indent}{part.name}: {nbytes_text(part.nbytes)} each time{lines}"
        yield from _inside(part, indent + "  ")


def _refusals(units: Iterable[EmittedUnit]) -> Iterator[Refusal]:
    """Why loops are not one program."""
    for unit in units:
        if isinstance(unit, EmittedControl):
            yield from unit.refusals
            for body in unit.bodies:
                yield from _refusals(body)


def _lines_of(unit: Kernel | Extern | Control) -> list[str]:
    origins = unit.origins if isinstance(unit, Kernel) else (unit.origin,) if unit.origin else ()
    return list(map(str, origins))
