"""Control flow without the states, captured values and copies that nobody needs.

A control node with the arguments and bodies it is to have enters, and the states that are used after it; what these
hold leaves.  A state lives while it is used, or the test or a living state depends on it; one that no body writes is
a captured value.  What one branch of a 'cond' only hands on is in the state before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from numstax.ir.graph import Builder, Graph, Node, topological


def pruned(
    builder: Builder, node: Node, args: Sequence[Node], bodies: Mapping[str, Graph], used: Iterable[int]
) -> dict[int, Node]:
    """`bodies` : by the name of their attribute; `used` : numbers of states."""
    first, states = 0 if node.op == "while" else 1, node.attr("states")
    given = args[first:]
    written = {k for body in bodies.values() for k, _ in body.writes}
    live, read = _live(bodies.values(), written.intersection(used))
    results = {k: given[k] for k in used}
    if not live:
        return results
    kept = [given[k] for k in live]
    places = {k: place for place, k in enumerate(live)}
    captured: dict[Node, int] = {}
    for k in sorted(read.difference(live)):
        places[k] = captured.setdefault(given[k], len(kept) + len(captured))
    if [*live, *sorted(captured.values())] != list(range(len(given))) or len(live) != states:
        bodies = {name: _renumbered(body, places, len(live)) for name, body in bodies.items()}
    attrs = {**dict(node.attrs), **bodies, "states": len(live)}
    made = builder.node(node.op, (*args[:first], *kept, *captured), node.shape, node.dtype, node.origin, **attrs)
    for place, k in enumerate(live):
        if k in results:
            results[k] = builder.node("result", (made,), given[k].shape, given[k].dtype, node.origin, k=place)
    return results


def handed_on(
    args: Sequence[Node], bodies: dict[str, Graph], states: int, dying: Iterable[int]
) -> tuple[tuple[Node, ...], dict[str, Graph]]:
    """Arguments and branches of a 'cond' in which states start as what one branch would copy to them.

    `dying` : numbers of captured values that nobody needs afterwards.
    """
    head, *given = args
    left = set(dying)
    for k in range(states):
        if given[k].op == "empty":
            for name, body in bodies.items():
                value = dict(body.writes).get(k)
                c = value.attr("position") if value is not None and value.op == "input" else -1
                if c >= states and c in left:
                    left.remove(c)
                    given[k] = given[c]
                    kept = replace(body, writes=tuple(write for write in body.writes if write[0] != k))
                    bodies = {n: _reading(kept if n == name else b, {c: k}) for n, b in bodies.items()}
                    break
    return (head, *given), bodies


def _live(bodies: Iterable[Graph], used: set[int]) -> tuple[list[int], set[int]]:
    """The states that live, and the arguments that are read for them."""
    written = {k for body in bodies for k, _ in body.writes}
    live = used
    while True:
        read: set[int] = set()
        for body in bodies:
            roots = [*body.binders, *(out.node for out in body.outputs), *(n for k, n in body.writes if k in live)]
            read |= {n.attr("position") for n in topological(roots) if n.op == "input"}
        more = live | (read & written)
        if more == live:
            return sorted(live), read
        live = more


def _renumbered(body: Graph, places: Mapping[int, int], states: int) -> Graph:
    """The body with its arguments in other places; what it writes elsewhere than to the states is left out."""
    writes = tuple((places[k], n) for k, n in body.writes if places.get(k, states) < states)
    specs = {place: body.inputs[k] for k, place in places.items()}
    inputs = tuple(specs[place] for place in range(len(specs)))
    return replace(_reading(replace(body, writes=writes), places), inputs=inputs)


def _reading(body: Graph, places: Mapping[int, int]) -> Graph:
    """The body, reading other arguments."""
    builder, made = Builder(), dict[Node, Node]()
    roots = [*body.binders, *(out.node for out in body.outputs), *(n for _, n in body.writes)]
    for node in topological(roots):
        attrs = dict(node.attrs)
        if node.op == "input":
            attrs = {"position": places.get(node.attr("position"), node.attr("position"))}
        made[node] = builder.node(
            node.op, tuple(made[a] for a in node.args), node.shape, node.dtype, node.origin, **attrs
        )
    return replace(
        body,
        outputs=tuple(replace(out, node=made[out.node]) for out in body.outputs),
        writes=tuple((k, made[n]) for k, n in body.writes),
        binders=tuple(made[n] for n in body.binders),
    )
