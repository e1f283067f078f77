"""Is this GPU used right?  Results against float64 NumPy, arrays of every library, what a call costs, and bandwidths.

    python -m bench.gpu_check                       everything
    python -m bench.gpu_check --parts check calls   some parts: check, libraries, calls, rows, promises
    python -m bench.gpu_check --json FILE           also write what was found

Needs torch; CuPy and JAX are used where they are installed.  Ends with status 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

import numstax
from bench import workloads as W
from numstax import dtypes

PARTS = ("check", "libraries", "calls", "rows", "promises")
_PACKAGES = ("numpy", "numba", "llvmlite", "numba-cuda", "cuda-bindings", "nvidia-nvjitlink", "nvidia-nvvm", "torch")
TOLERANCE = {dtypes.FLOAT32: 2e-5, dtypes.BFLOAT16: 1e-2}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description="is this GPU used right?")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", nargs="*", help="names of workloads, such as softmax")
    parser.add_argument("--json", type=Path, help="a file to write")
    options = parser.parse_args(argv)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most of the memory
    found: dict[str, dict[str, object]] = {"facts": facts()}
    for part in options.parts:
        print(f"\n== {part}", flush=True)
        found[part] = {}
        for name, run in _RUNS[part](options.only):
            found[part][name] = _guarded(name, run)
    wrong = [f"{part}: {name}" for part in options.parts for name, row in found[part].items() if _failed(row)]
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, default=str))
    print(f"\n{len(wrong)} wrong" + "".join(f"\n  {name}" for name in wrong), flush=True)
    sys.exit(bool(wrong))


def facts() -> dict[str, object]:
    from numstax.runtime.device import device

    start = time.perf_counter()
    row = device(0)
    seconds = time.perf_counter() - start
    print(row.gpu, f"\nopened in {seconds:.3f} s")
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    print(versions, flush=True)
    return {"gpu": row.gpu, "open": seconds, **versions}


def _guarded(name: str, run: Callable[[], object]) -> object:
    try:
        result = run()
    except Exception as error:  # the table says what failed; the rest is still worth knowing
        result = f"FAILS: {type(error).__name__}: {error}"
        trace = traceback.extract_tb(error.__traceback__)[-3:]
        result += "".join(f"\n      {frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.line}" for frame in trace)
    print(f"  {name:44} {result}", flush=True)
    return result


def _failed(row: object) -> bool:
    return isinstance(row, str) and row.startswith(("FAILS", "WRONG"))


def _chosen(only: list[str] | None) -> list[W.Workload]:
    return [w for w in W.gpu_table() if not only or w.name in only]


# --- results ----------------------------------------------------------------------------------------


def _checks(only: list[str] | None) -> list[tuple[str, Callable[[], object]]]:
    return [(work.label, lambda work=work: check(work)) for work in _chosen(only)]


def check(work: W.Workload) -> str:
    """The function on arrays of torch against NumPy: all sizes are cut to what float64 NumPy does in a moment."""
    import torch

    from bench.gpu_timing import synchronised, to_numpy

    lengths = (1001,) if len(work.inputs[0]) == 2 else (3001,)
    small = [tuple(map(min, s, (301, 1001) if len(s) == 2 else lengths)) for s in work.inputs]
    rng = np.random.default_rng(3)
    hosts = [rng.standard_normal(s).astype(work.dtype) for s in small]
    if work.uniform:
        hosts = [
            (rng.random(s) * (h - lo) + lo).astype(work.dtype) for s, (lo, h) in zip(small, work.uniform, strict=True)
        ]
    if work.name == "transpose_add":
        hosts[1] = np.ascontiguousarray(hosts[0].T)[:, ::-1].copy()
    want = work.fn(*[a.astype(np.float64) for a in hosts])
    function = numstax.jit(work.fn, strict=True)
    kind = torch.bfloat16 if work.dtype == dtypes.BFLOAT16 else torch.float32
    given = [torch.tensor(a.astype(np.float32), device="cuda").to(kind) for a in hosts]
    got, first = synchronised(function, given)
    again, second = synchronised(function, given)
    pairs = list(zip(_tuple(got), _tuple(again), _tuple(want), strict=True))
    if work.name == "full_argmax":
        bad = int(to_numpy(got)) != int(np.asarray(want))
        return f"WRONG: {got}, {want}" if bad else f"right; first {first:.3f} s, then {second * 1e6:.0f} us"
    errors = []
    for a, b, w in pairs:
        if not isinstance(a, torch.Tensor) or a.dtype != kind or tuple(a.shape) != np.shape(w):
            return (
                f"WRONG: {type(a).__name__} {getattr(a, 'dtype', '')}{tuple(np.shape(a))}, {kind}{np.shape(w)} wanted"
            )
        if not torch.equal(a, b):
            return "WRONG: two calls differ"
        errors.append(np.linalg.norm(np.ravel(to_numpy(a) - w)) / (np.linalg.norm(np.ravel(w)) + 1e-300))
    word = "right" if max(errors) < TOLERANCE[work.dtype] else "WRONG:"
    return f"{word} {max(errors):.1e}; first {first:.3f} s, then {second * 1e6:.0f} us"


def _tuple(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


# --- arrays of other libraries ----------------------------------------------------------------------


def _libraries(only: list[str] | None) -> list[tuple[str, Callable[[], object]]]:
    del only
    x = np.random.default_rng(0).standard_normal((300, 130)).astype(np.float32)
    runs = [
        ("NumPy, device='cuda'", lambda: _exchange(x, lambda a: a, lambda a: a, np.ndarray, device="cuda")),
        (
            "NumPy, reversed and transposed",
            lambda: _exchange(x[::-1].T, lambda a: a, lambda a: a, np.ndarray, device="cuda"),
        ),
        ("numstax.to_device", lambda: _exchange(x, numstax.to_device, np.asarray, numstax.DeviceArray)),
        ("arrays that are changed", _changes),
        ("an array that is not aligned", _shifted),
        ("streams of torch", _streams),
        ("dynamic sizes", _dynamic),
        ("1000 steps in a loop", _loop),
        ("library calls", _library_calls),
        ("indices out of bounds", _bounds),
        ("a full GPU", _full),
    ]
    for name, test in (("torch", _torch), ("cupy", _cupy), ("jax", _jax)):
        if importlib.util.find_spec(name) is not None:
            runs.append((name, lambda test=test: test(x)))
    return runs


def chain(x):
    y = np.maximum(x * 1.5 - 0.25, 0)
    return y, np.tanh(y) + x


def _exchange(x: np.ndarray, there: Callable, back: Callable, kind: type, **options: object) -> str:
    function = numstax.jit(chain, strict=True, **options)
    worst = 0.0
    for _ in range(2):
        got = function(there(x))
        if not all(isinstance(g, kind) for g in got):
            return f"WRONG: results are {[type(g).__name__ for g in got]}"
        for g, w in zip(got, chain(x.astype(np.float64)), strict=True):
            worst = max(worst, float(np.abs(back(g) - w).max()))
    return (
        f"right {worst:.1e}"
        if worst < 1e-5 and function.compile_count == 1
        else f"WRONG: {worst}, {function.compile_count}"
    )


def _torch(x: np.ndarray) -> str:
    import torch

    there = torch.tensor(x, device="cuda")
    for part in (np.s_[:], np.s_[::2, 1:], np.s_[:, 3]):
        said = _exchange(x[part], lambda _, part=part: there[part], lambda t: t.cpu().numpy(), torch.Tensor)
        if not said.startswith("right"):
            return said
    return _exchange(x.T, lambda _: there.T, lambda t: t.cpu().numpy(), torch.Tensor)


def _cupy(x: np.ndarray) -> str:
    import cupy

    return _exchange(x, cupy.asarray, cupy.asnumpy, cupy.ndarray)


def _jax(x: np.ndarray) -> str:
    import jax

    return _exchange(x, jax.device_put, np.asarray, jax.Array)


def _changes() -> str:
    import torch

    def step(x, y):
        x += y
        return x

    x, y = (torch.full((1000,), v, device="cuda") for v in (1.0, 2.0))
    same = numstax.jit(step, strict=True)(x, y) is x
    return "right" if same and bool((x == 3).all()) else f"WRONG: {same}, {x}"


def _shifted() -> str:
    import torch

    x = torch.arange(4097, dtype=torch.float32, device="cuda")
    function = numstax.jit(lambda x: x * 2, strict=True)
    function(x[:-1])
    return "right" if torch.equal(function(x[1:]), x[1:] * 2) else "WRONG"


def _streams() -> str:
    """A call on a side stream must come after that stream's work, and be seen by it."""
    import torch

    function = numstax.jit(lambda x: x + 1, strict=True)
    x = torch.zeros(1 << 20, device="cuda")
    function(x)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(5)
        y = function(x) * 2
    side.synchronize()
    return "right" if bool((y == 12).all()) else f"WRONG: {y}"


def _dynamic() -> str:
    import torch

    function = numstax.jit(chain, strict=True, dynamic=True)
    for n, m in ((30, 70), (1000, 128), (257, 3)):
        x = torch.randn(n, m, device="cuda")
        for got, want in zip(function(x), chain(x.cpu().numpy().astype(np.float64)), strict=True):
            if np.abs(got.cpu().numpy() - want).max() > 1e-5:
                return f"WRONG for {n}, {m}"
    return f"right, {function.compile_count} compiled"


def _loop() -> str:
    """A time loop: right, and one graph."""
    import torch

    from bench.gpu_promises import STEPS, heat, step

    x = torch.randn(1024, 1024, device="cuda")
    looped, single = numstax.jit(heat, strict=True), numstax.jit(step, strict=True)
    y = x
    for _ in range(STEPS):
        y = single(y)
    if not torch.allclose(looped(x), y, atol=1e-4) or not torch.allclose(looped(x), y, atol=1e-4):
        return "WRONG"
    return f"right; {looped.artifacts()[0].note}"


def _library_calls() -> str:
    import torch

    def program(a, b):
        return np.sort(a @ b, axis=1)[:, ::2] * 2, np.linalg.solve(a, b)

    a, b = (torch.randn(200, 200, device="cuda") for _ in range(2))
    got = numstax.jit(program, strict=True)(a, b)
    want = program(*(t.cpu().numpy().astype(np.float64) for t in (a, b)))
    worst = max(float(np.abs(g.cpu().numpy() - w).max() / np.abs(w).max()) for g, w in zip(got, want, strict=True))
    return f"right {worst:.1e}" if worst < 1e-2 else f"WRONG {worst}"


def _bounds() -> str:
    import torch

    function = numstax.jit(lambda x, k: x[k] * 2, strict=True)
    x, k = torch.randn(100, device="cuda"), torch.tensor([3, 99, 0], device="cuda")
    if not torch.equal(function(x, k), x[k] * 2):
        return "WRONG"
    try:
        function(x, k + 1)
    except IndexError as error:
        return f"right: {error}".splitlines()[0]
    return "WRONG: no error"


def _full() -> str:
    x = np.zeros(8, np.float32)
    function = numstax.jit(lambda x: np.zeros((1 << 36,), np.float32) + x[0], strict=True, device="cuda")
    try:
        function(x)
    except MemoryError as error:
        return f"right: {error}".splitlines()[0]
    return "WRONG: no error"


# --- what a call costs ------------------------------------------------------------------------------


def _calls(only: list[str] | None) -> list[tuple[str, Callable[[], object]]]:
    del only

    def torch_array() -> object:
        import torch

        return torch.randn(8, device="cuda")

    def cupy_array() -> object:
        import cupy

        return cupy.ones(8, np.float32)

    small = next(w for w in W.gpu_table() if w.name == "small_chain")
    runs = [
        (f"x + 1, {n}", lambda make=make: _cost(lambda x: x + 1.0, make()))
        for n, make in (("torch", torch_array), ("own", lambda: numstax.to_device(np.ones(8, np.float32))))
    ]
    if importlib.util.find_spec("cupy") is not None:
        runs.append(("x + 1, cupy", lambda: _cost(lambda x: x + 1.0, cupy_array())))
    runs.append(("x*y + z, torch", lambda: _cost(lambda x, y, z: x * y + z, *(torch_array() for _ in range(3)))))
    runs.append(("small_chain(256x256), torch", lambda: _cost_of(small)))
    runs.append(("the parts of a call", _parts))
    runs.append(("first result in a new process", _first_results))
    return runs


def _parts() -> str:
    """Microseconds of the host for what a tiny call consists of."""
    import timeit

    import torch

    x = numstax.to_device(np.ones(8, np.float32))
    t = torch.ones(8, device="cuda")
    functions = [numstax.jit(lambda x: x + 1.0, strict=True) for _ in range(2)]
    names = {}
    for function, array in zip(functions, (x, t), strict=True):
        function(array)
        names[type(array).__name__] = function.artifacts()[0].enter.__globals__["call"].__globals__
    own, theirs = names["DeviceArray"], names["Tensor"]
    run = next(value for name, value in own.items() if name.startswith("poi_"))
    pooled = own["pools"][0]
    kind, out = np.dtype(np.float32), pooled((8,), np.dtype(np.float32))
    at, to = own["address"](x.layout), own["address"](out)
    parts = {
        "launch": lambda: run(0, 1, 1, 1, 0, at, to),
        "own memory": lambda: pooled((8,), kind),
        "torch memory": lambda: theirs["fresh"]((8,), kind),
        "torch.empty": lambda: torch.empty((8,), device="cuda"),
        "own call": lambda: functions[0](x),
        "torch call": lambda: functions[1](t),
    }
    found = []
    for name, part in parts.items():
        samples = timeit.repeat(part, number=300, repeat=9, setup="import torch; torch.cuda.synchronize()")
        found.append(f"{name} {sorted(samples)[4] / 300 * 1e6:.1f}")
    return ", ".join(found)


def _first_results() -> str:
    """Seconds of a program from its start, twice: nothing compiled yet, then from the disk cache."""
    program = (
        "import numpy as np, numstax; numstax.jit(lambda x: np.exp(x) / (1 + x * x), device='cuda')(np.ones(9, 'f4'))"
    )
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(3):
            start = time.perf_counter()
            environment = {**os.environ, "NUMSTAX_CACHE_DIR": directory}
            subprocess.run([sys.executable, "-c", program], check=True, env=environment)
            found.append(f"{time.perf_counter() - start:.2f}")
    return f"{found[0]} s, from the disk cache {found[1]} and {found[2]} s"


def _cost_of(work: W.Workload) -> object:
    from bench.gpu_timing import make_sets

    return _cost(work.fn, *make_sets(work)[0])


def _cost(fn: Callable[..., object], *args: object) -> object:
    from bench.gpu_timing import host_seconds

    function = numstax.jit(fn, strict=True)
    queued, total, single = host_seconds(lambda: function(*args))
    return f"host {queued * 1e6:.1f} us, queued {total * 1e6:.1f} us, waiting {single * 1e6:.1f} us"


# --- bandwidths -------------------------------------------------------------------------------------


def _rows(only: list[str] | None) -> list[tuple[str, Callable[[], object]]]:
    from bench.gpu_timing import copy_bandwidth

    roof = copy_bandwidth()
    print(f"  copy on the device: {roof / 1e9:.0f} GB/s", flush=True)
    return [(work.label, lambda work=work: bandwidth(work, roof)) for work in _chosen(only)]


def bandwidth(work: W.Workload, roof: float) -> str:
    import torch

    from bench.gpu_timing import event_medians, make_sets
    from bench.timing import rotating

    sets = make_sets(work)
    function = numstax.jit(work.fn, strict=True)
    median, least = event_medians({"numstax": rotating(function, sets)})["numstax"]
    del sets
    torch.cuda.empty_cache()
    rate = work.bytes / median
    return f"{median * 1e3:8.4f} ms (least {least * 1e3:.4f}), {rate / 1e9:6.0f} GB/s, {rate / roof:4.0%} of the copy"


def _promises(only: list[str] | None) -> list[tuple[str, Callable[[], object]]]:
    from bench.gpu_promises import promises

    return promises(only)


_RUNS = {"check": _checks, "libraries": _libraries, "calls": _calls, "rows": _rows, "promises": _promises}


if __name__ == "__main__":
    main()
