"""Update chains: concatenation, padding, rolling and assignment to parts, one kernel for each part written.

Enters: a stored update node.  Leaves: its place and the units that fill it, in `Sites`.  The parts of a chain
``update(update(base, a), b)`` that nobody else reads are written straight to the result.  The base is

* taken over in place when all others have read it: only the parts are written;
* or written where the lowest part will not overwrite it;
* or nothing at all, when it is `empty`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numstax.ir.graph import Node
from numstax.ir.index import ONE, ZERO, Index, as_index, bounds, product
from numstax.ir.loops import Unit
from numstax.records import record
from numstax.schedule.overwrite import Overwriter
from numstax.schedule.sites import Sites
from numstax.schedule.storage import elements
from numstax.schedule.values import Place

SMALL = 1 << 14
"""Elements up to which one kernel that selects is better than several that copy."""
PARTS = 4
"""Parts that one such kernel selects from at most."""


@record
class Part:
    """``place[start + k*step] = value[k]``."""

    value: Node
    starts: tuple[Index, ...]
    steps: tuple[Index, ...]

    def within(self, place: Place) -> Place:
        offset, strides = place.offset, []
        for stride, start, step in zip(place.strides, self.starts, self.steps, strict=True):
            offset = offset + start * stride
            strides.append(stride * step)
        return Place(place.buffer, tuple(strides), offset)


def write_update(root: Node, sites: Sites, over: Overwriter, output: str | None) -> None:
    base, parts = _chain(root, sites)
    if over.may_overwrite(base, root):
        units = _overwrite(root, base, parts, sites)
        if units is not None:
            over.claim(root, base)
            sites.units[root], sites.places[root] = units, sites.places[base]
            if output is not None:
                sites.publish(sites.places[base].buffer)
            return
    argument = over.argument_for(root)
    if argument is not None:
        place = Place(argument, sites.buffers[argument].strides)
        units = _copy(root, base, parts, place, sites)
        if not any(argument in unit.reads() for unit in units):
            over.claim(root, argument)
            sites.units[root], sites.places[root] = units, place
            return
    place = sites.new(root, output)
    sites.units[root] = _copy(root, base, parts, place, sites)
    sites.places[root] = place


def _chain(root: Node, sites: Sites) -> tuple[Node, list[Part]]:
    """The base and the parts, in the order of writing."""
    parts: list[Part] = []
    node = root
    while node.op == "update" and node not in sites.places:
        starts: Any = node.attr("starts")
        steps: Any = node.attr("steps")
        if product(node.args[1].shape) is not ZERO:
            parts.append(Part(node.args[1], tuple(map(as_index, starts)), tuple(map(as_index, steps))))
        node = node.args[0]
    return node, parts[::-1]


def _overwrite(root: Node, base: Node, parts: list[Part], sites: Sites) -> list[Unit] | None:
    """The parts written over the base.  Values that read other elements of it are computed first, unless a new
    array costs less than that."""
    place = sites.places[base]
    first: list[Unit] = []
    then: list[Unit] = []
    written: set[Index] = set()
    detour = 0
    for part in parts:
        unit = sites.assign(part.value, part.within(place))
        (loop,) = unit.loops
        old = [offset for name, offset in loop.loads() if name == place.buffer]
        written_before, written = written, written | {e.offset for e in loop.effects}
        in_order = all(sites.apart(offset, written_before, place.buffer) for offset in old)
        if not (in_order and sites.reads_only_own(unit, place.buffer)):
            value = sites.new(part.value)
            first.append(sites.assign(part.value, value))
            saved = Node("input", (), (), part.value.shape, part.value.dtype, part.value.origin)
            sites.places[saved] = value
            unit = sites.assign(saved, part.within(place))
            detour += elements(part.value)
        then.append(unit)
    if sites.buffers[place.buffer].kind == "temp" and 2 * detour > elements(root) - elements(parts[0].value):
        return None
    sites.detours[place.buffer] += detour
    return first + then


def _copy(root: Node, base: Node, parts: list[Part], place: Place, sites: Sites) -> list[Unit]:
    """Base and parts written to a new place."""
    if base.op == "empty":
        return [sites.assign(part.value, part.within(place)) for part in parts]
    most = bounds(product(root.shape))[1]
    if parts and len(parts) <= PARTS and most is not None and most <= SMALL:
        return [sites.assign(root, place)]
    units: list[Unit] = []
    for starts, shape in _rest(base, parts):
        box = Part(base, starts, (ONE,) * len(shape)).within(place)
        units.append(sites.assign(base, box, shape, starts))
    return units + [sites.assign(part.value, part.within(place)) for part in parts]


Box = tuple[tuple[Index, ...], tuple[Index, ...]]
"""starts and sizes."""


def _rest(base: Node, parts: list[Part]) -> Iterator[Box]:
    """Boxes that cover what the lowest part leaves of the base: all of it when that part is small or has holes,
    else the margins below and above it along each axis."""
    shape = base.shape
    starts = [ZERO] * base.ndim
    sizes = list(shape)
    low = parts[0] if parts else None
    if (
        low is None
        or 4 * elements(low.value) < elements(base)
        or any(k is not ONE and n is not ONE for k, n in zip(low.steps, low.value.shape, strict=True))
    ):
        yield tuple(starts), shape
        return
    for axis, (start, size) in enumerate(zip(low.starts, low.value.shape, strict=True)):
        for begin, length in ((ZERO, start), (start + size, shape[axis] - start - size)):
            if length is not ZERO:
                yield (*starts[:axis], begin, *starts[axis + 1 :]), (*sizes[:axis], length, *sizes[axis + 1 :])
        starts[axis], sizes[axis] = start, size
