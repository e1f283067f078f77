"""Pictures: of the fused graph, and of searches for tilings.

A Schedule and the time of each of its units enter, or what was tuned; a matplotlib figure leaves.  The graph has a box
for each kernel or library call with the operations that were fused, and an arrow for each array between them, which
says how many bytes it has at the sizes of the example.  A search has a point for each measurement, in order.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf
from textwrap import fill
from typing import TYPE_CHECKING, Any

from numstax.ir.index import hint, product
from numstax.ir.loops import Buffer, Control, Extern, Kernel, Schedule, Unit, unit_name

if TYPE_CHECKING:
    from numstax.runtime.tune import Tuned

WIDTH, HEIGHT = 3.4, 1.5
"""Inches for each box."""


def draw(schedule: Schedule, seconds: Sequence[float]) -> Any:
    """A figure of the units, from arguments at the top to results at the bottom; needs matplotlib.  `seconds`: of
    each unit, 0 where it is not known."""
    buffers = {b.name: b for b in schedule.buffers}
    boxes = _boxes(schedule, seconds, buffers)
    places = _places(schedule, boxes)
    columns = 1 + max((x for x, _ in places.values()), default=0)
    rows = 1 + max((y for _, y in places.values()), default=0)
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(WIDTH * columns, HEIGHT * rows))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(0.5 - rows, 0.5)
    for source, target, buffer in _arrows(schedule, boxes):
        (x0, y0), (x1, y1) = places[source], places[target]
        axes.annotate("", (x1, 0.25 - y1), (x0, -y0 - 0.25), arrowprops={"arrowstyle": "->", "color": "gray"})
        label = f"{buffer.name}, {_nbytes(buffer)}"
        near = 0.7  # of the way: arrows that cross do so half way
        x, y = x0 + near * (x1 - x0), -y0 - near * (y1 - y0)
        axes.text(x, y, label, ha="center", va="center", fontsize=7, color="dimgray")
    for name, (x, y) in places.items():
        text, colour = boxes[name]
        style = {"boxstyle": "round", "facecolor": colour, "edgecolor": "black"}
        axes.text(x, -y, text, ha="center", va="center", fontsize=8, bbox=style)
    return figure


def _boxes(schedule: Schedule, seconds: Sequence[float], buffers: Mapping[str, Buffer]) -> dict[str, tuple[str, str]]:
    """Text and colour of everything that is drawn: units by number, arguments and results by name of their buffer."""
    boxes = {
        b.name: (f"{b.name}: {b.dtype}[{', '.join(map(str, b.shape))}]", "white")
        for b in buffers.values()
        if b.kind in ("input", "scalar")
    }
    for k, (unit, time) in enumerate(zip(schedule.units, seconds, strict=True)):
        took = f"\n{time * 1e6:.1f} us" if time else ""
        boxes[f"unit {k}"] = (f"{unit_name(unit)}\n{fill(_contents(unit), 40)}{took}", _colour(unit))
    for name in dict.fromkeys(name for name in schedule.outputs if name is not None):
        b = buffers[name]
        boxes[f"result {name}"] = (f"result: {b.dtype}[{', '.join(map(str, b.shape))}]", "white")
    return boxes


def _contents(unit: Unit) -> str:
    """The operations in a box, in order."""
    if isinstance(unit, Kernel):
        names = [i.op for loop in unit.loops for i in loop.body if i.op not in ("load", "const", "index", "cast")]
        names += [e.op for loop in unit.loops for e in loop.effects if hasattr(e, "op")]
        return " ".join(dict.fromkeys(names)) or "copy"
    if isinstance(unit, Control):
        return " | ".join(", ".join(unit_name(u) for u in body.schedule.units) for body in unit.bodies)
    return "library call"


def _colour(unit: Unit) -> str:
    return "lightyellow" if isinstance(unit, Extern) else "lavender" if isinstance(unit, Control) else "honeydew"


def _arrows(schedule: Schedule, boxes: Mapping[str, object]) -> list[tuple[str, str, Buffer]]:
    """(from, to, the array between them): each reader and the latest writer before it."""
    buffers = {b.name: b for b in schedule.buffers}
    source = {name: name for name in boxes}
    arrows = []
    for k, unit in enumerate(schedule.units):
        read = sorted(name for name in unit.reads() if name in source)
        arrows += [(source[name], f"unit {k}", buffers[name]) for name in read]
        source |= dict.fromkeys(unit.writes(), f"unit {k}")
    for name in dict.fromkeys(name for name in schedule.outputs if name is not None):
        if name in source:
            arrows.append((source[name], f"result {name}", buffers[name]))
    return arrows


def _places(schedule: Schedule, boxes: Mapping[str, object]) -> dict[str, tuple[int, int]]:
    """Column and row of each box: below everything it reads from, columns in order."""
    row: dict[str, int] = dict.fromkeys(boxes, 0)
    for source, target, _ in _arrows(schedule, boxes):
        row[target] = max(row[target], row[source] + 1)
    filled: dict[int, int] = defaultdict(int)
    places = {}
    for name, y in row.items():
        places[name] = (filled[y], y)
        filled[y] += 1
    return places


def _nbytes(buffer: Buffer) -> str:
    return nbytes_text(hint(product(buffer.shape)) * buffer.dtype.itemsize)


def draw_searches(searches: Sequence[Tuned]) -> Any:
    """A figure with a row for each kernel: the time of each configuration that was measured, and the best so far; needs
    matplotlib."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(2.5 * WIDTH, 3 * HEIGHT * len(searches)))
    figure.subplots_adjust(hspace=0.7)
    for row, axes in enumerate(figure.subplots(len(searches), squeeze=False)[:, 0]):
        _draw_search(axes, searches[row])
    return figure


def _draw_search(axes: Any, tuned: Tuned) -> None:
    trials = tuned.search.trials or (tuned.search.best,)
    micros = [trial.seconds * 1e6 for trial in trials]
    axes.set_title(str(tuned), fontsize=7)
    axes.set_ylabel("us")
    axes.plot(micros, "o", color="gray", markersize=4)
    axes.step(range(len(micros)), list(accumulate(micros, min)), where="post", color="black")
    impossible = [k for k, time in enumerate(micros) if time == inf]
    axes.plot(impossible, [max((t for t in micros if t < inf), default=1.0)] * len(impossible), "rx", clip_on=False)
    labels = [tuned.space.describe(trial.config).replace(" ", "\n") for trial in trials]
    axes.set_xticks(range(len(labels)), labels, fontsize=5, rotation=90 if len(labels) > 12 else 0)


def nbytes_text(nbytes: int) -> str:
    """A number of bytes for people."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} B"
