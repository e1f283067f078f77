"""The command line: `numstax info | explain | tune | cache | bench`.

Arguments of the command line enter; text on standard output leaves.  A mistake of the user ends with status 2
and one line on standard error, never with a traceback.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import numstax
from numstax import hardware, knobs, places
from numstax.errors import DeviceError, NumstaxError
from numstax.knobs import TUNING
from numstax.picture import draw_searches
from numstax.pipeline import build
from numstax.runtime.cache import DiskCache
from numstax.runtime.device import describe_gpus
from numstax.runtime.driver import start
from numstax.runtime.host import Host
from numstax.runtime.load import ObjectCode
from numstax.tuning import CpuBench, GpuBench, Tuner

BENCHES = ("fused", "op", "overhead", "compile_time", "dynamic", "programs", "gpu", "gemm", "conv", "tuned", "plot")
LARGEST = 20
"""Kernels that `numstax cache show` lists."""
ON_GPU = ("gpu", "gemm", "conv", "tuned")
_PACKAGES = ("numstax", "numpy", "numba", "llvmlite", "ml_dtypes", "sympy", "numba-cuda", "cuda-bindings")
_ARRAY = re.compile(r"(?P<dtype>[a-z]\w*)\[(?P<shape>[\d,\s]*)\]")


_TUNABLE = (
    "There is a choice where a kernel works element by element, transposes, or reduces along the first axis; "
    "on a GPU in products of matrices, too.  Kernels of whole rows (softmax, layernorm) often have one tiling only."
)


class UsageError(Exception):
    """Something on the command line cannot be used."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; `argv` defaults to the process's arguments."""
    parser = _parser()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["bench"]:
        words.insert(1, "--")  # whatever follows is for the benchmark
    options = parser.parse_args(words)
    try:
        options.run(options)
        sys.stdout.flush()
    except (UsageError, NumstaxError) as error:
        parser.exit(2, f"numstax: error: {error}\n")
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="numstax", description="A compiler for NumPy functions.")
    parser.add_argument("--version", action="version", version=_version("numstax"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    info = commands.add_parser("info", help="versions, processor, threads, settings")
    info.set_defaults(run=_info)

    explain = commands.add_parser("explain", help="what fused and what did not, and why")
    explain.add_argument("function", metavar="FILE.py:FUNCTION | MODULE:FUNCTION")
    explain.add_argument("arguments", nargs="*", help="arrays such as 'float32[256,1000]', or Python literals")
    explain.add_argument("--inspect", action="store_true", help="print graph, loops, kernels and source instead")
    explain.add_argument("--plot", metavar="PATH", help="also draw the fused graph as a picture (needs matplotlib)")
    explain.set_defaults(run=_explain)

    tune = commands.add_parser(
        "tune",
        help="measure tilings of a function's kernels, and keep the fastest",
        description=f"Measure tilings of a function's kernels; jit(tune=...) then uses the fastest.  {_TUNABLE}",
    )
    tune.add_argument("function", metavar="FILE.py:FUNCTION | MODULE:FUNCTION", help="the function to tune")
    tune.add_argument("arguments", nargs="*", help="arrays such as 'float32[256,1000]', or Python literals")
    tune.add_argument(
        "--method",
        choices=TUNING[1:],
        default="coordinate",
        help="default: those next to the formulas'; coordinate (when not given): on from the best; random: 60 more",
    )
    tune.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: tune kernels for the GPU")
    tune.add_argument("--plot", metavar="PATH", help="also draw the searches as a picture (needs matplotlib)")
    tune.set_defaults(run=_tune)

    cache = commands.add_parser(
        "cache",
        help="the disk cache of compiled kernels",
        description="The disk cache of compiled kernels; NUMSTAX_CACHE_DIR says where it is.",
    )
    cache.add_argument(
        "action", choices=["show", "clear"], help="show: the number of kernels, and the largest; clear: remove them all"
    )
    cache.add_argument("--all", action="store_true", help=f"show all kernels, not only the {LARGEST} largest")
    cache.set_defaults(run=_cache)

    bench = commands.add_parser("bench", help="benchmarks (needs a checkout of the repository)", add_help=False)
    bench.add_argument("rest", nargs=argparse.REMAINDER)
    bench.set_defaults(run=_bench)
    return parser


def _info(options: argparse.Namespace) -> None:
    del options
    for package in _PACKAGES:
        print(f"{package:10} {_version(package)}")
    host, settings = hardware.host(), knobs.from_environ()
    print(f"{'python':10} {sys.version.split()[0]}")
    print(f"{'processor':10} {host.name}, {host.cores} cores, {8 * host.vector}-bit vectors")
    print(f"{'caches':10} {host.l1 >> 10} KiB, {host.l2 >> 10} KiB, {host.l3 >> 10} KiB")
    print(f"{'threads':10} {settings.threads or host.cores}")
    print(f"{'GPU':10} {_gpus()}")
    print(f"{'cache':10} {settings.cache_dir}")
    print("\nsettings (environment variables) and their defaults:")
    print(knobs.describe())


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpus() -> str:
    """The CUDA devices, or why there is none."""
    try:
        return "; ".join(describe_gpus(start()))
    except DeviceError as reason:
        return f"none: {reason.what}"


def _explain(options: argparse.Namespace) -> None:
    function = load_function(options.function)
    arguments = [make_argument(text, seed) for seed, text in enumerate(options.arguments)]
    if options.inspect:
        compiled = numstax.jit(function)
        compiled(*arguments)
        print(compiled.inspect())
    else:
        explained = numstax.explain(function, *arguments)
        print(explained)
        if options.plot:
            _draw(explained.plot, options.plot)


def _tune(options: argparse.Namespace) -> None:
    function = load_function(options.function)
    arguments = [make_argument(text, seed) for seed, text in enumerate(options.arguments)]
    settings = knobs.from_environ()
    settings = replace(settings, tune=options.method, log=settings.log | {"tuning"})
    bench = GpuBench(places.gpu(settings, 0)) if options.device == "cuda" else CpuBench(Host(settings))
    tuner = Tuner(settings, bench)
    build(function, tuple(arguments), knobs=settings, machine=bench.machine, tune=tuner.schedule)
    for kernel in tuner.found:
        print(kernel)
    if not tuner.found:
        print(f"no kernel has a tiling to choose.  {_TUNABLE}")
    elif options.plot:
        _draw(lambda path: draw_searches(tuner.found).savefig(path), options.plot)


def _draw(draw: Callable[[str], None], path: str) -> None:
    try:
        draw(path)
    except ImportError as error:
        raise UsageError(f"cannot draw {path}: {error}; pictures need matplotlib: pip install matplotlib") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot draw {path}: {error}") from error
    print(path)


def load_function(target: str) -> Callable[..., object]:
    """The function that ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION`` names."""
    place, _, name = target.rpartition(":")
    if not place:
        raise UsageError(f"{target!r} names no function: write FILE.py:FUNCTION or MODULE:FUNCTION")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None:
                raise ImportError("not a Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            module = importlib.import_module(place)
    except (ImportError, FileNotFoundError) as error:
        raise UsageError(f"cannot load {place}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{place} has no function {name}")
    return getattr(function, "__wrapped__", function)  # type: ignore[no-any-return]


def make_argument(text: str, seed: int = 0) -> object:
    """``float32[256,1000]`` as an array of random numbers; anything else as a Python literal."""
    found = _ARRAY.fullmatch(text.strip())
    if found is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError) as error:
            raise UsageError(f"{text!r} is no Python literal and no array such as 'float32[256,1000]'") from error
    try:
        dtype = np.dtype(found["dtype"])
        shape = tuple(int(size) for size in found["shape"].split(",") if size.strip())
    except (TypeError, ValueError) as error:
        raise UsageError(f"{text!r}: {error}") from error
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _cache(options: argparse.Namespace) -> None:
    directory = knobs.from_environ().cache_dir
    stored: DiskCache[ObjectCode] = DiskCache(directory)
    entries = list(stored.entries())
    if options.action == "clear":
        stored.clear()
        print(f"removed {len(entries)} kernels from {directory}")
        return
    print(f"{len(entries)} kernels, {sum(e.nbytes for e in entries)} bytes in {directory}")
    shown = entries if options.all else entries[:LARGEST]
    for entry in shown:
        print(f"{entry.nbytes:9}  {entry.path.with_suffix('.py').name}")
    if len(shown) < len(entries):
        print(f"and {len(entries) - len(shown)} smaller ones (--all lists them)")


def _bench(options: argparse.Namespace) -> None:
    parser = argparse.ArgumentParser(
        prog="numstax bench",
        description=f"Run one of the benchmarks {', '.join(BENCHES)}.  `numstax bench NAME --help` lists its options.",
        usage="numstax bench [NAME] [--device {cpu,cuda}] [options of that benchmark]",
        add_help=False,
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="without NAME: 'fused', on cuda 'gpu'")
    chosen, rest = parser.parse_known_args([word for word in options.rest if word != "--"])
    if rest[:1] in (["--help"], ["-h"]):
        parser.print_help()
        return
    name = {"cpu": "fused", "cuda": "gpu"}[chosen.device]
    if rest and not rest[0].startswith("-"):
        name = rest.pop(0)
    if name not in BENCHES:
        raise UsageError(f"there is no benchmark {name!r}: benchmarks are {', '.join(BENCHES)}")
    checkout = Path(numstax.__file__).parent.parent
    if not (checkout / "bench" / "workloads.py").exists():
        raise UsageError("benchmarks are not installed: run this in a checkout of the repository")
    if name in ON_GPU:
        if importlib.util.find_spec("torch") is None:
            raise UsageError(f"the benchmark {name!r} compares with PyTorch: pip install '.[bench,cuda]'")
        start()
    raise SystemExit(
        subprocess.run([sys.executable, "-m", f"bench.{name}", *rest], cwd=checkout, check=False).returncode
    )
