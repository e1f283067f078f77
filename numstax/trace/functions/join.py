"""Joining and repeating: concatenate, stack, split, tile, repeat, pad, roll."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.errors import CastError, ShapeError
from numstax.ir import ops
from numstax.ir.index import ZERO, Index
from numstax.trace import extern
from numstax.trace.array import TracedArray
from numstax.trace.elementwise import type_of
from numstax.trace.origin import user_origin
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import normalize_axes, normalize_axis, shown, size_of
from numstax.trace.ufuncs import deliver

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


def _arrays(rec: Recorder, arrays: Any, what: str = "concatenate") -> list[TracedArray]:
    """The sequence (or the slices of an array along its first axis) as arrays, which Python numbers become, too."""
    found = [rec.array(a) for a in arrays]
    if not found:
        raise ShapeError(f"need at least one array to {what}", user_origin())
    return found


def joined(
    rec: Recorder, arrays: Sequence[TracedArray], axis: int, dtype: Any = None, casting: Any = "same_kind"
) -> TracedArray:
    """The arrays one after the other along `axis`: updates of empty memory."""
    first = arrays[0]
    for k, x in enumerate(arrays[1:], 1):
        if x.ndim != first.ndim:
            raise ShapeError(
                "all the input arrays must have same number of dimensions, but the array at index 0 has "
                f"{first.ndim} dimension(s) and the array at index {k} has {x.ndim} dimension(s)",
                user_origin(),
            )
        for j in range(first.ndim):
            if j != axis and not rec.shapes.unify(x.sizes[j], first.sizes[j]):
                raise ShapeError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {j}, the array at index 0 has size {shown(first.sizes[j])} and the array at index {k} "
                    f"has size {shown(x.sizes[j])}",
                    user_origin(),
                )
    kind = ops.result_type(*(type_of(x) for x in arrays)) if dtype is None else np.dtype(dtype)
    for x in arrays:
        if not np.can_cast(x.dtype, kind, casting):
            raise CastError(
                f"Cannot cast array data from {x.dtype!r} to {kind!r} according to the rule '{casting}'", user_origin()
            )
    if len(arrays) == 1:
        return rec.fresh(rec.nodes.cast(first.node, kind))
    length: Index = ZERO
    for x in arrays:
        length = length + x.sizes[axis]
    shape = (*first.sizes[:axis], length, *first.sizes[axis + 1 :])
    node = rec.nodes.empty(shape, kind)
    at: Index = ZERO
    steps = (size_of(1),) * len(shape)
    for x in arrays:
        starts = tuple(at if k == axis else ZERO for k in range(len(shape)))
        node = rec.nodes.update(node, rec.nodes.cast(x.node, kind), (starts, steps, x.sizes))
        at = at + x.sizes[axis]
    return rec.fresh(node)


@implements(np.concatenate, creates=True)
def concatenate(
    rec: Recorder, arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> TracedArray:
    parts = _arrays(rec, arrays)
    dtype = out.dtype if isinstance(out, TracedArray) and dtype is None else dtype
    if axis is None:
        return deliver(rec, joined(rec, [p.ravel() for p in parts], 0, dtype, casting), out)
    if not parts[0].ndim:
        raise ShapeError("zero-dimensional arrays cannot be concatenated", user_origin())
    return deliver(rec, joined(rec, parts, normalize_axis(axis, parts[0].ndim), dtype, casting), out)


@implements(np.stack, creates=True)
def stack(
    rec: Recorder, arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> TracedArray:
    parts = _arrays(rec, arrays, "stack")
    if not all(rec.shapes.unify_shapes(p.sizes, parts[0].sizes) for p in parts):
        raise ShapeError("all input arrays must have the same shape", user_origin())
    dtype = out.dtype if isinstance(out, TracedArray) and dtype is None else dtype
    k = normalize_axis(axis, parts[0].ndim + 1)
    return deliver(rec, joined(rec, [xp.expand_dims(p, k) for p in parts], k, dtype, casting), out)


@implements(np.vstack, getattr(np, "row_stack", None), creates=True)
def vstack(rec: Recorder, tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> TracedArray:
    return joined(rec, [xp.atleast_2d(p) for p in _arrays(rec, tup)], 0, dtype, casting)


@implements(np.hstack, creates=True)
def hstack(rec: Recorder, tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> TracedArray:
    parts = [xp.atleast_1d(p) for p in _arrays(rec, tup)]
    return joined(rec, parts, 0 if parts[0].ndim == 1 else 1, dtype, casting)


@implements(np.dstack, creates=True)
def dstack(rec: Recorder, tup: Any) -> TracedArray:
    return joined(rec, [xp.atleast_3d(p) for p in _arrays(rec, tup)], 2)


@implements(np.column_stack, creates=True)
def column_stack(rec: Recorder, tup: Any) -> TracedArray:
    parts = _arrays(rec, tup)
    return joined(rec, [xp.atleast_2d(p).T if p.ndim < 2 else p for p in parts], 1)


@implements(np.append)
def append(rec: Recorder, arr: Any, values: Any, axis: Any = None) -> TracedArray:
    return concatenate(rec, (arr, values), axis)


@implements(np.block, creates=True)
def block(rec: Recorder, arrays: Any) -> TracedArray:
    def depth(tree: Any) -> int:
        return 1 + depth(tree[0]) if isinstance(tree, list) else 0

    def build(tree: Any, axis: int) -> TracedArray:
        if not isinstance(tree, list):
            x = rec.lift(tree)
            return x.reshape((1,) * (levels - x.ndim) + x.shape) if x.ndim < levels else x
        parts = [build(item, axis + 1) for item in tree]
        return joined(rec, parts, parts[0].ndim - (levels - axis))

    levels = depth(arrays)
    return build(arrays, 0)


def _split(rec: Recorder, ary: Any, sections: Any, axis: int, equal: bool) -> list[TracedArray]:
    """``np.split`` and, not `equal`, ``np.array_split``."""
    x = rec.lift(ary)
    n = x.shape[normalize_axis(axis, x.ndim)]
    if isinstance(sections, TracedArray | np.ndarray | list | tuple):
        cuts = [0, *sections, n]
    else:
        count = operator.index(sections)
        if count <= 0:
            raise ShapeError("number sections must be larger than 0.", user_origin())
        if equal and n % count:
            raise ShapeError("array split does not result in an equal division", user_origin())
        each, extra = divmod(n, count)
        cuts = [k * each + min(k, extra) for k in range(count + 1)]
    lead = (slice(None),) * normalize_axis(axis, x.ndim)
    return [x[(*lead, slice(a, b))] for a, b in itertools.pairwise(cuts)]


@implements(np.split)
def split(rec: Recorder, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[TracedArray]:
    return _split(rec, ary, indices_or_sections, axis, equal=True)


@implements(np.array_split)
def array_split(rec: Recorder, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[TracedArray]:
    return _split(rec, ary, indices_or_sections, axis, equal=False)


def _split_along(rec: Recorder, name: str, axis: int, ary: Any, sections: Any) -> list[TracedArray]:
    """``np.hsplit`` and its relatives, by name."""
    least = {"hsplit": 1, "vsplit": 2, "dsplit": 3}[name]
    if rec.lift(ary).ndim < least:
        raise ShapeError(f"{name} only works on arrays of {least} or more dimensions", user_origin())
    return _split(rec, ary, sections, axis, equal=True)


@implements(np.vsplit)
def vsplit(rec: Recorder, ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    return _split_along(rec, "vsplit", 0, ary, indices_or_sections)


@implements(np.hsplit)
def hsplit(rec: Recorder, ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    return _split_along(rec, "hsplit", 0 if rec.lift(ary).ndim == 1 else 1, ary, indices_or_sections)


@implements(np.dsplit)
def dsplit(rec: Recorder, ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    return _split_along(rec, "dsplit", 2, ary, indices_or_sections)


@implements(getattr(np, "unstack", None))
def unstack(rec: Recorder, x: Any, /, *, axis: Any = 0) -> tuple[TracedArray, ...]:
    return tuple(xp.moveaxis(rec.lift(x), axis, 0))


@implements(np.tile)
def tile(rec: Recorder, A: Any, reps: Any) -> TracedArray:
    """Broadcast over new axes of the repetition counts, then merge."""
    x = rec.lift(A)
    counts = [rec.size(size_of(r)) for r in (reps if isinstance(reps, tuple | list) else (reps,))]
    rank = max(len(counts), x.ndim)
    counts = [1] * (rank - len(counts)) + counts
    sizes = (1,) * (rank - x.ndim) + x.shape
    spread = x.reshape([n for size in sizes for n in (1, size)])
    wide = xp.broadcast_to(spread, [n for r, size in zip(counts, sizes, strict=True) for n in (r, size)])
    return rec.fresh(wide.reshape([r * size for r, size in zip(counts, sizes, strict=True)]).node)


@implements(np.repeat)
def repeat(rec: Recorder, a: Any, repeats: Any, axis: Any = None) -> TracedArray:
    x = rec.lift(a).ravel() if axis is None else rec.lift(a)
    k = 0 if axis is None else normalize_axis(axis, x.ndim)
    if isinstance(repeats, TracedArray | np.ndarray | list | tuple):
        counts = rec.lift(repeats).value("the number of repeats is the value")
        if counts.size > 1:
            places = np.repeat(np.arange(x.shape[k]), counts)
            return xp.take(x, places, axis=k)
        repeats = counts.reshape(-1)[0]
    count = rec.size(size_of(repeats))
    spread = xp.expand_dims(x, k + 1)
    wide = xp.broadcast_to(spread, (*x.shape[: k + 1], count, *x.shape[k + 1 :]))
    return rec.fresh(wide.reshape((*x.shape[:k], x.shape[k] * count, *x.shape[k + 1 :])).node)


@implements(np.roll)
def roll(rec: Recorder, a: Any, shift: Any, axis: Any = None) -> TracedArray:
    x = rec.lift(a)
    if axis is None:
        return roll(rec, x.ravel(), shift, 0).reshape(x.shape)
    axes = (
        normalize_axes(axis, x.ndim) if not isinstance(axis, tuple) else tuple(normalize_axis(k, x.ndim) for k in axis)
    )
    shifts = [rec.size(size_of(s)) for s in (shift if isinstance(shift, tuple | list) else (shift,))]
    if len(shifts) == 1:
        shifts *= len(axes)
    axes = axes * len(shifts) if len(axes) == 1 else axes
    moved: dict[int, Any] = {}
    for k, s in zip(axes, shifts, strict=True):
        moved[k] = moved.get(k, 0) + s
    starts = [ZERO] * x.ndim
    for k, s in moved.items():
        n = x.shape[k]
        if n and n >= abs(s):
            starts[k] = size_of(n - s if s > 0 else -s)
        else:
            starts[k] = size_of((-s) % n if n else 0)
    return rec.fresh(rec.nodes.roll(x.node, tuple(starts)) if any(s is not ZERO for s in starts) else x.node)


def _shifted(rec: Recorder, x: Any, axes: Any, sign: int) -> TracedArray:
    a = rec.lift(x)
    places = normalize_axes(axes, a.ndim)
    half = tuple(a.shape[k] // 2 if sign > 0 else -(a.shape[k] // 2) for k in places)
    return roll(rec, a, half, places)


@implements(np.fft.fftshift)
def fftshift(rec: Recorder, x: Any, axes: Any = None) -> TracedArray:
    return _shifted(rec, x, axes, 1)


@implements(np.fft.ifftshift)
def ifftshift(rec: Recorder, x: Any, axes: Any = None) -> TracedArray:
    return _shifted(rec, x, axes, -1)


_INDEX_PADS = {"edge", "wrap", "reflect", "symmetric"}


@implements(np.pad)
def pad(rec: Recorder, array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> TracedArray:
    x = rec.lift(array)
    widths = _pairs(pad_width, x.ndim)
    if mode == "constant" and kwargs.keys() <= {"constant_values"}:
        return _pad_constant(rec, x, widths, kwargs.get("constant_values", 0))
    if mode in _INDEX_PADS and not kwargs and not any(rec.shapes.equal(n, ZERO) for n in x.sizes):
        for k, (before, after) in enumerate(widths):
            if before or after:
                places = _padded_places(rec, x.shape[k], before, after, mode)
                if isinstance(places, np.ndarray):
                    margins = places[:before], places[len(places) - after :]
                    low, high = (_taken(x, where, k) for where in margins)
                    x = joined(rec, [part for part in (low, x, high) if part.shape[k]], k)
                else:
                    x = xp.take(x, places, axis=k)
        return rec.fresh(x.node)
    return extern.call(rec, np.pad, (x, pad_width, mode), kwargs)


def _padded_places(rec: Recorder, n: int, before: int, after: int, mode: str) -> Any:
    """Which element each position of the padded axis repeats."""
    places: Any = np.arange(-before, n + after) if type(n) is int else rec.call(np.arange, (-before, n + after), {})
    if mode == "edge":
        return xp.clip(places, 0, n - 1)
    if mode == "wrap":
        return places % n
    if mode == "reflect" and n == 1:
        return xp.zeros_like(places)
    period = 2 * n if mode == "symmetric" else 2 * n - 2
    folded = places % period
    return xp.minimum(folded, (period - 1 if mode == "symmetric" else period) - folded)


def _taken(x: TracedArray, places: np.ndarray, axis: int) -> TracedArray:
    """The elements at known places of an axis, by slicing where they are consecutive."""
    lead, steps = (slice(None),) * axis, set(np.diff(places).tolist())
    if not places.size:
        return x[(*lead, slice(0))]
    first, last = int(places[0]), int(places[-1])
    if steps <= {1}:
        return x[(*lead, slice(first, last + 1))]
    if steps <= {-1}:
        return x[(*lead, slice(last, first + 1))][(*lead, slice(None, None, -1))]
    if steps <= {0}:
        shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
        return xp.broadcast_to(x[(*lead, slice(first, first + 1))], shape)
    return xp.take(x, places, axis=axis)


def _pairs(widths: Any, ndim: int) -> list[tuple[int, int]]:
    """NumPy's pad_width in any of its forms, as (before, after) for each axis."""
    if isinstance(widths, dict):
        given = {normalize_axis(k, ndim): v for k, v in widths.items()}
        rows: Any = [given.get(k, 0) for k in range(ndim)]
        widths = [(v, v) if isinstance(v, int) else tuple(v) for v in rows]
    table = np.asarray(widths)
    if table.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    if (table < 0).any():
        raise ShapeError("index can't contain negative values", user_origin())
    return [(int(a), int(b)) for a, b in np.broadcast_to(table, (ndim, 2))]


def _pad_constant(rec: Recorder, x: TracedArray, widths: list[tuple[int, int]], values: Any) -> TracedArray:
    if np.ndim(values) == 0:
        shape = tuple(n + a + b for n, (a, b) in zip(x.sizes, widths, strict=True))
        fill = rec.nodes.broadcast(rec.nodes.cast(rec.lift(values).node, x.dtype), shape)
        starts = tuple(size_of(a) for a, _ in widths)
        return rec.fresh(rec.nodes.update(fill, x.node, (starts, (size_of(1),) * x.ndim, x.sizes)))
    table = np.broadcast_to(np.asarray(values), (x.ndim, 2))
    for k, (before, after) in enumerate(widths):
        one = [(0, 0)] * x.ndim
        for side, width in enumerate((before, after)):
            one[k] = (width, 0) if side == 0 else (0, width)
            x = _pad_constant(rec, x, one, table[k, side])
    return x
