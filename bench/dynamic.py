"""One dynamic artifact beside artifacts made for each size: times and the ratio specialised / dynamic.

    python -m bench.dynamic                 rows 1, 3, 5, 6 and 14, captured at small sizes and at the table's own
    python -m bench.dynamic --only softmax

A dynamic function is called first with its hint, then timed at sizes far from it; the specialised one is compiled
for each of those.  Both must have compiled only once for what is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import numstax
from bench import timing
from bench import workloads as W

ROWS = ("1", "3", "5", "6", "14")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.dynamic", description="dynamic beside specialised artifacts")
    parser.add_argument("--only", nargs="*", help="names of rows, such as softmax")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9, help="samples for each artifact")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a sample")
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    options = parser.parse_args(argv)
    timing.clean_environment(options.threads)
    works = [w for w in W.table() if w.row in ROWS and (not options.only or w.name in options.only)]
    rows = [row for work in works for row in measure(work, options.rounds, options.seconds)]
    ratios = [ratio for row in rows for ratio in row["ratios"].values()]  # type: ignore[attr-defined]
    print(f"\ngeometric mean {timing.geometric_mean(ratios):.2f}, lowest {min(ratios):.2f}")
    if options.name:
        print(timing.record(options.name, rows, threads=options.threads, rounds=options.rounds))


def resized(work: W.Workload, scale: float, shift: int) -> W.Workload:
    """The workload with other sizes; equal sizes stay equal, and 1 stays 1."""
    return replace(
        work, inputs=tuple(tuple(n if n == 1 else int(n * scale) + shift for n in shape) for shape in work.inputs)
    )


def measure(work: W.Workload, rounds: int, seconds: float) -> Iterator[dict[str, object]]:
    """A row for each size that is timed, with a ratio for each hint that is not the same."""
    hints = {"small": resized(work, 1 / 64, 3), "large": work}
    dynamic = {}
    for name, hint in hints.items():
        dynamic[name] = numstax.jit(work.fn, dynamic=True, strict=True)
        dynamic[name](*hint.make())
    for size in (work, resized(work, 0.5, -1), resized(work, 0.25, 5)):
        static = numstax.jit(work.fn, strict=True)
        sets = [size.make(seed) for seed in range(timing.set_count(size.bytes, size.rotate))]
        functions = {"static": static, **{n: f for n, f in dynamic.items() if hints[n].inputs != size.inputs}}
        for name, function in functions.items():
            if timing.relative_error(function(*sets[0]), work.fn(*(a.astype(np.float64) for a in sets[0]))) > 1e-4:
                raise SystemExit(f"{size.label}: the {name} artifact is wrong")
            if function.compile_count > 1:
                raise SystemExit(f"{size.label}: {name} compiled again")
        calls = {name: timing.rotating(function, sets) for name, function in functions.items()}
        times = timing.medians(calls, rounds, seconds, patience=8 * rounds * seconds * len(calls))
        ratios = {name: times["static"] / taken for name, taken in times.items() if name != "static"}
        shown = ", ".join(f"hint {name} {ratio:.2f}" for name, ratio in ratios.items())
        print(f"{work.row:>3} {size.label}: {times['static'] * 1e3:.3f} ms; {shown}", flush=True)
        yield {"row": work.row, "label": size.label, "seconds": times, "ratios": ratios}


if __name__ == "__main__":
    main()
