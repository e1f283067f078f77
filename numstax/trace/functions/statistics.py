"""Means, variances and what is built of them, with NumPy's choice of accumulators; their nan-forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import ShapeError
from numstax.trace import extern
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin
from numstax.trace.reductions import reduction, scan
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import normalize_axes
from numstax.trace.ufuncs import CASTS, apply, deliver

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


def _count(rec: Recorder, x: TracedArray, axis: Any, keepdims: bool, where: Any) -> Any:
    """How many elements take part in each result."""
    if where is True:
        count = 1
        for k in normalize_axes(axis, x.ndim):
            count *= x.shape[k]
        return count
    mask = rec.elementwise("logical_and", where, xp.broadcast_to(rec.lift(True), x.shape))
    return reduction(rec, "add", mask, axis, dtypes.INT64, keepdims)


def _work_dtype(x: TracedArray, dtype: Any) -> np.dtype:
    if dtype is not None:
        return np.dtype(dtype)
    return dtypes.FLOAT64 if dtypes.kind(x.dtype) in "biu" else dtypes.compute(x.dtype)


def _result_dtype(x: TracedArray, dtype: Any) -> np.dtype:
    if dtype is not None:
        return np.dtype(dtype)
    return dtypes.FLOAT64 if dtypes.kind(x.dtype) in "biu" else x.dtype


@implements(np.mean)
def mean(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    *, where: Any = True,
) -> TracedArray:  # fmt: skip
    x = rec.lift(a)
    total = reduction(rec, "add", x, axis, _work_dtype(x, dtype), keepdims, None, where)
    divided = rec.elementwise("divide", total, _count(rec, x, axis, keepdims, where))
    return deliver(rec, divided.astype(_result_dtype(x, dtype)), out)


def _variance(
    rec: Recorder, a: Any, axis: Any, dtype: Any, ddof: float, keepdims: bool, where: Any, root: bool
) -> TracedArray:
    """Two passes: the mean, then the mean square distance from it.  A `dtype` of floats is that of the sums; one of
    integers or complex numbers is left to NumPy, and so are complex elements with any."""
    x = rec.lift(a)
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None and (dtypes.kind(wanted) != "f" or dtypes.kind(x.dtype) == "c"):
        words = {"axis": axis, "dtype": wanted, "ddof": ddof, "keepdims": keepdims, "where": where}
        return extern.call(rec, np.std if root else np.var, (x,), words)
    work, result = _work_dtype(x, None), _result_dtype(x, dtype)
    x = x.astype(work)
    centre = mean(rec, x, axis, wanted, None, True, where=where)
    away = x - centre
    if dtypes.kind(work) == "c":
        square = away.real**2 + away.imag**2
        result = np.dtype(f"f{result.itemsize // 2}")
    else:
        square = away * away
    total = reduction(rec, "add", square, axis, wanted, keepdims, None, where)
    count = _count(rec, x, axis, keepdims, where)
    ddof = int(ddof) if float(ddof).is_integer() else ddof
    freedom = xp.maximum(count - ddof, 0) if isinstance(count, TracedArray) else max(count - ddof, 0)
    spread = rec.elementwise("divide", total, freedom)
    return (rec.elementwise("sqrt", spread) if root else spread).astype(result)


@implements(np.var)
def var(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True,
) -> TracedArray:  # fmt: skip
    return deliver(rec, _variance(rec, a, axis, dtype, ddof, keepdims, where, root=False), out)


@implements(np.std)
def std(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True,
) -> TracedArray:  # fmt: skip
    return deliver(rec, _variance(rec, a, axis, dtype, ddof, keepdims, where, root=True), out)


@implements(np.average)
def average(
    rec: Recorder, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    x = rec.lift(a)
    axis = tuple(axis) if isinstance(axis, list) else axis
    if weights is None:
        result = mean(rec, x, axis, None, None, keepdims)
        if not result.size:
            raise ZeroDivisionError("division by zero")
        count = xp.full_like(result, x.size // result.size)
        return (result, rec.fresh(count.node, not count.ndim)) if returned else result
    w = _along(rec, rec.lift(weights), x, axis)
    common = (
        np.result_type(x.dtype, w.dtype, np.float64)
        if dtypes.kind(x.dtype) in "biu"
        else np.result_type(x.dtype, w.dtype)
    )
    spread = xp.broadcast_to(w, x.shape).astype(common)
    scale = reduction(rec, "add", spread, axis, None, keepdims)
    holds = rec.elementwise("not_equal", scale, scale.dtype.type(0))
    scale = rec.fresh(rec.nodes.require(scale.node, holds.node, "weights"), scale.is_scalar)
    result = reduction(rec, "add", x * spread, axis, common, keepdims) / scale
    return (result, scale) if returned else result


def _along(rec: Recorder, weights: TracedArray, x: TracedArray, axis: Any) -> TracedArray:
    """Weights of all elements, or of the places along some axes, with axes that meet those of x."""
    if rec.shapes.unify_shapes(weights.sizes, x.sizes):
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = normalize_axes(axis, x.ndim)
    if not rec.shapes.unify_shapes(weights.sizes, tuple(x.sizes[k] for k in axes)):
        raise ShapeError("Shape of weights must be consistent with shape of a along specified axis.", user_origin())
    turned = xp.transpose(weights, np.argsort(axes))
    return turned.reshape([n if k in axes else 1 for k, n in enumerate(x.shape)])


@implements(np.ptp)
def ptp(rec: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> TracedArray:
    high, low = (reduction(rec, op, a, axis, None, keepdims) for op in ("maximum", "minimum"))
    return apply(rec, np.subtract, "__call__", (high, low), {"out": (out,)})


@implements(np.cov)
def cov(
    rec: Recorder, m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> TracedArray:  # fmt: skip
    if fweights is not None or aweights is not None or rec.lift(m).ndim > 2:
        words = {"rowvar": rowvar, "bias": bias, "ddof": ddof, "fweights": fweights, "aweights": aweights}
        return extern.call(rec, np.cov, (m, y), words | ({} if dtype is None else {"dtype": dtype}))
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    series = [rec.lift(v) for v in (m, y) if v is not None]
    work = np.result_type(*(v.dtype for v in series), np.float64) if dtype is None else np.dtype(dtype)
    if not rowvar:
        series = [v.T if k == 0 or v.ndim < 2 or v.shape[0] != 1 else v for k, v in enumerate(series)]
    rows = xp.concatenate([xp.atleast_2d(v).astype(work) for v in series])
    away = rows - mean(rec, rows, 1, keepdims=True)
    ddof = (0 if bias else 1) if ddof is None else ddof
    freedom = rows.shape[1] - ddof
    scale = 1 / freedom if freedom > 0 else np.inf
    return xp.squeeze(xp.dot(away, away.T.conj()) * scale)


@implements(np.corrcoef)
def corrcoef(rec: Recorder, x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> TracedArray:
    c = cov(rec, x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    spread = xp.sqrt(xp.diag(c).real)
    c = c / spread[:, None] / spread[None, :]
    if dtypes.kind(c.dtype) != "c":
        return xp.clip(c, -1, 1)
    return rec.elementwise("complex", xp.clip(c.real, -1, 1), xp.clip(c.imag, -1, 1))


# --- nan-forms: NaN does not take part ----------------------------------------------------------------


def _without_nan(rec: Recorder, a: Any, filler: float) -> tuple[TracedArray, Any]:
    """The array with NaN replaced, and where it was a number (True: everywhere)."""
    x = rec.lift(a)
    if x.dtype.kind not in "fc":  # NumPy finds no NaN in the floats of ml_dtypes
        return x, True
    missing = rec.elementwise("isnan", x)
    return rec.elementwise("where", missing, x.dtype.type(filler), x), ~missing


@implements(np.nansum)
def nansum(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = True,
) -> TracedArray:  # fmt: skip
    x, _ = _without_nan(rec, a, 0)
    return deliver(rec, reduction(rec, "add", x, axis, dtype, keepdims, initial, where), out, CASTS["add"])


@implements(np.nanprod)
def nanprod(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = True,
) -> TracedArray:  # fmt: skip
    x, _ = _without_nan(rec, a, 1)
    return deliver(rec, reduction(rec, "multiply", x, axis, dtype, keepdims, initial, where), out, CASTS["multiply"])


@implements(np.nancumsum)
def nancumsum(rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
    return deliver(rec, scan(rec, "add", _without_nan(rec, a, 0)[0], axis, dtype), out, CASTS["add"])


@implements(np.nancumprod)
def nancumprod(rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
    return deliver(rec, scan(rec, "multiply", _without_nan(rec, a, 1)[0], axis, dtype), out, CASTS["multiply"])


@implements(np.nanmax)
def nanmax(
    rec: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> TracedArray:  # fmt: skip
    return deliver(rec, reduction(rec, "fmax", a, axis, None, keepdims, initial, where), out)


@implements(np.nanmin)
def nanmin(
    rec: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> TracedArray:  # fmt: skip
    return deliver(rec, reduction(rec, "fmin", a, axis, None, keepdims, initial, where), out)


@implements(np.nanmean)
def nanmean(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> TracedArray:
    x, present = _without_nan(rec, a, 0)
    return mean(rec, x, axis, dtype, out, keepdims, where=present)


@implements(np.nanvar)
def nanvar(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False,
) -> TracedArray:  # fmt: skip
    return deliver(rec, _nan_variance(rec, a, axis, dtype, ddof, keepdims, root=False), out)


@implements(np.nanstd)
def nanstd(
    rec: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False,
) -> TracedArray:  # fmt: skip
    return deliver(rec, _nan_variance(rec, a, axis, dtype, ddof, keepdims, root=True), out)


def _nan_variance(rec: Recorder, a: Any, axis: Any, dtype: Any, ddof: float, keepdims: bool, root: bool) -> TracedArray:
    x, present = _without_nan(rec, a, 0)
    if present is not True and dtype is not None and not np.dtype(dtype).kind == x.dtype.kind == "f":
        words = {"axis": axis, "dtype": np.dtype(dtype), "ddof": ddof, "keepdims": keepdims}
        return extern.call(rec, np.nanstd if root else np.nanvar, (a,), words)
    spread = _variance(rec, x, axis, dtype, ddof, keepdims, present, root)
    if present is True:
        return spread
    enough = _count(rec, x, axis, keepdims, present) > ddof
    return rec.elementwise("where", enough, spread, spread.dtype.type(np.nan))
