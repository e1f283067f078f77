"""What a branch on a traced value decides: pairs of nodes, as `where` or as the states of a `cond` node.

A variable that is one of two arrays afterwards stands for a value: where others see one of them, it cannot be written,
nor read when they have been.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numstax import dtypes
from numstax.ir.graph import Node, topological
from numstax.ir.ops import ELEMENTWISE
from numstax.records import record
from numstax.trace.array import Storage, TracedArray
from numstax.trace.bodies import REMADE, Bodies, Sizes
from numstax.trace.python_numbers import joined as joined_value
from numstax.trace.scopes import (
    CannotCaptureError,
    Kind,
    Scope,
    be_copy,
    is_mixed,
    is_number,
    is_seen,
    joined,
    kind_of,
    lifted,
    named,
    refuse,
    serial,
    unlike,
    value_of,
)
from numstax.trace.trees import leaves, rebuilt
from numstax.trace.unassigned import Unassigned, one_sided

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


_PLAIN = (int, bool, str, float, type(None))
_CHEAP = 48
"""Operations on numbers that cost no more than deciding whether to do them."""


@record
class _Side:
    """The end of a branch: the variables, the nodes of their leaves, what written arrays from before hold, the sizes
    that it found, and its scope."""

    after: tuple
    nodes: list[list[Node | None]]
    stored: dict[int, tuple[Storage, Node]]
    sizes: Sizes
    serial: int


class Choice:
    """Collects what a branch decides: pairs of nodes; small ones become `where`, others states of one `cond`.

    Call `side` at the end of each branch, then `merge` for each variable, then `finish`.
    """

    def __init__(self, rec: Recorder, predicate: Node, first: int, names: tuple[str, ...]) -> None:
        self._rec, self._predicate, self._first, self._names = rec, predicate, first, names
        self._sides: list[_Side] = []
        self._pairs: list[tuple[Node, Node, Node | None]] = []
        self._results: list[Node] = []
        self._made: dict[tuple[int, int], Storage] = {}
        """The memory of arrays that were made in the branches, by that of both."""

    def side(self, scope: Scope, after: tuple) -> None:
        """The end of a branch: `after` are the variables."""
        nodes = [[lifted(self._rec, leaf).node if is_number(leaf) else None for leaf in leaves(v)] for v in after]
        stored = {key: (storage, storage.node) for key, (storage, _) in scope.written.items()}
        if scope.changed_container() is not None:
            raise refuse("a list, dict or object is changed in a branch on a traced value")
        self._sides.append(_Side(after, nodes, stored, scope.found(), scope.serial))

    def merge(self, v: int) -> Callable[[], Any]:
        """What the variable of this number holds after both branches: made when the node is."""
        name = self._names[v]
        (a, b), (one, two) = ([s.after[v] for s in self._sides], [s.nodes[v] for s in self._sides])
        if a is b or _same(a, b):
            return lambda: a
        if isinstance(a, Unassigned) or isinstance(b, Unassigned):
            known, found = (b, two) if isinstance(a, Unassigned) else (a, one)
            if isinstance(known, Unassigned) or not name.endswith("_") or None in found:
                return lambda: one_sided(name)
            a = b = known
            one = two = found
        if type(a) is not type(b) and not (is_number(a) and is_number(b)):
            raise self._differ(name, a, b)
        pairs = list(zip(leaves(a), leaves(b), one, two, strict=False))
        if len(one) != len(two):
            what = f"{named(name)} has {len(one)} parts after one branch and {len(two)} after the other"
            raise refuse(what, "give it the same structure in both")
        parts = [self._leaf(x, y, m, n, name) for x, y, m, n in pairs]
        return lambda: rebuilt(a, iter([part() for part in parts]))

    def _differ(self, name: str, a: Any, b: Any) -> CannotCaptureError:
        return refuse(*unlike(name, a, b, "after one branch", "after the other"))

    def _leaf(self, a: Any, b: Any, then: Node | None, orelse: Node | None, name: str) -> Callable[[], Any]:
        if a is b and not is_number(a):
            return lambda: a
        if then is None or orelse is None:
            raise self._differ(name, a, b)
        x, y = lifted(self._rec, a), lifted(self._rec, b)
        kind = joined(kind_of(x), kind_of(y))
        if kind is None:
            raise self._differ(name, x, y)
        then, orelse = (joined_value(self._rec, node, kind.dtype) for node in (then, orelse))
        k = self._add(then, orelse, None)
        mixed = is_mixed(kind_of(x), kind_of(y)) or not self._rec.mixed.isdisjoint((x.node, y.node))

        def value() -> TracedArray:
            self._rec.mixed.update([self._results[k]] * mixed)
            return self._value(k, kind, [v for v in (x, y) if not v.is_scalar], name)

        return value

    def _value(self, k: int, kind: Kind, ends: list[TracedArray], name: str) -> TracedArray:
        """The handle of a result that is one of two arrays."""
        made = value_of(self._rec, self._results[k], kind)
        start = self._sides[0].serial
        outside = [v.storage for v in ends if v.storage.born < start and self._is_shared(v.storage, name)]
        inside = [v.storage for v in ends if v.storage.born >= start]
        sources = {id(s): s for s in (*outside, *(source for s in inside for source, _ in s.copies))}
        if sources:
            be_copy(made.storage, sources.values(), name)
        elif len(ends) == 2 and not any(v.views for v in ends):
            made.storage = self._made.setdefault((id(ends[0].storage), id(ends[1].storage)), made.storage)
        elif ends:
            made.storage.fixed = f"{named(name)}, a view that a branch made,"
        return made

    def _is_shared(self, storage: Storage, name: str) -> bool:
        """Do others than the variable lead to this memory?"""
        others = (v for side in self._sides for n, v in zip(self._names, side.after, strict=True) if n != name)
        held = any(type(leaf) is TracedArray and leaf.storage is storage for v in others for leaf in leaves(v))
        return held or storage.position is not None or is_seen(storage, (name,))

    def _add(self, then: Node, orelse: Node, before: Node | None) -> int:
        """The number of a value that is `then` or `orelse`; `before` : what its memory holds, if it has some."""
        self._pairs.append((then, orelse, before))
        return len(self._pairs) - 1

    def finish(self) -> None:
        rec = self._rec
        then, orelse = (side.stored for side in self._sides)
        written = []
        for key, (storage, _) in {**then, **orelse}.items():
            a, b = (side[key][1] if key in side else storage.node for side in (then, orelse))
            if a is not b or a is not storage.node:
                written.append((storage, self._add(a, b, storage.node)))
        self._results = self._where() if self._is_small() else self._cond()
        for storage, k in written:
            rec.write(storage, self._results[k])

    def _is_small(self) -> bool:
        sized = any(binders or asserts for binders, asserts in (side.sizes for side in self._sides))
        return not sized and all(not a.shape and self._is_cheap(a) and self._is_cheap(b) for a, b, _ in self._pairs)

    def _where(self) -> list[Node]:
        found = [self._chosen(a, b) for a, b, _ in self._pairs]
        self._rec.nodes.forget(self._first, found)
        return found

    def _on_condition(self, node: Node, wanted: Node) -> Node:
        """The node with what it requires required only where `wanted`."""
        nodes = self._rec.nodes
        if nodes.number(node) < self._first:
            return node
        args = tuple(self._on_condition(a, wanted) for a in node.args)
        if node.op == "require":
            unwanted = nodes.elementwise("logical_not", (wanted,), dtypes.BOOL)
            args = (args[0], nodes.elementwise("logical_or", (args[1], unwanted), dtypes.BOOL))
        return node if args == node.args else nodes.remake(node, args)

    def _chosen(self, a: Node, b: Node) -> Node:
        """`a` where the predicate holds, else `b`; both are 0-d."""
        p, nodes = self._predicate, self._rec.nodes
        a = self._on_condition(a, p)
        b = self._on_condition(b, nodes.elementwise("logical_not", (p,), dtypes.BOOL))
        if a is b:
            return a
        if a.dtype == dtypes.BOOL and (b is p or _is(a, True)):
            # p and a; p or b
            if b is p:
                return p if _is(a, True) else nodes.elementwise("logical_and", (p, a), dtypes.BOOL)
            return nodes.elementwise("logical_or", (p, b), dtypes.BOOL)
        if a is p:
            return p if _is(b, False) else nodes.elementwise("logical_or", (p, b), dtypes.BOOL)
        return nodes.elementwise("where", (p, a, b), a.dtype)

    def _cond(self) -> list[Node]:
        nodes = self._rec.nodes
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
            ends = [self._with_states(orelse if side else then, swap) for then, orelse, _ in self._pairs]
            writes.append([(k, n) for k, n in enumerate(ends) if n is not states[k]])
            bodies.capture([*self._sides[side].sizes[0], *(n for _, n in writes[-1])])
        graphs = [bodies.graph(w, sizes=side.sizes) for w, side in zip(writes, self._sides, strict=True)]
        node = nodes.make(
            "cond", (self._predicate, *starts, *bodies.captured), (), dtypes.BOOL,
            then=graphs[0], orelse=graphs[1], states=len(starts),
        )  # fmt: skip
        nodes.forget(self._first, [node])
        return [nodes.make("result", (node,), n.shape, n.dtype, k=k) for k, n in enumerate(starts)]

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
                "require",
            )
            if not plain or len(seen) > _CHEAP or (part.op in ELEMENTWISE and part.shape):
                return False
            pending += part.args
        return True

    def _with_states(self, node: Node, swap: dict[Node, Node]) -> Node:
        """The node as a function of the states: memory that is updated is read as it is there.  What was computed
        before stays as it is."""
        made: dict[Node, Node] = {}
        for part in topological([node]):
            known = self._rec.nodes.number(part) < self._first and part.op not in REMADE
            if part in swap:
                made[part] = swap[part]
            elif not known and any(made[a] is not a for a in part.args):
                args = tuple(made[a] for a in part.args)
                made[part] = self._rec.nodes.remake(part, args)
            else:
                made[part] = part
        return made[node]


def _is(node: Node, value: bool) -> bool:
    return node.op == "constant" and node.dtype == dtypes.BOOL and bool(node.attr("value").value) is value


def _same(a: Any, b: Any) -> bool:
    """The same value, or the same part of an array."""
    if type(a) is TracedArray and type(b) is TracedArray:
        return a.storage is b.storage and a.views == b.views and not a.is_scalar
    return type(a) is type(b) and type(a) in _PLAIN and a == b and str(a) == str(b)
