"""Graphs after a trace: what was found out about sizes is put into every node.

While a trace runs, nodes are made with what is known then; a size may turn out to be a number, or the same as
another, only later.  A Graph and its ShapeEnvironment enter; a Graph in which equal sizes are the same Index leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numstax.ir.graph import Builder, Graph, Node, Output
from numstax.ir.index import Index
from numstax.ir.values import map_tree
from numstax.trace.environment import ShapeEnvironment


def resolved(graph: Graph, shapes: ShapeEnvironment) -> Graph:
    return map_sizes(graph, shapes.resolve, shapes.renamed) if shapes.values else graph


def map_sizes(graph: Graph, change: Callable[[Index], Index], checked: Callable[[Index], Index] | None = None) -> Graph:
    """The graph with every size changed, in bodies of control flow too; broadcasts and reshapes that change nothing any
    more are left out.  `checked` : what changes sizes in asserts instead."""

    def leaf(item: object) -> object:
        if isinstance(item, Index):
            return change(item)
        return map_sizes(item, change, checked) if isinstance(item, Graph) else item

    def tree(value: Any) -> Any:
        return map_tree(value, leaf)

    builder, made = Builder(), dict[Node, Node]()
    for node in graph.named():
        args = tuple(made[a] for a in node.args)
        shape = tree(node.shape)
        if node.op in ("broadcast_to", "reshape") and shape == args[0].shape:
            made[node] = args[0]
        else:
            attrs = {key: tree(value) for key, value in node.attrs}
            made[node] = builder.node(node.op, args, shape, node.dtype, node.origin, **attrs)

    def stated(item: object) -> object:
        return (checked or change)(item) if isinstance(item, Index) else item

    def output(out: Output) -> Output:
        return replace(out, node=made[out.node], views=tree(out.views))

    return Graph(
        tuple(replace(spec, shape=tree(spec.shape), strides=tree(spec.strides)) for spec in graph.inputs),
        tuple(map(output, graph.outputs)),
        tuple((position, made[node]) for position, node in graph.writes),
        tuple(row for row in map_tree(graph.asserts, stated) if row[1] is not row[2]),
        graph.sizes,
        tuple(made[node] for node in graph.binders),
    )
