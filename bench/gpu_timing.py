"""Timing on a GPU: interleaved samples between CUDA events, medians; what a call costs the host.

torch provides events, streams and arrays; work of other libraries is timed on the same stream.  Inputs rotate over sets
that together are several times the L2 cache.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from bench import workloads as W
from numstax import dtypes

ROTATE_BYTES = 512 << 20
"""Together, the sets of inputs are at least as large."""
SPIN_LIMIT = 20e-3
"""Seconds that the GPU may be kept busy while a sample is queued."""
_TO_TORCH = {dtypes.FLOAT32: torch.float32, dtypes.BFLOAT16: torch.bfloat16}


def make_sets(work: W.Workload) -> list[list[torch.Tensor]]:
    """Inputs on the GPU, drawn there: the normal distribution, or uniform between the workload's bounds."""
    count = min(16, -(-ROTATE_BYTES // work.bytes)) if work.rotate else 1
    generator = torch.Generator("cuda").manual_seed(0)
    kind = _TO_TORCH[work.dtype]
    sets = []
    for _ in range(max(count, 1)):
        drawn = []
        for k, shape in enumerate(work.inputs):
            if work.uniform:
                low, high = work.uniform[k]
                value = torch.rand(shape, generator=generator, device="cuda") * (high - low) + low
            else:
                value = torch.randn(shape, generator=generator, device="cuda")
            drawn.append(value.to(kind))
        sets.append(drawn)
    return sets


def event_medians(
    calls: dict[str, Callable[[], object]], rounds: int = 15, seconds: float = 1e-3
) -> dict[str, tuple[float, float]]:
    """For each call the median and the least seconds; each sample takes about `seconds` of the GPU."""
    plans = {name: _plan(call, seconds) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            count, host = plans[name]
            samples[name].append(_sample(call, count, host) / count)
    return {name: (statistics.median(s), min(s)) for name, s in samples.items()}


def _plan(call: Callable[[], object], seconds: float) -> tuple[int, float]:
    """Calls in a sample, and the seconds that the host takes to queue them where that is longer than the GPU needs."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    each = max(_sample(call, 5, 0) / 5, 1e-6)
    host = (time.perf_counter() - start) / 5
    count = max(1, min(200, round(seconds / each)))
    return count, min(1.3 * host * count, SPIN_LIMIT) if host > 0.7 * each else 0


def _sample(call: Callable[[], object], count: int, spin: float) -> float:
    """Seconds of the GPU for so many calls; it spins first, so that they are queued when it starts on them."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if spin:
        torch.cuda._sleep(int(spin * 1.98e9))
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3


def host_seconds(call: Callable[[], object], count: int = 300, rounds: int = 9) -> tuple[float, float, float]:
    """Median seconds a call: the host's, queued without waiting; with the GPU's, until all are done; and waiting for
    each one."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    queued, total, single = [], [], []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        queued.append((time.perf_counter() - start) / count)
        torch.cuda.synchronize()
        total.append((time.perf_counter() - start) / count)
        for _ in range(20):
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            single.append(time.perf_counter() - start)
    return statistics.median(queued), statistics.median(total), statistics.median(single)


def clock_median(call: Callable[[], object], wait: Callable[[object], None], rounds: int = 7) -> float:
    """Median seconds a call by the host's clock, for libraries with streams of their own: many calls, then one wait."""
    for _ in range(3):
        wait(call())
    start = time.perf_counter()
    wait(call())
    count = int(max(3, min(2000, 30e-3 / (time.perf_counter() - start))))
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            last = call()
        wait(last)
        samples.append((time.perf_counter() - start) / count)
    return statistics.median(samples)


def copy_bandwidth(nbytes: int = 1 << 31) -> float:
    """Bytes a second of a copy on the device, read and written bytes both counted."""
    source = torch.randn(nbytes // 4, device="cuda")
    target = torch.empty_like(source)
    median, _ = event_medians({"copy": lambda: target.copy_(source)})["copy"]
    return 2 * nbytes / median


def to_numpy(value: object) -> np.ndarray:
    """A result of any library as float64 (or as it is, for integers) on the host."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return (value.double() if value.is_floating_point() else value).cpu().numpy()
    array = np.asarray(value.get() if type(value).__module__.startswith("cupy") else value)
    return array.astype(np.float64) if dtypes.kind(array.dtype) == "f" else array


def synchronised(call: Callable[..., object], arguments: Sequence[object]) -> tuple[object, float]:
    """Result and seconds of one call, waiting for the GPU."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = call(*arguments)
    torch.cuda.synchronize()
    return result, time.perf_counter() - start
