"""Reductions and running reductions: sum, prod, max, min, any, all, argmax, argmin, cumsum, cumprod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import ShapeError
from numstax.ir.index import ONE
from numstax.trace import extern, ufuncs
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin
from numstax.trace.reductions import of_some, reduction, scan
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import normalize_axis

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


def _reduced(rec: Recorder, op: str, out: Any, *args: Any) -> TracedArray:
    return ufuncs.deliver(rec, reduction(rec, op, *args), out, ufuncs.CASTS.get(op, ""))


@implements(np.sum)
def sum_(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = True,
) -> TracedArray:  # fmt: skip
    return _reduced(rec, "add", out, a, axis, dtype, keepdims, initial, where)


@implements(np.prod)
def prod(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = True,
) -> TracedArray:  # fmt: skip
    return _reduced(rec, "multiply", out, a, axis, dtype, keepdims, initial, where)


@implements(np.max, np.amax)
def max_(
    rec: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> TracedArray:  # fmt: skip
    return _reduced(rec, "maximum", out, a, axis, None, keepdims, initial, where)


@implements(np.min, np.amin)
def min_(
    rec: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> TracedArray:  # fmt: skip
    return _reduced(rec, "minimum", out, a, axis, None, keepdims, initial, where)


@implements(np.any)
def any_(
    rec: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, where: Any = True
) -> TracedArray:
    return _reduced(rec, "logical_or", out, a, axis, None, keepdims, None, where)


@implements(np.all)
def all_(
    rec: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, where: Any = True
) -> TracedArray:
    return _reduced(rec, "logical_and", out, a, axis, None, keepdims, None, where)


@implements(np.count_nonzero)
def count_nonzero(rec: Recorder, a: Any, axis: Any = None, keepdims: bool = False) -> TracedArray:
    return reduction(rec, "add", rec.lift(a) != 0, axis, dtypes.INT64, keepdims)


def _position(rec: Recorder, op: str, a: Any, axis: Any, out: Any, keepdims: bool) -> TracedArray:
    x = rec.lift(a)
    if dtypes.kind(x.dtype) == "c":
        kwargs = {"axis": axis, "keepdims": keepdims}
        return ufuncs.deliver(rec, extern.call(rec, getattr(np, op), (x,), kwargs, f"numpy.{op}"), out)
    flat = x.reshape(-1) if axis is None else x
    k = 0 if axis is None else normalize_axis(axis, x.ndim)
    node = rec.nodes.reduce(op, flat.node, (k,), dtypes.INT64)
    node = of_some(rec, node, (flat.sizes[k],), f"attempt to get {op} of an empty sequence")
    if keepdims:
        shape = tuple(ONE if axis is None or j == k else n for j, n in enumerate(x.sizes))
        node = rec.nodes.reshape(node, shape)
    return ufuncs.deliver(rec, rec.fresh(node, not node.shape), out)


@implements(np.argmax)
def argmax(rec: Recorder, a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> TracedArray:
    return _position(rec, "argmax", a, axis, out, keepdims)


@implements(np.argmin)
def argmin(rec: Recorder, a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> TracedArray:
    return _position(rec, "argmin", a, axis, out, keepdims)


@implements(np.cumsum)
def cumsum(rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
    return ufuncs.deliver(rec, scan(rec, "add", a, axis, dtype), out, ufuncs.CASTS["add"])


@implements(np.cumprod)
def cumprod(rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
    return ufuncs.deliver(rec, scan(rec, "multiply", a, axis, dtype), out, ufuncs.CASTS["multiply"])


def _cumulative(rec: Recorder, op: str, x: Any, axis: Any, dtype: Any, out: Any, include_initial: bool) -> TracedArray:
    a = rec.lift(x)
    if axis is None and a.ndim > 1:
        raise ShapeError("For arrays which have more than one dimension ``axis`` argument is required.", user_origin())
    result = scan(rec, op, a, axis, dtype)
    if include_initial:
        k = normalize_axis(0 if axis is None else axis, result.ndim)
        shape = tuple(ONE if j == k else n for j, n in enumerate(result.sizes))
        start = rec.fresh(rec.nodes.full(0 if op == "add" else 1, result.dtype, shape))
        result = xp.concatenate([start, result], axis=k)
    return ufuncs.deliver(rec, result, out, ufuncs.CASTS[op])


@implements(getattr(np, "cumulative_sum", None))
def cumulative_sum(
    rec: Recorder, x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> TracedArray:
    return _cumulative(rec, "add", x, axis, dtype, out, include_initial)


@implements(getattr(np, "cumulative_prod", None))
def cumulative_prod(
    rec: Recorder, x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> TracedArray:
    return _cumulative(rec, "multiply", x, axis, dtype, out, include_initial)
