"""Algorithm trees: how an operator is cut into tiles, level by level (paper, section 2).

A tree is a value: frozen nodes over named axes, from the device down to one matrix instruction.  `Grid` and `Stream`
cut axes, `Chain` puts steps in order, and the leaves compute on whatever ranges the axes have been cut to.  So a
visitor may stop at any level and let a leaf have the ranges whole; the last tile of an axis is clipped to its extent.

  visitor               what it makes of a tree
  tiles.feasibility     the resources each level needs, or the one that is exceeded
  tiles.compute         the operator's result, with NumPy
  tiles.cost            bytes moved and multiplications made, and from them seconds
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from numstax.atoms import Atom
from numstax.records import record

T = TypeVar("T")
Sizes: TypeAlias = Mapping[str, int]
"""By axis: how many of its values a tile has."""
Dimension: TypeAlias = tuple[tuple[str, int], ...]
"""A dimension of an array, as a sum of axes times steps: a plain one has one axis and step 1; a window has two."""
DEVICE, BLOCK, WARP, ATOM = "device", "block", "warp", "atom"
LEVELS = (DEVICE, BLOCK, WARP, ATOM)
ABOVE_ATOM = LEVELS[:-1]
"""Units that compute, outermost first.  A warp stands for the team that executes an atom: of wgmma, a warpgroup."""
EDGES = (16, 32, 64, 128, 256)
"""Sizes of a block's tile that are considered."""
GLOBAL, SHARED, REGISTERS = "global", "shared", "registers"


@record
class Operand:
    """An array of an operator.

    home : where it lives: 'global' memory, or 'shared' memory or 'registers' of a block for what never leaves it.
    offset : subtracted from a position: what a border of that many zeros, which is not stored, shifts by.
    """

    name: str
    dims: tuple[Dimension, ...]
    itemsize: int
    home: str = GLOBAL
    offset: tuple[int, ...] = ()

    @property
    def axes(self) -> frozenset[str]:
        return frozenset(axis for dim in self.dims for axis, _ in dim)

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Extents of the part that tiles of these sizes touch."""
        return tuple(1 + sum((sizes[axis] - 1) * step for axis, step in dim) for dim in self.dims)


def operand(name: str, axes: str, itemsize: int, home: str = GLOBAL) -> Operand:
    """With plain dimensions: ``operand("a", "m k", 2)``."""
    return Operand(name, tuple(((axis, 1),) for axis in axes.split()), itemsize, home)


class Node:
    """Base of the nodes of a tree."""

    __slots__ = ()


@record
class Grid(Node):
    """Independent tiles of some axes, each computed by one `unit`.

    loads : what is in shared memory while a tile is computed; copied there if its home is global memory.
    """

    unit: str
    tile: tuple[tuple[str, int], ...]
    body: Node
    loads: tuple[str, ...] = ()


@record
class Stream(Node):
    """Tiles of one axis, one after another in the same unit.

    unit : the level whose loop this is.
    loads : what is in shared memory with each tile, in `stages` buffers that are filled ahead of time.
    producers : warps that do nothing but fill them.
    """

    unit: str
    axis: str
    size: int
    body: Node
    loads: tuple[str, ...] = ()
    stages: int = 1
    producers: int = 0


@record
class Chain(Node):
    """Steps in order, on the same ranges."""

    steps: tuple[Node, ...]


@record
class Clear(Node):
    """Leaf: the range of an array is filled."""

    target: str
    value: float = 0.0


@record
class Contract(Node):
    """Leaf: `target` += sum of `left` times `right` over the axes that it lacks; `atom`s compute it."""

    target: str
    left: str
    right: str
    atom: Atom


@record
class Rescale(Node):
    """Leaf: one step of online softmax (section 9.5; paper, section 5.3) over the last axis of `scores`.

    The running `maximum` grows to that of the scores; `weights` become exp(scores - maximum); the `denominator` and
    the arrays in `scaled` are corrected to the new maximum, and the denominator grows by the weights.
    """

    scores: str
    weights: str
    maximum: str
    denominator: str
    scaled: tuple[str, ...] = ()


@record
class Write(Node):
    """Leaf: `target` = `source`, with what follows pointwise; divided by a `denominator`, where there is one; and
    exp(source - maximum) instead of the source, where there is a `maximum`.  `adds` : += instead of =."""

    target: str
    source: str
    denominator: str = ""
    maximum: str = ""
    adds: bool = False


@record
class Operator:
    """What is computed, and on what: a tree over axes of these extents, with the arrays that its nodes name."""

    name: str
    extents: tuple[tuple[str, int], ...]
    operands: tuple[Operand, ...]
    tree: Node

    def operand(self, name: str) -> Operand:
        return next(o for o in self.operands if o.name == name)

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.extents)


@record
class Cut:
    """An axis cut for the units of a level: `count` tiles of `size`."""

    unit: str
    axis: str
    size: int
    count: int


Frame: TypeAlias = tuple[Cut, ...]
"""The cuts around a node, outermost first."""


class Visitor(Generic[T]):
    """Calls the method named like the class of a node, with the node and what its parents say about the axes."""

    def visit(self, node: Node, at: Any) -> T:
        result: T = getattr(self, type(node).__name__.lower())(node, at)
        return result


class CutVisitor(Visitor[T]):
    """A visitor that is told the cuts around each node."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def run(self) -> T:
        return self.visit(self.operator.tree, ())

    def sizes(self, at: Frame, units: tuple[str, ...] = LEVELS) -> dict[str, int]:
        """Extents of a tile, as cut by some levels."""
        return {**self.operator.sizes, **{cut.axis: cut.size for cut in at if cut.unit in units}}

    def inside(self, node: Grid | Stream, at: Frame) -> Frame:
        """The cuts around the body of a node."""
        tiles = node.tile if isinstance(node, Grid) else ((node.axis, node.size),)
        sizes = self.sizes(at)
        return (*at, *(Cut(node.unit, axis, size, -(-sizes[axis] // size)) for axis, size in tiles))
