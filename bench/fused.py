"""Fused NumPy functions beside their peers: times, speed-ups, and the ratio best peer / numstax.

    python -m bench.fused                          every row and every peer that is installed
    python -m bench.fused --quick --peers numpy    the quick table of `make demo`

One process, `--threads` threads, float32, random inputs.  Every output is checked against the same function
in float64; a wrong or failing peer is reported and left out of the comparison.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable

import numpy as np

from bench import peers, timing
from bench import workloads as W
from bench.timing import OURS


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fused", description="fused functions beside their peers")
    parser.add_argument("--quick", action="store_true", help="fewer rows, short samples, nothing recorded")
    parser.add_argument("--peers", nargs="*", choices=list(peers.PEERS), default=list(peers.PEERS))
    parser.add_argument("--only", nargs="*", help="names of rows, such as softmax")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="samples for each peer")
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    parser.add_argument("--plot", metavar="PATH", help="draw speed-ups and roofline as a picture (needs matplotlib)")
    options = parser.parse_args(argv)
    timing.clean_environment(options.threads)
    rounds = options.rounds or (3 if options.quick else 7)
    builders = {OURS: peers.numstax_jit, "numpy": peers.numpy_plain}
    builders |= {name: peers.PEERS[name] for name in options.peers}
    works = [w for w in W.table(options.quick) if not options.only or w.name in options.only]
    if not works:
        parser.error(f"rows are {', '.join(dict.fromkeys(w.name for w in W.table(options.quick)))}")
    builders = {name: build for name, build in builders.items() if _is_installed(name, build, works[0])}
    rows = []
    for work in works:
        row = measure(work, builders, options.threads, rounds, 0.03 if options.quick else 0.1)
        rows.append(row)
        print(_line(row), flush=True)
    print()
    _summary(rows, list(builders))
    if options.name:
        print(timing.record(options.name, rows, threads=options.threads, rounds=rounds))
    if options.plot:
        print(importlib.import_module("bench.plot").draw(rows, options.plot))


def _is_installed(name: str, build: Callable[[W.Workload], peers.Runner | None], work: W.Workload) -> bool:
    try:
        build(work)
    except ImportError:
        print(f"{name} is not installed")
        return False
    except Exception:
        return True  # each row says how it fails
    return True


def measure(
    work: W.Workload,
    builders: dict[str, Callable[[W.Workload], peers.Runner | None]],
    threads: int,
    rounds: int,
    seconds: float,
) -> dict[str, object]:
    """One row: for each runner its median time, its error against float64 and its first call, or why it failed."""
    sets = [work.make(seed) for seed in range(timing.set_count(work.bytes, work.rotate))]
    want = work.fn(*[a.astype(np.float64) for a in sets[0]])
    calls, facts = {}, {}
    for name, build in builders.items():
        try:
            runner = build(work)
            if runner is None:
                continue
            _limit_threads(name, threads)
            own = [[runner.convert(a) for a in arrays] for arrays in sets]
            start = time.perf_counter()
            got = runner.back(runner.call(*own[0]))
            facts[name] = {"first": time.perf_counter() - start, "error": _error(work, got, want, sets[0])}
            if facts[name]["error"] > 1e-4:
                continue
        except Exception as reason:  # a peer may fail in any way; the row says how
            facts[name] = {"failure": f"{type(reason).__name__}: {reason}".splitlines()[0][:160]}
            continue
        calls[name] = timing.rotating(runner.call, own)
        calls[name]()
    times = timing.medians(calls, rounds, seconds, patience=2 + 4 * rounds * seconds * len(calls))
    for name, taken in times.items():
        facts[name]["seconds"] = taken
    return {"row": work.row, "label": work.label, "bytes": work.bytes, "flops": work.flops, "runs": facts}


def _limit_threads(name: str, threads: int) -> None:
    if name.startswith("torch"):
        import torch

        torch.set_num_threads(threads)


def _error(work: W.Workload, got: object, want: object, inputs: list[np.ndarray]) -> float:
    if work.fn is W.full_argmax:
        return float(inputs[0][int(np.asarray(got))] != inputs[0].max())
    return timing.relative_error(got, want)


def _line(row: dict) -> str:
    cells = []
    for name, run in row["runs"].items():
        if "seconds" in run:
            cells.append(f"{name} {run['seconds'] * 1e3:.3f} ms")
        else:
            cells.append(f"{name} {'fails: ' + run['failure'] if 'failure' in run else 'WRONG'}")
    return f"{row['row']:>3} {row['label']}: " + "; ".join(cells)


def _summary(rows: list[dict], names: list[str]) -> None:
    """Times over NumPy for each runner and, for each row, best peer over numstax."""
    body, ratios, speedups = [], [], []
    for row in rows:
        seconds = {n: run["seconds"] for n, run in row["runs"].items() if "seconds" in run}
        cells = [f"{seconds['numpy'] / seconds[n]:.2f}" if n in seconds else "-" for n in names if n != "numpy"]
        others = {n: s for n, s in seconds.items() if n != OURS}
        best = min(others, key=others.__getitem__)
        ratio = others[best] / seconds[OURS] if OURS in seconds else None
        if ratio is not None:
            ratios.append(ratio)
            speedups.append(seconds["numpy"] / seconds[OURS])
        shown = f"{ratio:.2f}" if ratio is not None else "-"
        body.append([f"{row['row']} {row['label']}", f"{seconds['numpy'] * 1e3:.3f}", *cells, shown, best])
    header = ["row", "NumPy ms", *(f"{n} x" for n in names if n != "numpy"), "best/numstax", "best peer"]
    timing.print_table(header, body)
    missing = len(rows) - len(ratios)
    means = f"geometric means over {len(ratios)} rows: {timing.geometric_mean(speedups):.2f} times NumPy"
    if set(names) - {"numpy", OURS}:
        means += f", {timing.geometric_mean(ratios):.2f} times the best peer measured"
    print(f"\n{means}; lowest {min(ratios, default=0):.2f}")
    if missing:
        print(f"{missing} row(s) without a right answer from numstax")


if __name__ == "__main__":
    main()
