"""Products of matrices on a GPU beside cuBLAS: seconds, rates, and the ratio best peer / numstax.

    python -m bench.gemm                              every row
    python -m bench.gemm --only bf16 --layouts NT     rows whose name begins so
    python -m bench.gemm --check                      only results, against float64
    python -m bench.gemm --compile                    also torch.compile with max-autotune

Each sample replays a CUDA graph of several calls, one for each of the random inputs, which together are larger than the
L2 cache; samples of all runners are interleaved.  Peers: torch.matmul, and for epilogues the operations one by one and,
where it has them, cublasLt's (`_addmm_activation`).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import numstax
from bench import timing
from bench.timing import OURS

Call = Callable[..., object]
KINDS = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
ROTATE_BYTES, MOST_SETS = 256 << 20, 8
LIMIT = {"bf16": 4e-3, "f16": 5e-4, "f32": 2e-6}
"""Largest norm of the error over that of the result."""
LAYOUTS = ("NN", "NT", "TN", "TT")
SCALE, CUBIC = 0.7978845608028654, 0.044715


@dataclass(frozen=True)
class Row:
    """One product: m, n, k, a batch (0: none), and what follows it."""

    kind: str
    m: int
    n: int
    k: int
    layout: str = "NN"
    batch: int = 0
    epilogue: str = ""

    @property
    def name(self) -> str:
        size = f"{self.m}x{self.n}x{self.k}"
        parts = (self.kind, f"{self.batch}x{size}" if self.batch else size, self.layout, self.epilogue)
        return " ".join(filter(None, parts))

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * max(self.batch, 1)

    def inputs(self, generator: torch.Generator) -> list[torch.Tensor]:
        batch = (self.batch,) if self.batch else ()
        a = (self.m, self.k) if self.layout[0] == "N" else (self.k, self.m)
        b = (self.k, self.n) if self.layout[1] == "N" else (self.n, self.k)
        shapes = [(*batch, *a), (*batch, *b)]
        shapes += {"": [], "residual": [(self.m, self.n)]}.get(self.epilogue, [(self.n,)])
        drawn = (torch.randn(shape, generator=generator, device="cuda") for shape in shapes)
        return [x.to(KINDS[self.kind]) for x in drawn]

    def product(self) -> Call:
        left, right = (letter == "T" for letter in self.layout)

        def product(a, b):
            return (a.swapaxes(-1, -2) if left else a) @ (b.swapaxes(-1, -2) if right else b)

        return product

    def ours(self) -> Call:
        product = self.product()
        after = _EPILOGUES[self.epilogue][0]
        return numstax.jit((lambda a, b, *c: after(product(a, b), *c)), strict=True)

    def peers(self, compiled: bool) -> Iterator[tuple[str, Call]]:
        product, after = self.product(), _EPILOGUES[self.epilogue][1]

        def eager(a, b, *c):
            return after(product(a, b), *c)

        yield "torch", eager
        if self.epilogue in ("relu", "gelu"):
            gelu = self.epilogue == "gelu"
            left, right = (letter == "T" for letter in self.layout)
            yield (
                "addmm",
                lambda a, b, c: torch._addmm_activation(c, a.T if left else a, b.T if right else b, use_gelu=gelu),
            )
        if compiled:
            torch._dynamo.reset()
            yield "max-autotune", torch.compile(eager, dynamic=False, mode="max-autotune-no-cudagraphs")


_EPILOGUES: dict[str, tuple[Call, Call]] = {
    "": (lambda x: x, lambda x: x),
    "bias": (lambda x, c: x + c, lambda x, c: x + c),
    "relu": (lambda x, c: np.maximum(x + c, 0), lambda x, c: torch.relu(x + c)),
    "gelu": (
        # products of bfloat16 with Python's floats are float32
        lambda x, c: ((y := x + c) * 0.5 * (1 + np.tanh(SCALE * (y + CUBIC * y * y * y)))).astype(x.dtype),
        lambda x, c: torch.nn.functional.gelu(x + c, approximate="tanh"),
    ),
    "residual": (lambda x, c: x + c, lambda x, c: x + c),
}


def table() -> list[Row]:
    """The products of the project's targets."""
    squares = [(512,) * 3, (1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (8192, 8192, 1024)]
    rows = [Row("bf16", *size, layout) for size in squares for layout in LAYOUTS]
    rows += [Row("bf16", 128, 128, 131072), Row("bf16", 4097, 4095, 4093), Row("bf16", 1024, 1024, 1024, batch=64)]
    rows += [
        Row("bf16", *size, epilogue=after)
        for size in ((4096, 4096, 4096), (8192, 8192, 512))
        for after in ("bias", "relu", "gelu", "residual")
    ]
    return [*rows, Row("f16", 4096, 4096, 4096), Row("f32", 4096, 4096, 4096)]


def family() -> list[Row]:
    """Products for the check of results: every layout, sizes that are no multiples, batches, epilogues."""
    sizes = [(256, 512, 320), (520, 264, 1000), (136, 72, 40), (130, 100, 70), (64, 4096, 64)]
    rows = [Row("bf16", *size, layout) for size in sizes for layout in LAYOUTS]
    rows += [Row("bf16", 264, 136, 200, layout, batch=3) for layout in LAYOUTS]
    rows += [Row("bf16", 520, 264, 200, epilogue=after) for after in _EPILOGUES if after]
    rows += [Row("f16", 256, 256, 256), Row("f32", 256, 260, 300), Row("f32", 129, 131, 77, "TT")]
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gemm", description="products of matrices beside cuBLAS")
    parser.add_argument("--only", nargs="*", default=[""], help="beginnings of the names of rows")
    parser.add_argument("--layouts", nargs="*", default=LAYOUTS)
    parser.add_argument("--check", action="store_true", help="only check results, of a family of sizes")
    parser.add_argument("--compile", action="store_true", help="torch.compile with max-autotune is a peer too")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    options = parser.parse_args(argv)
    rows = (row for row in (family() if options.check else table()) if row.layout in options.layouts)

    def find(row: Row) -> dict:
        return check(row) if options.check else measure(row, options.compile, options.rounds)

    run((row for row in rows if any(map(row.name.startswith, options.only))), find, options.name, options.rounds)


def run(rows: Iterable[Any], find: Callable[[Any], dict], name: str | None = None, rounds: int = 0) -> None:
    """Print what is found of every row, and the mean of the ratios; record it by a name.  Ends with an error where a
    row failed or was wrong."""
    done, bad = [], 0
    for row in rows:
        try:
            done.append(find(row))
        except Exception as reason:  # one row may fail in any way; the others count
            print(f"{row.name:34} FAILS {type(reason).__name__}: {reason}"[:400], flush=True)
            bad += 1
            continue
        bad += done[-1]["wrong"]
        print(line(done[-1]), flush=True)
    ratios = [found["ratio"] for found in done if "ratio" in found and not found["wrong"]]
    if ratios:
        print(f"\ngeometric mean of {len(ratios)} rows: {timing.geometric_mean(ratios):.3f}; least {min(ratios):.3f}")
    if name:
        print(timing.record(name, done, gpu=torch.cuda.get_device_name(), rounds=rounds))
    if bad:
        raise SystemExit(f"{bad} rows failed or were wrong")


def check(row: Row) -> dict:
    """Errors of ours and of the first peer, against float64."""
    generator = torch.Generator("cuda").manual_seed(0)
    arrays = row.inputs(generator)
    want = dict(row.peers(False))["torch"](*[x.double() for x in arrays])
    theirs = dict(row.peers(False))["torch"](*arrays)

    def error(got: torch.Tensor) -> float:
        return float((got.double() - want).norm() / want.norm())

    mine = error(row.ours()(*arrays))
    wrong = not mine <= max(LIMIT[row.kind], 2 * error(theirs))
    return {"name": row.name, "error": mine, "theirs": error(theirs), "wrong": wrong}


def measure(row: Row, compiled: bool, rounds: int) -> dict:
    """Median seconds of each runner, by replays of CUDA graphs."""
    generator = torch.Generator("cuda").manual_seed(0)
    found = check(row)
    nbytes = sum(x.numel() * x.element_size() for x in row.inputs(generator)) + row.m * row.n * 2 * max(row.batch, 1)
    sets = [row.inputs(generator) for _ in range(max(2, min(MOST_SETS, ROTATE_BYTES // nbytes)))]
    runners = {OURS: row.ours(), **dict(row.peers(compiled))}
    graphs = {name: _graph(call, sets) for name, call in runners.items()}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            samples[name].append(_sample(graph) / len(sets))
    seconds = {name: statistics.median(s) for name, s in samples.items()}
    best = min((n for n in seconds if n != OURS), key=seconds.__getitem__)
    return {**found, "flops": row.flops, "seconds": seconds, "best": best, "ratio": seconds[best] / seconds[OURS]}


def _graph(call: Call, sets: list[list[torch.Tensor]]) -> Callable[[], object]:
    """What runs the call on every set, by one CUDA graph; calls of several launches have graphs of their own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for arrays in sets * 2:
            call(*arrays)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            for arrays in sets:
                call(*arrays)
    except RuntimeError as reason:  # the stream cannot be captured
        print(f"  not one graph, but call by call: {reason}"[:120], flush=True)
        torch.cuda.synchronize()
        return lambda: [call(*arrays) for arrays in sets]
    return graph.replay


def _sample(run: Callable[[], object], seconds: float = 1e-3) -> float:
    """Seconds of one run, from several in a row that take about so long."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    count = 1
    while True:
        start.record()
        for _ in range(count):
            run()
        end.record()
        torch.cuda.synchronize()
        spent = start.elapsed_time(end) * 1e-3
        if spent >= seconds or count >= 64:
            return spent / count
        count *= 4


def line(found: dict) -> str:
    mark = "  WRONG" if found["wrong"] else ""
    errors = f"error {found['error']:.2e}, theirs {found['theirs']:.2e}{mark}"
    if "seconds" not in found:
        return f"{found['name']:34} {errors}"
    runs = "; ".join(
        f"{n} {s * 1e6:.1f} us {found['flops'] / s * 1e-12:.0f} TFLOP/s" for n, s in found["seconds"].items()
    )
    return f"{found['name']:34} {found['ratio']:.3f} of {found['best']}: {runs}; {errors}"


if __name__ == "__main__":
    main()
