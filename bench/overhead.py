"""What a call costs: tiny functions whose arithmetic takes no time.

    python -m bench.overhead

Also prints what ``import numstax`` adds to ``import numpy``, measured in fresh processes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from bench import timing


def three_arrays(x, y, z):
    return x * y + z


def one_array(x):
    return x + 1.0


def with_scalars(x, a, b):
    return x * a + b


def two_results(x, y):
    return x + y, x - y


def in_place(x, y):
    x += y
    return x


def twenty_operations(x):
    for _ in range(10):
        x = x * 1.01 + 0.5
    return x


def eight_branches(x):
    for k in range(2, 9):
        if x.shape[0] < 4 * k:
            return x + k
    return x * 2


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description="what a call costs")
    parser.add_argument("--size", type=int, default=8, help="elements in each array")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    options = parser.parse_args(argv)
    timing.clean_environment(options.threads)
    rows = [measure(fn, args, options.rounds) for fn, args in _cases(options.size)]
    timing.print_table(
        ["function", "NumPy us", "numstax us"],
        [[r["function"], f"{r['numpy'] * 1e6:.2f}", f"{r['numstax'] * 1e6:.2f}"] for r in rows],
    )
    added = import_time("numpy, numstax") - import_time("numpy")
    searched = dispatch_time(options.rounds)
    print(f"\nguard check and dispatch among 8 dynamic artifacts, the last one fits: {searched * 1e6:.2f} us")
    print(f"import numstax adds {added * 1e3:.0f} ms to import numpy")
    if options.name:
        print(timing.record(options.name, rows, size=options.size, import_seconds=added, dispatch_seconds=searched))


def _cases(size: int) -> list[tuple[Callable[..., object], tuple[object, ...]]]:
    x, y, z = (np.random.default_rng(k).random(size, np.float32) for k in range(3))
    return [
        (three_arrays, (x, y, z)),
        (one_array, (x,)),
        (with_scalars, (x, 2.0, np.float32(3))),
        (two_results, (x, y)),
        (in_place, (x, np.zeros_like(y))),
        (twenty_operations, (x,)),
    ]


def measure(fn: Callable[..., object], args: tuple[object, ...], rounds: int) -> dict[str, object]:
    import numstax

    compiled = numstax.jit(fn, strict=True)
    compiled(*args)
    calls = {"numpy": lambda: fn(*args), "numstax": lambda: compiled(*args)}
    return {"function": fn.__name__, **timing.medians(calls, rounds, 0.02, patience=10)}


def dispatch_time(rounds: int) -> float:
    """Seconds to find the artifact that fits when all eight are tried: a call so found beside one found at once."""
    import numstax

    compiled = numstax.jit(eight_branches, strict=True, dynamic=True)
    arrays = [np.zeros(4 * k - 1, np.float32) for k in range(2, 10)]
    for x in arrays:
        compiled(x)
    # artifacts stand newest first: the oldest is found last
    newest, *_, oldest = compiled.artifacts()

    def call(last: object) -> None:
        compiled._last = last.enter
        compiled(arrays[0])

    calls = {"searching": lambda: call(newest), "repeating": lambda: call(oldest)}
    found = timing.medians(calls, rounds, 0.02, patience=10)
    return found["searching"] - found["repeating"]


def import_time(modules: str) -> float:
    """Median seconds, inside a fresh process, to import the modules."""
    code = f"import time; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    times = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(7)]
    return statistics.median(times)


if __name__ == "__main__":
    main()
