"""Arrays made inside the traced function: zeros, arange, eye, array([...]) and the like.

These give traced arrays even when no argument is traced, so that the function may write into them.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import ShapeError, UnsupportedOperationError
from numstax.ir import ops
from numstax.ir.index import ONE, ZERO, contiguous_strides
from numstax.trace import elementwise
from numstax.trace.array import TracedArray
from numstax.trace.elements import stored
from numstax.trace.indexing import count_steps
from numstax.trace.layout import ordered
from numstax.trace.origin import user_origin
from numstax.trace.python_numbers import converted
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import Shape, Size, as_shape, size_of

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


def as_dtype(dtype: Any) -> np.dtype:
    found = np.dtype(dtype)
    if not dtypes.is_supported(found):
        raise UnsupportedOperationError(
            f"dtype {found} cannot be compiled", user_origin(), "convert outside the function"
        )
    return found


def new_shape(rec: Recorder, shape: Any) -> Shape:
    """The shape argument of a creation function."""
    sizes = as_shape(tuple(shape) if isinstance(shape, np.ndarray | TracedArray) and shape.ndim else shape)
    if not all(rec.shapes.at_least(n, 0) for n in sizes):
        raise ShapeError("negative dimensions are not allowed", user_origin())
    return sizes


def filled(rec: Recorder, shape: Any, value: Any, dtype: Any, order: str = "C") -> TracedArray:
    sizes = new_shape(rec, shape)
    kind = as_dtype(dtype)
    node = rec.nodes.broadcast(converted(rec, rec.lift(value), kind), sizes)
    return rec.laid_out(node, ordered(rec.shapes, sizes, None, order))


@implements(np.zeros, creates=True)
def zeros(rec: Recorder, shape: Any, dtype: Any = float, order: str = "C") -> TracedArray:
    return filled(rec, shape, 0, dtype, order)


@implements(np.ones, creates=True)
def ones(rec: Recorder, shape: Any, dtype: Any = None, order: str = "C") -> TracedArray:
    return filled(rec, shape, 1, dtype, order)


@implements(np.empty, creates=True)
def empty(rec: Recorder, shape: Any, dtype: Any = float, order: str = "C") -> TracedArray:
    sizes = new_shape(rec, shape)
    return rec.laid_out(rec.nodes.empty(sizes, as_dtype(dtype)), ordered(rec.shapes, sizes, None, order))


@implements(np.full, creates=True)
def full(rec: Recorder, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> TracedArray:
    return filled(rec, shape, fill_value, rec.lift(fill_value).dtype if dtype is None else dtype, order)


def _like(rec: Recorder, a: Any, value: Any, dtype: Any, order: str, shape: Any) -> TracedArray:
    x = rec.lift(a)
    sizes = x.sizes if shape is None else new_shape(rec, shape)
    kind = x.dtype if dtype is None else as_dtype(dtype)
    if value is None:
        node = rec.nodes.empty(sizes, kind)
    else:
        node = rec.nodes.broadcast(converted(rec, rec.lift(value), kind), sizes)
    if shape is None:
        return rec.laid_out(node, ordered(rec.shapes, sizes, x.strides_in_elements, order))
    return rec.laid_out(node, ordered(rec.shapes, sizes, None, "F" if order == "F" else "C"))


@implements(np.zeros_like, creates=True)
def zeros_like(
    rec: Recorder, a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> TracedArray:
    return _like(rec, a, 0, dtype, order, shape)


@implements(np.ones_like, creates=True)
def ones_like(
    rec: Recorder, a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> TracedArray:
    return _like(rec, a, 1, dtype, order, shape)


@implements(np.empty_like, creates=True)
def empty_like(
    rec: Recorder, prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> TracedArray:
    return _like(rec, prototype, None, dtype, order, shape)


@implements(np.full_like, creates=True)
def full_like(
    rec: Recorder, a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None,
) -> TracedArray:  # fmt: skip
    return _like(rec, a, fill_value, dtype, order, shape)


@implements(np.array, creates=True)
def array(
    rec: Recorder, object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K",
    subok: bool = False, ndmin: int = 0,
) -> TracedArray:  # fmt: skip
    if dtype is None or isinstance(object, np.ndarray):
        x = rec.lift(object)
    else:
        x = stored(rec, object, as_dtype(dtype))
    is_new = not isinstance(object, TracedArray) or x.is_scalar
    if x.is_scalar:
        x = rec.fresh(x.node)
    kind = x.dtype if dtype is None else as_dtype(dtype)
    given = x.strides_in_elements
    strides = ordered(rec.shapes, x.sizes, given, order)
    must_copy = kind != x.dtype or is_new or (order in "CF" and given != strides)
    if must_copy and copy is False and type(object) is not np.ndarray:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if must_copy or copy:
        x = rec.laid_out(rec.nodes.cast(x.node, kind), strides)
    return x.reshape((1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


@implements(np.asarray, np.asanyarray, creates=True)
def asarray(rec: Recorder, a: Any, dtype: Any = None, order: str = "K", *, copy: bool | None = None) -> TracedArray:
    return array(rec, a, dtype, copy=copy, order=order)


@implements(np.ascontiguousarray, creates=True)
def ascontiguousarray(rec: Recorder, a: Any, dtype: Any = None) -> TracedArray:
    x = array(rec, a, dtype, copy=None)
    if not x.ndim:
        return x.reshape(1)
    same = x.strides_in_elements == contiguous_strides(x.sizes)
    return x if same else rec.fresh(x.node)


@implements(np.asfortranarray, creates=True)
def asfortranarray(rec: Recorder, a: Any, dtype: Any = None) -> TracedArray:
    return array(rec, a, dtype, copy=None, order="F")


@implements(np.require, creates=True)
def require(rec: Recorder, a: Any, dtype: Any = None, requirements: Any = None) -> TracedArray:
    wanted = {r.upper()[0] for r in ([requirements] if isinstance(requirements, str) else requirements or ())}
    order = "F" if "F" in wanted else "C" if "C" in wanted else "K"
    return array(rec, a, dtype, copy=True if "O" in wanted else None, order=order)


@implements(np.from_dlpack, creates=True)
def from_dlpack(rec: Recorder, x: Any, /, *, device: Any = None, copy: bool | None = None) -> TracedArray:
    if not isinstance(x, TracedArray | np.ndarray):
        kind = type(x).__name__
        raise UnsupportedOperationError(
            f"np.from_dlpack of a {kind} cannot be compiled", user_origin(), "call it outside and pass the array"
        )
    return array(rec, x, copy=bool(copy))


@implements(np.copy, creates=True)
def copy(rec: Recorder, a: Any, order: str = "K", subok: bool = False) -> TracedArray:
    x = rec.lift(a)
    return rec.laid_out(x.node, ordered(rec.shapes, x.sizes, x.strides_in_elements, order))


@implements(np.arange, creates=True)
def arange(rec: Recorder, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> TracedArray:
    """start + k*step, computed as NumPy does: from the first two elements, in the result dtype."""
    begin, end = (0, start) if stop is None else (start, stop)
    pace = 1 if step is None else step
    if any(type(v) is Size for v in (begin, end, pace)) and all(type(v) in (int, Size) for v in (begin, end, pace)):
        kind = np.dtype(int) if dtype is None else as_dtype(dtype)
        start, step = size_of(begin), size_of(pace)
        shape = (count_steps(rec.shapes, start, size_of(end), step),)
        first, second = (rec.lift(rec.size(v)).astype(kind) for v in (start, start + step))
        starts_at_zero = start is ZERO and step is ONE
    else:
        model = np.arange(*(_plain(v) for v in (begin, end, pace)), dtype=dtype)
        kind = as_dtype(model.dtype)
        shape = (size_of(len(model)),)
        if len(model) < 2:
            return rec.fresh(rec.nodes.full(model[0] if len(model) else 0, kind, shape))
        first, second = model[0], model[1]
        starts_at_zero = int(first) == 0 and int(second) == 1
    position = rec.nodes.iota(shape, 0)
    if dtypes.kind(kind) in "iu" and starts_at_zero:
        return rec.fresh(rec.nodes.cast(position, kind))
    with np.errstate(over="ignore"):
        delta = second - first
    k = rec.fresh(rec.nodes.cast(position, kind))
    return rec.elementwise("add", first, rec.elementwise("multiply", k, delta))


def _plain(value: Any) -> Any:
    """A bound that must be known while tracing."""
    return value.value("a bound of arange is the value")[()] if isinstance(value, TracedArray) else value


@implements(np.linspace, creates=True)
def linspace(
    rec: Recorder, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    """start + k*step; the last element is `stop` itself."""
    count = rec.size(size_of(num))
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    begin, end = rec.lift(start), rec.lift(stop)
    kind = ops.result_type(*(elementwise.type_of(elementwise.operand(rec, v)) for v in (start, stop)), float)
    begin, end = begin.astype(kind), end.astype(kind)
    intervals = count - 1 if endpoint else count
    delta = end - begin
    step = delta / intervals if intervals > 0 else np.nan
    k = rec.fresh(rec.nodes.iota((size_of(count),), 0)).reshape((count,) + (1,) * delta.ndim).astype(kind)
    values = k * step + begin if intervals > 0 else k * delta + begin
    if endpoint and count > 1:
        values[-1] = end
    if axis:
        values = xp.moveaxis(values, 0, axis)
    target = None if dtype is None else np.dtype(dtype)
    if target is not None and dtypes.kind(target) in "iu":
        values = xp.floor(values)
    result = values if target is None else values.astype(target)
    return (result, step) if retstep else result


@implements(np.logspace, creates=True)
def logspace(
    rec: Recorder, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None
) -> TracedArray:
    values = xp.power(base, linspace(rec, start, stop, num, endpoint))
    return values if dtype is None else values.astype(dtype)


@implements(np.eye, creates=True)
def eye(rec: Recorder, N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C") -> TracedArray:
    shape = new_shape(rec, (N, N if M is None else M))
    i, j = (rec.fresh(rec.nodes.iota(shape, axis)) for axis in (0, 1))
    return rec.elementwise("equal", i + operator.index(k), j).astype(as_dtype(dtype))


@implements(np.identity, creates=True)
def identity(rec: Recorder, n: Any, dtype: Any = None) -> TracedArray:
    return eye(rec, n, dtype=float if dtype is None else dtype)


@implements(np.tri, creates=True)
def tri(rec: Recorder, N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> TracedArray:
    shape = new_shape(rec, (N, N if M is None else M))
    i, j = (rec.fresh(rec.nodes.iota(shape, axis)) for axis in (0, 1))
    return rec.elementwise("greater_equal", i + operator.index(k), j).astype(as_dtype(dtype))


@implements(np.indices, creates=True)
def indices(rec: Recorder, dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    shape = new_shape(rec, dimensions)
    if sparse:
        parts = []
        for axis, n in enumerate(shape):
            line = rec.fresh(rec.nodes.iota((n,), 0)).astype(dtype)
            parts.append(line.reshape([-1 if j == axis else 1 for j in range(len(shape))]))
        return tuple(parts)
    grids = [rec.fresh(rec.nodes.iota(shape, axis)).astype(dtype) for axis in range(len(shape))]
    return xp.stack(grids)


@implements(np.meshgrid, creates=True)
def meshgrid(rec: Recorder, *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    lines = [rec.lift(x).ravel() for x in xi]
    places = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        places[:2] = [1, 0]
    grids = []
    for k, line in enumerate(lines):
        shaped = line.reshape([-1 if j == places[k] else 1 for j in range(len(lines))])
        grids.append(shaped)
    if not sparse:
        shape = tuple(lines[places.index(j)].size for j in range(len(lines)))
        grids = [xp.broadcast_to(g, shape) for g in grids]
    if copy:
        return tuple(map(xp.copy, grids))
    return grids if sparse else tuple(grids)


@implements(np.fromfunction, creates=True)
def fromfunction(rec: Recorder, function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    grids = indices(rec, shape, dtype)
    return function(*grids, **kwargs)


@implements(np.diag)
def diag(rec: Recorder, v: Any, k: Any = 0) -> TracedArray:
    x = rec.lift(v)
    if x.ndim == 2:
        return x.diagonal(k)
    if x.ndim != 1:
        raise ShapeError("Input must be 1- or 2-d.", user_origin())
    offset = operator.index(k)
    n = x.size + abs(offset)
    square = zeros(rec, (n, n), x.dtype)
    start = offset if offset >= 0 else -offset * n
    flat = square.reshape(-1)
    flat[start :: n + 1][: x.size] = x
    return square


@implements(np.diagflat)
def diagflat(rec: Recorder, v: Any, k: Any = 0) -> TracedArray:
    return diag(rec, rec.lift(v).ravel(), k)


def _triangle(rec: Recorder, m: Any, k: Any, lower: bool) -> TracedArray:
    x = rec.lift(m)
    if not x.ndim:
        raise TypeError("tri() missing 1 required positional argument: 'N'")
    rows, columns = x.shape[-2:] if x.ndim > 1 else (x.size, x.size)
    keep = tri(rec, rows, columns, k if lower else operator.index(k) - 1, bool)
    zero = x.dtype.type(0)
    return rec.elementwise("where", keep, x, zero) if lower else rec.elementwise("where", keep, zero, x)


@implements(np.tril)
def tril(rec: Recorder, m: Any, k: Any = 0) -> TracedArray:
    return _triangle(rec, m, k, lower=True)


@implements(np.triu)
def triu(rec: Recorder, m: Any, k: Any = 0) -> TracedArray:
    return _triangle(rec, m, k, lower=False)
