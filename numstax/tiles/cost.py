"""What a tree moves and computes (paper, section 6; sections 9.1 and 9.8).

An operator with its tree enters; bytes and multiplications leave.  Every block is counted as if it were alone: what the
L2 cache spares memory is the business of who knows the order of the blocks.
"""

from __future__ import annotations

from math import prod

from numstax.records import record
from numstax.tiles.tree import (
    ABOVE_ATOM,
    GLOBAL,
    LEVELS,
    Chain,
    Clear,
    Contract,
    CutVisitor,
    Frame,
    Grid,
    Operator,
    Rescale,
    Stream,
    Write,
)


@record
class Cost:
    """Of the whole operator.

    loaded, stored : bytes that blocks get from global memory, and write there.
    read : bytes that atoms get from shared memory.
    multiplications : with addition, made by atoms; those of padding included.
    """

    loaded: int = 0
    stored: int = 0
    read: int = 0
    multiplications: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.loaded + other.loaded,
            self.stored + other.stored,
            self.read + other.read,
            self.multiplications + other.multiplications,
        )


class CostVisitor(CutVisitor[Cost]):
    """Sums over all nodes; a node counts as often as it runs."""

    def grid(self, node: Grid, at: Frame) -> Cost:
        inner = self.inside(node, at)
        return self.visit(node.body, inner) + Cost(loaded=self._copied(node.loads, inner))

    def stream(self, node: Stream, at: Frame) -> Cost:
        inner = self.inside(node, at)
        return self.visit(node.body, inner) + Cost(loaded=self._copied(node.loads, inner))

    def chain(self, node: Chain, at: Frame) -> Cost:
        return sum((self.visit(step, at) for step in node.steps), Cost())

    def clear(self, node: Clear, at: Frame) -> Cost:
        return Cost()

    def contract(self, node: Contract, at: Frame) -> Cost:
        units = LEVELS if node.atom.b is None else ABOVE_ATOM
        read = sum(self._moved(name, at, units) for name in (node.left, node.right))
        return Cost(read=read, multiplications=prod(self._padded(axis, at) for axis in self._axes(node)))

    def rescale(self, node: Rescale, at: Frame) -> Cost:
        return Cost()

    def write(self, node: Write, at: Frame) -> Cost:
        return Cost(stored=self._moved(node.target, at, LEVELS))

    def _axes(self, node: Contract) -> frozenset[str]:
        return frozenset().union(*(self.operator.operand(name).axes for name in (node.left, node.right)))

    def _padded(self, axis: str, at: Frame) -> int:
        """Values of an axis, with those past the end that the last tile computes."""
        return self.sizes(at)[axis] * prod(cut.count for cut in at if cut.axis == axis)

    def _copied(self, names: tuple[str, ...], at: Frame) -> int:
        return sum(self._moved(name, at, LEVELS) for name in names if self.operator.operand(name).home == GLOBAL)

    def _moved(self, name: str, at: Frame, units: tuple[str, ...]) -> int:
        """Bytes of an array, all its tiles together, as often as cuts along other axes repeat it."""
        operand, extents, sizes = self.operator.operand(name), self.operator.sizes, self.sizes(at, units)
        cuts = [cut for cut in at if cut.unit in units]
        elements = 1
        for dim in operand.dims:
            if len(dim) == 1:  # tiles of a plain dimension are clipped, so that they make up its extent
                elements *= extents[dim[0][0]]
            else:  # those of a window overlap
                window = 1 + sum((sizes[axis] - 1) * step for axis, step in dim)
                elements *= window * prod(cut.count for cut in cuts if cut.axis in dict(dim))
        return elements * operand.itemsize * prod(cut.count for cut in cuts if cut.axis not in operand.axes)


def cost_of(operator: Operator) -> Cost:
    return CostVisitor(operator).run()


def compulsory(operator: Operator) -> int:
    """Bytes of global memory touched at all: what a kernel moves where the L2 cache serves every repetition."""
    arrays = [o for o in operator.operands if o.home == GLOBAL]
    return sum(prod(o.shape(operator.sizes)) * o.itemsize for o in arrays)
