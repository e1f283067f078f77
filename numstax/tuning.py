"""Tilings of kernels as measured (section 9.6): what the pipeline asks where the knob `tune` is on.

A Schedule whose Kernels the formulas have tiled enters; the same Schedule leaves, each Kernel with the fastest tiling
that was found for it, now or earlier.  A kernel is measured alone, on arrays of the sizes at hand (of symbols, their
hints) with numbers from 0.5 to 1.5, integers being 0, which is an index everywhere.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np

from numstax import dtypes, pipeline
from numstax.errors import CompileError, DeviceError
from numstax.hardware import Gpu, host
from numstax.ir.index import Symbol, as_index, atoms, hint
from numstax.ir.loops import Buffer, Kernel, Schedule, in_bodies
from numstax.knobs import Knobs
from numstax.program import Argument, Call, Emitted, Plan
from numstax.records import record
from numstax.runtime import graphs
from numstax.runtime.arrays import DeviceArray
from numstax.runtime.device_host import DeviceHost
from numstax.runtime.exchange import Exchange
from numstax.runtime.host import Host
from numstax.runtime.interop import OWN
from numstax.runtime.launch import launcher
from numstax.runtime.memory import address_of
from numstax.runtime.tune import Costs, Search, Trial, Tuned, search
from numstax.runtime.tune_records import Records
from numstax.tiles.space import Config
from numstax.tiles.tunable import Tunable, tunable

VERSION = "1"
"""Goes up when what is measured changes."""
SAMPLES = 5
SAMPLE_SECONDS = 1e-3
"""What one sample takes at least, unless a thousand calls take less."""


class Bench(ABC):
    """Builds and runs programs on one machine; `machine` as of `pipeline.Region`.  One call runs a program `repeat`
    times, so that what a call costs the host is not what is measured."""

    machine: Gpu | None
    repeat: int

    @abstractmethod
    def prepare(self, kernels: Sequence[Emitted]) -> object:
        """Compile several at once; the result keeps them loaded."""

    @abstractmethod
    def start(self, plan: Plan, arrays: Mapping[str, np.ndarray], others: tuple[object, ...]) -> Callable[[], object]:
        """A call of the plan's program on these arrays.  Raises CompileError where its registers spill."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all calls are done."""


@record
class CpuBench(Bench):
    host: Host
    machine: None = None
    repeat: int = 1

    def prepare(self, kernels: Sequence[Emitted]) -> object:
        return self.host.prepare([kernel.program for kernel in kernels])

    def start(self, plan: Plan, arrays: Mapping[str, np.ndarray], others: tuple[object, ...]) -> Callable[[], object]:
        call = launcher(plan, self.host).call
        given = (*arrays.values(), *others)
        return lambda: call(*given)

    def finish(self) -> None:
        """A call returns when it is done."""


@record
class GpuBench(Bench):
    """The runs of a call are one CUDA graph."""

    host: DeviceHost
    repeat: int = 16

    @property
    def machine(self) -> Gpu:  # type: ignore[override]
        return self.host.device.gpu

    def prepare(self, kernels: Sequence[Emitted]) -> object:
        return self.host.loaded([kernel.program for kernel in kernels])

    def start(self, plan: Plan, arrays: Mapping[str, np.ndarray], others: tuple[object, ...]) -> Callable[[], object]:
        (program,) = self.host.loaded(plan.programs)
        if program.stack:
            raise CompileError(f"{plan.name} spills {program.stack} bytes of registers")
        device, stream = self.host.device, self.host.device.stream()
        exchange = Exchange(tuple((name, OWN) for name in arrays), OWN)
        call = graphs.launch(plan, self.host, exchange).call
        there = [DeviceArray(self._uploaded(array), device, stream) for array in arrays.values()]
        return lambda: call(*there, *others)

    def _uploaded(self, array: np.ndarray) -> np.ndarray:
        """A copy on the device, with gaps where the array has them."""
        stream, base = self.host.device.stream(), array.base
        assert isinstance(base, np.ndarray)
        copy = self.host.upload(base, stream, self.host.pools[stream])
        return np.ndarray(array.shape, array.dtype, copy, address_of(array) - address_of(base), array.strides)

    def finish(self) -> None:
        self.host.device.synchronize(self.host.device.stream())


class Tuner:
    """Tiles the kernels of one region; `found` says what each search did."""

    def __init__(self, knobs: Knobs, bench: Bench) -> None:
        self.knobs, self.bench = knobs, bench
        self.records = Records(knobs.cache_dir if knobs.cache else None, repr(bench.machine or host()), VERSION)
        self.found: list[Tuned] = []

    def schedule(self, schedule: Schedule) -> Schedule:
        """Every Kernel with the fastest tiling that is known or found."""
        schedule = in_bodies(schedule, self.schedule)
        units = (self.kernel(u) if isinstance(u, Kernel) else u for u in schedule.units)
        return replace(schedule, units=tuple(units))

    def kernel(self, kernel: Kernel) -> Kernel:
        choice = tunable(kernel, self.bench.machine)
        if choice is None:
            return kernel
        key = self._key(choice)
        known = self.records.read(key)
        if known is not None and known.config in choice.space:
            earlier = Search(Trial(known.config, known.seconds), ())
            self.found.append(Tuned(kernel.name, choice.space, choice.start, earlier))
            return choice.at(known.config)
        self._say(f"{kernel.name}: {choice.space.size} configurations")
        trials = _Trials(choice, self.bench, self.knobs)
        costs = Costs(trials.seconds, trials.prepare, lambda trial: self._say(_line(choice, trial)))
        made = search(self.knobs.tune, choice.space, choice.candidates(), costs)
        self.found.append(Tuned(kernel.name, choice.space, choice.start, made))
        if made.best.seconds == inf:
            return kernel
        self.records.write(key, kernel.name, made.best.config, made.best.seconds, len(made.trials))
        return choice.at(made.best.config)

    def _key(self, choice: Tunable) -> str:
        """The kernel's text as the formulas have it, what may be chosen, and the sizes it is measured at."""
        kernel = choice.kernel
        (unit,) = pipeline.emitted(_alone(kernel), self.bench.machine, self.knobs)
        assert isinstance(unit, Emitted)
        sizes = [tuple(map(hint, b.shape)) for b in kernel.buffers]
        return self.records.key(unit.program.text, repr(choice.space), repr(sizes), self.knobs.tune)

    def _say(self, line: str) -> None:
        if "tuning" in self.knobs.log:
            sys.stderr.write(line + "\n")


def _line(choice: Tunable, trial: Trial) -> str:
    time = "not possible" if trial.seconds == inf else f"{trial.seconds * 1e6:10.1f} us"
    mark = "  the formula's" if trial.config == choice.start else ""
    return f"  {choice.space.describe(trial.config):30} {time}{mark}"


class _Trials:
    """Measurements of one kernel with different tilings, all on the same arrays."""

    def __init__(self, choice: Tunable, bench: Bench, knobs: Knobs) -> None:
        self.choice, self.bench, self.knobs = choice, bench, knobs
        random = np.random.default_rng(0)
        held = [b for b in choice.kernel.buffers if b.kind not in ("local", "scalar")]
        self.arrays = {b.name: _array(b, random) for b in held}
        self.kept: list[object] = []

    def prepare(self, configs: Sequence[Config]) -> None:
        try:
            self.kept.append(self.bench.prepare([self._emitted(config) for config in configs]))
        except CompileError:
            return  # which one it is shows when they are compiled one by one

    def seconds(self, config: Config, effort: int) -> float:
        """The least of several samples, of a call; infinite where it cannot be compiled, spills, or cannot be run."""
        try:
            run = self.bench.start(*self._plan(self._emitted(config)))
            once = self._clock(run, 1)
            calls = max(1, min(1000, int(SAMPLE_SECONDS / max(once * self.bench.repeat, 1e-9))))
            return min(self._clock(run, calls) for _ in range(SAMPLES * effort))
        except (CompileError, DeviceError):
            return inf

    def _clock(self, run: Callable[[], object], calls: int) -> float:
        for _ in range(2):  # the first makes memory, the second the graph
            run()
        self.bench.finish()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        self.bench.finish()
        return (time.perf_counter() - start) / (calls * self.bench.repeat)

    def _emitted(self, config: Config) -> Emitted:
        (unit,) = pipeline.emitted(_alone(self.choice.at(config)), self.bench.machine, self.knobs)
        assert isinstance(unit, Emitted)
        return unit

    def _plan(self, emitted: Emitted) -> tuple[Plan, dict[str, np.ndarray], tuple[object, ...]]:
        """A plan whose arguments are all that the kernel touches, then scalars, then sizes; with their values."""
        buffers = self.choice.kernel.buffers
        arrays = [Argument(b.name, "array", b.dtype) for b in buffers if b.name in self.arrays]
        scalars = {b.name: b.dtype for b in buffers if b.kind == "scalar"}
        sizes = {s.name: hint(as_index(s)) for s in _symbols(self.choice.kernel)}
        arguments = (
            *arrays,
            *(Argument(name, "scalar", dtype) for name, dtype in scalars.items()),
            *(Argument(name, "size", dtypes.INT64) for name in sizes),
        )
        program = emitted.program
        step = Call(program.name, emitted.args, emitted.checks)
        plan = Plan(program.name, arguments, (program,), (step,) * self.bench.repeat, ())
        return plan, self.arrays, (*(dtype.type(1) for dtype in scalars.values()), *sizes.values())


def _alone(kernel: Kernel) -> Schedule:
    return Schedule((kernel,), kernel.buffers, (), ())


def _symbols(kernel: Kernel) -> tuple[Symbol, ...]:
    variables = (*kernel.outer, *(v for loop in kernel.loops for v in loop.inner))
    sizes = (*(v.extent for v in variables), *(n for b in kernel.buffers for n in (*b.shape, *b.strides)))
    return tuple(dict.fromkeys(a for n in sizes for a in atoms(n) if isinstance(a, Symbol)))


def _array(buffer: Buffer, random: Any) -> np.ndarray:
    """Memory as a buffer describes it; its base has all bytes."""
    shape, strides = tuple(map(hint, buffer.shape)), tuple(map(hint, buffer.strides))
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    count = high - low + 1 if prod(shape) else 1
    numbers = random.random(count) + 0.5 if dtypes.kind(buffer.dtype) in "fc" else np.zeros(count)
    base, size = numbers.astype(buffer.dtype).view(np.uint8), buffer.dtype.itemsize
    return np.ndarray(shape, buffer.dtype, base, -low * size, tuple(s * size for s in strides))
