"""Shapes: reshape, transpose and their relatives.  All give views where NumPy does."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from numstax import dtypes
from numstax.errors import ShapeError, UnsupportedOperationError
from numstax.ir.index import ONE, hint, product
from numstax.trace.array import TracedArray
from numstax.trace.layout import is_contiguous, is_fortran, ordered, reshape_strides
from numstax.trace.origin import user_origin
from numstax.trace.registry import implements
from numstax.trace.sizes import (
    Shape,
    as_shape,
    normalize_axes,
    normalize_axis,
    shown,
    size_of,
    text,
    total,
)
from numstax.trace.views import BroadcastView, DiagonalView, PartView, ReshapeView, TransposeView, WindowView

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


def _complete(rec: Recorder, shape: Shape, old: Shape) -> Shape:
    """The new shape with its -1 filled in, checked against the number of elements."""
    shapes, whole = rec.shapes, total(old)
    shape = tuple(n if n.value is not None or shapes.at_least(n, 0) else size_of(shapes.number(n)) for n in shape)
    gaps = [k for k, n in enumerate(shape) if n.value == -1]
    if len(gaps) > 1:
        raise ShapeError("can only specify one unknown dimension", user_origin())
    known = product(n for k, n in enumerate(shape) if k not in gaps)
    fits = (not shapes.equal(known, 0) and shapes.divides(known, whole)) if gaps else shapes.equal(known, whole)
    if not fits:
        wanted = text(shape)
        raise ShapeError(f"cannot reshape array of size {shown(whole)} into shape {wanted}", user_origin())
    rest = shapes.resolve(whole) // shapes.resolve(known) if gaps else ONE
    return tuple(rest if k in gaps else n for k, n in enumerate(shape))


def reshaped(rec: Recorder, x: TracedArray, shape: Shape) -> TracedArray:
    """A view where no data has to move, else a copy."""
    old = x.strides_in_elements
    if x.is_scalar:
        return rec.fresh(rec.nodes.reshape(x.node, shape), is_scalar=not shape)
    if old is None or not (is_contiguous(x.sizes, old) or rec.shapes.can_lay_out(x.sizes, (*old, *shape))):
        result = rec.fresh(rec.nodes.reshape(x.node, shape))
        result.storage.fixed = x.storage.fixed = "a reshaped array that NumPy may or may not have copied"
        return result
    new = reshape_strides(rec.shapes, x.sizes, old, shape)
    if new is None:
        return rec.fresh(rec.nodes.reshape(x.node, shape))
    return x.derive(ReshapeView(shape, new))


@implements(np.reshape)
def reshape(rec: Recorder, a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> TracedArray:
    x = rec.lift(a)
    if order not in ("C", "F", "A"):
        raise ValueError(f"order {order!r} is not permitted for reshaping")
    if order == "A":
        if x.strides_in_elements is None:
            raise UnsupportedOperationError(
                "reshape(order='A') of an array whose layout is not known while tracing", user_origin()
            )
        order = "F" if is_fortran(x.sizes, x.strides_in_elements) else "C"
    if order == "F":
        flipped = _complete(rec, as_shape(shape), x.sizes)[::-1]
        return reshaped(rec, x.transpose(), flipped).transpose()
    result = reshaped(rec, x, _complete(rec, as_shape(shape), x.sizes))
    return result.copy() if copy else result


@implements(np.ravel)
def ravel(rec: Recorder, a: Any, order: str = "C") -> TracedArray:
    x = rec.lift(a)
    if order in ("A", "K") and x.ndim > 1:
        kept = ordered(rec.shapes, x.sizes, x.strides_in_elements, order)
        if kept is None:
            raise UnsupportedOperationError(
                f"ravel(order={order!r}) of an array whose layout is not known while tracing", user_origin()
            )
        x = x.transpose(sorted(range(x.ndim), key=lambda axis: -hint(rec.shapes.resolve(kept[axis]))))
    elif order == "F":
        x = x.transpose()
    strides = x.strides_in_elements
    if strides is not None and not is_contiguous(x.sizes, strides):
        # a copy, though a reshape of equally spaced elements is a view
        return rec.fresh(rec.nodes.reshape(x.node, (total(x.sizes),)))
    return reshaped(rec, x, (total(x.sizes),))


@implements(np.transpose, np.permute_dims)
def transpose(rec: Recorder, a: Any, axes: Any = None) -> TracedArray:
    x = rec.lift(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else normalize_axes(tuple(axes), x.ndim)
    if len(order) != x.ndim:
        raise ShapeError("axes don't match array", user_origin())
    return x if x.is_scalar else x.derive(TransposeView(order))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(rec: Recorder, x: Any, /) -> TracedArray:
    return swapaxes(rec, x, -1, -2)


@implements(np.swapaxes)
def swapaxes(rec: Recorder, a: Any, axis1: Any, axis2: Any) -> TracedArray:
    x = rec.lift(a)
    order = list(range(x.ndim))
    i, j = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    order[i], order[j] = j, i
    return transpose(rec, x, order)


@implements(np.moveaxis)
def moveaxis(rec: Recorder, a: Any, source: Any, destination: Any) -> TracedArray:
    x = rec.lift(a)
    sources, targets = normalize_axes(source, x.ndim), normalize_axes(destination, x.ndim)
    if len(sources) != len(targets):
        raise ShapeError("`source` and `destination` arguments must have the same number of elements", user_origin())
    order = [k for k in range(x.ndim) if k not in sources]
    for target, src in sorted(zip(targets, sources, strict=True)):
        order.insert(target, src)
    return transpose(rec, x, order)


@implements(np.rollaxis)
def rollaxis(rec: Recorder, a: Any, axis: Any, start: int = 0) -> TracedArray:
    x = rec.lift(a)
    k = normalize_axis(axis, x.ndim)
    at = start + x.ndim if start < 0 else start
    return moveaxis(rec, x, k, at - 1 if k < at else at)


@implements(np.expand_dims)
def expand_dims(rec: Recorder, a: Any, axis: Any) -> TracedArray:
    x = rec.lift(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    places = normalize_axes(axis, x.ndim + count)
    return x[tuple(None if k in places else slice(None) for k in range(x.ndim + count))]


@implements(np.squeeze)
def squeeze(rec: Recorder, a: Any, axis: Any = None) -> TracedArray:
    x = rec.lift(a)
    places = [k for k in normalize_axes(axis, x.ndim) if rec.shapes.equal(x.sizes[k], ONE)]
    if axis is not None and len(places) < len(normalize_axes(axis, x.ndim)):
        raise ShapeError("cannot select an axis to squeeze out which has size not equal to one", user_origin())
    if not places:
        return x
    return reshaped(rec, x, tuple(n for k, n in enumerate(x.sizes) if k not in places))


def _at_least(rec: Recorder, arrays: tuple[Any, ...], ndim: int) -> Any:
    out = []
    for a in arrays:
        x = rec.lift(a)
        if x.ndim == 0:
            x = x.reshape((1,) * ndim)
        elif x.ndim == 1 and ndim == 2:
            x = x[None, :]
        elif x.ndim == 1 and ndim == 3:
            x = x[None, :, None]
        elif x.ndim == 2 and ndim == 3:
            x = x[:, :, None]
        out.append(x)
    return out[0] if len(out) == 1 else tuple(out)


@implements(np.atleast_1d)
def atleast_1d(rec: Recorder, *arys: Any) -> Any:
    return _at_least(rec, arys, 1)


@implements(np.atleast_2d)
def atleast_2d(rec: Recorder, *arys: Any) -> Any:
    return _at_least(rec, arys, 2)


@implements(np.atleast_3d)
def atleast_3d(rec: Recorder, *arys: Any) -> Any:
    return _at_least(rec, arys, 3)


@implements(np.broadcast_to, creates=True)
def broadcast_to(rec: Recorder, array: Any, shape: Any, subok: bool = False) -> TracedArray:
    x = rec.lift(array)
    sizes = as_shape(shape)
    if not rec.shapes.fits(x.sizes, sizes):
        raise ShapeError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: "
            f"{text(x.sizes)} and requested shape {text(sizes)}",
            user_origin(),
        )
    return x.derive(BroadcastView(sizes))


@implements(np.broadcast_shapes)
def broadcast_shapes(rec: Recorder, *args: Any) -> tuple[Any, ...]:
    return tuple(rec.size(n) for n in rec.shapes.broadcast(*map(as_shape, args)))


@implements(np.broadcast_arrays)
def broadcast_arrays(rec: Recorder, *args: Any, subok: bool = False) -> tuple[TracedArray, ...]:
    arrays = [rec.lift(a) for a in args]
    shape = rec.shapes.broadcast(*(x.sizes for x in arrays))
    return tuple(x if x.sizes == shape else x.derive(BroadcastView(shape)) for x in arrays)


@implements(sliding_window_view)
def windows(
    rec: Recorder, x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> TracedArray:
    array = rec.lift(x)
    window = as_shape(window_shape)
    axes = tuple(range(array.ndim)) if axis is None else normalize_axes(axis, array.ndim)
    if len(axes) != len(window):
        raise ShapeError("Must provide matching length window_shape and axis", user_origin())
    shape = list(array.sizes)
    for k, n in zip(axes, window, strict=True):
        shape[k] = shape[k] - n + 1
        if not rec.shapes.at_least(shape[k], 1):
            raise ShapeError("window shape cannot be larger than input array shape", user_origin())
    return array.derive(WindowView(axes, (*shape, *window)))


@implements(as_strided)
def strided(
    rec: Recorder, x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True
) -> TracedArray:
    """The elements that a view would show, gathered; a write would reach only these."""
    array = rec.lift(x)
    sizes = array.shape if shape is None else tuple(shape)
    steps = array.strides if strides is None else tuple(strides)
    known = array.strides_in_elements
    places = sum(
        np.arange(int(n)).reshape([-1 if j == k else 1 for j in range(len(sizes))]) * int(step)
        for k, (n, step) in enumerate(zip(sizes, steps, strict=True))
    )
    inside = np.size(places) == 0 or (np.min(places) >= 0 and np.max(places) < array.nbytes)
    if known is None or not is_contiguous(array.sizes, known) or not inside or np.any(places % array.itemsize):
        raise UnsupportedOperationError(
            "as_strided beyond the memory of a C-contiguous array cannot be compiled", user_origin(),
            "use numpy.lib.stride_tricks.sliding_window_view",
        )  # fmt: skip
    result = rec.fresh(array.reshape(-1)[rec.lift(places // array.itemsize)].node)
    result.storage.stand_for([array.storage], "a view made by as_strided")
    return result


@implements(np.diagonal)
def diagonal(rec: Recorder, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> TracedArray:
    x = rec.lift(a)
    if x.ndim < 2:
        raise ShapeError("diag requires an array of at least two dimensions", user_origin())
    i, j, k = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim), operator.index(offset)
    if i == j:
        raise ShapeError("axis1 and axis2 cannot be the same", user_origin())
    rows, columns = x.sizes[i] + min(k, 0), x.sizes[j] - max(k, 0)
    size = columns if rec.shapes.at_least(rows, columns) else rows
    return x.derive(DiagonalView(k, i, j, size if rec.shapes.at_least(size, 0) else size_of(0)))


@implements(np.linalg.diagonal)
def matrix_diagonal(rec: Recorder, x: Any, /, *, offset: Any = 0) -> TracedArray:
    return diagonal(rec, x, offset, -2, -1)


@implements(np.trace)
def trace(
    rec: Recorder, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None
) -> TracedArray:
    return diagonal(rec, a, offset, axis1, axis2).sum(-1, dtype=dtype, out=out)


@implements(np.linalg.trace)
def matrix_trace(rec: Recorder, x: Any, /, *, offset: Any = 0, dtype: Any = None) -> TracedArray:
    return trace(rec, x, offset, -2, -1, dtype)


def _part(rec: Recorder, val: Any, part: str) -> TracedArray:
    x = rec.lift(val)
    if x.weak is not None:
        kind = {bool: int, complex: float}.get(x.weak, x.weak)
        node = _part(rec, rec.array(x), part).node
        return rec.fresh(rec.nodes.cast(node, np.dtype(kind)), True, kind)
    if dtypes.kind(x.dtype) != "c":
        if part == "real":
            return x
        zero = rec.fresh(rec.nodes.full(0, x.dtype, x.sizes), x.is_scalar)
        zero.storage.read_only = True
        return zero
    if x.is_scalar:
        return rec.elementwise(part, x)
    return x.derive(PartView(part))


@implements(np.real)
def real(rec: Recorder, val: Any) -> TracedArray:
    return _part(rec, val, "real")


@implements(np.imag)
def imag(rec: Recorder, val: Any) -> TracedArray:
    return _part(rec, val, "imag")


@implements(np.flip)
def flip(rec: Recorder, m: Any, axis: Any = None) -> TracedArray:
    x = rec.lift(m)
    axes = normalize_axes(axis, x.ndim)
    return x[tuple(slice(None, None, -1 if k in axes else 1) for k in range(x.ndim))]


@implements(np.flipud)
def flipud(rec: Recorder, m: Any) -> TracedArray:
    return flip(rec, m, 0)


@implements(np.fliplr)
def fliplr(rec: Recorder, m: Any) -> TracedArray:
    return flip(rec, m, 1)


@implements(np.rot90)
def rot90(rec: Recorder, m: Any, k: int = 1, axes: Any = (0, 1)) -> TracedArray:
    x = rec.lift(m)
    i, j = normalize_axes(axes, x.ndim)
    turns = k % 4
    if turns == 0:
        return x[...]
    if turns == 2:
        return flip(rec, flip(rec, x, i), j)
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    if turns == 1:
        return transpose(rec, flip(rec, x, j), order)
    return flip(rec, transpose(rec, x, order), j)


@implements(np.shape)
def shape(rec: Recorder, a: Any) -> tuple[int, ...]:
    return rec.lift(a).shape


@implements(np.ndim)
def ndim(rec: Recorder, a: Any) -> int:
    return rec.lift(a).ndim


@implements(np.size)
def size(rec: Recorder, a: Any, axis: Any = None) -> int:
    x = rec.lift(a)
    return x.size if axis is None else math.prod(x.shape[k] for k in normalize_axes(axis, x.ndim))
