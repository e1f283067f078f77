"""From call to first result, in fresh processes: cold, and from a warm disk cache; and the time before Numba.

    python -m bench.compile_time [--only softmax]

`cold` starts with an empty cache directory, `warm` with the one that the cold run left.  `before Numba` is the
time from the call to printed source, measured in a process that has compiled something else before.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench import timing
from bench import workloads as W

REGION_OPS = 300

_CHILD = """
import json, sys, time
import numstax
from bench import compile_time
fn, args = compile_time.case(sys.argv[1])
compiled = numstax.jit(fn, strict=True)
start = time.perf_counter()
compiled(*args)
first = time.perf_counter() - start
print(json.dumps({"first": first, "numba": "numba" in sys.modules}))
"""

_PASSES_CHILD = """
import json, sys
from bench import compile_time
compile_time.before_numba("col_mean")
print(json.dumps(compile_time.before_numba(sys.argv[1])))
"""


def region(x):
    """A straight line of `REGION_OPS` operations with a few row sums in it."""
    y = x
    for k in range(REGION_OPS // 3):
        y = y * 1.01 + x
        y = y - y.sum(-1, keepdims=True) if k % 20 == 0 else abs(y)
    return y


def case(name: str) -> tuple:
    """The function of that name and small arguments for it."""
    import numpy as np

    if name == "region":
        return region, (np.ones((64, 256), np.float32),)
    work = next(w for w in W.table() if w.name == name)
    return work.fn, work.make()


def before_numba(name: str) -> float:
    """Seconds from the call to printed source."""
    from numstax import knobs, pipeline
    from numstax.trace.tracer import trace

    fn, args = case(name)
    settings = knobs.from_environ()
    start = time.perf_counter()
    pipeline.compile_graph(trace(fn, args, {}).graph, settings)
    return time.perf_counter() - start


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compile_time", description="from call to first result")
    names = [*dict.fromkeys(w.name for w in W.table()), "region"]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    options = parser.parse_args(argv)
    timing.clean_environment(options.threads)
    kinds = ("cold", "warm", "before_numba")
    rows = []
    for name in options.only:
        row = measure(name, options.repeats)
        rows.append(row)
        print(f"{name:20} " + "  ".join(f"{kind} {row[kind]:.3f} s" for kind in kinds), flush=True)
    one = [r for r in rows if r["function"] != "region"]
    print("\nmedians: " + ", ".join(f"{k} {statistics.median(r[k] for r in one):.3f} s" for k in kinds if one))
    if options.name:
        print(timing.record(options.name, rows))


def measure(name: str, repeats: int) -> dict[str, object]:
    cold, warm = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_run(_CHILD, name, cache)["first"])
            again = _run(_CHILD, name, cache)
            warm.append(again["first"])
    passes = [_run(_PASSES_CHILD, name, "") for _ in range(repeats)]
    times = {"cold": cold, "warm": warm, "before_numba": passes}
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    return {"function": name, "warm_imports_numba": again["numba"], **medians}


def _run(code: str, name: str, cache: str) -> object:
    env = {**os.environ, **({"NUMSTAX_CACHE_DIR": cache} if cache else {})}
    done = subprocess.run([sys.executable, "-c", code, name], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed in a fresh process:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
