"""Schedules through tiling and emission for a GPU, every program run by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numstax.cuda_emit.emit import emit
from numstax.hardware import GPUS, Gpu
from numstax.ir.loops import Buffer, Schedule
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.values import poisoned, shape_value
from numstax.pipeline import build
from numstax.program import Emitted, Param
from numstax.runtime.simulate import run
from numstax.runtime.simulate_report import Report
from numstax.tiles.cuda import tile
from tests.support import same

H200 = GPUS["H200"]


def simulate(
    schedule: Schedule, inputs: Sequence[np.ndarray], symbols: Mapping[str, int] | None = None, machine: Gpu = H200
) -> tuple[list[np.ndarray | None], list[tuple[int, np.ndarray]], list[Report]]:
    """A tiled schedule without library calls and control flow: outputs (None for an alias of an argument) and what the
    arguments that it writes hold afterwards, as `evaluate_schedule` gives them, and what was reported of each program.
    """
    memory, fresh = _memory(schedule, inputs, symbols or {})
    reports = []
    for item, values in _launches(schedule, memory, symbols or {}, machine):
        empty = {p.name: a for p, a in zip(_passed(item), item.args, strict=True) if a in fresh}
        reports.append(run(item.program, values, fresh=frozenset(empty)))
        fresh.difference_update(a for name, a in empty.items() if name.startswith("out"))
    outputs = [None if name is None else memory[name] for name in schedule.outputs]
    return outputs, [(position, memory[name]) for position, name in schedule.writes], reports


def launches(function: Callable[..., object], args: Sequence[np.ndarray]) -> Iterator[tuple[Emitted, list[Any]]]:
    """Each program of a function and its arguments, just before it runs."""
    schedule = build(function, tuple(args), machine=H200).schedule
    assert schedule is not None
    memory, _ = _memory(schedule, args, {})
    for item, values in _launches(schedule, memory, {}):
        yield item, values
        run(item.program, values)


def _launches(
    schedule: Schedule, memory: Mapping[str, Any], symbols: Mapping[str, int], machine: Gpu = H200
) -> Iterator[tuple[Emitted, list[Any]]]:
    for item in emit(schedule, machine):
        assert isinstance(item, Emitted)
        yield item, [memory[a] if a in memory else eval(a, {}, dict(symbols)) for a in item.args]


def _passed(item: Emitted) -> list[Param]:
    return [p for p in item.program.params if p.kind not in ("status", "counters")]


def _memory(
    schedule: Schedule, inputs: Sequence[np.ndarray], symbols: Mapping[str, int]
) -> tuple[dict[str, np.ndarray], set[str]]:
    """Memory of the buffers by name, and those that hold nothing yet."""
    arguments, memory, fresh = iter(inputs), {}, set()
    for b in schedule.buffers:
        memory[b.name] = _laid_out(b, symbols)
        if b.kind in ("input", "scalar"):
            memory[b.name][...] = next(arguments)
        else:
            fresh.add(b.name)
    return memory, fresh


def _laid_out(buffer: Buffer, symbols: Mapping[str, int]) -> np.ndarray:
    """Memory with the strides of a buffer, also negative ones and 0."""
    shape = shape_value(buffer.shape, symbols)
    strides = [s * buffer.dtype.itemsize for s in shape_value(buffer.strides, symbols)]
    spans = [(n - 1) * s for n, s in zip(shape, strides, strict=True) if n]
    low, high = sum(min(s, 0) for s in spans), sum(max(s, 0) for s in spans)
    block = poisoned(((high - low) // buffer.dtype.itemsize + 1,), buffer.dtype)
    return np.ndarray(shape, buffer.dtype, block.view(np.uint8), -low, strides)


def check_schedule(schedule: Schedule, *inputs: np.ndarray, gpu: Gpu = H200, ulps: float = 0) -> list[Report]:
    """The programs give what the NumPy evaluator gives."""
    want, _ = evaluate_schedule(schedule, inputs, {})
    got, _, reports = simulate(tile(schedule, gpu), inputs)
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None)
        if w is not None:
            same(g, w, ulps=ulps)
    return reports


def check(function: Callable[..., object], *args: np.ndarray, ulps: float = 0) -> list[Report]:
    """The programs of a function of arrays, without library calls, give NumPy's results."""
    with np.errstate(all="ignore"):
        want = function(*args)
    region = build(function, args, machine=H200)
    assert region.schedule is not None
    got, _, reports = simulate(region.schedule, args)
    results = want if isinstance(want, tuple) else (want,)
    for g, w in zip(got, results, strict=True):
        same(g, np.asarray(w), ulps=ulps)
    return reports
