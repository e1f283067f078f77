"""From what a scope recorded to the body Graph of a control node.

The placeholders of the states, the nodes that the body ends with, and the number of the first node made in the scope
enter; a Graph whose inputs are the states and the captured values, and the captured nodes, leave.  What does not
depend on the states or the counter stays outside, unless it is cheap to make again (constants, positions, views) or
might fail where the body would not have run (index checks, requirements, library calls).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from numstax.ir.graph import CONTROL, Builder, Graph, InputSpec, Node, Output, topological
from numstax.ir.index import Index, Symbol, atoms, contiguous_strides
from numstax.ir.ops import VIEWS
from numstax.ir.show import index_leaves

if TYPE_CHECKING:
    from numstax.trace.nodes import Nodes

REMADE = ("constant", "size", "iota", "empty", *VIEWS)
"""Made again inside a body rather than handed to it."""
Sizes = tuple[tuple[Node, ...], tuple[tuple[str, Index, Index, str], ...]]
_MAY_FAIL = ("gather", "scatter", "extern", "result", *CONTROL)


class Bodies:
    """The bodies of one control node; they have the same inputs.  `var` : the counter.  `lazy` : nothing made in the
    scope may run unless the body does.  `runs` : it certainly does."""

    def __init__(
        self, nodes: Nodes, first: int, states: Sequence[Node], var: str = "", lazy: bool = False, runs: bool = False
    ) -> None:
        self._nodes, self._first, self._states, self._runs = nodes, first, list(states), runs
        self._var, self._lazy = var, lazy
        self.captured: list[Node] = []
        self._inside: dict[Node, bool] = dict.fromkeys(states, True)

    def _is_inside(self, node: Node) -> bool:
        """Does the node belong to the body?"""
        for part in topological([node]):
            if part not in self._inside:
                self._inside[part] = self._belongs(part)
        return self._inside[node]

    def _belongs(self, node: Node) -> bool:
        if self._nodes.number(node) < self._first or node.op == "placeholder":
            return False
        if self._lazy or node.op in _MAY_FAIL or (node.op == "require" and not self._runs):
            return True
        if any(self._inside[a] for a in node.args):
            return True
        return bool(self._var) and self._var in _symbols(node)

    def capture(self, roots: Sequence[Node]) -> None:
        """Find what these nodes need from outside."""
        known = set(self.captured)
        for node in self._reached(roots):
            if not self._is_inside(node) and node.op not in REMADE and node not in known:
                known.add(node)
                self.captured.append(node)

    def _reached(self, roots: Sequence[Node]) -> list[Node]:
        """The nodes that are made inside, and those handed in, arguments first."""
        order: dict[Node, None] = {}
        pending = [(root, False) for root in reversed(roots)]
        while pending:
            node, done = pending.pop()
            if done:
                order[node] = None
            elif node not in order:
                pending.append((node, True))
                if self._is_inside(node) or node.op in REMADE:
                    pending += [(a, False) for a in reversed(node.args)]
        return list(order)

    def graph(self, writes: Sequence[tuple[int, Node]], outputs: Sequence[Node] = (), sizes: Sizes = ((), ())) -> Graph:
        """The Graph of one body, once everything is captured; `sizes` : its binders and asserts."""
        binders, asserts = sizes
        builder = Builder()
        made: dict[Node, Node] = {}
        given = [*self._states, *self.captured]
        for k, node in enumerate(given):
            made[node] = builder.node("input", (), node.shape, node.dtype, None, position=k)
        for node in self._reached([*binders, *(node for _, node in writes), *outputs]):
            if node not in made:
                args = tuple(made[a] for a in node.args)
                made[node] = builder.node(node.op, args, node.shape, node.dtype, node.origin, **dict(node.attrs))
        inputs = tuple(
            InputSpec(
                "array", n.dtype, n.shape, contiguous_strides(n.shape), f"state{k}" if k < len(self._states) else ""
            )
            for k, n in enumerate(given)
        )
        found = tuple(Output(made[n], scalar=True) for n in outputs)
        return Graph(
            inputs, found, tuple((k, made[n]) for k, n in writes), asserts, binders=tuple(made[n] for n in binders)
        )


def _symbols(node: Node) -> set[str]:
    """The names of the symbols in what the node says itself."""
    sizes = (*node.shape, *index_leaves(tuple(value for _, value in node.attrs)))
    return {a.name for n in sizes for a in atoms(n) if isinstance(a, Symbol)}


def is_before(node: Node, nodes: Nodes, first: int, counters: Set[str]) -> bool:
    """Can the node be computed before what makes the nodes from the `first` on, which are in bodies with these
    `counters`?"""
    return not any(
        part.op == "placeholder"
        or (nodes.number(part) >= first and (part.op in _MAY_FAIL or not counters.isdisjoint(_symbols(part))))
        for part in topological([node])
    )


def escaped(roots: Sequence[Node]) -> Node | None:
    """A node that stands for a state outside its body, if there is one."""
    return next((n for n in topological(list(roots)) if n.op == "placeholder"), None)
