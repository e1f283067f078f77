"""Structured control flow: the buffers of its states, and bodies that update them in place.

Enters: a control node.  Leaves: its units and the places of its results, in `Sites`.  The buffer of a state is that
of its initial value when that is dead afterwards, the argument that is to hold the result, or a new one.  A body is
a region that writes its arguments, lowered as any other; what of a loop's states it cannot write in place goes to
another buffer, which takes the state's part in the next iteration (`rotation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from numstax.ir.graph import Graph, Node, control_args, control_bodies
from numstax.ir.index import ZERO, Index, as_index, contiguous_strides, product
from numstax.ir.loops import Buffer, Control, Nested, Unit
from numstax.schedule.overwrite import Overwriter
from numstax.schedule.rotation import Lowered, Rotation, rotation
from numstax.schedule.sites import Sites
from numstax.schedule.values import Place

Lower = Callable[[Graph], Lowered]


def write_control(
    root: Node, results: Mapping[int, Node], names: Mapping[Node, str], sites: Sites, over: Overwriter, lower: Lower
) -> None:
    """`results`: the states that are used afterwards, by number; `names`: those that are outputs."""
    head, states, captured = control_args(root)
    bodies = control_bodies(root)
    turn = Rotation((), bodies) if root.op == "cond" else rotation(bodies, root, lower)
    turning = {k for k, _ in turn.pairs}
    units: list[Unit] = []
    args: list[str] = []
    for k, state in enumerate(states):
        result = results.get(k)
        place = _taken_over(root, state, result, k in turning, sites, over)
        if place is None:
            place = _argument(root, result, k in turning, sites, over)
            place = place or sites.new(state, None if result is None else names.get(result))
            if product(state.shape) is not ZERO and state.op != "empty":
                units.append(sites.assign(state, place))
        elif result in names:
            sites.publish(place.buffer)
        if result is not None:
            sites.places[result] = place
        args.append(place.buffer)
    args += [_whole(node, sites, units) for node in captured]
    for k in turn.spares:
        spare = sites.new(states[k])
        if turn.seeded(k) and product(states[k].shape) is not ZERO:
            units.append(sites.assign(states[k], spare))
        args.append(spare.buffer)
    nested = []
    for graph in turn.bodies:
        strides = [sites.buffers[name].strides for name in args]
        inputs = (replace(i, strides=s) for i, s in zip(graph.inputs, strides, strict=True))
        body = replace(graph, inputs=tuple(inputs))
        nested.append(Nested(body, lower(body).schedule))
    units.append(
        Control(
            root.op,
            tuple(nested),
            tuple(args),
            len(states),
            None if head is None else _head(head, sites, units),
            root.attr("var") if root.op == "for" else "",
            turn.pairs,
            root.origin,
        )
    )
    sites.units[root] = units


def _taken_over(
    root: Node, state: Node, result: Node | None, turns: bool, sites: Sites, over: Overwriter
) -> Place | None:
    """The place of a state's initial value, where it may change there."""
    place = sites.places.get(state)
    if place is None or root.args.count(state) > 1 or (turns and not _is_contiguous(sites.buffers[place.buffer])):
        return None
    if not over.may_overwrite(state, root if result is None else result):
        return None
    over.claim(root, state)
    return place


def _argument(root: Node, result: Node | None, turns: bool, sites: Sites, over: Overwriter) -> Place | None:
    """The argument that is to hold the result, where it may change before."""
    argument = None if result is None else over.argument_for(result)
    if argument is None or over.reads(root, argument):
        return None
    buffer = sites.buffers[argument]
    if turns and not _is_contiguous(buffer):
        return None
    over.claim(root, argument)
    return Place(argument, buffer.strides)


def _is_contiguous(buffer: Buffer) -> bool:
    return buffer.strides == contiguous_strides(buffer.shape)


def _whole(node: Node, sites: Sites, units: list[Unit]) -> str:
    """A buffer that holds a captured value."""
    place = sites.places.get(node)
    if place is not None and sites.buffers[place.buffer].kind != "scalar":
        return place.buffer
    made = sites.new(node)
    if product(node.shape) is not ZERO:
        units.append(sites.assign(node, made))
    return made.buffer


def _head(node: Node, sites: Sites, units: list[Unit]) -> Index | str:
    """The number of trips or the predicate."""
    if node.op == "size":
        return as_index(node.attr("index"))
    if node.op == "constant":
        return as_index(int(node.attr("value").value))
    if node in sites.places:
        return sites.places[node].buffer
    return _whole(node, sites, units)
