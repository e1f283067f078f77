"""Reductions over few elements as chains of operations, which fuse with whatever is around them.

A reduction with its new operand enters.  Leaves: the chain, when the reduced axis is short; a reduction for each
element of the last axis, when that is kept and short, so that loops run along the long axis; or None where a loop is as
good.  What is computed keeps NumPy's order.
"""

from __future__ import annotations

from numstax import dtypes
from numstax.ir.graph import Builder, Literal, Node
from numstax.ir.index import ONE, ZERO, as_index
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS

MOST, MOST_INNER = 9, 4
"""Elements that a chain goes through; along the last axis, where a loop reads its elements side by side."""
LEAST = 1 << 12
"""Elements below which nothing is gained."""
_NEVER_NEGATIVE = ("square", "absolute", "hypot", "exp", "exp2")
"""Operations whose zeros are positive."""


def unrolled(builder: Builder, node: Node, x: Node) -> Node | None:
    """What to compute instead of the reduction `node` of `x`."""
    sizes = [n.value for n in x.shape]
    axes, op = node.attr("axes"), node.op.removeprefix("reduce_")
    known = [n for n in sizes if n is not None]
    total = 1
    for n in known:
        total *= n
    if len(known) < len(sizes) or total < LEAST or op not in REDUCTIONS or dtypes.is_low(x.dtype) or len(axes) > 1:
        return None
    (axis,), last = axes, x.ndim - 1
    count = sizes[axis] or 0
    if 1 < count <= (MOST_INNER if axis == last else MOST):
        return _chain(builder, node, op, [part(builder, x, axis, k) for k in range(count)])
    width = sizes[last] or 0
    if axis != last and 1 < width <= MOST_INNER and total // width >= LEAST:
        lines = [part(builder, x, last, k) for k in range(width)]
        return _joined(
            builder,
            node,
            [builder.node(node.op, (line,), node.shape[:-1], node.dtype, node.origin, axes=axes) for line in lines],
        )
    return None


def _chain(builder: Builder, node: Node, op: str, parts: list[Node]) -> Node:
    start = []
    kind = dtypes.kind(node.dtype)
    if op == "add" and kind in "fc" and not (kind == "f" and parts[0].op in _NEVER_NEGATIVE):
        # the sum of zeros is positive
        zero = builder.node("constant", (), (), node.dtype, node.origin, value=Literal.of(0, node.dtype))
        start = [builder.node("broadcast_to", (zero,), node.shape, node.dtype, node.origin) if node.shape else zero]
    result, *rest = start + parts
    for other in rest:
        result = builder.node(op, (result, other), node.shape, node.dtype, node.origin)
    return result


def _joined(builder: Builder, node: Node, lines: list[Node]) -> Node:
    """The lines side by side along a new last axis."""
    result = builder.node("empty", (), node.shape, node.dtype, node.origin)
    steps = (ONE,) * len(node.shape)
    for k, line in enumerate(lines):
        column = builder.node("reshape", (line,), (*line.shape, ONE), line.dtype, node.origin)
        starts = (*(ZERO,) * len(line.shape), as_index(k))
        result = builder.node(
            "update", (result, column), node.shape, node.dtype, node.origin, starts=starts, steps=steps
        )
    return result


def part(builder: Builder, x: Node, axis: int, k: int) -> Node:
    """``x[..., k, ...]``: of what an elementwise operation computes, only that."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if x.op in ELEMENTWISE or x.op == "cast":
        args = tuple(part(builder, a, axis, k) for a in x.args)
        return builder.node(x.op, args, shape, x.dtype, x.origin, **dict(x.attrs))
    if x.op == "broadcast_to" and not x.args[0].shape:
        return builder.node("broadcast_to", x.args, shape, x.dtype, x.origin) if shape else x.args[0]
    starts = tuple(as_index(k) if a == axis else ZERO for a in range(x.ndim))
    one = tuple(ONE if a == axis else n for a, n in enumerate(x.shape))
    line = builder.node("slice", (x,), one, x.dtype, x.origin, starts=starts, steps=(ONE,) * x.ndim)
    return builder.node("reshape", (line,), shape, x.dtype, x.origin)
