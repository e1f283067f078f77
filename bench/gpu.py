"""Functions on a GPU beside their peers: times, share of the copy bandwidth, and the ratio best peer / numstax.

    python -m bench.gpu                                        rows 1 to 15, every peer that is installed
    python -m bench.gpu --only softmax --peers torch.compile
    python -m bench.gpu --name gpu --plot gpu.png              record the results, draw the roofline picture

One process; random inputs several times the L2 cache, in rotation; samples of all runners interleaved, between CUDA
events (JAX, which has a stream of its own, by the clock of the host).  Every output is checked against the function in
float64.  Row 15 is bound by launches: seconds a call when calls are queued, by the clock of the host.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import numstax
from bench import gpu_timing, peers, timing
from bench import workloads as W
from bench.timing import OURS

Call = Callable[..., object]
LIMIT = {torch.float32: 1e-4, torch.bfloat16: 1e-2}
LAUNCH_BOUND = "15"


def torch_eager(work: W.Workload) -> Call:
    return peers.torch_functions()[work.name]


def _compiled(mode: str | None) -> Callable[[W.Workload], Call]:
    def build(work: W.Workload) -> Call:
        torch._dynamo.reset()
        chosen = "reduce-overhead" if work.row == LAUNCH_BOUND and mode is None else mode
        return torch.compile(peers.torch_functions()[work.name], fullgraph=True, dynamic=False, mode=chosen)

    return build


def jax_jit(work: W.Workload) -> Call:
    import jax
    import jax.numpy as jnp

    return jax.jit(W.rebind(work.fn, np=jnp, erf=jax.scipy.special.erf))


def cupy_arrays(work: W.Workload) -> Call | None:
    import cupy
    import cupyx.scipy.special as special

    return W.rebind(work.fn, np=cupy, erf=special.erf) if work.dtype.itemsize == 4 else None


PEERS: dict[str, Callable[[W.Workload], Call | None]] = {
    "torch": torch_eager,
    "torch.compile": _compiled(None),
    "torch.compile max-autotune": _compiled("max-autotune-no-cudagraphs"),
    "jax.jit": jax_jit,
    "cupy": cupy_arrays,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description="functions on a GPU beside their peers")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--only", nargs="*", help="names of rows, such as softmax")
    parser.add_argument("--rounds", type=int, default=15, help="samples for each runner")
    parser.add_argument("--seconds", type=float, default=1e9, help="leave rows out once so much time has passed")
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    parser.add_argument("--plot", type=Path, help="the roofline picture to draw (needs matplotlib)")
    options = parser.parse_args(argv)
    builders = {OURS: lambda work: numstax.jit(work.fn, strict=True)} | {n: PEERS[n] for n in options.peers}
    roof, end = gpu_timing.copy_bandwidth(), time.perf_counter() + options.seconds
    print(f"{torch.cuda.get_device_name()}: copies move {roof / 1e9:.0f} GB/s, reads and writes counted", flush=True)
    rows = []
    for work in W.gpu_table():
        if (not options.only or work.name in options.only) and time.perf_counter() < end:
            rows.append(measure(work, builders, options.rounds))
            print(_line(rows[-1], roof), flush=True)
    print()
    _summary(rows)
    if options.name:
        print(timing.record(options.name, rows, gpu=torch.cuda.get_device_name(), copy=roof, rounds=options.rounds))
    if options.plot:
        print(importlib.import_module("bench.plot").draw_gpu(rows, roof, options.plot))


def measure(work: W.Workload, builders: dict[str, Callable[[W.Workload], Call | None]], rounds: int) -> dict:
    """One row: for each runner its seconds, its error against float64 and its first call, or why it failed."""
    sets = gpu_timing.make_sets(work)
    want = peers.torch_functions()[work.name](*[x.double() for x in sets[0]])
    calls: dict[str, Callable[[], object]] = {}
    facts: dict[str, dict] = {}
    for name, build in builders.items():
        try:
            call = build(work)
            if call is None:
                continue
            own = [[_converted(name, x) for x in arrays] for arrays in sets]
            got, first = gpu_timing.synchronised(call, own[0])
            error = _error(work, got, want, sets[0])
        except Exception as reason:  # a peer may fail in any way; the row says how
            facts[name] = {"failure": f"{type(reason).__name__}: {reason}".splitlines()[0][:160]}
            continue
        facts[name] = {"first": first, "error": error}
        if error <= LIMIT[sets[0][0].dtype]:
            calls[name] = timing.rotating(call, own)
    del want
    for name, seconds in _times(work, calls, rounds).items():
        facts[name]["seconds"] = seconds
    calls.clear()
    torch.cuda.empty_cache()
    return {"row": work.row, "label": work.label, "bytes": work.bytes, "flops": work.flops, "runs": facts}


def _times(work: W.Workload, calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    if work.row == LAUNCH_BOUND:
        return {name: gpu_timing.host_seconds(call)[1] for name, call in calls.items()}
    by_clock = {name: call for name, call in calls.items() if name.startswith("jax")}
    by_events = {name: call for name, call in calls.items() if name not in by_clock}
    times = {name: median for name, (median, _) in gpu_timing.event_medians(by_events, rounds).items()}
    return times | {name: gpu_timing.clock_median(call, _wait) for name, call in by_clock.items()}


def _wait(value: object) -> None:
    importlib.import_module("jax").block_until_ready(value)


def _converted(name: str, tensor: torch.Tensor) -> object:
    """The array as the runner's own, on the same memory."""
    if name.startswith("jax"):
        return importlib.import_module("jax").numpy.from_dlpack(tensor)
    return importlib.import_module("cupy").from_dlpack(tensor) if name == "cupy" else tensor


def _error(work: W.Workload, got: object, want: object, inputs: Sequence[torch.Tensor]) -> float:
    """The largest over the outputs of ``norm(got - want) / norm(want)``; NaN counts as infinite."""
    if work.name == "full_argmax":
        return float(inputs[0][int(got)] != inputs[0].max())
    worst = 0.0
    for g, w in zip(_tuple(got), _tuple(want), strict=True):
        mine = g if isinstance(g, torch.Tensor) else torch.from_dlpack(g)
        error = float((mine.double() - w).norm() / w.norm())
        worst = max(worst, error if error == error else float("inf"))
    return worst


def _tuple(value: object) -> tuple:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _line(row: dict, roof: float) -> str:
    cells = []
    for name, run in row["runs"].items():
        if "seconds" not in run:
            cells.append(f"{name} {'fails: ' + run['failure'] if 'failure' in run else 'WRONG'}")
        elif row["row"] == LAUNCH_BOUND:
            cells.append(f"{name} {run['seconds'] * 1e6:.1f} us")
        else:
            share = row["bytes"] / run["seconds"] / roof
            cells.append(f"{name} {run['seconds'] * 1e3:.4f} ms ({share:.0%})")
    return f"{row['row']:>3} {row['label']}: " + "; ".join(cells)


def _summary(rows: list[dict]) -> None:
    """For each row the best peer over numstax, and the geometric mean."""
    body, ratios = [], []
    for row in rows:
        seconds = {n: run["seconds"] for n, run in row["runs"].items() if "seconds" in run}
        mine, others = seconds.pop(OURS, None), seconds
        best = min(others, key=others.__getitem__, default="-")
        ratio = others[best] / mine if mine and others else None
        if ratio is not None:
            ratios.append(ratio)
        shown = f"{ratio:.2f}" if ratio is not None else "-"
        body.append([f"{row['row']} {row['label']}", f"{mine * 1e3:.4f}" if mine else "-", best, shown])
    timing.print_table(["row", "numstax ms", "best peer", "best/numstax"], body)
    lowest = min(ratios, default=0)
    print(f"\ngeometric mean over {len(ratios)} rows: {timing.geometric_mean(ratios):.3f}; lowest {lowest:.2f}")


if __name__ == "__main__":
    main()
