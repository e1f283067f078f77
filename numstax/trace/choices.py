"""What a branch on a traced value decides: pairs of nodes, as `where` or as the states of a `cond` node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numstax import dtypes
from numstax.ir.graph import Node, topological
from numstax.ir.ops import ELEMENTWISE
from numstax.trace.bodies import Bodies
from numstax.trace.scopes import serial

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


class Choice:
    """Collects what a branch decides: pairs of nodes; small ones become `where`, others states of one `cond`."""

    def __init__(self, rec: Recorder, predicate: Node, first: int) -> None:
        self._rec, self._predicate, self._first = rec, predicate, first
        self._pairs: list[tuple[Node, Node, Node | None]] = []
        self._results: list[Node] = []

    def add(self, then: Node, orelse: Node, before: Node | None) -> int:
        """The number of a value that is `then` or `orelse`; `before` : what its memory holds, if it has some."""
        self._pairs.append((then, orelse, before))
        return len(self._pairs) - 1

    def result(self, k: int) -> Node:
        return self._results[k]

    def finish(self) -> None:
        nodes = self._rec.nodes
        if all(not a.shape and self._is_cheap(a) and self._is_cheap(b) for a, b, _ in self._pairs):
            for a, b, _ in self._pairs:
                self._results.append(nodes.elementwise("where", (self._predicate, a, b), a.dtype))
            return
        starts = [nodes.empty(a.shape, a.dtype) if before is None else before for a, _, before in self._pairs]
        states = [nodes.make("placeholder", (), n.shape, n.dtype, key=serial()) for n in starts]
        bodies = Bodies(nodes, self._first, states, lazy=True)
        swap = {
            start: state
            for start, state, (_, _, before) in zip(starts, states, self._pairs, strict=True)
            if before is not None
        }
        writes = []
        for side in (0, 1):
            ends = [self._with_states(then if side == 0 else orelse, swap) for then, orelse, _ in self._pairs]
            writes.append([(k, n) for k, n in enumerate(ends) if n is not states[k]])
            bodies.capture([n for _, n in writes[-1]])
        graphs = [bodies.graph(w) for w in writes]
        node = nodes.make(
            "cond", (self._predicate, *starts, *bodies.captured), (), dtypes.BOOL,
            then=graphs[0], orelse=graphs[1], states=len(starts),
        )  # fmt: skip
        self._results = [nodes.make("result", (node,), n.shape, n.dtype, k=k) for k, n in enumerate(starts)]

    def _is_cheap(self, node: Node) -> bool:
        """May both sides be computed?  Yes for a few numbers that cannot fail."""
        pending, seen = [node], set[Node]()
        while pending:
            part = pending.pop()
            if part in seen or self._rec.nodes.number(part) < self._first:
                continue
            seen.add(part)
            plain = part.op in ELEMENTWISE or part.op in (
                "constant",
                "size",
                "cast",
                "reshape",
                "slice",
                "broadcast_to",
            )
            if not plain or len(seen) > 24 or (part.op in ELEMENTWISE and part.shape):
                return False
            pending += part.args
        return True

    def _with_states(self, node: Node, swap: dict[Node, Node]) -> Node:
        """The node as a function of the states: memory that is updated is read as it is there."""
        made: dict[Node, Node] = {}
        for part in topological([node]):
            if part in swap:
                made[part] = swap[part]
            elif any(made[a] is not a for a in part.args):
                args = tuple(made[a] for a in part.args)
                made[part] = self._rec.nodes.remake(part, args)
            else:
                made[part] = part
        return made[node]
