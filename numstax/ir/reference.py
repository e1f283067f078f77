"""NumPy evaluator of Graphs: the meaning of the IR, and the oracle of every pass.

A Graph, its arguments and the values of its size symbols enter; arrays leave, computed op by op exactly as NumPy
would (``backend="reference"``).  Every value is checked against the shape and dtype the IR promises.
`reference_loops` does the same for Schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from numstax.errors import OutOfBoundsError, SizeError, VerifyError
from numstax.ir.graph import CONTROL, Arg, Graph, Literal, Node, Output, control_args
from numstax.ir.index import Index, IndexLike
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS, SCANS, identity
from numstax.ir.values import Symbols, cast, map_tree, poisoned, resolve_function, shape_value, size_value
from numstax.program import VIEWS
from numstax.requirements import CannotRunError

Array = np.ndarray
Writes = list[tuple[int, Array]]


# --- graphs ---------------------------------------------------------------------------------------


def evaluate_graph(graph: Graph, inputs: Sequence[Array], symbols: Symbols) -> tuple[list[Any], Writes]:
    """Outputs, and what each written argument holds afterwards (the caller copies it in).

    Outputs are fresh C-contiguous arrays, except aliases, which are views of an input or an earlier output.
    """
    arguments = [np.asarray(x) for x in inputs]
    symbols = dict(symbols)
    values = _evaluate(graph, graph.nodes(), arguments, symbols)
    outputs: list[Any] = []
    for out in graph.outputs:
        outputs.append(_output(out, values, arguments, outputs, symbols))
    return outputs, [(position, np.array(values[node])) for position, node in graph.writes]


def _evaluate(graph: Graph, nodes: Iterable[Node], inputs: Sequence[Array], symbols: dict[str, int]) -> dict[Node, Any]:
    """The values of the live nodes, given in topological order."""
    values: dict[Node, Any] = {}
    evaluate_nodes(nodes, values, inputs, symbols)
    for kind, a, b, message in graph.asserts:
        left, right = size_value(a, symbols), size_value(b, symbols)
        if not (left == right if kind == "eq" else left <= right):
            raise SizeError(message)
    return values


def evaluate_nodes(
    nodes: Iterable[Node], values: dict[Node, Any], inputs: Sequence[Array], symbols: dict[str, int]
) -> None:
    """Add to `values` those of the nodes, given in topological order, that it lacks; and to `symbols` the sizes of
    results of library functions that are symbols."""
    with np.errstate(all="ignore"):
        for node in nodes:
            if node not in values:
                values[node] = _checked(node, _evaluate_node(node, values, inputs, symbols), symbols)


def _output(
    out: Output, values: Mapping[Node, Any], arguments: Sequence[Array], outputs: Sequence[Any], symbols: Symbols
) -> Any:
    if out.alias is None:
        fresh = np.array(values[out.node], order="C")
        return fresh[()] if out.scalar else fresh

    def number(x: object) -> object:
        if isinstance(x, Arg):
            return arguments[x.k][()]
        return size_value(x, symbols) if isinstance(x, Index) else x

    source, k = out.alias
    view = arguments[k] if source == "input" else outputs[k]
    for kind, detail in out.views:
        view = VIEWS[kind](view, map_tree(detail, number))
    return view


def _checked(node: Node, value: Any, symbols: dict[str, int]) -> Any:
    """The value, which must be what the node promises."""
    if node.op == "extern":
        expected, got = node.attr("results"), value
        if len(got) != len(expected):
            raise VerifyError(f"{node.attr('function')} gave {len(got)} results", node.origin)
        for (shape, _), array in zip(expected, got, strict=True):
            for size, n in zip(shape, array.shape, strict=False):
                if str(size).isidentifier():
                    symbols.setdefault(str(size), n)
    elif node.op in CONTROL:
        expected, got = tuple((s.shape, s.dtype) for s in control_args(node)[1]), value
    else:
        expected, got = ((node.shape, node.dtype),), (value,)
    for (shape, dtype), array in zip(expected, got, strict=True):
        if array.shape != shape_value(shape, symbols) or array.dtype != dtype:
            sizes = ", ".join(map(str, shape))
            raise VerifyError(f"{node.op} promises {dtype}({sizes}), but is {array.dtype}{array.shape}", node.origin)
    return value


def _evaluate_node(node: Node, values: Mapping[Node, Any], inputs: Sequence[Array], symbols: Symbols) -> Any:
    args = [values[a] for a in node.args]
    if node.op in ELEMENTWISE:
        return np.asarray(ELEMENTWISE[node.op].reference(*args))
    family, _, op = node.op.partition("_")
    if family == "reduce":
        return np.asarray(_reduce(op, args[0], node.attr("axes"), node.dtype))
    if family == "scan":
        return SCANS[op].accumulate(args[0], axis=node.attr("axis"), dtype=node.dtype)
    rule = _NODE_RULES.get(node.op)
    if rule is None:
        raise VerifyError(f"there is no node operation {node.op!r}", node.origin)
    if node.op == "input":
        return inputs[node.attr("position")]
    return rule(node, symbols, *args)


def _reduce(op: str, x: Array, axes: tuple[int, ...], dtype: np.dtype) -> Any:
    if op in ("argmax", "argmin"):
        return getattr(np, op)(x, axis=axes[0])
    if any(x.shape[axis] == 0 for axis in axes):
        shape = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
        return np.full(shape, identity(op, dtype), dtype)
    return REDUCTIONS[op].reduce(x, axis=axes, dtype=dtype)


def _slices(
    starts: Sequence[IndexLike], steps: Sequence[IndexLike], shape: Sequence[int], symbols: Symbols
) -> tuple[slice, ...]:
    """Basic slices that pick ``starts + k*steps`` for k < shape."""
    out = []
    for start, step, size in zip(shape_value(starts, symbols), shape_value(steps, symbols), shape, strict=True):
        stop = start + size * step
        out.append(slice(0, 0) if size == 0 else slice(start, stop if stop >= 0 else None, step))
    return tuple(out)


def _slice(node: Node, symbols: Symbols, x: Array) -> Any:
    shape = shape_value(node.shape, symbols)
    return x[_slices(node.attr("starts"), node.attr("steps"), shape, symbols)]


def _roll(node: Node, symbols: Symbols, x: Array) -> Array:
    starts = [-size_value(start, symbols) for start in node.attr("starts")]
    return np.roll(x, starts, tuple(range(x.ndim)))


def _update(node: Node, symbols: Symbols, base: Array, value: Array) -> Array:
    out = np.array(base)
    out[_slices(node.attr("starts"), node.attr("steps"), value.shape, symbols)] = value
    return out


def _iota(node: Node, symbols: Symbols) -> Array:
    shape = shape_value(node.shape, symbols)
    axis: int = node.attr("axis")
    line = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return np.broadcast_to(line, shape)


def _diagonal(node: Node, symbols: Symbols, x: Array) -> Array:
    axis1, axis2 = node.attr("axis1"), node.attr("axis2")
    return np.diagonal(x, size_value(node.attr("offset"), symbols), axis1, axis2)


def _window(node: Node, symbols: Symbols, x: Array) -> Array:
    axes: tuple[int, ...] = node.attr("axes")
    return sliding_window_view(x, shape_value(node.shape[-len(axes) :], symbols), axes)


def _gather(node: Node, symbols: Symbols, x: Array, *indices: Array) -> Array:
    axes: tuple[int, ...] = node.attr("axes")
    try:
        return np.asarray(np.moveaxis(x, axes, range(len(axes)))[indices])
    except IndexError as error:
        raise OutOfBoundsError(str(error), node.origin) from None


def _require(node: Node, symbols: Symbols, value: Array, holds: Array) -> Array:
    if not holds.all():
        raise CannotRunError.unmet(node.attr("requirement"), str(node.origin or ""))
    return value


def _scatter(node: Node, symbols: Symbols, base: Array, value: Array, *indices: Array) -> Array:
    axes: tuple[int, ...] = node.attr("axes")
    out = np.array(base)
    target: Any = np.moveaxis(out, axes, range(len(axes)))
    try:
        if node.attr("op") == "set":
            target[indices] = value
        else:
            getattr(np, node.attr("op")).at(target, indices, value)
    except IndexError as error:
        raise OutOfBoundsError(str(error), node.origin) from None
    return out


def _for(node: Node, symbols: Symbols, trips: Array, *given: Array) -> list[Array]:
    body, held = _Body(node.attr("body")), list(given)
    for k in range(int(trips)):
        body.run(held, {**symbols, node.attr("var"): k})
    return held[: node.attr("states")]


def _while(node: Node, symbols: Symbols, *given: Array) -> list[Array]:
    test, body, held = _Body(node.attr("test")), _Body(node.attr("body")), list(given)
    while test.run(held, symbols)[test.graph.outputs[0].node]:
        body.run(held, symbols)
    return held[: node.attr("states")]


def _cond(node: Node, symbols: Symbols, predicate: Array, *given: Array) -> list[Array]:
    held = list(given)
    _Body(node.attr("then" if predicate else "orelse")).run(held, symbols)
    return held[: node.attr("states")]


class _Body:
    """A body of control flow, which may run often."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self._nodes = graph, list(graph.nodes())

    def run(self, held: list[Array], symbols: Symbols) -> dict[Node, Any]:
        """Change what the states hold."""
        values = _evaluate(self.graph, self._nodes, held, dict(symbols))
        for position, node in self.graph.writes:
            held[position] = values[node]
        return values


def _extern(node: Node, symbols: Symbols, *args: Array) -> tuple[Array, ...]:
    def leaf(item: object) -> object:
        if isinstance(item, Arg):
            return args[item.k]
        if isinstance(item, Index):
            return size_value(item, symbols)
        return item.value if isinstance(item, Literal) else item

    function = resolve_function(node.attr("function"))
    got = function(*map_tree(node.attr("args"), leaf), **map_tree(dict(node.attr("kwargs")), leaf))
    return tuple(np.asarray(x) for x in (got if isinstance(got, tuple | list) else (got,)))


_NODE_RULES: dict[str, Callable[..., Any]] = {
    "input": lambda node, symbols: None,
    "constant": lambda node, symbols: np.asarray(node.attr("value").value),
    "size": lambda node, symbols: np.asarray(size_value(node.attr("index"), symbols), np.int64),
    "iota": _iota,
    "empty": lambda node, symbols: poisoned(shape_value(node.shape, symbols), node.dtype),
    "cast": lambda node, symbols, x: cast(x, node.dtype),
    "bitcast": lambda node, symbols, x: x.copy().view(node.dtype),
    "reshape": lambda node, symbols, x: x.reshape(shape_value(node.shape, symbols)),
    "transpose": lambda node, symbols, x: x.transpose(node.attr("axes")),
    "broadcast_to": lambda node, symbols, x: np.broadcast_to(x, shape_value(node.shape, symbols)),
    "slice": _slice,
    "roll": _roll,
    "diagonal": _diagonal,
    "window": _window,
    "gather": _gather,
    "update": _update,
    "scatter": _scatter,
    "for": _for,
    "while": _while,
    "cond": _cond,
    "matmul": lambda node, symbols, a, b: np.matmul(a, b),
    "require": _require,
    "extern": _extern,
    "result": lambda node, symbols, results: results[node.attr("k")],
}
