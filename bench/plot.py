"""Draws recorded results: speed-ups of every peer over NumPy, and the bandwidth of numstax's rows.

    python -m bench.plot fused --out fused.png

Reads ``bench/results/NAME.json`` written by ``bench.fused --name NAME``.  The dashed line is the bandwidth of a
copy, measured on the spot.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from bench import timing
from bench.timing import OURS


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.plot", description="draw recorded results")
    parser.add_argument("name", help="the record bench/results/NAME.json")
    parser.add_argument("--out", help="picture to write (default: bench/results/NAME.png)")
    options = parser.parse_args(argv)
    path = timing.RESULTS / f"{options.name}.json"
    if not path.exists():
        parser.error(f"there is no {path}; `python -m bench.fused --name {options.name}` makes it")
    print(draw(json.loads(path.read_text())["rows"], options.out or path.with_suffix(".png")))


def draw(rows: list[dict], out: str | Path) -> str | Path:
    """The picture of the rows, written to `out`, which is returned."""
    mpl.use("Agg")
    figure, (above, below) = plt.subplots(2, 1, figsize=(12, 10), constrained_layout=True)
    timed = [r for r in rows if "seconds" in r["runs"].get("numpy", {})]
    draw_speedups(above, timed)
    draw_roofline(below, timed)
    figure.savefig(out, dpi=120)
    return out


def draw_speedups(axes: plt.Axes, rows: list[dict]) -> None:
    """Bars: times faster than NumPy, on a logarithmic axis."""
    names = [n for n in dict.fromkeys(n for r in rows for n in r["runs"]) if n != "numpy"]
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        heights = [r["runs"]["numpy"]["seconds"] / r["runs"].get(name, {}).get("seconds", np.inf) for r in rows]
        axes.bar(np.arange(len(rows)) + k * width, heights, width, label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(yscale="log", ylabel="times faster than NumPy")
    axes.set_xticks(np.arange(len(rows)) + 0.4, [r["label"] for r in rows], rotation=30, ha="right")
    axes.legend(ncols=4)


def draw_roofline(axes: plt.Axes, rows: list[dict]) -> None:
    """Points: bandwidth that each row reaches from its fewest bytes; line: the measured copy bandwidth."""
    roof = copy_bandwidth()
    done = [r for r in rows if "seconds" in r["runs"].get(OURS, {}) and not r["flops"]]
    best = [min(x["seconds"] for n, x in r["runs"].items() if n != OURS and "seconds" in x) for r in done]
    at = np.arange(len(done))
    axes.bar(at - 0.2, [r["bytes"] / r["runs"][OURS]["seconds"] / 1e9 for r in done], 0.4, label=OURS)
    axes.bar(at + 0.2, [r["bytes"] / s / 1e9 for r, s in zip(done, best, strict=True)], 0.4, label="best peer")
    axes.axhline(roof / 1e9, color="black", linestyle="--", label="copy, one thread")
    axes.set(ylabel="GB/s of the fewest bytes")
    axes.set_xticks(at, [r["label"] for r in done], rotation=30, ha="right")
    axes.legend()


def draw_gpu(rows: list[dict], roof: float, out: str | Path) -> str | Path:
    """The roofline of a GPU: bandwidth that each runner reaches from the fewest bytes of each row, below that of a
    copy."""
    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(14, 6), constrained_layout=True)
    done = [r for r in rows if "seconds" in r["runs"].get(OURS, {})]
    names = list(dict.fromkeys(n for r in done for n in r["runs"]))
    width = 0.8 / max(len(names), 1)
    for k, name in enumerate(names):
        rates = [r["bytes"] / r["runs"].get(name, {}).get("seconds", np.inf) / 1e9 for r in done]
        axes.bar(np.arange(len(done)) + (k + 0.5) * width, rates, width, label=name)
    axes.axhline(roof / 1e9, color="black", linestyle="--", label="copy on the device")
    axes.set(ylabel="GB/s of the fewest bytes")
    axes.set_xticks(np.arange(len(done)) + 0.4, [f"{r['row']} {r['label']}" for r in done], rotation=35, ha="right")
    axes.legend(ncols=4)
    figure.savefig(out, dpi=120)
    return out


def copy_bandwidth() -> float:
    """Bytes a second of a large copy, read and written bytes both counted."""
    source = np.random.default_rng(0).random(1 << 25, np.float32)
    target = np.empty_like(source)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(times)


if __name__ == "__main__":
    main()
