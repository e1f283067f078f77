"""Positions that are data, checked apart from where they are used; what may fail.

A scatter that may write to an argument takes its positions from 'positions' nodes, args (index,), attr size: the index
from 0, found to be in bounds.  Those are stored, and all of them come before anything the caller can see changes, so
that the scatter itself cannot fail and needs no copy.  So does whatever may have no elements though its positions do:
its own loop would check none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from numstax import dtypes
from numstax.ir.graph import Node, can_fail, control_args, is_state, topological
from numstax.ir.index import ZERO, Index, bounds, product, same


def checked(roots: list[Node], written: Sequence[Node]) -> dict[Node, Node]:
    """What each node becomes, `written` being the contents of arguments that the caller sees afterwards."""
    order = topological(roots)
    wanted = {place for node in written for place in _scattered(node)}
    wanted |= {(node.args[k], size) for node in order for k, size in _positions(node) if outlives(node.args[k], node)}
    made: dict[Node, Node] = {}
    known: dict[tuple[Node, Index], Node] = {}
    for node in order:
        args = [made[a] for a in node.args]
        for k, size in _positions(node):
            if (node.args[k], size) in wanted:
                if (args[k], size) not in known:
                    origin, attrs = node.origin, (("size", size),)
                    known[args[k], size] = Node("positions", (args[k],), attrs, args[k].shape, dtypes.INT64, origin)
                args[k] = known[args[k], size]
        made[node] = replace(node, args=tuple(args)) if args != list(node.args) else node
    return made


def _positions(node: Node) -> Iterator[tuple[int, Index]]:
    """The arguments of a node that are positions, by number, and the size of the axis of each."""
    first = {"gather": 1, "scatter": 2}.get(node.op)
    if first is not None:
        for k, axis in enumerate(node.attr("axes"), first):
            yield k, node.args[0].shape[axis]


def _scattered(node: Node) -> Iterator[tuple[Node, Index]]:
    """Where the scatters write that make an argument from its old contents."""
    at: Node | None = node
    while at is not None:
        if at.op == "scatter":
            yield from ((at.args[k], size) for k, size in _positions(at))
        at = based_on(at)


def based_on(node: Node) -> Node | None:
    """What `node` is a changed version of."""
    if node.op in ("update", "scatter"):
        return node.args[0]
    return control_args(node.args[0])[1][node.attr("k")] if is_state(node) else None


def outlives(arg: Node, node: Node) -> bool:
    """May `arg`, an operand of `node`, have elements where there are none to compute `node` at?"""
    shape = node.args[1].shape if node.op == "scatter" and product(node.shape) is not ZERO else node.shape
    empty = [n for n in shape if (bounds(n)[0] or 0) < 1]
    if not empty or product(arg.shape) is ZERO or all(n in arg.shape for n in empty):
        return False
    return same(product(shape), product(arg.shape)) is not True


def fails(node: Node) -> bool:
    """May `node` itself find an index out of bounds, or a library function complain?"""
    if node.op in ("gather", "scatter"):
        return any(node.args[k].op != "positions" for k, _ in _positions(node))
    return node.op == "positions" or can_fail([node])


def failing(order: Iterable[Node], stored: Iterable[Node]) -> set[Node]:
    """The nodes that may fail while they are computed from stored ones."""
    known, out = set(stored), set[Node]()
    for node in order:
        if fails(node) or any(a in out and a not in known for a in node.args):
            out.add(node)
    return out
