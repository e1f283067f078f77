"""The programs of `examples/` beside plain NumPy, hand-written Numba and JAX.

    python -m bench.programs [--only heat life] [--rounds 3] [--name cpu_programs] [--plot programs.png]

One process, `--threads` threads, the medium size of each example, a fresh copy of the arguments for every call (not
timed).  Results are checked against NumPy's; a runner that fails or is wrong is reported and left out.  Each program is
also compiled in processes of its own with an empty cache: as it is, and with ten times as many time steps.  The rows
measured replace those of the same programs in ``results/NAME.json``.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import examples
from bench import timing
from bench.timing import OURS

NAMES = sorted(m.name for m in pkgutil.iter_modules(examples.__path__) if m.name != "show")
STEPS = ("steps", "sweeps", "days")
"""What the examples call the number of their time steps."""
TOLERANCE = 1e-4
SLOW = 0.5
"""Seconds."""
Runner = tuple[Callable[..., object], Callable[[], tuple]]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.programs", description="real programs beside their peers")
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES, metavar="NAME", help="examples")
    parser.add_argument("--peers", nargs="*", choices=["numba", "jax"], default=["numba", "jax"])
    parser.add_argument("--size", choices=["small", "medium"], default="medium")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="samples for each runner")
    parser.add_argument("--name", default="cpu_programs", help="where results are kept: bench/results/NAME.json")
    parser.add_argument("--plot", metavar="PATH", help="draw the speed-ups")
    parser.add_argument("--compile", nargs=2, metavar=("NAME", "FACTOR"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.compile:
        print(json.dumps(compile_seconds(options.compile[0], options.size, int(options.compile[1]))))
        return
    timing.clean_environment(options.threads)
    facts = {"threads": options.threads, "rounds": options.rounds, "size": options.size}
    rows = {row["row"]: row for row in timing.recorded(options.name)}
    for name in options.only:
        rows[name] = measure(name, options.size, options.peers, options.rounds)
        print(_line(rows[name]), flush=True)
        path = timing.record(options.name, [rows[n] for n in NAMES if n in rows], **facts)
    print()
    _summary([rows[n] for n in NAMES if n in rows], ["numpy", OURS, *options.peers])
    print(path)
    if options.plot:
        plot([rows[n] for n in NAMES if n in rows], options.plot)


def program(name: str, size: str) -> tuple[Callable[..., object], tuple]:
    """The plain NumPy function of an example, and its arguments."""
    compiled, arguments = importlib.import_module(f"examples.{name}").example(size)
    return compiled.__wrapped__, arguments


def _runner(runner: str, name: str, function: Callable[..., object], arguments: tuple) -> Runner | None:
    if runner == "jax":
        from bench import programs_jax

        built = programs_jax.build(name, arguments)
        return built and (built[0], lambda: built[1])
    if runner == OURS:
        import numstax

        function = numstax.jit(function, strict=True)
    elif runner == "numba":
        from bench.programs_numba import KERNELS

        if name not in KERNELS:
            return None
        function = KERNELS[name]
    return function, lambda: copy.deepcopy(arguments)


def measure(name: str, size: str, peers: list[str], rounds: int) -> dict[str, object]:
    """One row: for each runner its median time, its error against NumPy and its first call, or why it failed; and the
    seconds to compile.  A slow run of NumPy is not repeated."""
    function, arguments = program(name, size)
    want = None
    calls, prepare, facts = {}, {}, {}
    for runner in ("numpy", OURS, *peers):
        try:
            found = _runner(runner, name, function, arguments)
            if found is None:
                continue
            call, ready = found
            own = ready()
            start = time.perf_counter()
            got = call(*own)
            taken = time.perf_counter() - start
            want = got if want is None else want
            facts[runner] = {"first": taken, "error": _error(got, want)}
        except Exception as reason:  # a runner may fail in any way; the row says how
            facts[runner] = {"failure": f"{type(reason).__name__}: {reason}".splitlines()[0][:160]}
            continue
        if facts[runner]["error"] <= TOLERANCE:
            calls[runner], prepare[runner] = call, ready
    if facts["numpy"]["first"] > SLOW:
        facts["numpy"]["seconds"] = facts["numpy"]["first"]
        del calls["numpy"]
    for runner, seconds in timing.medians(calls, rounds, 0.05, 10, prepare).items():
        facts[runner]["seconds"] = seconds
    compiling = {"cold": _cold(name, size, 1)}
    if _places_of_steps(function):
        compiling["tenfold"] = _cold(name, size, 10)
    return {"row": name, "label": name, "runs": facts, "compile": compiling}


def _error(got: object, want: object) -> float:
    """As `timing.relative_error`, where an infinite value equals only another."""
    got, want = (
        tuple(np.nan_to_num(np.asarray(a, np.float64), posinf=0) for a in timing.as_tuple(r)) for r in (got, want)
    )
    return timing.relative_error(got, want)


def _line(row: dict) -> str:
    cells = []
    for runner, run in row["runs"].items():
        if "seconds" in run:
            cells.append(f"{runner} {run['seconds'] * 1e3:.2f} ms")
        else:
            cells.append(f"{runner} {'fails: ' + run['failure'] if 'failure' in run else 'WRONG'}")
    return f"{row['label']}: " + "; ".join(cells)


def _summary(rows: list[dict], runners: list[str]) -> None:
    """Times over NumPy for each runner, numstax's speed over that of hand-written Numba and of JAX, and seconds to
    compile: cold, and with ten times the steps."""
    body = []
    speedups, ratios = {}, {}
    for row in rows:
        seconds = {n: run["seconds"] for n, run in row["runs"].items() if "seconds" in run}
        times = {n: seconds["numpy"] / s for n, s in seconds.items()}
        beside = {n: times[OURS] / times[n] for n in runners[2:] if n in times and OURS in times}
        if OURS in times:
            speedups[row["label"]] = times[OURS]
        if "numba" in beside:
            ratios[row["label"]] = beside["numba"]
        cells = [times.get(n) for n in runners[1:]] + [beside.get(n) for n in runners[2:]]
        cells += [row["compile"].get(k) for k in ("cold", "tenfold")]
        body.append([row["label"], f"{seconds['numpy'] * 1e3:.2f}", *("-" if c is None else f"{c:.2f}" for c in cells)])
    header = ["program", "NumPy ms", *(f"{n} x" for n in runners[1:]), *(f"{OURS}/{n}" for n in runners[2:])]
    timing.print_table([*header, "compile s", "10x steps"], body)
    print(f"\n{len(speedups)} of {len(rows)}: {timing.geometric_mean(speedups.values()):.2f} times NumPy's speed")
    print(
        f"{timing.geometric_mean(ratios.values()):.2f} times that of hand-written Numba (geometric means); "
        f"below 0.9: {[n for n, r in ratios.items() if r < 0.9]}"
    )
    print(f"more than 2 s to compile: {[r['label'] for r in rows if (r['compile']['cold'] or 0) > 2]}")


def _places_of_steps(function: Callable[..., object]) -> list[int]:
    return [k for k, name in enumerate(inspect.signature(function).parameters) if name in STEPS]


def _cold(name: str, size: str, factor: int) -> float | None:
    """Seconds to compile in a fresh process; None when it fails."""
    command = [sys.executable, "-m", "bench.programs", "--size", size, "--compile", name, str(factor)]
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "NUMSTAX_CACHE_DIR": cache}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, cwd=Path(__file__).parents[1]
        )
    return json.loads(done.stdout) if done.returncode == 0 else None


def compile_seconds(name: str, size: str, factor: int) -> float:
    """First call less second call, with `factor` times as many time steps."""
    import numstax

    function, given = program(name, size)
    arguments = list(given)
    for k in _places_of_steps(function):
        arguments[k] *= factor
    compiled = numstax.jit(function, strict=True)
    taken = []
    for _ in range(2):
        own = copy.deepcopy(arguments)
        start = time.perf_counter()
        compiled(*own)
        taken.append(time.perf_counter() - start)
    return taken[0] - taken[1]


def plot(rows: list[dict], path: str) -> None:
    from matplotlib.figure import Figure

    from bench.plot import draw_speedups

    figure = Figure(figsize=(12, 5), layout="constrained")
    draw_speedups(figure.subplots(), rows)
    figure.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main()
