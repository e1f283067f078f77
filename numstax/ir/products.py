"""Small matrix products as sums of products, which fuse with what is around them and run inside compiled loops.

A `matmul` node with its new operands enters; the nodes of a reduction leave, or None where a library's product is
better: matrices of some size are what BLAS is for.  A product with a vector reads each element of the matrix once,
so a loop of our own is as fast, and starts sooner.
"""

from __future__ import annotations

from numstax import dtypes
from numstax.ir.graph import Builder, Node
from numstax.ir.index import ONE, Index, bounds, hint, product

MOST, MOST_INSIDE = 1 << 12, 1 << 15
"""Multiplications in one product of small matrices; inside a loop, which a library call would make a loop of Python,
as many as there seem to be."""


def as_reduction(builder: Builder, node: Node, a: Node, b: Node, inside: bool) -> Node | None:
    """``(a[..., :, None, :] * b.T[..., None, :, :]).sum(-1)`` where that is the better way to compute `node`;
    `inside` a loop or branch."""
    (*batch, m, k), n = a.shape, b.shape[-1]
    is_number = dtypes.kind(node.dtype) in "iufc" and not dtypes.is_low(node.dtype)
    if (
        node.attr("group")
        or node.attr("template")
        or not is_number
        or not (m is ONE or n is ONE or _is_small(product((m, k, n)), inside))
    ):
        return None

    def spread(x: Node, before: tuple[Index, ...]) -> Node:
        made = builder.node("reshape", (x,), before, x.dtype, node.origin)
        return builder.node("broadcast_to", (made,), (*batch, m, n, k), x.dtype, node.origin)

    rank = len(batch)
    axes = (*range(rank), rank + 1, rank)
    turned = builder.node("transpose", (b,), (*batch, n, k), b.dtype, node.origin, axes=axes)
    pair = spread(a, (*batch, m, ONE, k)), spread(turned, (*batch, ONE, n, k))
    terms = builder.node("multiply", pair, (*batch, m, n, k), node.dtype, node.origin)
    return builder.node("reduce_add", (terms,), node.shape, node.dtype, node.origin, axes=(rank + 2,))


def _is_small(count: Index, inside: bool) -> bool:
    if inside:
        return hint(count) <= MOST_INSIDE
    most = bounds(count)[1]
    return most is not None and most <= MOST
