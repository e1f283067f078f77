"""The programs of `examples/` beside plain NumPy, hand-written Numba and JAX.

    python -m bench.programs [--only heat life] [--rounds 5] [--name programs] [--plot programs.png]
    python -m bench.programs --steps            seconds to compile, and with ten times as many time steps

One process, `--threads` threads, the medium size of each example, a fresh copy of the arguments for every call (not
timed).  Results are checked against NumPy's; a runner that fails or is wrong is reported and left out.
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
from bench.fused import OURS

NAMES = sorted(m.name for m in pkgutil.iter_modules(examples.__path__) if m.name != "show")
STEPS = ("steps", "sweeps", "days")
"""What the examples call the number of their time steps."""
TOLERANCE = 1e-4
Runner = tuple[Callable[..., object], Callable[[], tuple]]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.programs", description="real programs beside their peers")
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES, metavar="NAME", help="examples")
    parser.add_argument("--peers", nargs="*", choices=["numba", "jax"], default=["numba", "jax"])
    parser.add_argument("--size", choices=["small", "medium"], default="medium")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="samples for each runner")
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    parser.add_argument("--plot", metavar="PATH", help="draw the speed-ups")
    parser.add_argument("--steps", action="store_true", help="compile with ten times as many time steps")
    parser.add_argument("--compile", nargs=2, metavar=("NAME", "FACTOR"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.compile:
        print(json.dumps(compile_seconds(options.compile[0], int(options.compile[1]))))
        return
    timing.clean_environment(options.threads)
    if options.steps:
        rows = compare_steps(options.only)
    else:
        rows = []
        for name in options.only:
            rows.append(measure(name, options.size, options.peers, options.rounds))
            print(_line(rows[-1]), flush=True)
        print()
        _summary(rows, ["numpy", OURS, *options.peers])
    if options.name:
        print(timing.record(options.name, rows, threads=options.threads, rounds=options.rounds, size=options.size))
    if options.plot:
        plot(rows, options.plot)


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
    """One row: for each runner its median time, its error against NumPy and its first call, or why it failed."""
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
    patience = 30 + 2 * rounds * facts["numpy"]["first"]
    for runner, seconds in timing.medians(calls, rounds, 0.05, patience, prepare).items():
        facts[runner]["seconds"] = seconds
    return {"row": name, "label": name, "runs": facts}


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
    """Times over NumPy for each runner, hand-written Numba over numstax, and the seconds of numstax's first call."""
    body = []
    speedups, ratios = {}, {}
    for row in rows:
        seconds = {n: run["seconds"] for n, run in row["runs"].items() if "seconds" in run}
        times = {n: seconds["numpy"] / s for n, s in seconds.items()}
        cells = [f"{times[n]:.2f}" if n in times else "-" for n in runners[1:]]
        if OURS in times:
            speedups[row["label"]] = times[OURS]
            if "numba" in times:
                ratios[row["label"]] = times[OURS] / times["numba"]
        ratio = f"{ratios[row['label']]:.2f}" if row["label"] in ratios else "-"
        first = row["runs"][OURS].get("first")
        shown = f"{first - seconds.get(OURS, 0):.2f}" if first else "-"
        body.append([row["label"], f"{seconds['numpy'] * 1e3:.2f}", *cells, ratio, shown])
    header = ["program", "NumPy ms", *(f"{n} x" for n in runners[1:]), "numba/numstax", "compile s"]
    timing.print_table(header, body)
    faster, beside = timing.geometric_mean(speedups.values()), timing.geometric_mean(ratios.values())
    print(f"\n{len(speedups)} of {len(rows)} programs: {faster:.2f} times NumPy (geometric mean)")
    print(f"hand-written Numba / numstax: {beside:.2f}, below 0.9: {[n for n, r in ratios.items() if r < 0.9]}")


def compare_steps(names: list[str]) -> list[dict[str, object]]:
    """Seconds to compile the small size, as it is and with ten times the time steps, each from an empty cache."""
    rows: list[dict[str, object]] = []
    for name in names:
        if not _places_of_steps(program(name, "small")[0]):
            continue
        once, tenfold = (_cold(name, factor) for factor in (1, 10))
        rows.append({"row": name, "once": once, "tenfold": tenfold})
    timing.print_table(
        ["program", "compile s", "with 10x steps"],
        [[str(r["row"]), *("-" if r[k] is None else f"{r[k]:.2f}" for k in ("once", "tenfold"))] for r in rows],
    )
    return rows


def _places_of_steps(function: Callable[..., object]) -> list[int]:
    return [k for k, name in enumerate(inspect.signature(function).parameters) if name in STEPS]


def _cold(name: str, factor: int) -> float | None:
    """Of a fresh process; None when it fails."""
    command = [sys.executable, "-m", "bench.programs", "--compile", name, str(factor)]
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "NUMSTAX_CACHE_DIR": cache}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, cwd=Path(__file__).parents[1]
        )
    return json.loads(done.stdout) if done.returncode == 0 else None


def compile_seconds(name: str, factor: int) -> float:
    """First call less second call, with `factor` times as many time steps."""
    import numstax

    function, given = program(name, "small")
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
