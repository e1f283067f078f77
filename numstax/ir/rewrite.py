"""Simplification of Graphs before lowering: only what keeps every bit of every result, products of matrices and
magnitudes of complex numbers aside.

A Graph enters; an equal one leaves, its nodes new.  One pass over the nodes in topological order: views of
views are composed, lossless casts and selections by constants removed, constants folded, in the bodies of control
flow too; states that nobody needs are dropped (see `prune`), small products of matrices become sums (see `products`),
short reductions become chains (see `unrolled`), magnitudes are compared by their squares (see `magnitudes`).
Floating-point identities that fail for NaN,
infinities or signed zeros (``x*0``, ``x + 0``, ``x - x``) are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from numstax import dtypes
from numstax.ir.graph import CONTROL, Builder, Graph, Literal, Node, is_state
from numstax.ir.index import ONE, ZERO, as_index
from numstax.ir.magnitudes import COMPARISONS, by_squares
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS
from numstax.ir.products import as_reduction
from numstax.ir.prune import handed_on, pruned
from numstax.ir.unrolled import unrolled
from numstax.ir.values import cast


def simplify(graph: Graph) -> Graph:
    return _simplified(graph, {})


def _simplified(graph: Graph, known: Mapping[int, np.generic], inside: bool = False) -> Graph:
    """`known` : the arguments that hold one value everywhere; `inside` : it is a body of control flow."""
    rewriter = _Rewriter(inside)
    made: dict[Node, Node] = {}
    states: dict[Node, dict[int, Node]] = {}
    nodes = graph.named()
    used = defaultdict[Node, list[int]](list)
    last: dict[Node, Node | None] = {a: node for node in nodes for a in node.args}
    last.update(dict.fromkeys((*graph.binders, *(o.node for o in graph.outputs), *(n for _, n in graph.writes))))
    for node in filter(is_state, nodes):
        used[node.args[0]].append(node.attr("k"))
    for node in nodes:
        if node.op in CONTROL:
            dying = {k for k, a in enumerate(node.args) if last[a] is node and a.op != "input"}
            states[node] = rewriter.control(node, tuple(made[a] for a in node.args), used[node], dying)
        elif is_state(node):
            made[node] = states[node.args[0]][node.attr("k")]
        elif node.op == "input" and node.attr("position") in known:
            made[node] = rewriter.constant(node, np.asarray(known[node.attr("position")]))
        else:
            made[node] = rewriter.node(node, tuple(made[a] for a in node.args))
    outputs = tuple(replace(out, node=made[out.node]) for out in graph.outputs)
    writes = tuple((k, made[node]) for k, node in graph.writes if not _is_input(made[node], k))
    return replace(graph, outputs=outputs, writes=writes, binders=tuple(made[node] for node in graph.binders))


def _is_input(node: Node, position: int) -> bool:
    return node.op == "input" and node.attr("position") == position


@cache
def lossless(source: np.dtype, target: np.dtype) -> bool:
    """Does `target` hold every value of `source`?"""
    kinds = dtypes.kind(source) + dtypes.kind(target)
    if source == target or kinds[0] == "b":
        return True
    if kinds[0] in "iu" and kinds[1] in "biu":
        return np.can_cast(source, target, "safe")
    if kinds[1] in "biu" or kinds == "cf":
        return False
    # np.can_cast calls int64 -> float64 and int8 -> float8 safe
    wide = _precision(target)
    if kinds[0] in "iu":
        return 8 * source.itemsize - (kinds[0] == "i") <= int(wide.nmant) + 1
    narrow = _precision(source)
    return bool(narrow.nmant <= wide.nmant and narrow.maxexp <= wide.maxexp and narrow.minexp >= wide.minexp)


def _precision(dtype: np.dtype) -> Any:
    return ml_dtypes.finfo(np.empty(0, dtype).real.dtype)  # type: ignore[no-untyped-call]


def _uniform(node: Node) -> Node | None:
    """The 0-d node of which `node` repeats the value."""
    if not node.shape:
        return node
    return node.args[0] if node.op == "broadcast_to" and not node.args[0].shape else None


def _constant(node: Node) -> np.generic | None:
    """The value, when every element is the same constant."""
    source = _uniform(node)
    return source.attr("value").value if source is not None and source.op == "constant" else None


class _Rewriter:
    """Makes the simplest known node for an operation; arguments are already simplified."""

    def __init__(self, inside: bool) -> None:
        self.inside = inside
        self.builder = Builder()
        self.rules: dict[str, Callable[..., Node | None]] = {
            "reshape": self.reshape,
            "transpose": self.transpose,
            "broadcast_to": self.broadcast_to,
            "slice": self.slice,
            "roll": self.roll,
            "cast": self.cast,
            "bitcast": self.bitcast,
            "where": self.where,
            "logical_not": self.logical_not,
            "remainder": self.remainder,
            "floor_divide": self.floor_divide,
            "matmul": self.matmul,
            **dict.fromkeys(COMPARISONS, self.comparison),
            **{f"reduce_{op}": self.reduce for op in REDUCTIONS},
        }

    def node(self, node: Node, args: tuple[Node, ...]) -> Node:
        rule = self.rules.get(node.op)
        found = rule(node, *args) if rule is not None else None
        if found is None and node.op in ELEMENTWISE:
            found = self.fold(node, args)
        return self.same(node, args) if found is None else found

    def same(self, node: Node, args: tuple[Node, ...], **changed: Any) -> Node:
        """`node` with other arguments and attributes."""
        attrs = {**dict(node.attrs), **changed}
        return self.builder.node(node.op, args, node.shape, node.dtype, origin=node.origin, **attrs)

    def constant(self, node: Node, value: np.ndarray) -> Node:
        """A node like `node` with one value everywhere."""
        made = self.builder.node("constant", (), (), node.dtype, node.origin, value=Literal.of(value, node.dtype))
        return self.spread(node, made)

    def spread(self, node: Node, source: Node) -> Node:
        """`source`, which is 0-d, with the shape of `node`."""
        return (
            self.builder.node("broadcast_to", (source,), node.shape, source.dtype, node.origin)
            if node.shape
            else source
        )

    def control(self, node: Node, args: tuple[Node, ...], used: Sequence[int], dying: set[int]) -> dict[int, Node]:
        """What the used states hold after control flow.  Constants are handed to the bodies as such.
        `dying` : the arguments, by number, that nothing else needs any more."""
        first = 0 if node.op == "while" else 1
        trips = _constant(args[0]) if node.op == "for" else None
        if trips is not None and int(trips) <= 0:
            return {k: args[first + k] for k in used}
        bodies = {name: body for name, body in node.attrs if isinstance(body, Graph)}
        written = {k for body in bodies.values() for k, _ in body.writes}
        values = {k: _constant(arg) for k, arg in enumerate(args[first:]) if k not in written}
        known = {k: value for k, value in values.items() if value is not None}
        simple = {name: _simplified(body, known, inside=True) for name, body in bodies.items()}
        if node.op == "cond":
            args, simple = handed_on(args, simple, node.attr("states"), (k - 1 for k in dying))
        return pruned(self.builder, node, args, simple, used)

    # --- rules: the node, its new arguments -> what to use instead ---

    def reshape(self, node: Node, x: Node) -> Node | None:
        if node.shape == x.shape:
            return x
        uniform = _uniform(x)
        if uniform is not None:
            return self.spread(node, uniform)
        return self.reshape(node, x.args[0]) or self.same(node, x.args) if x.op == "reshape" else None

    def transpose(self, node: Node, x: Node) -> Node | None:
        axes = node.attr("axes")
        source = x
        if x.op == "transpose":
            source, axes = x.args[0], tuple(x.attr("axes")[axis] for axis in axes)
        if axes == tuple(range(len(axes))):
            return source
        uniform = _uniform(x)
        if uniform is not None:
            return self.spread(node, uniform)
        return self.same(node, (source,), axes=axes)

    def broadcast_to(self, node: Node, x: Node) -> Node | None:
        if node.shape == x.shape:
            return x
        return self.same(node, x.args) if x.op == "broadcast_to" else None

    def slice(self, node: Node, x: Node) -> Node | None:
        starts, steps = (tuple(map(as_index, node.attr(name))) for name in ("starts", "steps"))
        uniform = _uniform(x)
        if uniform is not None:
            return self.spread(node, uniform)
        source = x
        if x.op == "slice":
            outer = list(zip(map(as_index, x.attr("starts")), map(as_index, x.attr("steps")), strict=True))
            starts = tuple(a + start * step for start, (a, step) in zip(starts, outer, strict=True))
            steps = tuple(step * inner for inner, (_, step) in zip(steps, outer, strict=True))
            source = x.args[0]
        walks = zip(starts, steps, node.shape, strict=True)
        if node.shape == source.shape and all(a is ZERO and (s is ONE or n is ONE) for a, s, n in walks):
            return source
        return self.same(node, (source,), starts=starts, steps=steps)

    def roll(self, node: Node, x: Node) -> Node | None:
        starts = tuple(map(as_index, node.attr("starts")))
        uniform = _uniform(x)
        if uniform is not None:
            return self.spread(node, uniform)
        source = x
        if x.op == "roll":
            pairs = zip(map(as_index, x.attr("starts")), starts, node.shape, strict=True)
            starts = tuple(b if a is ZERO else a if b is ZERO else (a + b) % n for a, b, n in pairs)
            source = x.args[0]
        if all(start is ZERO for start in starts):
            return source
        return self.same(node, (source,), starts=starts)

    def cast(self, node: Node, x: Node) -> Node | None:
        if node.dtype == x.dtype:
            return x
        if x.op == "cast" and self.skips(x.args[0].dtype, x.dtype, node.dtype):
            return self.cast(node, x.args[0]) or self.same(node, x.args)
        value = _constant(x)
        if value is not None:
            with np.errstate(all="ignore"):
                return self.constant(node, cast(np.asarray(value), node.dtype))
        return None

    def skips(self, source: np.dtype, middle: np.dtype, target: np.dtype) -> bool:
        """Is a cast to `middle` and on to `target` the cast to `target`?"""
        # a float outside the integer's range becomes what the machine makes of it
        undefined = dtypes.kind(middle) in "fc" and dtypes.kind(target) in "iu" and not lossless(source, target)
        return lossless(source, middle) and not undefined

    def bitcast(self, node: Node, x: Node) -> Node | None:
        return x if node.dtype == x.dtype else None

    def where(self, node: Node, condition: Node, yes: Node, no: Node) -> Node | None:
        value = _constant(condition)
        return None if value is None else yes if value else no

    def logical_not(self, node: Node, x: Node) -> Node | None:
        return x.args[0] if x.op == "logical_not" and x.args[0].dtype == node.dtype else None

    def remainder(self, node: Node, a: Node, b: Node) -> Node | None:
        """By a power of two: its low bits, also where it is negative."""
        power = self.power_of_two(node, b)
        return None if power is None else self.bits("bitwise_and", node, a, (1 << power) - 1)

    def floor_divide(self, node: Node, a: Node, b: Node) -> Node | None:
        power = self.power_of_two(node, b)
        return None if power is None else self.bits("right_shift", node, a, power)

    def bits(self, op: str, node: Node, a: Node, number: int) -> Node | None:
        if _constant(a) is not None:
            return None
        right = self.constant(node, np.asarray(number, node.dtype))
        return self.builder.node(op, (a, right), node.shape, node.dtype, origin=node.origin)

    def power_of_two(self, node: Node, divisor: Node) -> int | None:
        value = _constant(divisor)
        number = int(value) if value is not None and dtypes.kind(node.dtype) in "iu" else 0
        return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None

    def matmul(self, node: Node, a: Node, b: Node) -> Node | None:
        return as_reduction(self.builder, node, a, b, self.inside)

    def comparison(self, node: Node, a: Node, b: Node) -> Node | None:
        left, right = _constant(a), _constant(b)
        if right is not None:
            return by_squares(self.builder, node, a, right, node.op)
        return None if left is None else by_squares(self.builder, node, b, left, COMPARISONS[node.op])

    def reduce(self, node: Node, x: Node) -> Node | None:
        return unrolled(self.builder, node, x)

    def fold(self, node: Node, args: tuple[Node, ...]) -> Node | None:
        """An elementwise operation on constants."""
        values = [_constant(arg) for arg in args]
        if any(value is None for value in values):
            return None
        with np.errstate(all="ignore"):
            return self.constant(node, np.asarray(ELEMENTWISE[node.op].reference(*map(np.asarray, values))))
