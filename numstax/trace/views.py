"""Views: how a part of an array is read from its base, how writing the part changes the base, and the
NumPy operation that makes the same view on the host.

A View is one step; an array handle holds a chain of them.  `put` undoes `read`:
``view.read(view.put(base, value)) == value``, elements outside the view staying those of the base.
"""

from __future__ import annotations

import numpy as np

from numstax.ir.graph import Arg, Node
from numstax.ir.index import ZERO, Index
from numstax.records import record
from numstax.trace.layout import Strides
from numstax.trace.nodes import Nodes, Region
from numstax.trace.sizes import Shape

HostStep = tuple[str, object]


@record
class View:
    """One step.  A step without a `put` of its own gives a read-only view, as it does in NumPy."""

    def read(self, nodes: Nodes, base: Node) -> Node:
        raise NotImplementedError

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        raise NotImplementedError

    def strides(self, base: Strides, shape: Shape) -> Strides | None:
        """Strides of the view, given strides and shape of its base."""
        raise NotImplementedError

    def host(self) -> HostStep:
        raise NotImplementedError

    @property
    def writeable(self) -> bool:
        return True


@record
class SliceView(View):
    """`key` : the region as slices."""

    region: Region
    key: tuple[slice, ...]

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.slice(base, self.region)

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        return nodes.update(base, value, self.region)

    def strides(self, base: Strides, shape: Shape) -> Strides:
        return tuple(s * k for s, k in zip(base, self.region[1], strict=True))

    def host(self) -> HostStep:
        return "index", (*self.key, Ellipsis)  # without which no axes give a scalar


@record
class PickView(View):
    """One position, known only at run time, along each of `axes`: ``a[i]``.  The host can make the view where all
    positions are arguments of the call."""

    axes: tuple[int, ...]
    indices: tuple[Node, ...]

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.gather(base, self.indices, self.axes)

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        return nodes.scatter(base, value, self.indices, self.axes, "set")

    def strides(self, base: Strides, shape: Shape) -> Strides:
        return tuple(s for k, s in enumerate(base) if k not in self.axes)

    @property
    def is_given(self) -> bool:
        return None not in map(_argument, self.indices)

    def host(self) -> HostStep:
        at = dict(zip(self.axes, map(_argument, self.indices), strict=True))
        return "index", (*(at.get(k, slice(None)) for k in range(max(self.axes) + 1)), Ellipsis)


def _argument(node: Node) -> Arg | None:
    """The argument that is this number."""
    while node.op == "cast":
        (node,) = node.args
    return Arg(node.attr("position")) if node.op == "input" and not node.shape else None


@record
class ReshapeView(View):
    """`new_strides` are those of the view; the caller has found that no data moves."""

    shape: Shape
    new_strides: Strides | None

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.reshape(base, self.shape)

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        return nodes.reshape(value, base.shape)

    def strides(self, base: Strides, shape: Shape) -> Strides | None:
        return self.new_strides

    def host(self) -> HostStep:
        return "reshape", self.shape


@record
class TransposeView(View):
    axes: tuple[int, ...]

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.transpose(base, self.axes)

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        return nodes.transpose(value, tuple(int(k) for k in np.argsort(self.axes)))

    def strides(self, base: Strides, shape: Shape) -> Strides:
        return tuple(base[a] for a in self.axes)

    def host(self) -> HostStep:
        return "transpose", self.axes


@record
class BitcastView(View):
    """ndarray.view(dtype) with the same itemsize."""

    dtype: np.dtype

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.bitcast(base, self.dtype)

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        return nodes.bitcast(value, base.dtype)

    def strides(self, base: Strides, shape: Shape) -> Strides:
        return base

    def host(self) -> HostStep:
        return "dtype", self.dtype.name


@record
class PartView(View):
    """The real or imaginary part of a complex array."""

    part: str

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.elementwise(self.part, (base,), np.dtype(f"f{base.dtype.itemsize // 2}"))

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        other = PartView("imag" if self.part == "real" else "real").read(nodes, base)
        parts = (value, other) if self.part == "real" else (other, value)
        return nodes.elementwise("complex", parts, base.dtype)

    def strides(self, base: Strides, shape: Shape) -> Strides:
        return tuple(s * 2 for s in base)

    def host(self) -> HostStep:
        return self.part, None


@record
class ReadOnlyView(View):
    @property
    def writeable(self) -> bool:
        return False


@record
class BroadcastView(ReadOnlyView):
    shape: Shape

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.broadcast(base, self.shape)

    def strides(self, base: Strides, shape: Shape) -> Strides:
        lead = len(self.shape) - len(shape)
        kept = (s if n is m else ZERO for s, n, m in zip(base, shape, self.shape[lead:], strict=True))
        return (*(ZERO,) * lead, *kept)

    def host(self) -> HostStep:
        return "broadcast_to", self.shape


@record
class DiagonalView(View):
    """`open` : it can be written, as those of einsum can and those of np.diagonal cannot."""

    offset: int
    axis1: int
    axis2: int
    size: Index
    open: bool = False

    @property
    def writeable(self) -> bool:
        return self.open

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.diagonal(base, self.axis1, self.axis2, self.offset, self.size)

    def put(self, nodes: Nodes, base: Node, value: Node) -> Node:
        along = nodes.iota((self.size,), 0)
        first, last = (nodes.full(max(n, 0), along.dtype, (self.size,)) for n in (-self.offset, self.offset))
        where = {
            self.axis1: nodes.elementwise("add", (along, first), along.dtype),
            self.axis2: nodes.elementwise("add", (along, last), along.dtype),
        }
        axes = tuple(sorted(where))
        lead = nodes.transpose(value, (value.ndim - 1, *range(value.ndim - 1)))
        return nodes.scatter(base, lead, [where[a] for a in axes], axes, "set")

    def strides(self, base: Strides, shape: Shape) -> Strides:
        rest = [s for k, s in enumerate(base) if k not in (self.axis1, self.axis2)]
        return (*rest, base[self.axis1] + base[self.axis2])

    def host(self) -> HostStep:
        return "open_diagonal" if self.open else "diagonal", (self.offset, self.axis1, self.axis2)


@record
class WindowView(ReadOnlyView):
    axes: tuple[int, ...]
    shape: Shape

    def read(self, nodes: Nodes, base: Node) -> Node:
        return nodes.window(base, self.axes, self.shape)

    def strides(self, base: Strides, shape: Shape) -> Strides:
        return (*base, *(base[a] for a in self.axes))

    def host(self) -> HostStep:
        return "window", (self.shape[-len(self.axes) :], self.axes)
