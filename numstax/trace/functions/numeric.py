"""Numbers: differences, comparisons with tolerance, rounding, casts, and small formulas of NumPy."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import CastError, ShapeError, UnsupportedOperationError
from numstax.trace import extern
from numstax.trace.array import TracedArray
from numstax.trace.functions.creation import as_dtype
from numstax.trace.layout import ordered
from numstax.trace.origin import user_origin
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import normalize_axis
from numstax.trace.ufuncs import apply, deliver

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


@implements(np.ndarray.astype, getattr(np, "astype", None))
def astype(
    rec: Recorder, x: Any, dtype: Any, casting: Any = "unsafe", copy: bool = True, device: Any = None,
    order: str = "K",
) -> TracedArray:  # fmt: skip
    a = rec.lift(x)
    kind = as_dtype(dtype)
    if not np.can_cast(a.dtype, kind, casting):
        raise CastError(
            f"Cannot cast array data from {a.dtype!r} to {kind!r} according to the rule '{casting}'", user_origin()
        )
    strides = ordered(rec.shapes, a.sizes, a.strides_in_elements, order)
    if kind == a.dtype and not copy and (order == "K" or strides == a.strides_in_elements):
        return a
    return rec.laid_out(rec.nodes.cast(a.node, kind), strides, a.is_scalar)


@implements(np.round, np.around)
def round_(rec: Recorder, a: Any, decimals: Any = 0, out: Any = None) -> TracedArray:
    x = rec.lift(a)
    places = operator.index(decimals)
    if dtypes.kind(x.dtype) == "c":
        real, imag = round_(rec, x.real, places), round_(rec, x.imag, places)
        return deliver(rec, rec.elementwise("complex", real, imag), out)
    if dtypes.kind(x.dtype) in "biu" and places >= 0:
        result = x.astype(np.float16) if x.dtype == dtypes.BOOL else rec.elementwise("positive", x)
    elif dtypes.kind(x.dtype) in "biu":
        return extern.call(rec, np.round, (x, places), {})
    elif places == 0:
        result = rec.elementwise("rint", x)
    else:
        scale = 10.0 ** abs(places)
        first, second = ("multiply", "divide") if places > 0 else ("divide", "multiply")
        result = rec.elementwise(second, rec.elementwise("rint", rec.elementwise(first, x, scale)), scale)
    return deliver(rec, result, out)


@implements(np.fix)
def fix(rec: Recorder, x: Any, out: Any = None) -> TracedArray:
    return apply(rec, np.trunc, "__call__", (x,), {"out": (out,)})


@implements(np.divmod)
def divmod_(rec: Recorder, x1: Any, x2: Any) -> tuple[TracedArray, TracedArray]:
    return rec.elementwise("floor_divide", x1, x2), rec.elementwise("remainder", x1, x2)


@implements(np.modf)
def modf(rec: Recorder, x: Any) -> tuple[TracedArray, TracedArray]:
    a = rec.lift(x)
    a = a.astype(np.modf.resolve_dtypes((a.dtype, None, None))[0])
    whole = rec.elementwise("trunc", a)
    part = rec.elementwise("where", rec.elementwise("isinf", a), whole.dtype.type(0), a - whole)
    return rec.elementwise("copysign", part, a), whole


@implements(np.angle)
def angle(rec: Recorder, z: Any, deg: bool = False) -> TracedArray:
    x = rec.lift(z)
    if dtypes.kind(x.dtype) == "c":
        a = rec.elementwise("arctan2", rec.elementwise("imag", x), rec.elementwise("real", x))
    else:
        a = rec.elementwise("arctan2", 0, x)
    return a * (180 / np.pi) if deg else a


@implements(np.nan_to_num)
def nan_to_num(
    rec: Recorder, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> TracedArray:
    a = rec.lift(x)
    kind = dtypes.kind(a.dtype)
    if kind == "c":
        parts = (nan_to_num(rec, rec.elementwise(p, a), True, nan, posinf, neginf) for p in ("real", "imag"))
        result = rec.elementwise("complex", *parts)
    elif kind != "f" or a.dtype in dtypes.ML_FLOATS:
        result = rec.laid_out(a.node, ordered(rec.shapes, a.sizes, a.strides_in_elements, "K"), not a.sizes)
    else:
        info = np.finfo(a.dtype)
        high, low = (info.max if posinf is None else posinf), (info.min if neginf is None else neginf)
        result = a
        for test, value in (
            (rec.elementwise("isnan", a), nan),
            (rec.elementwise("equal", a, np.inf), high),
            (rec.elementwise("equal", a, -np.inf), low),
        ):
            result = rec.elementwise("where", test, rec.lift(value).astype(a.dtype), result)
    if not copy and not a.is_scalar:
        a.store(result.node)
        return a
    return result


@implements(np.isclose)
def isclose(
    rec: Recorder, a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> TracedArray:
    x, y = rec.lift(a), rec.lift(b)
    if dtypes.kind(y.dtype) in "biu":
        y = y.astype(np.float64)
    near = xp.abs(x - y) <= atol + rtol * xp.abs(y)
    result = (near & xp.isfinite(y)) | (x == y)
    return result | (xp.isnan(x) & xp.isnan(y)) if equal_nan else result


@implements(np.allclose)
def allclose(
    rec: Recorder, a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> TracedArray:
    return rec.fresh(xp.all(isclose(rec, a, b, rtol, atol, equal_nan)).node, is_scalar=True, weak=bool)


@implements(np.array_equal)
def array_equal(rec: Recorder, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    x, y = rec.lift(a1), rec.lift(a2)
    if not rec.shapes.unify_shapes(x.sizes, y.sizes):
        return False
    same = x == y
    if equal_nan:
        same = same | ((x != x) & (y != y))
    return rec.fresh(xp.all(same).node, is_scalar=True, weak=bool)


@implements(np.array_equiv)
def array_equiv(rec: Recorder, a1: Any, a2: Any) -> Any:
    x, y = rec.lift(a1), rec.lift(a2)
    try:
        rec.shapes.broadcast(x.sizes, y.sizes)
    except ShapeError:
        return False
    return rec.fresh(xp.all(x == y).node, is_scalar=True, weak=bool)


@implements(np.diff)
def diff(rec: Recorder, a: Any, n: int = 1, axis: Any = -1) -> TracedArray:
    x = rec.lift(a)
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}", user_origin())
    k = normalize_axis(axis, x.ndim)
    lead = (slice(None),) * k
    op = "not_equal" if x.dtype == dtypes.BOOL else "subtract"
    for _ in range(n):
        x = rec.elementwise(op, x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))])
    return x


@implements(np.ediff1d)
def ediff1d(rec: Recorder, ary: Any, to_end: Any = None, to_begin: Any = None) -> TracedArray:
    line = rec.lift(ary).ravel()
    inner = rec.elementwise("subtract", line[1:], line[:-1])
    ends = [None if e is None else rec.lift(e).ravel() for e in (to_begin, to_end)]
    if any(e is not None and e.weak is None and not np.can_cast(e.dtype, inner.dtype, "same_kind") for e in ends):
        raise CastError("dtype of `to_begin` or `to_end` must be compatible with input `ary`", user_origin())
    parts = [p.astype(inner.dtype) for p in (ends[0], inner, ends[1]) if p is not None]
    return xp.concatenate(parts) if len(parts) > 1 else inner


@implements(np.polyval)
def polyval(rec: Recorder, p: Any, x: Any) -> TracedArray:
    coefficients, at = rec.lift(p), rec.lift(x)
    y = xp.zeros_like(at)
    for k in range(rec.shapes.number(coefficients.sizes[0])):
        y = y * at + coefficients[k]
    return y


@implements(np.trapezoid)
def trapezoid(rec: Recorder, y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> TracedArray:
    values = rec.lift(y)
    k = normalize_axis(axis, values.ndim)
    lead = (slice(None),) * k
    step: Any = dx
    if x is not None:
        step = xp.diff(rec.lift(x), axis=axis if rec.lift(x).ndim > 1 else -1)
        if step.ndim == 1 and values.ndim > 1:
            step = step.reshape([-1 if j == k else 1 for j in range(values.ndim)])
    pairs = step * (values[(*lead, slice(1, None))] + values[(*lead, slice(None, -1))]) / 2.0
    return pairs.sum(axis=k)


@implements(np.gradient)
def gradient(rec: Recorder, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences for uniform spacing; other forms are an extern call."""
    x = rec.lift(f)
    steps = [rec.lift(v) for v in varargs]
    axes = tuple(range(x.ndim)) if axis is None else tuple(
        normalize_axis(k, x.ndim) for k in (axis if isinstance(axis, tuple | list) else (axis,))
    )  # fmt: skip
    if (
        edge_order != 1
        or dtypes.kind(x.dtype) not in "fc"
        or any(s.ndim for s in steps)
        or len(steps) not in (0, 1, len(axes))
    ):
        kwargs = {"axis": axis, "edge_order": edge_order}
        return extern.call(rec, np.gradient, (x, *varargs), kwargs)
    spacing = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    out = []
    for k, h in zip(axes, spacing, strict=True):
        if x.shape[k] < 2:
            raise ShapeError(
                "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements "
                "are required.",
                user_origin(),
            )
        moved = xp.moveaxis(x, k, 0)
        inner = (moved[2:] - moved[:-2]) / (2.0 * h)
        ends = ((moved[1:2] - moved[:1]) / h, (moved[-1:] - moved[-2:-1]) / h)
        joined = xp.concatenate([ends[0], inner, ends[1]]).astype(x.dtype)
        out.append(xp.moveaxis(joined, 0, k))
    return out[0] if len(out) == 1 else tuple(out)


@implements(np.sinc)
def sinc(rec: Recorder, x: Any) -> TracedArray:
    y = np.pi * rec.lift(x)
    small = y.dtype.type(np.finfo(y.dtype).eps if y.dtype.kind == "f" else 1e-20)
    y = rec.elementwise("where", y == 0, small, y)
    return xp.sin(y) / y


@implements(np.isscalar)
def isscalar(rec: Recorder, element: Any) -> bool:
    return bool(element.is_scalar)


@implements(np.iterable)
def iterable(rec: Recorder, y: Any) -> bool:
    return not isinstance(y, TracedArray) or y.ndim > 0


@implements(np.isfortran)
def isfortran(rec: Recorder, a: Any) -> bool:
    return bool(rec.lift(a).flags.fnc)


@implements(np.iscomplexobj)
def iscomplexobj(rec: Recorder, x: Any) -> bool:
    return dtypes.kind(rec.lift(x).dtype) == "c"


@implements(np.isrealobj)
def isrealobj(rec: Recorder, x: Any) -> bool:
    return dtypes.kind(rec.lift(x).dtype) != "c"


@implements(np.iscomplex)
def iscomplex(rec: Recorder, x: Any) -> TracedArray:
    return rec.elementwise("not_equal", rec.lift(x).imag, 0)


@implements(np.isreal)
def isreal(rec: Recorder, x: Any) -> TracedArray:
    return rec.elementwise("equal", rec.lift(x).imag, 0)


@implements(np.isposinf)
def isposinf(rec: Recorder, x: Any, out: Any = None) -> TracedArray:
    return _is_infinity(rec, x, np.inf, out)


@implements(np.isneginf)
def isneginf(rec: Recorder, x: Any, out: Any = None) -> TracedArray:
    return _is_infinity(rec, x, -np.inf, out)


def _is_infinity(rec: Recorder, x: Any, infinity: float, out: Any) -> TracedArray:
    a = rec.lift(x)
    if dtypes.kind(a.dtype) == "c":
        raise TypeError(f"This operation is not supported for {a.dtype} values because it would be ambiguous.")
    return deliver(rec, rec.elementwise("equal", a, infinity), out)


@implements(np.result_type)
def result_type(rec: Recorder, *args: Any) -> np.dtype:
    return np.result_type(*(_type_stand_in(a) for a in args))


@implements(np.can_cast)
def can_cast(rec: Recorder, from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(_type_stand_in(from_), to, casting)


@implements(np.common_type)
def common_type(rec: Recorder, *arrays: Any) -> type:
    return np.common_type(*(np.empty(0, rec.lift(a).dtype) for a in arrays))


@implements(np.min_scalar_type)
def min_scalar_type(rec: Recorder, a: Any) -> np.dtype:
    x = rec.lift(a)
    return x.dtype if x.ndim else np.min_scalar_type(x.value("the smallest dtype depends on the value")[()])


def _type_stand_in(value: Any) -> Any:
    """What stands for a traced value in a question about dtypes."""
    if not isinstance(value, TracedArray):
        return value
    return value.weak(0) if value.weak else value.dtype


@implements(np.shares_memory, np.may_share_memory)
def shares_memory(rec: Recorder, a: Any, b: Any, *, max_work: Any = None) -> bool:
    """True for an array and its view, and False for memory that is surely another's; what else there is depends on
    addresses."""
    x, y = rec.lift(a), rec.lift(b)
    if not (x.sizes and y.sizes) and (x.is_scalar or y.is_scalar):
        return False
    steps = min(len(x.views), len(y.views))
    if x.storage is y.storage and x.views[:steps] == y.views[:steps]:
        return bool(x.size) and bool(y.size)
    unsure = x.storage is y.storage or None not in (x.storage.position, y.storage.position)
    if unsure or x.storage.fixed or y.storage.fixed:
        raise UnsupportedOperationError(
            "whether these arrays share memory is not known while tracing", user_origin(),
            "ask outside of the compiled function",
        )  # fmt: skip
    return False
