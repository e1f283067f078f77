"""Timing on a shared machine: interleaved rounds, medians, and the record of what was run.

All callables of a row are sampled in turn, so that they share the machine's state; each runs for a while before its
sample, since the idle threads of the one before may keep a core busy until then.  A sample during which
this process often waited for a core is taken again while patience lasts.  Memory-bound inputs rotate over sets
that together exceed the last-level cache.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

OURS = "numstax"
"""What results call this project's own runs."""
RESULTS = Path(__file__).parent / "results"
ROTATE_BYTES = 128 << 20
SETTLING = 0.05
"""Seconds before a sample: OpenMP's threads look out for work that long or shorter."""
_PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "numexpr", "torch", "jax")


def clean_environment(threads: int) -> None:
    """Run this process again: thread counts set, compile caches empty, OpenBLAS left to choose its kernels."""
    if os.environ.get("BENCH_ENVIRONMENT"):
        return
    n = str(threads)
    counts = ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMSTAX", "NUMEXPR")
    names = [f"{c}{'' if c == 'NUMSTAX' else '_NUM'}_THREADS" for c in counts]
    slowing = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")
    env = {k: v for k, v in os.environ.items() if k not in slowing}
    env |= dict.fromkeys((*names, "NUMEXPR_MAX_THREADS"), n)
    env |= {"BENCH_ENVIRONMENT": "1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "NUMSTAX_CACHE_DIR"):  # first calls are cold
        env[variable] = tempfile.mkdtemp(prefix="bench-")
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)


def rotating(fn: Callable[..., object], sets: Sequence[Sequence[object]]) -> Callable[[], object]:
    """A call without arguments that goes through the argument sets."""
    turn = itertools.cycle(sets)
    return lambda: fn(*next(turn))


def set_count(nbytes: int, rotate: bool) -> int:
    return min(16, -(-ROTATE_BYTES // nbytes)) if rotate else 1


def _waited() -> float:
    """Seconds that threads of this process have waited for a core (Linux; elsewhere 0)."""
    total = 0
    for stat in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(stat.read_text().split()[1])
        except (OSError, IndexError, ValueError):  # the thread ended meanwhile
            continue
    return total * 1e-9


def _sample(call: Callable[..., object], seconds: float, prepare: Callable[[], tuple]) -> tuple[float, float]:
    """Seconds a call, and the share of the time spent waiting for a core."""
    waited, elapsed, n = _waited(), 0.0, 0
    while elapsed < seconds:
        arguments = prepare()
        start = time.perf_counter()
        call(*arguments)
        elapsed += time.perf_counter() - start
        n += 1
    return elapsed / n, (_waited() - waited) / elapsed


def medians(
    calls: Mapping[str, Callable[..., object]],
    rounds: int,
    seconds: float,
    patience: float,
    prepare: Mapping[str, Callable[[], tuple]] | None = None,
) -> dict[str, float]:
    """Median seconds a call for each callable, sampled in interleaved rounds; what `prepare` does to make the
    arguments of each call is not timed."""
    ready = prepare or dict.fromkeys(calls, tuple)
    clean: dict[str, list[float]] = {name: [] for name in calls}
    every: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + patience
    while todo := [n for n in calls if len(clean[n]) < rounds]:
        late = time.perf_counter() > end
        if late and all(len(samples) >= rounds for samples in every.values()):
            break
        for name in calls if late else todo:
            _sample(calls[name], min(seconds, SETTLING), ready[name])
            taken, waiting = _sample(calls[name], seconds, ready[name])
            every[name].append(taken)
            if waiting <= 0.1:
                clean[name].append(taken)
    return {n: statistics.median(clean[n] if len(clean[n]) >= 3 else every[n]) for n in calls}


def geometric_mean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(list(values) or [math.nan])


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return done.stdout.strip() or "unknown"


def record(name: str, rows: list[dict[str, object]], **facts: object) -> Path:
    """Write ``results/NAME.json``: the rows with date, machine, versions and commit."""
    head = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu(),
        "load": os.getloadavg(),
        "versions": _versions(),
        **facts,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"head": head, "rows": rows}, indent=1) + "\n")
    return path


def recorded(name: str) -> list[dict]:
    """The rows of ``results/NAME.json``, if there are."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    for line in lines:
        first = line[0].ljust(widths[0])
        print("  ".join([first, *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]), flush=True)


def relative_error(got: object, want: object) -> float:
    """Largest over the outputs of ``norm(got - want) / norm(want)``."""
    pairs = zip(as_tuple(got), as_tuple(want), strict=True)
    worst = 0.0
    for g, w in pairs:
        difference = np.linalg.norm(np.ravel(np.asarray(g, np.float64) - w))
        worst = max(worst, float(difference / (np.linalg.norm(np.ravel(w)) + 1e-300)))
    return worst


def as_tuple(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)
