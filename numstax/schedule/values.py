"""Values of nodes at an index, recorded into a loop body.

Enters: a node, the index of one of its elements, and an optional mask (an SSA entry; where it is false
nothing may be touched).  Leaves: the SSA entry of that element.  Stored nodes are loaded; views change the
index; everything else is computed in place.  A value asked for twice at one index is recorded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numstax import dtypes
from numstax.errors import Origin
from numstax.ir.graph import Literal, Node
from numstax.ir.index import ONE, ZERO, Index, Ref, as_index, less
from numstax.ir.ops import ELEMENTWISE, VIEWS
from numstax.records import record
from numstax.schedule.record import Recorder
from numstax.schedule.views import Position, through


@record
class Place:
    """Where a stored node lies: buffer, strides and offset in elements."""

    buffer: str
    strides: tuple[Index, ...]
    offset: Index = ZERO

    def at(self, index: Position) -> Index:
        return sum((i * s for i, s in zip(index, self.strides, strict=True)), self.offset)


Request = tuple[Node, Position, int | None]


class Values:
    """Records the values of nodes into one body."""

    def __init__(self, recorder: Recorder, places: Mapping[Node, Place]) -> None:
        self._recorder, self._places = recorder, places
        self._known: dict[Request, int] = {}

    def value(self, node: Node, index: Position, mask: int | None = None) -> int:
        """The SSA entry holding the element of `node` at `index`.

        A stack of our own: chains of thousands of operations are no recursion limit.
        """
        known = self._known
        stack: list[Request] = [(node, index, mask)]
        while stack:
            request = stack[-1]
            if request in known:
                stack.pop()
                continue
            wanted = [r for r in self._operands(request) if r not in known]
            if wanted:
                stack.extend(reversed(wanted))
            else:
                known[request] = self._record(request)
                stack.pop()
        return known[node, index, mask]

    def _operands(self, request: Request) -> list[Request]:
        """What has to be known before `request` can be recorded; asked again when all of it is."""
        node, index, mask = request
        if node in self._places:
            return []
        if node.op in VIEWS:
            return [(node.args[0], through(node, index), mask)]
        if node.op == "gather":
            return self._gather_operands(request)
        if node.op == "update":
            return self._update_operands(request)
        return [(a, index, mask) for a in node.args]

    def _record(self, request: Request) -> int:
        node, index, mask = request
        recorder, origin = self._recorder, node.origin
        place = self._places.get(node)
        if place is not None:
            return recorder.load(place.buffer, place.at(index), node.dtype, mask, origin)
        operands = [self._known[r] for r in self._operands(request)]
        if node.op in VIEWS or node.op == "gather":
            return operands[-1]
        if node.op == "update":
            return self._select(request, operands)
        if node.op == "positions":
            (entry,) = operands
            return recorder.wrap(recorder.cast(entry, dtypes.INT64, origin), node.attr("size"), mask, origin)
        if node.op in ELEMENTWISE or node.op in ("cast", "bitcast"):
            return recorder.op(node.op, tuple(operands), node.dtype, origin)
        if node.op == "require":
            return recorder.require(tuple(operands), mask, node)
        return _LEAVES[node.op](recorder, node, index)

    # --- gather: the axis positions are values of the same body ---------------------------------------

    def _gather_operands(self, request: Request) -> list[Request]:
        """The index arrays at this element; once they are known, the element they pick."""
        node, index, mask = request
        x, *arrays = node.args
        rank = arrays[0].ndim
        requests: list[Request] = [(a, index[:rank], mask) for a in arrays]
        if not all(r in self._known for r in requests):
            return requests
        axes: Any = node.attr("axes")
        asked = mask
        position: list[Index | None] = [None] * x.ndim
        for axis, r in zip(axes, requests, strict=True):
            position[axis] = self.position(r[0], self._known[r], x.shape[axis], asked, node.origin)
            if less(ZERO, x.shape[axis]) is not True:
                mask = self._compare("less", ZERO, x.shape[axis], mask)  # there is no element to read instead
        rest = iter(index[rank:])
        return [*requests, (x, tuple(next(rest) if p is None else p for p in position), mask)]

    def position(self, node: Node, entry: int, extent: Index, mask: int | None, origin: Origin | None) -> Index:
        """A user's index, which `node` is and `entry` holds, as a position on an axis."""
        if node.op == "positions":
            return as_index(Ref(entry, extent))
        number = self._recorder.number(entry)
        if number is not None:
            if less(number, ZERO) is True:
                number = number + extent
            if less(number, ZERO) is False and less(number, extent) is True:
                return number
        entry = self._recorder.cast(entry, dtypes.INT64, origin)
        known = self._recorder.affine(entry)
        if known is not None and less(as_index(-1), known) and less(known, extent):
            return known
        return as_index(Ref(self._recorder.wrap(entry, extent, mask, origin), extent))

    # --- update: a select between the new value and the base -----------------------------------------

    def _update_operands(self, request: Request) -> list[Request]:
        node, index, mask = request
        base, value = node.args
        inside, inner = self._region(node, index)
        if inside is False:
            return [(base, index, mask)]
        if inside is True:
            return [(value, inner, mask)]
        new: Request = (value, inner, self._recorder.both(mask, inside))
        return [new] if base.op == "empty" else [new, (base, index, mask)]

    def _select(self, request: Request, operands: list[int]) -> int:
        if len(operands) == 1:
            return operands[0]
        node, index, _ = request
        inside, _ = self._region(node, index)
        return self._recorder.op("where", (int(inside), *operands), node.dtype, node.origin)

    def _region(self, node: Node, index: Position) -> tuple[bool | int, Position]:
        """Is `index` in the region that an update writes (True, False, or an SSA entry), and where in it."""
        starts: Any = node.attr("starts")
        steps: Any = node.attr("steps")
        mask: int | None = None
        inner: list[Index] = []
        for i, start, step, size in zip(index, starts, steps, node.args[1].shape, strict=True):
            start, step = as_index(start), as_index(step)
            if less(step, ZERO):
                start, step, mirrored = start + (size - 1) * step, -step, True
            else:
                mirrored = False
            ahead = i - start
            at = ahead // step
            inner.append(size - 1 - at if mirrored else at)
            for low, high in ((as_index(-1), ahead), (at, size)):
                holds = less(low, high)
                if holds is False:
                    return False, ()
                if holds is None:
                    mask = self._compare("less", low, high, mask)
            if step is not ONE and ahead % step is not ZERO:
                mask = self._compare("equal", ahead % step, ZERO, mask)
        return True if mask is None else mask, tuple(inner)

    def _compare(self, op: str, a: Index, b: Index, mask: int | None) -> int:
        recorder = self._recorder
        test = recorder.op(op, (recorder.index(a), recorder.index(b)), dtypes.BOOL)
        return recorder.both(mask, test)


def _constant(recorder: Recorder, node: Node, index: Position) -> int:
    literal = node.attr("value")
    assert isinstance(literal, Literal)
    return recorder.const(literal.value, node.dtype)


def _iota(recorder: Recorder, node: Node, index: Position) -> int:
    axis: Any = node.attr("axis")
    return recorder.index(index[axis], node.origin)


def _size(recorder: Recorder, node: Node, index: Position) -> int:
    size: Any = node.attr("index")
    return recorder.index(as_index(size), node.origin)


_LEAVES: dict[str, Callable[[Recorder, Node, Position], int]] = {
    "constant": _constant,
    "iota": _iota,
    "size": _size,
    "empty": lambda recorder, node, index: recorder.const(0, node.dtype),
}
