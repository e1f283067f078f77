"""``ufunc.reduce`` and ``ufunc.accumulate`` in nodes.

Low floats are reduced in float32 and rounded once at the end; small integers are summed in 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from numstax import dtypes
from numstax.errors import EmptyReductionError, UnsupportedOperationError
from numstax.ir import ops
from numstax.ir.graph import Node
from numstax.ir.index import ONE, ZERO, Index
from numstax.trace import elementwise, extern
from numstax.trace.array import TracedArray
from numstax.trace.elements import stored
from numstax.trace.layout import keep_order
from numstax.trace.origin import user_origin
from numstax.trace.sizes import normalize_axes, normalize_axis

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_LOGICAL = ("logical_and", "logical_or")


def result_dtype(op: str, operand: np.dtype) -> np.dtype:
    """The dtype of a reduction when the caller names none."""
    if op in _LOGICAL:
        return dtypes.BOOL
    if op in ("add", "multiply"):
        if dtypes.kind(operand) in "bi" and operand.itemsize < 8:
            return dtypes.INT64
        if dtypes.kind(operand) == "u" and operand.itemsize < 8:
            return dtypes.UINT64
    return operand


def reduction(
    rec: Recorder,
    op: str,
    a: object,
    axis: object = None,
    dtype: object = None,
    keepdims: bool = False,
    initial: object = None,
    where: object = True,
) -> TracedArray:
    """``ufunc.reduce`` of the ufunc called `op`."""
    x = rec.lift(a)
    if isinstance(axis, list):
        raise TypeError("'list' object cannot be interpreted as an integer")
    result = result_dtype(op, x.dtype) if dtype is None else np.dtype(dtype)  # type: ignore[call-overload]
    if dtypes.kind(result) == "c" and op not in ("add", "multiply", *_LOGICAL):
        return _complex_order(rec, op, x, axis, keepdims, initial, where)
    work = dtypes.BOOL if op in _LOGICAL else dtypes.compute(result)
    axes = normalize_axes(axis, x.ndim)
    if op == "add" and initial is None and not axes and dtypes.kind(work) in "fc":
        initial = 0  # makes 0.0 of -0.0, as sums over axes do
    ordered = op not in ("add", "multiply", *_LOGICAL) and not op.startswith("bitwise")
    node = rec.nodes.cast(x.node, work)
    start = None if initial is None else stored(rec, initial, result).astype(work)
    if where is not True:
        if ordered and start is None:
            raise EmptyReductionError(
                f"reduction operation '{op}' does not have an identity, so to use a where mask one has to "
                "specify 'initial'",
                user_origin(),
            )
        neutral = start if ordered else rec.fresh(rec.nodes.constant(ops.identity(op, work), work))
        masked = rec.elementwise("where", elementwise.mask(rec, where), rec.fresh(node), neutral)
        node = masked.node
        x = masked
        axes = normalize_axes(axis, x.ndim)
    reduced = rec.nodes.reduce(op, node, axes, work)
    if ordered and start is None:
        message = f"zero-size array to reduction operation {op} which has no identity"
        reduced = of_some(rec, reduced, [x.sizes[k] for k in axes], message)
    if start is not None:
        reduced = rec.elementwise(op, rec.fresh(reduced), start).node
    rest = [k for k in range(x.ndim) if k not in axes]
    strides = x.strides_in_elements
    kept = None if strides is None else tuple(strides[k] for k in rest)
    node = rec.nodes.cast(reduced, result)
    layout = keep_order(rec.shapes, node.shape, [(node.shape, kept)])
    if keepdims:
        shape = tuple(ONE if k in axes else n for k, n in enumerate(x.sizes))
        return rec.fresh(rec.nodes.reshape(node, shape), not shape)
    return rec.laid_out(node, layout, not node.shape)


def of_some(rec: Recorder, reduced: Node, sizes: Sequence[Index], message: str) -> Node:
    """A reduction over axes of these sizes, which means something only where none is 0.

    Raises EmptyReductionError where one is; sizes that depend on data are looked at when the code runs, if it does.
    """
    for size in sizes:
        answer = rec.shapes.known("==", size)
        if answer is None and rec.shapes.has_hint(size):
            answer = rec.shapes.equal(size, ZERO)
        if answer:
            raise EmptyReductionError(message, user_origin())
        if answer is None:
            count = rec.nodes.size(rec.shapes.resolve(size))
            some = rec.nodes.elementwise("not_equal", (count, rec.nodes.constant(0, dtypes.INT64)), dtypes.BOOL)
            reduced = rec.nodes.require(reduced, rec.nodes.broadcast(some, reduced.shape), "empty")
    return reduced


def _complex_order(
    rec: Recorder, op: str, x: TracedArray, axis: object, keepdims: bool, initial: object, where: object
) -> TracedArray:
    """Maximum and minimum of complex numbers (lexicographic)."""
    if initial is not None or where is not True:
        raise UnsupportedOperationError(
            f"{op}.reduce of complex numbers with initial or where cannot be compiled", user_origin()
        )
    function = getattr(np, op).reduce
    kwargs = {"axis": axis, "keepdims": keepdims}
    return extern.call(rec, function, (x,), kwargs, f"numpy.{op}.reduce")


def scan(rec: Recorder, op: str, a: object, axis: object = 0, dtype: object = None) -> TracedArray:
    """``ufunc.accumulate`` of the ufunc called `op`; axis None scans the flattened array."""
    x = rec.lift(a)
    if axis is None:
        x, axis = x.ravel(), 0
    if not x.ndim:
        x = x.reshape(1)
    result = result_dtype(op, x.dtype) if dtype is None else np.dtype(dtype)  # type: ignore[call-overload]
    if dtypes.kind(result) == "c" and op in ("maximum", "minimum"):
        return extern.call(rec, getattr(np, op).accumulate, (x,), {"axis": axis}, f"numpy.{op}.accumulate")
    work = dtypes.compute(result)
    node = rec.nodes.scan(op, rec.nodes.cast(x.node, work), normalize_axis(axis, x.ndim))  # type: ignore[arg-type]
    return rec.fresh(rec.nodes.cast(node, result))
