"""Primitive nodes: one method for each node operation that tracing needs.

A method checks nothing the caller can check better; it computes the shape, drops what does nothing
(a cast to the same dtype, a transpose of a transpose, reading back what was just written) and interns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np

from numstax import dtypes, floating_errors, precision
from numstax.errors import UnsupportedOperationError
from numstax.ir.graph import CONTROL, Builder, Literal, Node, control_bodies, topological
from numstax.ir.index import ONE, ZERO, Index
from numstax.ir.ops import ELEMENTWISE, VIEWS
from numstax.ir.values import cast as cast_array
from numstax.trace.origin import user_origin
from numstax.trace.sizes import Shape, size_of

Region = tuple[tuple[Index, ...], tuple[Index, ...], Shape]
"""starts, steps and sizes of a slice."""

LIMIT = 50_000
"""Operations in one graph; a Python loop that unrolls to more is not worth compiling."""
_EFFORT = {"reduce": 30, "scan": 30, "extern": 40, "matmul": 40, "scatter": 30}
"""What compiling an operation costs, in additions: a kernel or a library call of its own."""
_LOOP = 40
_COSTLY, _FUNCTION, _COMPLEX_FUNCTION = 20, 3, 40
"""Flops of a function that is printed as many operations, and what that costs."""
_LOOK_BACK = 64
"""How many updates a read looks through for the one that wrote what it reads."""


class Nodes:
    """The builder of one graph, with the user's line as the origin of each node."""

    def __init__(self) -> None:
        self._builder = Builder()
        self._made = 0
        self.effort = 0
        """What it costs to compile the nodes, about, in additions."""
        self._numbers: dict[Node, int] = {}
        self._groups = 0
        self.group = ""
        """That of products which are being traced, where they have one."""

    def make(self, op: str, args: Sequence[Node], shape: Shape, dtype: np.dtype, /, **attrs: Hashable) -> Node:
        origin = user_origin()
        if floating_errors.are_reported():
            raise UnsupportedOperationError(floating_errors.MESSAGE, origin, "leave it to the caller")
        self._made += 1
        if self._made > LIMIT:
            raise UnsupportedOperationError(
                f"the function unrolls to more than {LIMIT} operations", origin,
                "write the loop over elements with array operations, or jit the body of the loop",
            )  # fmt: skip
        if not dtypes.is_supported(dtype):
            raise UnsupportedOperationError(f"dtype {dtype} cannot be compiled", origin, "convert outside the function")
        node = self._builder.node(op, tuple(args), shape, dtype, origin, **attrs)
        if node not in self._numbers:
            self._numbers[node] = len(self._numbers)
            self.effort += _effort(node)
        return node

    def remake(self, node: Node, args: tuple[Node, ...]) -> Node:
        """The same operation on other arguments of the same types."""
        return self.make(node.op, args, node.shape, node.dtype, **dict(node.attrs))

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self._numbers)

    def forget(self, count: int, kept: Sequence[Node] = ()) -> None:
        """Of the nodes made after the first `count`, those that `kept` do not need count as never made: nothing
        outside the body that they were made for computes them."""
        needed = [n for n in topological(list(kept)) if self.number(n) >= count]
        while len(self._numbers) > count:
            forgotten, _ = self._numbers.popitem()
            self._made -= 1
            self.effort -= _effort(forgotten)
        for node in needed:
            self._numbers[node] = len(self._numbers)
            self.effort += _effort(node)

    def number(self, node: Node) -> int:
        """The nodes in the order in which they were first made; inputs come before all."""
        return self._numbers.get(node, -1)

    def input(self, position: int, shape: Shape, dtype: np.dtype) -> Node:
        """An input; it comes from the caller, not from a line of the function."""
        return self._builder.node("input", (), shape, dtype, None, position=position)

    def constant(self, value: object, dtype: np.dtype) -> Node:
        return self.make("constant", (), (), dtype, value=Literal.of(value, dtype))

    def full(self, value: object, dtype: np.dtype, shape: Shape) -> Node:
        return self.broadcast(self.constant(value, dtype), shape)

    def iota(self, shape: Shape, axis: int) -> Node:
        return self.make("iota", (), shape, dtypes.INT64, axis=axis)

    def size(self, value: Index) -> Node:
        if value.value is not None:
            return self.constant(value.value, dtypes.INT64)
        return self.make("size", (), (), dtypes.INT64, index=value)

    def empty(self, shape: Shape, dtype: np.dtype) -> Node:
        return self.make("empty", (), shape, dtype)

    def cast(self, x: Node, dtype: np.dtype) -> Node:
        if x.dtype == dtype:
            return x
        if x.op == "constant":
            literal = x.attr("value")
            assert isinstance(literal, Literal)
            with np.errstate(all="ignore"):
                return self.constant(cast_array(np.asarray(literal.value), dtype), dtype)
        if x.op == "broadcast_to" and x.args[0].op == "constant":
            return self.broadcast(self.cast(x.args[0], dtype), x.shape)
        return self.make("cast", (x,), x.shape, dtype)

    def bitcast(self, x: Node, dtype: np.dtype) -> Node:
        return x if x.dtype == dtype else self.make("bitcast", (x,), x.shape, dtype)

    def broadcast(self, x: Node, shape: Shape) -> Node:
        if x.shape == shape:
            return x
        if x.op == "broadcast_to":
            return self.broadcast(x.args[0], shape)
        return self.make("broadcast_to", (x,), shape, x.dtype)

    def reshape(self, x: Node, shape: Shape) -> Node:
        if x.shape == shape:
            return x
        if x.op == "reshape":
            return self.reshape(x.args[0], shape)
        if x.op == "broadcast_to" and not x.args[0].shape:
            return self.broadcast(x.args[0], shape)
        return self.make("reshape", (x,), shape, x.dtype)

    def transpose(self, x: Node, axes: tuple[int, ...]) -> Node:
        if axes == tuple(range(len(axes))):
            return x
        if x.op == "transpose":
            inner: tuple[int, ...] = x.attr("axes")
            return self.transpose(x.args[0], tuple(inner[a] for a in axes))
        return self.make("transpose", (x,), tuple(x.shape[a] for a in axes), x.dtype, axes=axes)

    def roll(self, x: Node, starts: Shape) -> Node:
        return self.make("roll", (x,), x.shape, x.dtype, starts=starts)

    def diagonal(self, x: Node, axis1: int, axis2: int, offset: int, size: Index) -> Node:
        rest = tuple(n for k, n in enumerate(x.shape) if k not in (axis1, axis2))
        return self.make("diagonal", (x,), (*rest, size), x.dtype, axis1=axis1, axis2=axis2, offset=offset)

    def window(self, x: Node, axes: tuple[int, ...], shape: Shape) -> Node:
        return self.make("window", (x,), shape, x.dtype, axes=axes)

    def elementwise(self, op: str, args: Sequence[Node], dtype: np.dtype) -> Node:
        return self.make(op, args, args[0].shape, dtype)

    def require(self, value: Node, holds: Node, requirement: str) -> Node:
        """`value`, which means something only where `holds`."""
        if holds.op == "constant" and holds.attr("value").value:
            return value
        return self.make("require", (value, holds), value.shape, value.dtype, requirement=requirement)

    def reduce(self, op: str, x: Node, axes: tuple[int, ...], dtype: np.dtype) -> Node:
        if not axes:
            return x
        shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        return self.make(f"reduce_{op}", (x,), shape, dtype, axes=tuple(sorted(axes)))

    def scan(self, op: str, x: Node, axis: int) -> Node:
        return self.make(f"scan_{op}", (x,), x.shape, x.dtype, axis=axis)

    def gather(self, x: Node, indices: Sequence[Node], axes: tuple[int, ...]) -> Node:
        rest = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        return self.make("gather", (x, *indices), indices[0].shape + rest, x.dtype, axes=axes)

    def scatter(self, base: Node, value: Node, indices: Sequence[Node], axes: tuple[int, ...], op: str) -> Node:
        """`base` with `value`, laid out as a gather's result, put ('set') or combined into the indexed elements."""
        return self.make("scatter", (base, value, *indices), base.shape, base.dtype, axes=axes, op=op)

    def next_group(self) -> str:
        """A name for a group of products."""
        self._groups += 1
        return f"group{self._groups - 1}"

    def matmul(self, a: Node, b: Node, dtype: np.dtype) -> Node:
        shape, (exact, template) = (*a.shape[:-1], b.shape[-1]), precision.settings()
        return self.make("matmul", (a, b), shape, dtype, precision=exact, group=self.group, template=template)

    def slice(self, x: Node, region: Region) -> Node:
        """``x[starts + k*steps]`` for k below the sizes."""
        for _ in range(_LOOK_BACK):
            starts, steps, shape = region
            if _covers(region, x.shape):
                return x
            if x.op == "broadcast_to" and not x.args[0].shape:
                return self.broadcast(x.args[0], shape)
            if x.op == "slice":
                region = _compose(_region_of(x), region)
                x = x.args[0]
            elif x.op == "update":
                written = _region_of(x)
                if _disjoint(written, region):
                    x = x.args[0]
                elif (inner := _relative(written, region)) is not None:
                    x, region = x.args[1], inner
                else:
                    break
            else:
                break
        starts, steps, shape = region
        if _covers(region, x.shape):
            return x
        return self.make("slice", (x,), shape, x.dtype, starts=starts, steps=steps)

    def update(self, base: Node, value: Node, region: Region) -> Node:
        """`base` with its `region` replaced by `value`."""
        starts, steps, shape = region
        if _covers(region, base.shape):
            return value  # also where there is nothing to write: `value` may fail
        if any(n is ZERO for n in shape):
            return base
        if value.op == "slice" and value.args[0] is base and _region_of(value) == region:
            return base
        if value.op == "scatter" and value.args[0].op == "slice":
            seen = value.args[0]
            if seen.args[0] is base and _region_of(seen) == region and self._is_whole(base, value, region):
                return self._scatter_into(base, value, region)
        while base.op == "update" and _relative(region, _region_of(base)) is not None:
            base = base.args[0]
        return self.make("update", (base, value), base.shape, base.dtype, starts=starts, steps=steps)

    @staticmethod
    def _is_whole(base: Node, part: Node, region: Region) -> bool:
        """Does the region hold all of the axes that a scatter indexes?"""
        starts, steps, shape = region
        return all((starts[k], steps[k], shape[k]) == (ZERO, ONE, base.shape[k]) for k in part.attr("axes"))

    def _scatter_into(self, base: Node, part: Node, region: Region) -> Node:
        """A scatter into a region as one into `base`, of which sliced axes are indexed too: that costs no more than
        what is written."""
        starts, steps, shape = region
        _, value, *indices = part.args
        axes: tuple[int, ...] = part.attr("axes")
        rest = [k for k in range(base.ndim) if k not in axes]
        sliced = [k for k in rest if (starts[k], steps[k], shape[k]) != (ZERO, ONE, base.shape[k])]
        lead = indices[0].shape
        common = (*lead, *(shape[k] for k in sliced))
        where = {k: self._line(common, len(lead) + j, starts[k], steps[k]) for j, k in enumerate(sliced)}
        for axis, index in zip(axes, indices, strict=True):
            where[axis] = self.broadcast(self.reshape(index, lead + (ONE,) * len(sliced)), common)
        order = (
            *range(len(lead)),
            *(len(lead) + rest.index(k) for k in (*sliced, *(k for k in rest if k not in sliced))),
        )
        names = tuple(sorted(where))
        return self.scatter(base, self.transpose(value, order), [where[k] for k in names], names, part.attr("op"))

    def _line(self, shape: Shape, axis: int, start: Index, step: Index) -> Node:
        """``start + step*position`` along `axis`."""
        by, first = (self.broadcast(self.size(n), shape) for n in (step, start))
        steps = self.elementwise("multiply", (self.iota(shape, axis), by), dtypes.INT64)
        return self.elementwise("add", (steps, first), dtypes.INT64)


def _region_of(x: Node) -> Region:
    """The region a slice reads or an update writes."""
    shape = x.shape if x.op == "slice" else x.args[1].shape
    return x.attr("starts"), x.attr("steps"), shape


def _covers(region: Region, shape: Shape) -> bool:
    starts, steps, sizes = region
    return (
        sizes == shape
        and all(s is ZERO for s in starts)
        and all(k is ONE or n is ONE for k, n in zip(steps, sizes, strict=True))
    )


def _compose(outer: Region, inner: Region) -> Region:
    """The region of the base that ``base[outer][inner]`` reads."""
    starts = tuple(s0 + s1 * k0 for s0, k0, s1 in zip(outer[0], outer[1], inner[0], strict=True))
    steps = tuple(k0 * k1 for k0, k1 in zip(outer[1], inner[1], strict=True))
    return starts, steps, inner[2]


def _axes(a: Region, b: Region) -> list[tuple[int, int, int, int, int, int]] | None:
    """(start, step, size) of both regions for each axis, as numbers; None when some are symbolic."""
    out = []
    for row in zip(*a, *b, strict=True):
        values = [x.value for x in row]
        if None in values:
            return None
        out.append(tuple(values))
    return out


def _disjoint(a: Region, b: Region) -> bool:
    """Do the two regions provably share no element?"""
    for a0, da, na, b0, db, nb in _axes(a, b) or ():
        a_ends, b_ends = sorted((a0, a0 + da * (na - 1))), sorted((b0, b0 + db * (nb - 1)))
        if a_ends[1] < b_ends[0] or b_ends[1] < a_ends[0] or na == 0 or nb == 0:
            return True
        if abs(da) == abs(db) and na > 1 and nb > 1 and (a0 - b0) % abs(da):
            return True
    return False


def _relative(outer: Region, inner: Region) -> Region | None:
    """`inner` in coordinates of `outer` when it provably lies inside, else None."""
    rows = _axes(outer, inner)
    if rows is None:
        return None
    starts, steps = [], []
    for a0, da, na, b0, db, nb in rows:
        db = db if nb > 1 else 0
        start, rest = divmod(b0 - a0, da)
        if rest or db % da or not 0 <= start < na or not 0 <= start + (db // da) * (nb - 1) < na:
            return None
        starts.append(start)
        steps.append(db // da or 1)
    return tuple(size_of(s) for s in starts), tuple(size_of(s) for s in steps), inner[2]


@lru_cache(1 << 12)
def _effort(node: Node) -> int:
    if node.op in CONTROL:
        inside = sum(_effort(n) for body in control_bodies(node) for n in body.nodes())
        return _LOOP + inside
    if node.op in VIEWS or node.op in ("constant", "size", "iota", "empty", "result"):
        return 0
    if node.op in ELEMENTWISE and ELEMENTWISE[node.op].flops >= _COSTLY:
        return _COMPLEX_FUNCTION if dtypes.kind(node.dtype) == "c" else _FUNCTION
    return _EFFORT.get(node.op.partition("_")[0], 1)
