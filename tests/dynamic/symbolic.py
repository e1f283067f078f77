"""Graphs over size symbols: compiled once, run at many sizes, compared with NumPy at each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import as_strided

from numstax.ir.graph import Graph, InputSpec, Node
from numstax.ir.index import Index, as_index
from numstax.ir.reference import evaluate_graph
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.values import Symbols, shape_value
from numstax.knobs import Knobs
from numstax.pipeline import Region, compile_graph
from numstax.runtime.host import Host
from numstax.runtime.launch import launcher
from tests.schedule.graphs import Graphs

KNOBS = Knobs(cache_dir=Path(os.environ["NUMSTAX_CACHE_DIR"]), check=2, parallel_threshold=256)
SIZES = (2, 3, 7, 64, 97, 1, 5, 31, 128, 1500)
"""Values for a symbol with hint 64 or less; 1 stands for the smallest size that is allowed."""


@cache
def host() -> Host:
    return Host(KNOBS)


class Symbolic(Graphs):
    """`Graphs` with the operations that need more than constant sizes."""

    def cut(self, x: Node, *axes: tuple[object, object, object]) -> Node:
        """A slice: (start, step, size) of each axis."""
        starts, steps, sizes = (tuple(as_index(a[k]) for a in axes) for k in range(3))  # type: ignore[arg-type]
        return self.node("slice", (x,), sizes, x.dtype, starts=starts, steps=steps)

    def put(self, base: Node, value: Node, *axes: tuple[object, object]) -> Node:
        """An update: (start, step) of each axis."""
        starts, steps = (tuple(as_index(a[k]) for a in axes) for k in range(2))  # type: ignore[arg-type]
        return self.node("update", (base, value), base.shape, base.dtype, starts=starts, steps=steps)

    def size(self, value: Index) -> Node:
        return self.node("size", (), (), "int64", index=value)


def compiled(graph: Graph, knobs: Knobs = KNOBS) -> tuple[Region, Callable[..., tuple[object, ...]]]:
    region = compile_graph(graph, knobs)
    assert region.plan is not None
    return region, launcher(region.plan, host()).call


def argument(spec: InputSpec, symbols: Symbols, seed: int) -> np.ndarray:
    """Small multiples of a quarter, in the strides that the graph was made for."""
    shape, strides = shape_value(spec.shape, symbols), shape_value(spec.strides, symbols)
    rng = np.random.default_rng(seed)
    values = rng.integers(-8, 9, shape)
    spans = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = sum(min(s, 0) for s in spans)
    memory = np.zeros(sum(abs(s) for s in spans) + 1, spec.dtype)
    array = as_strided(memory[-low:], shape, [s * spec.dtype.itemsize for s in strides])
    array[...] = values / 4 if spec.dtype.kind == "f" else values
    return array


def arguments(graph: Graph, symbols: Symbols, seed: int = 0) -> list[np.ndarray]:
    return [argument(spec, symbols, seed + k) for k, spec in enumerate(graph.inputs)]


def check(graph: Graph, cases: Iterable[Symbols], tolerance: float = 1e-12) -> Region:
    """One compilation gives what NumPy gives, for every one of the sizes; so does the schedule, where it is small."""
    region, call = compiled(graph)
    for symbols in cases:
        given = arguments(graph, symbols)
        outputs, writes = evaluate_graph(graph, given, symbols)
        assert region.schedule is not None
        if sum(a.size for a in given) < 1 << 14:
            planned, planned_writes = evaluate_schedule(region.schedule, given, symbols)
            alike([p for p in planned if p is not None], outputs, tolerance, symbols)
            alike(held(planned_writes, writes, given), [w for _, w in writes], tolerance, symbols)
        got = call(*given)
        alike(got, outputs, tolerance, symbols)
        alike([given[p] for p, _ in writes], [w for _, w in writes], tolerance, symbols)
    return region


def held(
    planned: Sequence[tuple[int, np.ndarray]], writes: Sequence[tuple[int, np.ndarray]], given: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What the written arguments hold; a schedule leaves out the write of an argument to itself."""
    found = dict(planned)
    return [found.get(p, given[p]) for p, _ in writes]


def alike(got: Sequence[object], want: Sequence[object], tolerance: float, symbols: Symbols) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        a, b = np.asarray(g), np.asarray(w)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"at {symbols}"
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"at {symbols}")


def sizes(*names: str, values: Sequence[int] = SIZES[:5]) -> list[dict[str, int]]:
    """Values for the symbols, in all orders of large and small."""
    count = len(values)
    return [{name: values[(k * (j + 1) + j) % count] for j, name in enumerate(names)} for k in range(count)] + [
        dict.fromkeys(names, values[-1 - k % count]) for k in range(count)
    ]
