"""Positions and selections: index helpers, compress, delete, insert.

A condition whose value is not known makes a `Selection`, as indexing with it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import ShapeError
from numstax.trace import extern
from numstax.trace.array import TracedArray
from numstax.trace.elements import stored
from numstax.trace.origin import user_origin
from numstax.trace.registry import implements, xp
from numstax.trace.selection import Selection
from numstax.trace.sizes import normalize_axis

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


@implements(np.ix_)
def ix_(rec: Recorder, *args: Any) -> tuple[TracedArray, ...]:
    out = []
    for k, arg in enumerate(args):
        line = rec.lift(arg)
        if line.ndim != 1:
            raise ShapeError("Cross index must be 1 dimensional", user_origin())
        if line.dtype == dtypes.BOOL:
            line = _true_places(rec, line)
        out.append(line.reshape([-1 if j == k else 1 for j in range(len(args))]))
    return tuple(out)


def _true_places(rec: Recorder, mask: TracedArray) -> TracedArray:
    known = rec.known(mask.node)
    return rec.call(np.flatnonzero, (mask,), {}) if known is None else rec.lift(np.flatnonzero(known))


def _square(rec: Recorder, arr: Any) -> tuple[int, ...]:
    return tuple(rec.shapes.number(n) for n in rec.lift(arr).sizes)


@implements(np.diag_indices_from)
def diag_indices_from(rec: Recorder, arr: Any) -> tuple[TracedArray, ...]:
    shape = _square(rec, arr)
    if len(shape) < 2:
        raise ShapeError("input array must be at least 2-d", user_origin())
    if len(set(shape)) > 1:
        raise ShapeError("All dimensions of input must be of equal length", user_origin())
    return tuple(rec.lift(k) for k in np.diag_indices(shape[0], len(shape)))


def _triangle(rec: Recorder, arr: Any, k: int, places: Any) -> tuple[TracedArray, ...]:
    shape = _square(rec, arr)
    if len(shape) != 2:
        raise ShapeError("input array must be 2-d", user_origin())
    return tuple(rec.lift(line) for line in places(shape[0], k=k, m=shape[1]))


@implements(np.tril_indices_from)
def tril_indices_from(rec: Recorder, arr: Any, k: int = 0) -> tuple[TracedArray, ...]:
    return _triangle(rec, arr, k, np.tril_indices)


@implements(np.triu_indices_from)
def triu_indices_from(rec: Recorder, arr: Any, k: int = 0) -> tuple[TracedArray, ...]:
    return _triangle(rec, arr, k, np.triu_indices)


@implements(np.compress)
def compress(rec: Recorder, condition: Any, a: Any, axis: Any = None) -> TracedArray | Selection:
    x, mask = rec.lift(a), rec.lift(condition) != 0
    flat = x.ravel() if axis is None else x
    if rec.known(mask.node) is None and axis in (None, 0) and flat.sizes[:1] == mask.sizes:
        return flat[mask]
    return xp.take(x, _true_places(rec, mask), axis=axis)


@implements(np.extract)
def extract(rec: Recorder, condition: Any, arr: Any) -> TracedArray | Selection:
    return compress(rec, xp.ravel(rec.lift(condition)), xp.ravel(rec.lift(arr)))


@implements(np.delete)
def delete(rec: Recorder, arr: Any, obj: Any, axis: Any = None) -> TracedArray | Selection:
    x = rec.lift(arr)
    if axis is None:
        x, axis = x.ravel(), 0
    k = normalize_axis(axis, x.ndim)
    gone = _known(rec, obj)
    if gone is None:
        kept = xp.ones_like(rec.fresh(rec.nodes.iota((x.sizes[k],), 0)), dtype=bool)
        kept[obj] = False
        return x[(*(slice(None),) * k, kept)]
    n = rec.shapes.number(x.sizes[k])
    return xp.take(x, np.delete(np.arange(n), gone), axis=k)


@implements(np.insert)
def insert(rec: Recorder, arr: Any, obj: Any, values: Any, axis: Any = None) -> TracedArray:
    x, place = rec.lift(arr), _known(rec, obj)
    if axis is None:
        x, axis = x.ravel(), 0
    k = normalize_axis(axis, x.ndim)
    if not isinstance(place, int | np.integer):
        return extern.call(rec, np.insert, (x, obj, values, axis), {})
    n = rec.shapes.number(x.sizes[k])
    if not -n <= place <= n:
        return extern.call(rec, np.insert, (x, obj, values, axis), {})
    at = int(place) + n if place < 0 else int(place)
    new = stored(rec, values, x.dtype)
    new = new.reshape((1,) * (x.ndim - new.ndim) + new.shape)
    new = xp.moveaxis(new, 0, k)
    wide = xp.broadcast_to(new, (*x.shape[:k], new.shape[k], *x.shape[k + 1 :]))
    lead = (slice(None),) * k
    return xp.concatenate([x[(*lead, slice(None, at))], wide, x[(*lead, slice(at, None))]], axis=k)


def _known(rec: Recorder, value: Any) -> Any:
    """A position given as an int, a slice, or an array whose value is known; None when it is not."""
    if isinstance(value, int | slice | np.integer):
        return value
    found = rec.known(rec.lift(value).node)
    return found if found is None or found.ndim else found[()]


@implements(np.resize)
def resize(rec: Recorder, a: Any, new_shape: Any) -> TracedArray:
    flat = rec.lift(a).ravel()
    if any(n < 0 for n in (new_shape if isinstance(new_shape, tuple | list) else (new_shape,))):
        raise ValueError("all elements of `new_shape` must be non-negative")
    count = int(np.prod(new_shape))
    n = rec.shapes.number(flat.sizes[0])
    if not n or not count:
        return xp.zeros(new_shape, flat.dtype)
    return xp.take(flat, np.arange(count) % n).reshape(new_shape)
