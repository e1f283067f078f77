"""Writes at positions that are data: ``a[idx] = v``, ``np.add.at(a, idx, v)``.

Enters: a scatter node.  Leaves: its place and the units that fill it, in `Sites`.  The base is taken over in place
when all others have read it, else copied.  Several positions may be one element, so they are visited one after
another, in C order; the axes that are not indexed run in parallel.
"""

from __future__ import annotations

from typing import Any

from numstax.ir.graph import Node
from numstax.ir.index import ZERO, Index, Ref, Var, atoms, less, product, stride_of
from numstax.ir.loops import Accumulate, Effect, Kernel, Store, Unit
from numstax.ir.ops import resolve
from numstax.schedule.overwrite import Overwriter
from numstax.schedule.record import Recorder
from numstax.schedule.sites import Sites
from numstax.schedule.values import Place


def write_scatter(root: Node, sites: Sites, over: Overwriter, output: str | None) -> None:
    base, *operands = root.args
    units: list[Unit] = []
    if over.may_overwrite(base, root):
        over.claim(root, base)
        place = sites.places[base]
        if output is not None:
            sites.publish(place.buffer)
    else:
        argument = over.argument_for(root)
        if argument is not None and not over.reads(root, argument):
            over.claim(root, argument)
            place = Place(argument, sites.buffers[argument].strides)
        else:
            place = sites.new(root, output)
        if base.op != "empty":
            units.append(sites.assign(base, place))
    if product(operands[0].shape) is not ZERO:
        unit = _kernel(root, *operands, place=place, sites=sites)
        if not sites.reads_only_own(unit, place.buffer):
            first, saved = _saved(operands, place, sites)
            units += first
            unit = _kernel(root, *saved, place=place, sites=sites)
        units.append(unit)
    sites.units[root], sites.places[root] = units, place


def _saved(operands: list[Node], place: Place, sites: Sites) -> tuple[list[Unit], list[Node]]:
    """The value and the indices, computed before the first write where they read what is written."""
    first: list[Unit] = []
    nodes: list[Node] = []
    for node in operands:
        other = sites.new(node)
        unit = sites.assign(node, other)
        if place.buffer in unit.reads():
            first.append(unit)
            node = Node("input", (), (), node.shape, node.dtype, node.origin)
            sites.places[node] = other
        else:
            del sites.buffers[other.buffer]
        nodes.append(node)
    return first, nodes


def _kernel(root: Node, value: Node, *indices: Node, place: Place, sites: Sites) -> Kernel:
    axes: Any = root.attr("axes")
    op: str = root.attr("op")
    shape = indices[0].shape
    index, variables = sites.space(value.shape)
    values, recorder = sites.values()
    position: list[Index | None] = [None] * root.ndim
    for axis, node in zip(axes, indices, strict=True):
        entry = values.value(node, index[: len(shape)])
        position[axis] = values.position(node, entry, root.shape[axis], None, root.origin)
    rest = iter(index[len(shape) :])
    offset = place.at(tuple(next(rest) if p is None else p for p in position))
    new = values.value(value, index)
    apart = [p for p in position if p is not None and not any(isinstance(atom, Ref) for atom in atoms(p))]
    outer = tuple(v for axis, v in variables.items() if axis >= len(shape) or any(_tells(p, v) for p in apart))
    inner = tuple(v for v in variables.values() if v not in outer)
    effect: Effect = Accumulate(op, new, place.buffer, offset, root.dtype)
    if not inner:
        effect = Store(place.buffer, offset, _combined(root, op, new, offset, place, recorder))
    return sites.kernel(outer, inner, recorder, effect)


def _tells(position: Index, var: Var) -> bool:
    """Is the variable known from the position on some axis, so that its points never meet?"""
    if {atom for atom in atoms(position) if isinstance(atom, Var)} != {var}:
        return False
    stride = stride_of(position, var)
    return stride is not None and bool(less(ZERO, stride) or less(stride, ZERO))


def _combined(root: Node, op: str, new: int, offset: Index, place: Place, recorder: Recorder) -> int:
    """What a single write leaves: no other one can be in its way."""
    if op == "set":
        return new
    old = recorder.load(place.buffer, offset, root.dtype, None, root.origin)
    wanted, result = resolve(op, (root.dtype, root.dtype))
    pair = (recorder.cast(entry, dtype, root.origin) for entry, dtype in zip((old, new), wanted, strict=True))
    return recorder.cast(recorder.op(op, tuple(pair), result, root.origin), root.dtype, root.origin)
