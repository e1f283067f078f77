"""Choosing elements: where, clip, take, choose, and writing into chosen elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import CastError, ShapeError
from numstax.ir import ops
from numstax.ir.index import ONE
from numstax.trace import elementwise, extern, host
from numstax.trace.array import TracedArray
from numstax.trace.elements import stored
from numstax.trace.indexing import fitted
from numstax.trace.origin import user_origin
from numstax.trace.python_numbers import converted
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import normalize_axis, text, total
from numstax.trace.ufuncs import apply, deliver

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


@implements(np.where)
def where(rec: Recorder, condition: Any, *choices: Any) -> Any:
    if not choices:
        return rec.call(np.nonzero, (condition,), {})
    if len(choices) != 2:
        raise ValueError("either both or neither of x and y should be given")
    x, y = (_wrapped(rec, own, other) for own, other in (choices, choices[::-1]))
    chosen = rec.elementwise("where", rec.lift(condition) != 0 if not _is_bool(rec, condition) else condition, x, y)
    return rec.laid_out(chosen.node, chosen.strides_in_elements)


def _wrapped(rec: Recorder, own: Any, other: Any) -> Any:
    """A Python integer beside integers of a dtype: only `np.where` takes one that this cannot hold, modulo its size."""
    beside = elementwise.operand(rec, other)
    if not isinstance(beside, TracedArray) or beside.weak or dtypes.kind(beside.dtype) not in "iu":
        return own
    if isinstance(own, TracedArray) and own.weak is int:
        return rec.fresh(rec.nodes.cast(own.node, beside.dtype), True)
    if type(own) is int and -(1 << 63) <= own < 1 << 64:
        return np.array(own).astype(beside.dtype)[()]
    return own


def _is_bool(rec: Recorder, condition: Any) -> bool:
    return rec.lift(condition).dtype == dtypes.BOOL


@implements(np.clip)
def clip(
    rec: Recorder, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None,
    dtype: Any = None,
) -> TracedArray:  # fmt: skip
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x = rec.lift(a)
    kind = np.dtype(dtype) if dtype is not None else np.clip(*(_empty(rec, v) for v in (x, low, high))).dtype
    low, high = (bound if _is_limit(x.dtype, bound, above) else None for bound, above in ((low, False), (high, True)))
    result = x
    for op, beyond, bound in (("maximum", "less", low), ("minimum", "greater", high)):
        if bound is None:
            continue
        bound = rec.lift(elementwise.in_range(rec, bound, bound, kind))
        value, limit = result.astype(kind), rec.fresh(converted(rec, bound, kind), bound.is_scalar)
        ordered = type(low) in (int, float) and type(high) in (int, float) and low == low and high == high
        if dtypes.kind(kind) == "f" and ordered:
            # NumPy's loop for two numbers keeps a zero of the other sign
            result = rec.elementwise("where", rec.elementwise(beyond, value, limit), limit, value)
        else:
            result = rec.elementwise(op, value, limit)
    if result is x:
        result = rec.elementwise("positive", x)
    if out is None:
        return result
    return apply(rec, np.positive, "__call__", (result,), {"out": (out,)})


def _is_limit(dtype: np.dtype, bound: Any, above: bool) -> bool:
    """Do some integers of the dtype lie beyond the bound?  NumPy leaves out Python integers that all are within."""
    if type(bound) is not int or dtypes.kind(dtype) not in "iu":
        return bound is not None
    return bound < np.iinfo(dtype).max if above else bound > np.iinfo(dtype).min


def _empty(rec: Recorder, value: Any) -> Any:
    """What has the type of `value` for NumPy's promotion, without its elements."""
    if value is None:
        return None
    kind = elementwise.type_of(elementwise.operand(rec, value))
    return kind(0) if isinstance(kind, type) else np.empty(0, kind)


@implements(np.take)
def take(rec: Recorder, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> TracedArray:
    x = rec.lift(a).ravel() if axis is None else rec.lift(a)
    k = 0 if axis is None else normalize_axis(axis, x.ndim)
    at = rec.lift(indices)
    if mode == "clip":
        at = xp.clip(at, 0, x.shape[k] - 1)
    elif mode == "wrap":
        at = at % x.shape[k]
    picked = x[(*(slice(None),) * k, at.astype(np.int64))]
    fresh = rec.fresh(picked.node, picked.is_scalar)
    return deliver(rec, fresh, out)


@implements(np.take_along_axis)
def take_along_axis(rec: Recorder, arr: Any, indices: Any, axis: Any = -1) -> TracedArray:
    x, at = rec.lift(arr), rec.lift(indices)
    if axis is None:
        x, axis = x.ravel(), 0
    return x[_along(rec, x, at, axis)]


def _along(rec: Recorder, x: TracedArray, at: TracedArray, axis: Any) -> tuple[TracedArray, ...]:
    """The key that takes the positions `at` along one axis."""
    k = normalize_axis(axis, x.ndim)
    if dtypes.kind(at.dtype) not in "iu":
        raise IndexError("`indices` must be an integer array")
    if x.ndim != at.ndim:
        raise ShapeError("`indices` and `arr` must have the same number of dimensions", user_origin())
    lines = (
        rec.fresh(rec.nodes.iota((n,), 0)).reshape([-1 if i == j else 1 for i in range(x.ndim)])
        for j, n in enumerate(x.sizes)
    )
    return tuple(at if j == k else line for j, line in enumerate(lines))


@implements(np.choose)
def choose(rec: Recorder, a: Any, choices: Any, out: Any = None, mode: str = "raise") -> TracedArray:
    index = rec.lift(a)
    if mode == "raise" or isinstance(choices, TracedArray) or not np.can_cast(index.dtype, np.int64, "safe"):
        return deliver(rec, extern.call(rec, np.choose, (a, tuple(choices)), {"mode": mode}), out)
    index = xp.clip(index, 0, len(choices) - 1) if mode == "clip" else index % len(choices)
    found = _common(rec, choices)
    result = found[0]
    for k, choice in enumerate(found):
        result = xp.where(index == k, choice, result)
    return deliver(rec, rec.fresh(result.node, not result.sizes), out)


def _common(rec: Recorder, values: Sequence[Any]) -> list[TracedArray]:
    """The values in the dtype of all together, which promoting them two by two need not give."""
    operands = [elementwise.operand(rec, v) for v in values]
    kind = ops.result_type(*map(elementwise.type_of, operands))
    lifted = [rec.lift(x) for x in operands]
    return [rec.fresh(converted(rec, x, kind), x.is_scalar) for x in lifted]


@implements(np.select)
def select(rec: Recorder, condlist: Any, choicelist: Any, default: Any = 0) -> TracedArray:
    if len(condlist) != len(choicelist):
        raise ShapeError("list of cases must be same length as list of conditions", user_origin())
    if not condlist:
        raise ShapeError("select with an empty condition list is not possible", user_origin())
    conditions = [rec.lift(c) for c in condlist]
    for k, condition in enumerate(conditions):
        if condition.dtype != dtypes.BOOL:
            raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    *choices, result = _common(rec, (*choicelist, default))
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = xp.where(condition, choice, result)
    return result


# --- writing ------------------------------------------------------------------------------------------


@implements(np.copyto)
def copyto(rec: Recorder, dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    source = rec.lift(src)
    if source.weak:
        np.copyto(np.zeros((), dst.dtype), source.weak(1), casting)  # raises where NumPy does
    elif not np.can_cast(source.dtype, dst.dtype, casting):
        raise CastError(
            f"Cannot cast array data from {source.dtype!r} to {dst.dtype!r} according to the rule '{casting}'",
            user_origin(),
        )
    _store_where(rec, dst, rec.fresh(converted(rec, source, dst.dtype)), where)


def _store_where(rec: Recorder, a: Any, values: Any, where: Any) -> None:
    value = fitted(rec, values, a)
    if where is not True:
        mask = elementwise.mask(rec, where)
        if not rec.shapes.fits(mask.sizes, a.sizes):
            shapes = f"from shape {text(mask.sizes)} into shape {text(a.sizes)}"
            raise ShapeError(f"could not broadcast where mask {shapes}", user_origin())
        holds = rec.nodes.broadcast(mask.node, a.sizes)
        value = rec.nodes.elementwise("where", (holds, value, a.node), a.dtype)
    a.store(value)


def _takes(rec: Recorder, a: Any, values: Any) -> bool:
    """Does NumPy convert the values for a function that writes them into `a`?  Others are left to NumPy to refuse."""
    lifted = rec.lift(values)
    return lifted.weak is not None or np.can_cast(lifted.dtype, a.dtype, "safe")


@implements(np.putmask)
def putmask(rec: Recorder, a: Any, mask: Any, values: Any) -> None:
    holds = rec.lift(mask).astype(bool)
    if rec.lift(values).sizes in ((), a.sizes) and holds.sizes == a.sizes and _takes(rec, a, values):
        _store_where(rec, a, values, holds)
    else:
        a.store(extern.call(rec, host.where_assign, (a, mask, values), {}).node)


@implements(np.place)
def place(rec: Recorder, arr: Any, mask: Any, vals: Any) -> None:
    values = stored(rec, vals, arr.dtype).ravel() if _takes(rec, arr, vals) else None
    if values is not None and values.sizes == (ONE,):
        _store_where(rec, arr, values[0], rec.lift(mask).astype(bool).reshape(arr.shape))
    else:
        arr.store(extern.call(rec, host.place, (arr, mask, vals if values is None else values), {}).node)


@implements(np.put)
def put(rec: Recorder, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    at, values = rec.lift(ind), stored(rec, v, a.dtype)
    if mode == "raise" and dtypes.kind(at.dtype) in "iu" and (not values.sizes or values.sizes == at.sizes):
        flat = rec.fresh(rec.nodes.reshape(a.node, (total(a.sizes),)))
        flat[at] = values
        a.store(rec.nodes.reshape(flat.node, a.sizes))
        return
    a.store(extern.call(rec, host.put, (a, ind, values, mode), {}).node)


@implements(np.put_along_axis)
def put_along_axis(rec: Recorder, arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    if axis is None:
        arr.store(extern.call(rec, host.put_along_axis, (arr, indices, values, axis), {}).node)
    else:
        arr[_along(rec, arr, rec.lift(indices), axis)] = values


@implements(np.fill_diagonal)
def fill_diagonal(rec: Recorder, a: Any, val: Any, wrap: bool = False) -> None:
    if a.ndim == 2 and rec.lift(val).ndim == 0:
        rows, columns = a.shape
        i, j = (rec.fresh(rec.nodes.iota(a.sizes, axis)) for axis in (0, 1))
        on = i == j
        if wrap and rows > columns:
            on = (i % (columns + 1)) == j
        a.store(rec.nodes.elementwise("where", (on.node, fitted(rec, val, a), a.node), a.dtype))
    else:
        a.store(extern.call(rec, host.fill_diagonal, (a, val, wrap), {}).node)
