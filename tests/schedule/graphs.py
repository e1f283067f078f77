"""A few lines of graph building for the scheduler's tests: broadcasting and dtypes as the tracer does them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numstax.ir import ops
from numstax.ir.graph import Arg, Builder, Graph, InputSpec, Literal, Node, Output
from numstax.ir.index import ONE, Index, as_index, contiguous_strides, product


class Graphs:
    """Makes the nodes of one graph; `x @ ..` and the like stay in NumPy, here every operation is spelled."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.inputs: list[InputSpec] = []

    def input(self, *shape: Any, dtype: str = "float32", strides: Sequence[Any] | None = None) -> Node:
        sizes = tuple(map(as_index, shape))
        steps = contiguous_strides(sizes) if strides is None else tuple(map(as_index, strides))
        self.inputs.append(InputSpec("array", np.dtype(dtype), sizes, steps))
        return self.node("input", (), sizes, np.dtype(dtype), position=len(self.inputs) - 1)

    def scalar(self, dtype: str = "float32") -> Node:
        self.inputs.append(InputSpec("scalar", np.dtype(dtype)))
        return self.node("input", (), (), np.dtype(dtype), position=len(self.inputs) - 1)

    def node(self, op: str, args: Sequence[Node], shape: tuple[Index, ...], dtype: Any, /, **attrs: Any) -> Node:
        return self.builder.node(op, tuple(args), shape, np.dtype(dtype), None, **attrs)

    def constant(self, value: object, dtype: Any = "float32") -> Node:
        return self.node("constant", (), (), np.dtype(dtype), value=Literal.of(value, np.dtype(dtype)))

    def empty(self, *shape: Any, dtype: str = "float32") -> Node:
        return self.node("empty", (), tuple(map(as_index, shape)), np.dtype(dtype))

    def iota(self, shape: Sequence[Any], axis: int) -> Node:
        return self.node("iota", (), tuple(map(as_index, shape)), np.dtype("int64"), axis=axis)

    def __call__(self, op: str, *args: Any) -> Node:
        """An elementwise operation; Python numbers are weak constants."""
        weak = next(a for a in args if isinstance(a, Node)).dtype
        nodes = [a if isinstance(a, Node) else self.constant(a, weak) for a in args]
        types, result = ops.resolve(op, tuple(n.dtype for n in nodes))
        shape = max((n.shape for n in nodes), key=len)
        for n in nodes:
            lead = len(shape) - n.ndim
            shape = tuple(a if k < lead or n.shape[k - lead] is ONE else n.shape[k - lead] for k, a in enumerate(shape))
        operands = [self.broadcast(self.cast(n, t), shape) for n, t in zip(nodes, types, strict=True)]
        return self.node(op, operands, shape, result)

    def cast(self, x: Node, dtype: Any) -> Node:
        return x if x.dtype == np.dtype(dtype) else self.node("cast", (x,), x.shape, np.dtype(dtype))

    def broadcast(self, x: Node, shape: Sequence[Any]) -> Node:
        sizes = tuple(map(as_index, shape))
        return x if x.shape == sizes else self.node("broadcast_to", (x,), sizes, x.dtype)

    def reshape(self, x: Node, *shape: Any) -> Node:
        return self.node("reshape", (x,), tuple(map(as_index, shape)), x.dtype)

    def transpose(self, x: Node, *axes: int) -> Node:
        axes = axes or tuple(reversed(range(x.ndim)))
        return self.node("transpose", (x,), tuple(x.shape[a] for a in axes), x.dtype, axes=axes)

    def slice(self, x: Node, *parts: slice) -> Node:
        """Basic slices with numbers only, over constant sizes."""
        starts, steps, sizes = [], [], []
        for k, n in enumerate(x.shape):
            part = parts[k] if k < len(parts) else slice(None)
            run = range(*part.indices(int(n.value if n.value is not None else 0)))
            starts.append(as_index(run.start))
            steps.append(as_index(run.step))
            sizes.append(as_index(len(run)))
        return self.node("slice", (x,), tuple(sizes), x.dtype, starts=tuple(starts), steps=tuple(steps))

    def update(self, base: Node, value: Node, *parts: slice) -> Node:
        like = self.slice(base, *parts)
        value = self.broadcast(value, like.shape)
        return self.node(
            "update", (base, value), base.shape, base.dtype, starts=like.attr("starts"), steps=like.attr("steps")
        )

    def reduce(self, op: str, x: Node, *axes: int, keepdims: bool = False) -> Node:
        axes = tuple(sorted(a % x.ndim for a in axes)) if axes else tuple(range(x.ndim))
        shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        dtype = np.dtype("int64") if op.startswith("arg") else x.dtype
        out = self.node(f"reduce_{op}", (x,), shape, dtype, axes=axes)
        if keepdims:
            out = self.reshape(out, *(ONE if k in axes else n for k, n in enumerate(x.shape)))
        return out

    def mean(self, x: Node, *axes: int, keepdims: bool = False) -> Node:
        axes = axes or tuple(range(x.ndim))
        count = self.constant(product(x.shape[a] for a in axes).value, x.dtype)
        total = self.reduce("add", x, *axes, keepdims=keepdims)
        return self("divide", total, count)

    def scan(self, op: str, x: Node, axis: int) -> Node:
        return self.node(f"scan_{op}", (x,), x.shape, x.dtype, axis=axis % x.ndim)

    def gather(self, x: Node, axes: tuple[int, ...], *indices: Node) -> Node:
        rest = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        return self.node("gather", (x, *indices), indices[0].shape + rest, x.dtype, axes=axes)

    def matmul(self, a: Node, b: Node) -> Node:
        return self.node(
            "matmul", (a, b), (*a.shape[:-1], b.shape[-1]), a.dtype, precision="highest", group="", template=""
        )

    def extern(self, function: Any, args: Sequence[Node], shape: Sequence[Any], dtype: Any, **kwargs: Any) -> Node:
        results = ((tuple(map(as_index, shape)), np.dtype(dtype)),)
        tree = tuple(Arg(k) for k in range(len(args)))
        attrs = {"function": function, "args": tree, "kwargs": tuple(kwargs.items()), "results": results}
        call = self.node("extern", args, (), np.dtype(dtype), **attrs)
        return self.node("result", (call,), results[0][0], np.dtype(dtype), k=0)

    def scatter(self, base: Node, value: Node, axes: tuple[int, ...], *indices: Node, op: str = "set") -> Node:
        return self.node("scatter", (base, value, *indices), base.shape, base.dtype, axes=axes, op=op)

    def loop(self, trips: Any, states: Sequence[Node], body: Graph, *captured: Node, var: str = "i") -> list[Node]:
        head = trips if isinstance(trips, Node) else self.constant(trips, "int64")
        attrs = {"body": body, "states": len(states), "var": var}
        return self._states("for", (head, *states, *captured), states, attrs)

    def repeat(self, test: Graph, states: Sequence[Node], body: Graph, *captured: Node) -> list[Node]:
        attrs = {"test": test, "body": body, "states": len(states)}
        return self._states("while", (*states, *captured), states, attrs)

    def branch(self, which: Node, states: Sequence[Node], then: Graph, orelse: Graph, *captured: Node) -> list[Node]:
        attrs = {"then": then, "orelse": orelse, "states": len(states)}
        return self._states("cond", (which, *states, *captured), states, attrs)

    def _states(self, op: str, args: Sequence[Node], states: Sequence[Node], attrs: dict[str, Any]) -> list[Node]:
        node = self.node(op, args, (), "bool", **attrs)
        return [self.node("result", (node,), s.shape, s.dtype, k=k) for k, s in enumerate(states)]

    def graph(self, *outputs: Node, writes: Sequence[tuple[int, Node]] = ()) -> Graph:
        return Graph(tuple(self.inputs), tuple(Output(n) for n in outputs), tuple(writes))
