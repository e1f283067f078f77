"""Index maps of view nodes: where an element of a view lies in the array it looks at.

Enters: a view node and the index of one of its elements.  Leaves: the index of that element in the node's
argument, one Index for each of its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numstax.ir.graph import Node
from numstax.ir.index import ONE, ZERO, Index, as_index, contiguous_strides

Position = tuple[Index, ...]


def through(node: Node, index: Position) -> Position:
    """The index, in ``node.args[0]``, of the element that `node` has at `index`."""
    return _RULES[node.op](node, index)


def _reshape(node: Node, index: Position) -> Position:
    return unflatten(flatten(index, node.shape), node.args[0].shape)


def flatten(index: Sequence[Index], shape: Sequence[Index]) -> Index:
    """Position in C order."""
    return sum((i * s for i, s in zip(index, contiguous_strides(shape), strict=True)), ZERO)


def unflatten(position: Index, shape: Sequence[Index]) -> Position:
    """The index of a position in C order; sizes of 1 take no part.  Of no elements none is ever read."""
    if ZERO in shape:
        return (ZERO,) * len(shape)
    out: list[Index] = []
    strides = contiguous_strides(shape)
    leading = True
    for size, stride in zip(shape, strides, strict=True):
        if size is ONE:
            out.append(ZERO)
            continue
        digit = position // stride
        out.append(digit if leading else digit % size)
        leading = False
    return tuple(out)


def _transpose(node: Node, index: Position) -> Position:
    axes: Any = node.attr("axes")
    out = [ZERO] * len(index)
    for k, axis in enumerate(axes):
        out[axis] = index[k]
    return tuple(out)


def _broadcast(node: Node, index: Position) -> Position:
    inner = node.args[0]
    lead = len(index) - inner.ndim
    return tuple(ZERO if size is ONE else index[lead + k] for k, size in enumerate(inner.shape))


def _slice(node: Node, index: Position) -> Position:
    starts: Any = node.attr("starts")
    steps: Any = node.attr("steps")
    return tuple(as_index(a) + i * s for a, s, i in zip(starts, steps, index, strict=True))


def _roll(node: Node, index: Position) -> Position:
    starts: Any = node.attr("starts")
    walks = zip(index, map(as_index, starts), node.shape, strict=True)
    return tuple(i if start is ZERO else (i + start) % n for i, start, n in walks)


def _diagonal(node: Node, index: Position) -> Position:
    axis1: Any = node.attr("axis1")
    axis2: Any = node.attr("axis2")
    offset: Any = node.attr("offset")
    along, rest = index[-1], iter(index[:-1])
    at = {axis1: along - min(offset, 0), axis2: along + max(offset, 0)}
    return tuple(at[axis] if axis in at else next(rest) for axis in range(node.args[0].ndim))


def _window(node: Node, index: Position) -> Position:
    axes: Any = node.attr("axes")
    rank = node.args[0].ndim
    out = list(index[:rank])
    for k, axis in enumerate(axes):
        out[axis] = out[axis] + index[rank + k]
    return tuple(out)


_RULES: dict[str, Callable[[Node, Position], Position]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_to": _broadcast,
    "slice": _slice,
    "roll": _roll,
    "diagonal": _diagonal,
    "window": _window,
}
