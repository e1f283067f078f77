"""Random small graphs: chains of elementwise operations, views, reductions, scans, gathers and updates."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from numstax.ir.graph import Graph, Node, topological
from numstax.ir.index import as_index, product
from tests.schedule.graphs import Graphs

SIZES = (1, 2, 3, 4, 6)
UNARY = ("tanh", "negative", "absolute", "cos")
BINARY = ("add", "subtract", "maximum", "minimum", "multiply")
STEPS = ("unary", "binary", "binary", "reduce", "scan", "view", "view", "update", "roll", "gather", "extern", "matmul")


class Program:
    def __init__(self, graph: Graph, inputs: list[np.ndarray]) -> None:
        self.graph, self.inputs = graph, inputs

    def __repr__(self) -> str:
        """One line for each node."""
        order = {node: k for k, node in enumerate(topological(_results(self.graph)))}
        lines = [
            f"n{k} = {node.op}({', '.join(f'n{order[a]}' for a in node.args)}) {dict(node.attrs)} : {numbers(node)}"
            for node, k in order.items()
        ]
        lines += [f"return {[order[n] for n in _results(self.graph)]}, writes {[p for p, _ in self.graph.writes]}"]
        return "\n".join((*lines, *map(repr, self.inputs)))


def _results(graph: Graph) -> list[Node]:
    return [o.node for o in graph.outputs] + [n for _, n in graph.writes]


def numbers(node: Node) -> tuple[int, ...]:
    return tuple(int(n.value) for n in node.shape)  # type: ignore[arg-type]


@st.composite
def programs(draw: st.DrawFn, steps: int = 10) -> Program:
    g = Graphs()
    draws = np.random.default_rng(draw(st.integers(0, 2**16)))
    pool: list[Node] = []
    inputs = []
    for _ in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.sampled_from(SIZES)) for _ in range(draw(st.integers(0, 3))))
        array = draws.integers(-4, 5, shape).astype("float64") / 4
        if draw(st.booleans()):
            array = np.asfortranarray(array)[..., ::-1] if array.ndim else array
        inputs.append(array)
        pool.append(g.input(*shape, dtype="float64", strides=[s // 8 for s in array.strides]))
    for _ in range(draw(st.integers(1, steps))):
        pool.append(_step(draw, g, pool))
    outputs = [draw(st.sampled_from(pool)) for _ in range(draw(st.integers(0, 2)))] + [pool[-1]]
    writes = []
    for p, spec in enumerate(g.inputs):
        fitting = [n for n in pool if n.shape == spec.shape]
        if fitting and draw(st.booleans()):
            writes.append((p, draw(st.sampled_from(fitting))))
    return Program(g.graph(*outputs, writes=writes), inputs)


def _step(draw: st.DrawFn, g: Graphs, pool: list[Node]) -> Node:
    # recent values first, so that chains grow long
    x = draw(st.sampled_from(pool[-3:] + pool))
    shape = numbers(x)
    kind = draw(st.sampled_from(STEPS))
    if kind == "binary":
        fitting = [n for n in pool if _broadcasts(numbers(n), shape)]
        return g(draw(st.sampled_from(BINARY)), x, draw(st.sampled_from(fitting)))
    if kind == "unary" or not shape:
        return g(draw(st.sampled_from(UNARY)), x)
    axis = draw(st.integers(0, len(shape) - 1))
    if kind == "reduce":
        op = draw(st.sampled_from(("add", "maximum", "argmax")))
        axes = (axis,) if op == "argmax" or draw(st.booleans()) else ()
        out = g.reduce(op, x, *axes, keepdims=draw(st.booleans()) if axes else False)
        return g("divide", g.cast(out, "float64"), 4)
    if kind == "scan":
        return g("divide", g.scan("add", x, axis), 4)
    if kind == "update":
        part = _part(draw, shape)
        value = g.slice(draw(st.sampled_from([n for n in pool if n.shape == x.shape])), *_part_like(draw, part, shape))
        return g.update(x, g("add", value, 0.25) if draw(st.booleans()) else value, *part)
    if kind == "roll":
        return _roll(g, x, axis, draw(st.integers(0, shape[axis])))
    if kind == "gather":
        line = g.iota((shape[axis],), 0)
        index = g("remainder", g("multiply", line, draw(st.integers(1, 5))), shape[axis])
        return g.gather(x, (axis,), g("subtract", index, draw(st.integers(0, 1))))
    if kind == "extern":
        return g.extern("numpy.negative", (x,), x.shape, x.dtype)
    if kind == "matmul" and len(shape) >= 2:
        axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        return g("divide", g.matmul(x, g.transpose(x, *axes)), 8)
    return _view(draw, g, x)


def _view(draw: st.DrawFn, g: Graphs, x: Node) -> Node:
    shape = numbers(x)
    kind = draw(st.sampled_from(("transpose", "reshape", "slice", "roll", "broadcast", "diagonal", "window")))
    if kind == "transpose":
        return g.transpose(x, *draw(st.permutations(range(len(shape)))))
    if kind == "reshape":
        total = int(product(x.shape).value or 0)
        divisors = [d for d in range(1, total + 1) if total % d == 0]
        first = draw(st.sampled_from(divisors))
        return g.reshape(x, *draw(st.sampled_from(((first, total // first), (total,)))))
    if kind == "roll":
        starts = tuple(as_index(draw(st.integers(0, n))) for n in shape)
        return g.node("roll", (x,), x.shape, x.dtype, starts=starts)
    if kind == "broadcast" and len(shape) < 3:
        return g.broadcast(x, (draw(st.sampled_from(SIZES)), *shape))
    if kind == "diagonal" and len(shape) > 1:
        offset = draw(st.integers(-1, 1))
        n = np.diagonal(np.empty(shape), offset, 0, 1).shape[-1]
        if n:
            rest = x.shape[2:]
            size = g.iota((n,), 0).shape
            return g.node("diagonal", (x,), (*rest, *size), x.dtype, axis1=0, axis2=1, offset=offset)
    if kind == "window" and shape[0] > 1 and len(shape) < 3:
        size, kept = g.iota((2, shape[0] - 1), 0).shape
        return g.node("window", (x,), (kept, *x.shape[1:], size), x.dtype, axes=(0,))
    return g.slice(x, *_part(draw, shape))


def _part(draw: st.DrawFn, shape: tuple[int, ...]) -> list[slice]:
    parts = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        stop = draw(st.integers(start + 1, n))
        step = draw(st.sampled_from((1, 1, 2, -1)))
        parts.append(slice(start, stop, step) if step > 0 else slice(stop - 1, start - 1 if start else None, step))
    return parts


def _part_like(draw: st.DrawFn, part: list[slice], shape: tuple[int, ...]) -> list[slice]:
    """Another part of the same shape, or the same part."""
    out = []
    for p, n in zip(part, shape, strict=True):
        length = len(range(n)[p])
        start = draw(st.integers(0, n - length))
        out.append(p if draw(st.booleans()) else slice(start, start + length))
    return out


def _roll(g: Graphs, x: Node, axis: int, shift: int) -> Node:
    n = numbers(x)[axis]
    whole = [slice(None)] * x.ndim

    def along(part: slice) -> list[slice]:
        return [part if k == axis else s for k, s in enumerate(whole)]

    out = g.empty(*x.shape, dtype="float64")
    for to, of in ((slice(0, shift), slice(n - shift, n)), (slice(shift, n), slice(0, n - shift))):
        if to.stop > to.start:
            out = g.update(out, g.slice(x, *along(of)), *along(to))
    return out


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) <= 3 and np.prod(np.broadcast_shapes(a, b)) <= 300
    except ValueError:
        return False
