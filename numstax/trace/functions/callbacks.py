"""Functions that take a function: it is traced, for each part of the array or for all of it at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import ShapeError, UnsupportedOperationError
from numstax.trace import batches
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin
from numstax.trace.registry import implements, xp
from numstax.trace.scopes import Kind, Scope
from numstax.trace.sizes import Size, normalize_axis, size_of
from numstax.trace.trees import mapped

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_ALONG = (
    np.sum, np.prod, np.max, np.min, np.mean, np.std, np.var, np.median, np.any, np.all, np.argmax, np.argmin,
    np.cumsum, np.cumprod, np.sort, np.argsort, np.ptp, np.diff, np.linalg.norm, np.count_nonzero, np.nansum,
    np.nanmean, np.nanmax, np.nanmin, np.nanstd,
)  # fmt: skip
"""Functions whose parameter `axis` means what apply_along_axis does."""
_PARTS = 256
"""Lines of an array that a function is traced for."""


@implements(np.apply_along_axis)
def apply_along_axis(rec: Recorder, func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> TracedArray:
    x = rec.lift(arr)
    k = normalize_axis(axis, x.ndim)
    if getattr(func1d, "__wrapped__", func1d) in _ALONG and not args and not kwargs:
        result = rec.lift(func1d(x, axis=k))
        return rec.fresh(result.node) if result.is_scalar else result
    moved = xp.moveaxis(x, k, -1)
    outer = tuple(rec.shapes.number(n) for n in moved.sizes[:-1])
    if not 0 < math.prod(outer) <= _PARTS:
        raise UnsupportedOperationError(
            f"numpy.apply_along_axis calls a function for {math.prod(outer)} lines of an array", user_origin(),
            "write the function with an axis argument, for all lines at once",
        )  # fmt: skip
    lines = [rec.lift(func1d(moved[at], *args, **kwargs)) for at in itertools.product(*map(range, outer))]
    made = xp.stack([x.astype(lines[0].dtype) for x in lines]).reshape(outer + lines[0].shape)
    return xp.moveaxis(made, range(x.ndim - 1, made.ndim), range(k, k + lines[0].ndim))


@implements(np.apply_over_axes)
def apply_over_axes(rec: Recorder, func: Any, a: Any, axes: Any) -> TracedArray:
    x = rec.lift(a)
    for axis in (axes,) if np.ndim(axes) == 0 else axes:
        k = normalize_axis(axis, x.ndim)
        result = func(x, k)
        x = result if result.ndim == x.ndim else xp.expand_dims(result, k)
    return x


@implements(np.piecewise)
def piecewise(rec: Recorder, x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> TracedArray:
    a = rec.lift(x)
    single = not isinstance(condlist, list | tuple) and not rec.lift(condlist).ndim
    single = single or (a.ndim > 0 and not isinstance(condlist[0], list | np.ndarray))
    conditions = [rec.lift(c).astype(dtypes.BOOL) for c in ((condlist,) if single else condlist)]
    if len(funclist) == len(conditions) + 1:
        covered = conditions[0]
        for c in conditions[1:]:
            covered = covered | c
        conditions.append(~covered)
    if len(funclist) != len(conditions):
        n = len(conditions)
        raise ShapeError(f"with {n} condition(s), either {n} or {n + 1} functions are expected", user_origin())
    y = xp.zeros_like(xp.atleast_1d(a))
    flat = xp.atleast_1d(a)
    for condition, piece in zip(conditions, funclist, strict=True):
        mask = xp.atleast_1d(condition)
        y[mask] = piece(flat[mask], *args, **kw) if callable(piece) else piece
    return y.reshape(a.shape) if not a.ndim else y


@implements(batches.collected, creates=True)
def collected(rec: Recorder, run: Callable[[Any], Any], count: Any) -> Any:
    scope = Scope(rec, (run,), is_body=True)
    try:
        with rec.shapes.counter(size_of(count)) as symbol:
            kinds = mapped(lambda leaf: None if leaf is None else batches.kind_of_leaf(leaf), run(Size(rec, symbol)))
    finally:
        scope.undo()
        rec.nodes.forget(scope.first_node)

    def memory(kind: Kind | None) -> TracedArray | None:
        return None if kind is None else rec.fresh(rec.nodes.empty((size_of(count), *kind.shape), kind.dtype))

    return mapped(memory, kinds)
