"""Functions through the pipeline for a GPU, their programs in the interpreter, and their values in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from numstax import dtypes
from numstax.hardware import GPUS, Gpu
from numstax.ir.loops import Schedule
from numstax.pipeline import Region, build
from numstax.program import Emitted, Program
from numstax.runtime import simulate
from numstax.runtime.simulate_report import Report

H200 = GPUS["H200"]


def programs(function: Callable[..., object], *args: object, gpu: Gpu = H200) -> list[Program]:
    emitted = build(function, args, machine=gpu).emitted
    assert all(isinstance(e, Emitted) for e in emitted)
    return [e.program for e in emitted if isinstance(e, Emitted)]


def text(function: Callable[..., object], *args: object, gpu: Gpu = H200) -> str:
    return "\n".join(p.text for p in programs(function, *args, gpu=gpu))


def simulated(
    function: Callable[..., object], *args: np.ndarray, gpu: Gpu = H200
) -> tuple[list[np.ndarray], list[Report], list[np.ndarray]]:
    """Results, what the interpreter saw, and the arguments afterwards."""
    region = build(function, args, machine=gpu)
    memory, reports = _memory(region, args), []
    for item in region.emitted:
        assert isinstance(item, Emitted), "library calls have tests of their own"
        status = np.zeros(4, np.int64)
        reports.append(simulate.run(item.program, [_argument(memory, a) for a in item.args], status=status))
        if status[0]:
            raise IndexError(f"index {status[1]} is out of bounds for size {status[3]}")
    schedule = region.schedule
    assert schedule is not None
    given = [b.name for b in schedule.buffers if b.kind in ("input", "scalar")]
    for position, name in schedule.writes:
        written = memory[given[position]]
        if memory[name] is not written:
            written[...] = memory[name].reshape(written.shape)
    return [memory[name] for name in schedule.outputs if name is not None], reports, [memory[n] for n in given]


def _memory(region: Region, args: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    schedule = region.schedule
    assert isinstance(schedule, Schedule)
    given = iter(args)
    memory: dict[str, np.ndarray] = {}
    for b in schedule.buffers:
        if b.kind in ("input", "scalar"):
            memory[b.name] = np.array(next(given), b.dtype)
        else:
            memory[b.name] = np.full([n.value for n in b.shape], 0x5A).astype(b.dtype)  # type: ignore[arg-type]
    return memory


def _argument(memory: dict[str, np.ndarray], name: str) -> object:
    if name not in memory:
        return eval(name)
    return memory[name]


def check(function: Callable[..., object], *args: np.ndarray, ulps: float = 16, gpu: Gpu = H200) -> list[Report]:
    """The programs give NumPy's values, floats within `ulps` of float64; what the interpreter saw."""
    got, reports, after = simulated(function, *args, gpu=gpu)
    theirs = [np.array(a) for a in args]
    with np.errstate(all="ignore"):
        want = function(*theirs)
    for w, g in zip(want if isinstance(want, tuple) else (want,), got, strict=True):
        same(g, np.asarray(w), ulps)
    for w, g in zip(theirs, after, strict=True):
        same(g, w, ulps)
    return reports


def same(got: np.ndarray, want: np.ndarray, ulps: float) -> None:
    assert got.dtype == want.dtype
    got = got.reshape(want.shape)
    kind = dtypes.kind(want.dtype)
    if kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if kind == "c" else np.float64
    step = {2: 2.0**-8, 1: 2.0**-2}.get(want.dtype.itemsize) or float(np.finfo(want.dtype).eps)
    g, w = got.astype(wide), want.astype(wide)
    scale = np.abs(w[np.isfinite(w)]).max(initial=0)
    with np.errstate(all="ignore"):
        near = (
            (np.abs(g - w) <= ulps * step * np.maximum(np.abs(w), 0.1 * scale)) | (g == w) | (np.isnan(g) & np.isnan(w))
        )
    assert near.all(), (got[~near][:5], want[~near][:5], np.argwhere(~near)[:5])
