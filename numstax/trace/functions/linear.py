"""Products of vectors and matrices, brought to the one `matmul` node by transposes and reshapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import ShapeError
from numstax.ir.index import Index, hint
from numstax.trace import extern
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin
from numstax.trace.reductions import reduction
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import normalize_axes, normalize_axis, shown, text, total
from numstax.trace.ufuncs import apply, deliver

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


def _pair(rec: Recorder, a: Any, b: Any) -> tuple[TracedArray, TracedArray]:
    """Both operands in their common dtype; Python numbers count as arrays."""
    x, y = rec.lift(a), rec.lift(b)
    kind = np.result_type(x.dtype, y.dtype)
    return (
        rec.fresh(rec.nodes.cast(x.node, kind), x.is_scalar),
        rec.fresh(rec.nodes.cast(y.node, kind), y.is_scalar),
    )


def product(rec: Recorder, x: TracedArray, y: TracedArray) -> TracedArray:
    """Matrix product of arrays of rank >= 2 and one dtype; batch dimensions broadcast."""
    batch = rec.shapes.broadcast(x.sizes[:-2], y.sizes[:-2])
    a = rec.nodes.broadcast(x.node, batch + x.sizes[-2:])
    b = rec.nodes.broadcast(y.node, batch + y.sizes[-2:])
    return rec.fresh(rec.nodes.matmul(a, b, x.dtype))


@implements(np.matmul)
def matmul(rec: Recorder, x1: Any, x2: Any) -> TracedArray:
    x, y = _pair(rec, x1, x2)
    if not x.ndim or not y.ndim:
        raise ShapeError(
            f"matmul: Input operand {0 if not x.ndim else 1} does not have enough dimensions (has 0, gufunc core "
            "with signature (n?,k),(k,m?)->(n?,m?) requires 1)",
            user_origin(),
        )
    inner = y.sizes[-2] if y.ndim > 1 else y.sizes[0]
    if not rec.shapes.unify(x.sizes[-1], inner):
        raise ShapeError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(n?,k),(k,m?)->(n?,m?) (size {shown(inner)} is different from {shown(x.sizes[-1])})",
            user_origin(),
        )
    wide = product(rec, x[None, :] if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y)
    shape = wide.sizes[:-2] + (x.sizes[-2:-1] if x.ndim > 1 else ()) + (y.sizes[-1:] if y.ndim > 1 else ())
    return rec.fresh(rec.nodes.reshape(wide.node, shape), not shape)


def contract(
    rec: Recorder, x: TracedArray, y: TracedArray, left: tuple[int, ...], right: tuple[int, ...]
) -> TracedArray:
    """Sum of products over the paired axes; free axes of x, then of y, remain."""
    free_x = [k for k in range(x.ndim) if k not in left]
    free_y = [k for k in range(y.ndim) if k not in right]
    rows = tuple(x.sizes[k] for k in free_x)
    columns = tuple(y.sizes[k] for k in free_y)
    inner: Index = total(tuple(x.sizes[k] for k in left))
    a = rec.nodes.reshape(rec.nodes.transpose(x.node, (*free_x, *left)), (total(rows), inner))
    b = rec.nodes.reshape(rec.nodes.transpose(y.node, (*right, *free_y)), (inner, total(columns)))
    node = rec.nodes.reshape(rec.nodes.matmul(a, b, x.dtype), rows + columns)
    return rec.fresh(node, not node.shape)


@implements(np.dot)
def dot(rec: Recorder, a: Any, b: Any, out: Any = None) -> TracedArray:
    x, y = _pair(rec, a, b)
    if not x.ndim or not y.ndim:
        return deliver(rec, rec.elementwise("multiply", x, y), out)
    right = y.ndim - 2 if y.ndim > 1 else 0
    if not rec.shapes.unify(x.sizes[-1], y.sizes[right]):
        raise ShapeError(
            f"shapes {text(x.sizes)} and {text(y.sizes)} not aligned: {shown(x.sizes[-1])} (dim {x.ndim - 1}) != "
            f"{shown(y.sizes[right])} (dim {right})",
            user_origin(),
        )
    result = contract(rec, x, y, (x.ndim - 1,), (right,))
    stored = deliver(rec, result, out)
    return result if out is not None and not stored.ndim else stored


@implements(np.vdot)
def vdot(rec: Recorder, a: Any, b: Any, /) -> TracedArray:
    x, y = _pair(rec, a, b)
    left = xp.conjugate(x) if dtypes.kind(x.dtype) == "c" else x
    return dot(rec, left.ravel(), y.ravel())


@implements(np.inner)
def inner(rec: Recorder, a: Any, b: Any, /) -> TracedArray:
    x, y = _pair(rec, a, b)
    if not x.ndim or not y.ndim:
        return rec.elementwise("multiply", x, y)
    if not rec.shapes.unify(x.sizes[-1], y.sizes[-1]):
        raise ShapeError(
            f"shapes {text(x.sizes)} and {text(y.sizes)} not aligned: {shown(x.sizes[-1])} (dim {x.ndim - 1}) != "
            f"{shown(y.sizes[-1])} (dim {y.ndim - 1})",
            user_origin(),
        )
    return contract(rec, x, y, (x.ndim - 1,), (y.ndim - 1,))


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(rec: Recorder, a: Any, b: Any, axes: Any = 2) -> TracedArray:
    x, y = _pair(rec, a, b)
    if isinstance(axes, int):
        left, right = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        left, right = normalize_axes(axes[0], x.ndim), normalize_axes(axes[1], y.ndim)
    if len(left) != len(right) or any(
        not rec.shapes.unify(x.sizes[i], y.sizes[j]) for i, j in zip(left, right, strict=True)
    ):
        raise ShapeError("shape-mismatch for sum", user_origin())
    result = contract(rec, x, y, left, right)
    return rec.fresh(result.node)


@implements(np.outer)
def outer(rec: Recorder, a: Any, b: Any, out: Any = None) -> TracedArray:
    x, y = rec.lift(a).ravel(), rec.lift(b).ravel()
    return apply(rec, np.multiply, "__call__", (x[:, None], y[None, :]), {"out": (out,)})


@implements(np.linalg.outer)
def linalg_outer(rec: Recorder, x1: Any, x2: Any, /) -> TracedArray:
    ranks = [rec.lift(x).ndim for x in (x1, x2)]
    if ranks != [1, 1]:
        found = f"x1.ndim={ranks[0]} and x2.ndim={ranks[1]}"
        raise ShapeError(f"Input arrays must be one-dimensional, but they are {found}.", user_origin())
    return outer(rec, x1, x2)


@implements(getattr(np, "vecdot", None), np.linalg.vecdot)
def vecdot(rec: Recorder, x1: Any, x2: Any, /, *, axis: Any = -1) -> TracedArray:
    x, y = _pair(rec, x1, x2)
    left = xp.conjugate(x) if dtypes.kind(x.dtype) == "c" else x
    return reduction(rec, "add", xp.moveaxis(left, axis, -1) * xp.moveaxis(y, axis, -1), -1, x.dtype)


@implements(getattr(np, "matvec", None))
def matvec(rec: Recorder, x1: Any, x2: Any) -> TracedArray:
    return matmul(rec, _matrix(rec, x1, "matvec", 0, "(m,n),(n)->(m)"), rec.lift(x2)[..., None])[..., 0]


@implements(getattr(np, "vecmat", None))
def vecmat(rec: Recorder, x1: Any, x2: Any) -> TracedArray:
    x = rec.lift(x1)
    left = xp.conjugate(x) if dtypes.kind(x.dtype) == "c" else x
    return matmul(rec, left[..., None, :], _matrix(rec, x2, "vecmat", 1, "(n),(n,m)->(m)"))[..., 0, :]


def _matrix(rec: Recorder, x: Any, name: str, place: int, signature: str) -> TracedArray:
    a = rec.lift(x)
    if a.ndim < 2:
        raise ShapeError(
            f"{name}: Input operand {place} does not have enough dimensions (has {a.ndim}, gufunc core with signature "
            f"{signature} requires 2)",
            user_origin(),
        )
    return a


@implements(np.kron)
def kron(rec: Recorder, a: Any, b: Any) -> TracedArray:
    x, y = rec.lift(a), rec.lift(b)
    rank = max(x.ndim, y.ndim)
    left, right = (1,) * (rank - x.ndim) + x.shape, (1,) * (rank - y.ndim) + y.shape
    spread_x = x.reshape([n for size in left for n in (size, 1)])
    spread_y = y.reshape([n for size in right for n in (1, size)])
    return (spread_x * spread_y).reshape([m * n for m, n in zip(left, right, strict=True)])


@implements(np.cross)
def cross(
    rec: Recorder, a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None
) -> TracedArray:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = xp.moveaxis(rec.lift(a), axisa, -1), xp.moveaxis(rec.lift(b), axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        return extern.call(rec, np.cross, (a, b), {"axisa": axisa, "axisb": axisb, "axisc": axisc})
    u, v = ([z[..., k] for k in range(3)] for z in (x, y))
    parts = [u[i] * v[j] - u[j] * v[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return xp.stack(parts, axis=axisc)


@implements(np.linalg.cross)
def linalg_cross(rec: Recorder, x1: Any, x2: Any, /, *, axis: Any = -1) -> TracedArray:
    arrays = [rec.lift(x) for x in (x1, x2)]
    sizes = [x.shape[normalize_axis(axis, x.ndim)] for x in arrays]
    if any(n != 3 for n in sizes):
        raise ShapeError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {sizes[0]} and {sizes[1]} "
            "dimensional instead.",
            user_origin(),
        )
    return cross(rec, *arrays, axis=axis)


@implements(np.linalg.norm)
def norm(rec: Recorder, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> TracedArray:
    a = rec.lift(x)
    if dtypes.kind(a.dtype) not in "fc":
        a = a.astype(np.float64)
    axes = normalize_axes(axis, a.ndim)
    flat_two_norm = axis is None and (ord is None or (ord == 2 and a.ndim == 1) or (ord == "fro" and a.ndim == 2))
    if flat_two_norm or (ord in (None, 2) and len(axes) == 1) or (ord in (None, "fro") and len(axes) == 2):
        square = a.real**2 + a.imag**2 if dtypes.kind(a.dtype) == "c" else a * a
        return xp.sqrt(reduction(rec, "add", square, axes, None, keepdims))
    size = xp.abs(a)
    if len(axes) == 1 and not isinstance(ord, str):
        if ord in (np.inf, -np.inf):
            return reduction(rec, "maximum" if ord > 0 else "minimum", size, axes, None, keepdims)
        if ord == 0:
            return reduction(rec, "add", (a != 0).astype(size.dtype), axes, None, keepdims)
        if ord == 1:
            return reduction(rec, "add", size, axes, None, keepdims)
        return reduction(rec, "add", size**ord, axes, None, keepdims) ** (1.0 / ord)
    if len(axes) == 2 and ord in (1, -1, np.inf, -np.inf):
        summed = axes[0] if abs(ord) == 1 else axes[1]
        sums = reduction(rec, "add", size, summed, None, True)
        return reduction(rec, "maximum" if ord > 0 else "minimum", sums, axes, None, keepdims)
    return extern.call(rec, np.linalg.norm, (a, ord, axis, keepdims), {})


@implements(np.linalg.vector_norm)
def vector_norm(rec: Recorder, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> TracedArray:
    a = rec.lift(x)
    if axis is None and not keepdims:
        return norm(rec, a.ravel(), ord, 0)
    if isinstance(axis, int):
        return norm(rec, a, ord, normalize_axis(axis, a.ndim), keepdims)
    return extern.call(rec, np.linalg.vector_norm, (a,), {"axis": axis, "keepdims": keepdims, "ord": ord})


@implements(np.linalg.matrix_norm)
def matrix_norm(rec: Recorder, x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> TracedArray:
    return norm(rec, x, ord, (-2, -1), keepdims)


@implements(np.linalg.matmul)
def linalg_matmul(rec: Recorder, x1: Any, x2: Any, /) -> TracedArray:
    return matmul(rec, x1, x2)


@implements(np.linalg.matrix_power)
def matrix_power(rec: Recorder, a: Any, n: Any) -> TracedArray:
    x = rec.lift(a)
    if x.ndim < 2 or not rec.shapes.unify(*x.sizes[-2:]):
        np.linalg.matrix_power(np.empty(x.shape, np.float64), 1)  # raises
    if not isinstance(n, int) or n < 1:
        return extern.call(rec, np.linalg.matrix_power, (x, n), {})
    if n == 1:
        return x
    result, square, left = None, x, n
    while left:
        if left & 1:
            result = square if result is None else matmul(rec, result, square)
        left >>= 1
        square = matmul(rec, square, square) if left else square
    return rec.fresh(rec.lift(result).node)


@implements(np.linalg.multi_dot)
def multi_dot(rec: Recorder, arrays: Any, *, out: Any = None) -> TracedArray:
    if all(rec.lift(a).ndim == 2 for a in arrays) and len(arrays) == 3:
        a, b, c = (rec.lift(x) for x in arrays)
        n, m, p, q = (hint(rec.shapes.resolve(k)) for k in (*a.sizes, b.sizes[1], c.sizes[1]))
        left_first, right_first = n * p * (m + q), m * q * (p + n)
        result = dot(rec, dot(rec, a, b), c) if left_first < right_first else dot(rec, a, dot(rec, b, c))
        return deliver(rec, result, out)
    return deliver(rec, extern.call(rec, np.linalg.multi_dot, (tuple(arrays),), {}), out)
