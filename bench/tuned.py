"""What the formulas choose for products of matrices, beside the best of a search over their tilings.

    python -m bench.tuned                            20 shapes in bfloat16 on a GPU; needs one, and minutes
    python -m bench.tuned --only 4096 --json tuned.json

For each shape: the tiling in closed form, the fastest that was found, and how near the former comes (1: equal).  Times
are of runs in a CUDA graph, without peers; earlier records are not used.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from math import exp, log
from pathlib import Path

import ml_dtypes
import numpy as np

from numstax import knobs, places
from numstax.pipeline import build
from numstax.tuning import GpuBench, Tuner

SHAPES = (
    *((n, n, n) for n in (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)),
    (8192, 8192, 1024),
    (8192, 8192, 512),
    (4096, 1024, 4096),
    (1024, 4096, 4096),
    (512, 4096, 1024),
    (16384, 256, 1024),
    (2048, 2048, 16384),
    (4096, 512, 512),
    (64, 4096, 4096),
    (16, 8192, 8192),
    (1000, 3000, 2000),
)


def near(m: int, n: int, k: int, method: str) -> tuple[float, str]:
    """Seconds of the fastest over those of the formulas' choice, and what was found."""
    settings = replace(knobs.from_environ(), tune=method)
    bench = GpuBench(places.gpu(settings, 0))
    tuner = Tuner(replace(settings, cache=False), bench)
    a, b = np.zeros((m, k), ml_dtypes.bfloat16), np.zeros((k, n), ml_dtypes.bfloat16)
    build(np.matmul, (a, b), knobs=settings, machine=bench.machine, tune=tuner.schedule)
    products = [tuned for tuned in tuner.found if tuned.space.parameters[0][0] == "tile"]
    if not products:
        return 1.0, "nothing to choose"
    (tuned,) = products
    seconds = {trial.config: trial.seconds for trial in tuned.search.trials}
    best, start = tuned.search.best, seconds[tuned.start]
    rate = 2 * m * n * k / best.seconds / 1e12
    text = f"{tuned.space.describe(tuned.start)} -> {tuned.space.describe(best.config)}, {rate:.0f} TFLOP/s"
    return best.seconds / start, f"{text}, {len(seconds)} measured"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="shapes whose text contains one of these")
    parser.add_argument("--method", default="random", choices=knobs.TUNING[1:])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no shape after so long")
    parser.add_argument("--json", type=Path, help="write the ratios")
    options = parser.parse_args()
    begun, ratios = time.perf_counter(), {}
    for shape in SHAPES:
        name = "x".join(map(str, shape))
        if (options.only and not any(o in name for o in options.only)) or time.perf_counter() - begun > options.seconds:
            continue
        ratios[name], text = near(*shape, options.method)
        print(f"{name:20} {ratios[name]:.3f}  {text}  ({time.perf_counter() - begun:.0f} s)", flush=True)
    if ratios:
        mean = exp(sum(map(log, ratios.values())) / len(ratios))
        print(
            f"geometric mean over {len(ratios)} shapes: {mean:.3f} of the best tiling, least {min(ratios.values()):.3f}"
        )
    if options.json:
        options.json.write_text(json.dumps(ratios, indent=1))


if __name__ == "__main__":
    main()
