"""Buffers of a loop that exchange their parts after each iteration, so that nothing is copied.

Enters: the bodies of a loop.  Leaves: a `Rotation`.  A state that becomes another one (``old, new = new, f(old)``)
takes over its buffer.  A new value that cannot be computed where the old one lies (a stencil) is computed into a
spare buffer, which then is the state.  Where only a region is written, the same in every iteration, both buffers hold
the same outside of it, and only the region is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from numstax.ir.graph import Graph, Node, topological
from numstax.ir.index import atoms
from numstax.ir.loops import Schedule
from numstax.ir.show import index_leaves
from numstax.records import record
from numstax.schedule.storage import elements


@record
class Lowered:
    """detours : for each argument, how many elements reach it through a temporary."""

    schedule: Schedule
    detours: Mapping[str, int]


@record
class Rotation:
    """pairs : `rotate` of `loops.Control`.
    bodies : the Graphs, with one more input for each of the `spares`, the states that have a second buffer.
    """

    pairs: tuple[tuple[int, int], ...]
    bodies: tuple[Graph, ...]
    spares: tuple[int, ...] = ()

    def seeded(self, state: int) -> bool:
        """Must the spare buffer of a state hold the initial value too?"""
        position = len(self.bodies[-1].inputs) - len(self.spares) + self.spares.index(state)
        return any(n.op == "input" and n.attr("position") == position for n in self.bodies[-1].nodes())


def rotation(bodies: tuple[Graph, ...], root: Node, lower: Callable[[Graph], Lowered]) -> Rotation:
    """The best rotation of a for or while loop, perhaps none."""
    body = bodies[-1]
    moves = _moves(body, root.attr("states"))
    target = {p: _end(p, moves) for p, _ in body.writes if p not in moves}
    role = dict(moves) | target
    body = replace(body, writes=tuple((target[p], node) for p, node in body.writes if p in target))
    detours = lower(body).detours
    varying = _varying(body, root)
    spares: list[int] = []
    for p, at in target.items():
        rotates = bool(body.inputs[p].shape) and detours.get(f"x{at}", 0) > _copied(body, p, at, varying)
        if rotates:
            spare = len(body.inputs)
            body = _into_spare(body, p, at, varying)
            role[p], role[spare] = spare, at
            spares.append(p)
    extra = body.inputs[len(body.inputs) - len(spares) :]
    tests = (replace(test, inputs=test.inputs + extra) for test in bodies[:-1])
    pairs = tuple((k, j) for k, j in role.items() if k != j)
    return Rotation(pairs, (*tests, body), tuple(spares))


def _moves(body: Graph, states: int) -> dict[int, int]:
    """The states that become another state, which is written too; each of those once."""
    written = {p for p, _ in body.writes}
    moves: dict[int, int] = {}
    for p, node in body.writes:
        if node.op == "input" and node.shape:
            q = node.attr("position")
            fits = replace(body.inputs[q], name="") == replace(body.inputs[p], name="")
            if q < states and q != p and q in written and fits and q not in moves.values():
                moves[p] = q
    return moves


def _end(p: int, moves: Mapping[int, int]) -> int:
    """Where a computed state goes: its own buffer, or where that one is taken, the one that is left over."""
    taker = {q: p for p, q in moves.items()}
    while p in taker:
        p = taker[p]
    return p


def _varying(body: Graph, root: Node) -> set[str]:
    """The names of the symbols that differ between iterations."""
    externs = (node for node in body.nodes() if node.op == "extern")
    sizes = (str(a) for node in externs for i in index_leaves(node.attr("results")) for a in atoms(i))
    return {*sizes, *((root.attr("var"),) if root.op == "for" else ())}


def _updates(node: Node) -> Iterator[Node]:
    """`node`, if it is an update, and the updates it is based on."""
    while node.op == "update":
        yield node
        node = node.args[0]


def _is_region(node: Node, p: int, varying: set[str]) -> bool:
    """Is `node` state p with the same parts replaced in every iteration?"""
    links = list(_updates(node))
    if not links or links[-1].args[0].op != "input" or links[-1].args[0].attr("position") != p:
        return False
    regions = (index_leaves((link.attr("starts"), link.attr("steps"), link.args[1].shape)) for link in links)
    return not any(str(atom) in varying for region in regions for index in region for atom in atoms(index))


def _copied(body: Graph, p: int, at: int, varying: set[str]) -> int:
    """Elements that must be copied in each iteration where the next state p is written to another buffer than its
    own."""
    node = dict(body.writes)[at]
    links = list(_updates(node))[::-1]
    if not links or links[0].args[0].op != "input":
        return 0
    if _by_region(body, p, at, varying):
        return _refreshes(links, [n for _, n in body.writes])
    return elements(node) - elements(links[0].args[1])


def _by_region(body: Graph, p: int, at: int, varying: set[str]) -> bool:
    """Are only the regions of the next state p written to the spare buffer?  Not where they are most of it, one after
    the other: then nothing would be saved."""
    node = dict(body.writes)[at]
    if p != at or not _is_region(node, p, varying):
        return False
    return 2 * _refreshes(list(_updates(node))[::-1], [n for _, n in body.writes]) <= elements(node)


def _refreshes(links: list[Node], roots: list[Node]) -> int:
    """Elements of regions that are copied from the state to the spare buffer first."""
    return sum(elements(link.args[1]) for link in links[1:]) if _is_read(links, roots) else 0


def _into_spare(body: Graph, p: int, at: int, varying: set[str]) -> Graph:
    """`body` with what it writes to `at`, the next state p, in a new last input."""
    spare, node = len(body.inputs), dict(body.writes)[at]
    roots = [n for _, n in body.writes]
    made: dict[Node, Node] = {}
    if _by_region(body, p, at, varying):
        links = list(_updates(node))[::-1]
        base = Node("input", (), (("position", spare),), node.shape, node.dtype)
        seen = _is_read(links, roots)
        if seen:
            base = _refreshed(base, links)
        for link in links:
            value = _rebuilt([link.args[1]], made)[0]
            base = replace(link, args=(base, value))
            if seen or link is node:
                made[link] = base
    writes = zip((spare if k == at else k for k, _ in body.writes), _rebuilt(roots, made), strict=True)
    return replace(body, inputs=(*body.inputs, replace(body.inputs[p], name="")), writes=tuple(writes))


def _is_read(links: list[Node], roots: list[Node]) -> bool:
    """Does anything but the next update read one of these, other than the last?"""
    following = dict(pairwise(links))
    return any(following.get(a, n) is not n for n in topological(roots) for a in n.args) or any(
        root in following for root in roots
    )


def _refreshed(spare: Node, links: list[Node]) -> Node:
    """The spare buffer with the state's elements in all regions but the first to be written: then it holds, after each
    update, what the state would hold."""
    state = links[0].args[0]
    for link in links[1:]:
        part = Node("slice", (state,), link.attrs, link.args[1].shape, state.dtype, link.origin)
        spare = replace(link, args=(spare, part))
    return spare


def _rebuilt(roots: list[Node], made: dict[Node, Node]) -> list[Node]:
    """The nodes, with others for those in `made`, to which all that is rebuilt is added."""
    for user in topological(roots):
        if user not in made:
            args = tuple(made[a] for a in user.args)
            made[user] = user if args == user.args else replace(user, args=args)
    return [made[root] for root in roots]
