"""Kernels tuned for this CPU and for a simulated GPU: any tiling computes the same, and the fastest is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import numstax
from numstax import pipeline, tuning
from numstax.hardware import GPUS
from numstax.ir.loops import Kernel
from numstax.knobs import Knobs
from numstax.program import Program
from numstax.runtime.cache import DiskCache
from numstax.runtime.cubin import Cubin
from numstax.runtime.device import Loaded
from numstax.runtime.device_host import DeviceHost
from numstax.runtime.host import Counts, Host
from numstax.runtime.launch import launcher
from numstax.runtime.simulated import SimulatedDevice
from numstax.tiles.tunable import Tunable, tunable


def transposed(a: np.ndarray) -> np.ndarray:
    return a.T * 2 + 1


def columns(a: np.ndarray) -> np.ndarray:
    return a.sum(axis=0) - a.max(axis=0)


def running(a: np.ndarray) -> np.ndarray:
    return np.cumsum(a, axis=1)


def short_rows(a: np.ndarray) -> np.ndarray:
    return (a * a).sum(axis=1)


def points(a: np.ndarray) -> np.ndarray:
    return np.exp(a) * a + 1


FUNCTIONS = [transposed, columns, running, points, short_rows]
ARRAY = np.random.default_rng(8).random((70, 90), np.float32)


def choices(function: Callable, array: np.ndarray, machine: object = None) -> list[Tunable]:
    region = pipeline.build(function, (array,), machine=machine)  # type: ignore[arg-type]
    assert region.schedule is not None
    found = [tunable(unit) for unit in region.schedule.units if isinstance(unit, Kernel)]
    return [choice for choice in found if choice is not None]


def results(choice: Tunable, bench: tuning.Bench, knobs: Knobs, config: tuple[int, ...]) -> dict[str, np.ndarray]:
    """What the kernel leaves in its arrays with a tiling."""
    trials = tuning._Trials(choice, bench, knobs)
    plan, arrays, others = trials._plan(trials._emitted(config))
    bench.start(plan, arrays, others)()
    return arrays


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_tiling_computes_the_same(function: Callable, tmp_path: Path) -> None:
    knobs = Knobs(cache_dir=tmp_path)
    bench = tuning.CpuBench(Host(knobs))
    found = choices(function, ARRAY)
    assert found
    for choice in found:
        expected = results(choice, bench, knobs, choice.start)
        spread = [config for k, config in enumerate(choice.space.points()) if k % (1 + choice.space.size // 8) == 0]
        for config in spread:
            for name, array in results(choice, bench, knobs, config).items():
                np.testing.assert_allclose(array, expected[name], rtol=2e-6)


@pytest.mark.parametrize("method", ["default", "coordinate", "random"])
def test_tuned_functions_give_the_same(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning._Trials, "_clock", lambda self, run, calls: float(run() is None) or 1e-3)
    host_, knobs = Host(Knobs(cache_dir=tmp_path)), Knobs(cache_dir=tmp_path, tune=method)
    for function in FUNCTIONS[:3]:
        tuner = tuning.Tuner(knobs, tuning.CpuBench(host_))
        region = pipeline.compile_graph(pipeline.trace(function, (ARRAY,), {}).graph, knobs, None, tuner.schedule)
        assert region.plan is not None
        (result,) = launcher(region.plan, host_).call(ARRAY)
        np.testing.assert_allclose(result, function(ARRAY), rtol=1e-5)
        assert "tune" in [name for name, _ in region.times]


def timed(monkeypatch: pytest.MonkeyPatch, cost: Callable[[tuple[int, ...]], float]) -> list[tuple[int, ...]]:
    """Costs come from a function of the tiling instead of a clock; what was measured so far."""
    measured: list[tuple[int, ...]] = []

    def seconds(self: object, config: tuple[int, ...], effort: int) -> float:
        measured.append(config)
        return cost(config)

    monkeypatch.setattr(tuning._Trials, "seconds", seconds)
    return measured


def test_the_fastest_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 9.1, lines 1 and 7: an unchanged source keeps its answer; another size, method or device asks again."""
    knobs = Knobs(cache_dir=tmp_path, tune="coordinate")
    bench = tuning.CpuBench(Host(knobs))
    (choice,) = choices(transposed, ARRAY)
    tuner = tuning.Tuner(knobs, bench)
    measured = timed(monkeypatch, lambda config: abs(config[0] - 32) + 1.0)
    assert choice.at((32,)) == tuner.kernel(choice.kernel)
    first = len(measured)
    assert first > 1
    again = tuning.Tuner(knobs, bench)
    assert again.kernel(choice.kernel) == choice.at((32,))
    assert len(measured) == first
    assert "known from before" in str(again.found[0])
    tuning.Tuner(replace(knobs, tune="default"), bench).kernel(choice.kernel)
    second = len(measured)
    assert second > first
    (other,) = choices(transposed, ARRAY[:60])
    tuning.Tuner(knobs, bench).kernel(other.kernel)
    third = len(measured)
    assert third > second
    elsewhere = tuning.Tuner(knobs, bench)
    elsewhere.records.device = "another processor"
    elsewhere.kernel(choice.kernel)
    assert len(measured) > third


def test_where_nothing_is_possible_the_formula_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = Knobs(cache_dir=tmp_path, tune="random")
    tuner = tuning.Tuner(knobs, tuning.CpuBench(Host(knobs)))
    timed(monkeypatch, lambda config: inf)
    (choice,) = choices(points, ARRAY)
    assert tuner.kernel(choice.kernel) == choice.kernel
    assert not list(tuner.records.all())


def test_jit_tunes() -> None:
    """At the first call; a second function of the same source is tuned already."""
    array = np.random.default_rng(1).random((51, 67), np.float32)
    for trials in (3, 0):
        tuned = numstax.jit(transposed, strict=True, tune="default")
        np.testing.assert_array_equal(tuned(array), transposed(array))
        region = tuned.artifact(array).region
        assert region is not None
        (made,) = region.tuned
        assert len(made.search.trials) == trials
        assert made.search.best.seconds < inf
    plain = numstax.jit(transposed, strict=True).artifact(array).region
    assert plain is not None
    assert not plain.tuned
    with pytest.raises(ValueError, match="off, default, coordinate, random"):
        numstax.jit(transposed, tune="fast")


def test_many_programs_are_compiled_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In helper processes, and kept; those known already are not compiled again."""
    monkeypatch.setattr("numstax.runtime.host.HELPER_STARTS", 1)
    knobs = Knobs(cache_dir=tmp_path)
    here = Host(knobs)
    (choice,) = choices(transposed, ARRAY)
    trials = tuning._Trials(choice, tuning.CpuBench(here), knobs)
    trials.prepare([(16,), (32,), (64,)])
    assert here.counts.compiled == 3
    assert len(trials.kept) == 1
    trials.prepare([(16,), (32,)])
    assert here.counts.compiled == 3


# --- GPUs ---------------------------------------------------------------------------------------------


class Spilling(SimulatedDevice):
    """Programs of more than 256 threads spill."""

    def load(self, programs: Sequence[Program], cache: DiskCache[Cubin], counts: Counts) -> list[Loaded]:
        loaded = super().load(programs, cache, counts)
        return [replace(made, stack=8 if made.program.block > 256 else 0) for made in loaded]


def test_kernels_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "SAMPLES", 1)
    knobs = Knobs(cache_dir=tmp_path, tune="random")
    bench = tuning.GpuBench(DeviceHost(knobs, Spilling()), repeat=2)
    array = ARRAY[:8, :16].copy()
    (choice,) = choices(points, array, GPUS["H200"])
    tuner = tuning.Tuner(knobs, bench)
    made = tuner.kernel(choice.kernel)
    assert made.tiling is not None
    assert made.tiling.threads <= 256
    trials = tuner.found[0].search.trials
    assert all((trial.seconds == inf) == (trial.config[0] > 256) for trial in trials)
    assert any(trial.seconds == inf for trial in trials)


def test_products_of_a_gpu(tmp_path: Path) -> None:
    """Their tiles are tried in the order of the predicted cost, each with several groupings; all give the same."""
    knobs = Knobs(cache_dir=tmp_path)
    bench = tuning.GpuBench(DeviceHost(knobs, SimulatedDevice()), repeat=1)
    left, right = np.ones((80, 64), ml_dtypes.bfloat16), np.ones((64, 72), ml_dtypes.bfloat16)
    region = pipeline.build(lambda a, b: np.maximum(a @ b, 0), (left, right), machine=GPUS["H200"])
    assert region.schedule is not None
    (kernel,) = region.schedule.units
    assert isinstance(kernel, Kernel)
    choice = tunable(kernel, GPUS["H200"])
    assert choice is not None
    assert [name for name, _ in choice.space.parameters] == ["tile", "group"]
    first = choice.candidates()
    assert first[0] == choice.start
    assert {config[0] for config in first[:4]} == {0, 1, 2, 3}
    costs = [tiling.matrix.cost for tiling in choice.products[1:] if tiling.matrix is not None]
    assert costs == sorted(costs)
    expected = ran(choice, bench, knobs, choice.start)
    for config in ((1, 2), (len(choice.products) - 1, 16)):
        np.testing.assert_array_equal(ran(choice, bench, knobs, config), expected)


def ran(choice: Tunable, bench: tuning.GpuBench, knobs: Knobs, config: tuple[int, ...]) -> np.ndarray:
    """The result of a product on a simulated GPU."""
    trials = tuning._Trials(choice, bench, knobs)
    plan, arrays, _ = trials._plan(trials._emitted(config))
    there = {name: bench._uploaded(array) for name, array in arrays.items()}
    exchange = tuning.Exchange(tuple((name, tuning.OWN) for name in there), tuning.OWN)
    given = [tuning.DeviceArray(layout, bench.host.device, 0) for layout in there.values()]
    launcher(plan, bench.host.serving(exchange, plan)).call(*given)
    (written,) = choice.kernel.writes() & there.keys()
    return there[written].astype(np.float32)


def test_a_simulated_gpu_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    array = ARRAY[:4, :8].copy()
    tuned = numstax.jit(points, strict=True, backend="simulate", tune="random")
    np.testing.assert_allclose(tuned(array), points(array), rtol=1e-6)
    region = tuned.artifact(array).region
    assert region is not None
    assert not region.tuned


def test_arrays_are_laid_out_as_buffers_are(tmp_path: Path) -> None:
    """Also those with gaps and with negative strides."""
    (choice,) = choices(points, ARRAY[::-2, ::3])
    trials = tuning._Trials(choice, tuning.CpuBench(Host(Knobs(cache_dir=tmp_path))), Knobs())
    given = next(b for b in choice.kernel.buffers if b.kind == "input")
    made = trials.arrays[given.name]
    assert made.shape == (35, 30)
    assert made.strides == (-180 * 4, 3 * 4)
    assert 0.5 <= made.min() <= made.max() <= 1.5


def test_symbolic_sizes_are_measured_at_their_hints(tmp_path: Path) -> None:
    tuned = numstax.jit(points, strict=True, dynamic=True, tune="default")
    for rows in (70, 33):
        np.testing.assert_allclose(tuned(ARRAY[:rows]), points(ARRAY[:rows]), rtol=1e-6)
    assert tuned.compile_count == 1
    region = tuned.artifact(ARRAY).region
    assert region is not None
    assert len(region.tuned) == 1
