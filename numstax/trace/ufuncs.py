"""NumPy's ufunc protocol and the operators: `out`, `where`, `dtype`, casting, and the methods of ufuncs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import CastError, ShapeError, UnsupportedOperationError
from numstax.ir import ops
from numstax.trace import elementwise, extern, host, indexing, python_numbers, reductions, selection
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin
from numstax.trace.registry import HANDLERS
from numstax.trace.selection import has_selection
from numstax.trace.sizes import Size, text

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_IGNORED = {"subok", "order", "casting"}
CASTS = {"add": "iu", "multiply": "iu", "logical_or": "biufc", "logical_and": "biufc"}
"""Reductions whose result is cast to the dtype of `out`: sums of integers wrap alike in all dtypes."""


def operator(rec: Recorder, op: str, *operands: object) -> Any:
    """A Python operator.  On Python numbers alone the result is a Python number, as the user's code expects."""
    if has_selection(operands):
        return selection.elementwise(rec, op, operands)
    if any(getattr(type(x), "__array_ufunc__", False) is None for x in operands):
        return NotImplemented
    if op == "matmul":
        return apply(rec, np.matmul, "__call__", operands, {})
    if op == "multiply" and _is_repetition(operands):
        return _repeated(*operands)
    if op == "divmod":
        return operator(rec, "floor_divide", *operands), operator(rec, "remainder", *operands)
    if len(operands) == 2 and _is_complex(operands[0]):
        operands = (operands[0], _as_python_float(rec, operands[1]))
    weak = [x.weak if isinstance(x, TracedArray) else int if isinstance(x, Size) else type(x) for x in operands]
    if all(w in python_numbers.ORDER for w in weak):
        return python_numbers.operate(rec, op, operands)
    mixed = [
        isinstance(x, TracedArray) and x.is_scalar and x.dtype == dtypes.INT64 and x.node in rec.mixed for x in operands
    ]
    if any(mixed) and all(m or w in python_numbers.ORDER for m, w in zip(mixed, weak, strict=True)):
        return python_numbers.operate_mixed(rec, op, operands, mixed)
    if op == "power":
        op, operands = _simpler_power(op, operands)
    return rec.elementwise(op, *operands)


def _is_complex(value: object) -> bool:
    return value.weak is complex if isinstance(value, TracedArray) else type(value) is complex


def _as_python_float(rec: Recorder, value: object) -> object:
    """What Python's complex numbers, on the left, take a float64 number for, which is a float to Python."""
    if isinstance(value, TracedArray) and value.is_scalar and value.weak is None and value.dtype == dtypes.FLOAT64:
        return rec.fresh(value.node, True, float)
    return float(value) if type(value) is np.float64 else value


def _is_repetition(operands: Sequence[object]) -> bool:
    """A list or tuple, times a number that is no array?"""
    pairs = zip(operands, reversed(operands), strict=True)
    return any(isinstance(a, list | tuple) and isinstance(b, TracedArray) and b.is_scalar for a, b in pairs)


def _repeated(a: Any, b: Any) -> Any:
    sequence, count = (a, b) if isinstance(a, list | tuple) else (b, a)
    if dtypes.kind(count.dtype) not in "iu" and count.weak is not bool:
        kind = count.__class__
        name = kind.__name__ if count.weak else f"numpy.{kind.__name__}"
        raise TypeError(f"can't multiply sequence by non-int of type '{name}'")
    return sequence * int(count.value("a list is as long as the value")[()])


def _simpler_power(op: str, operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The operation that ``x ** n`` is in NumPy for a Python number n."""
    base, exponent = operands
    if type(exponent) not in (int, float) or not isinstance(base, TracedArray):
        return op, operands
    inexact = dtypes.kind(base.dtype) in "fc"
    if exponent == 2 and (inexact or type(exponent) is int) and not (base.is_scalar and base.dtype == dtypes.BOOL):
        return "square", (base,)
    simple = {1: "positive", 0.5: "sqrt", -1: "reciprocal"}.get(exponent)
    if inexact and simple is not None:
        return simple, (base,)
    return op, operands


def in_place(rec: Recorder, op: str, target: TracedArray, operand: object) -> TracedArray:
    """An augmented assignment: changes an array, makes a new scalar."""
    if target.is_scalar:
        return operator(rec, op, target, operand)
    if op == "matmul" and (target.ndim < 1 or rec.lift(operand).ndim < 2):
        raise ShapeError(
            "inplace matrix multiplication requires the first operand to have at least one and the second at least "
            "two dimensions.",
            user_origin(),
        )
    if op == "power":
        op, operands = _simpler_power(op, (target, operand))
    else:
        operands = (target, operand)
    return apply(rec, getattr(np, op), "__call__", operands, {"out": (target,)})


def apply(rec: Recorder, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``ufunc.method(*inputs, **kwargs)`` with some traced argument."""
    name = ufunc.__name__
    if has_selection(inputs):
        if method == "__call__" and not kwargs and name in ops.ELEMENTWISE and getattr(np, name, None) is ufunc:
            return selection.elementwise(rec, name, inputs)
        inputs = selection.packed(tuple(inputs))
    if method == "__call__":
        return _call(rec, ufunc, inputs, kwargs)
    if method == "at":
        return _at(rec, ufunc, inputs)
    if method == "outer":
        a, b = (rec.array(x) for x in inputs)
        spread = a.reshape(a.shape + (1,) * b.ndim)
        return _call(rec, ufunc, (spread, b), kwargs)
    out = (kwargs.pop("out", None) or (None,))[0]
    native = getattr(np, name, None) is ufunc
    if method == "reduce" and native and name in ops.REDUCTIONS:
        axis = kwargs.pop("axis", inputs[1] if len(inputs) > 1 else 0)
        return deliver(rec, reductions.reduction(rec, name, inputs[0], axis, **kwargs), out, CASTS.get(name, ""))
    if method == "accumulate" and not rec.lift(inputs[0]).ndim:
        raise TypeError("cannot accumulate on a scalar")
    if method == "accumulate" and native and name in ops.SCANS:
        axis = kwargs.pop("axis", inputs[1] if len(inputs) > 1 else 0)
        return deliver(rec, reductions.scan(rec, name, inputs[0], axis, **kwargs), out, CASTS.get(name, ""))
    return deliver(rec, extern.call(rec, getattr(ufunc, method), inputs, kwargs, f"numpy.{name}.{method}"), out)


def _call(rec: Recorder, ufunc: np.ufunc, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    outs = out if isinstance(out, tuple) else (out,)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    casting = kwargs.get("casting", "same_kind")
    unknown = kwargs.keys() - _IGNORED
    if unknown:
        raise UnsupportedOperationError(
            f"{ufunc.__name__}({', '.join(sorted(unknown))}=...) cannot be compiled", user_origin()
        )
    where = where if where is True else elementwise.mask(rec, where)
    results = _compute(rec, ufunc, inputs, None if dtype is None else np.dtype(dtype), casting)
    if where is True and all(o is None for o in outs):
        return results
    parts = results if isinstance(results, tuple) else (results,)
    outs = outs + (None,) * (len(parts) - len(outs))
    done = tuple(_store(rec, ufunc, p, o, where, casting) for p, o in zip(parts, outs, strict=True))
    return done if isinstance(results, tuple) else done[0]


def _compute(rec: Recorder, ufunc: np.ufunc, inputs: Sequence[Any], dtype: np.dtype | None, casting: Any) -> Any:
    name = ufunc.__name__
    if casting not in ("same_kind", "unsafe") or (dtype is not None and (casting == "unsafe" or ufunc in HANDLERS)):
        words = {"casting": casting} | ({} if dtype is None else {"dtype": dtype})
        return extern.call(rec, ufunc, inputs, words, f"numpy.{name}")
    if ufunc in HANDLERS:
        return HANDLERS[ufunc].run(rec, *inputs)
    if getattr(np, name, None) is ufunc:
        if name in ops.ELEMENTWISE and len(inputs) == ufunc.nin:
            return rec.elementwise(name, *inputs, dtype=dtype)
        return extern.call(rec, ufunc, inputs, {} if dtype is None else {"dtype": dtype}, f"numpy.{name}")
    return _scipy(rec, ufunc, inputs)


def _scipy(rec: Recorder, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """A ufunc of scipy.special: the row of that name for its real loops, an extern otherwise."""
    special = sys.modules.get("scipy.special")
    name = ufunc.__name__
    if getattr(special, name, None) is not ufunc:
        raise UnsupportedOperationError(
            f"the ufunc {name!r} cannot be compiled", user_origin(), "use a NumPy or SciPy ufunc"
        )
    operands = [elementwise.operand(rec, x) for x in inputs]
    *found, result = ufunc.resolve_dtypes((*map(elementwise.type_of, operands), *[None] * ufunc.nout))[: ufunc.nin + 1]
    if name in ops.ELEMENTWISE and ufunc.nout == 1 and result in (dtypes.FLOAT32, dtypes.FLOAT64):
        return rec.elementwise(name, *(rec.lift(x).astype(d) for x, d in zip(operands, found, strict=True)))
    return extern.call(rec, ufunc, inputs, {}, f"scipy.special.{name}")


def _store(
    rec: Recorder, ufunc: np.ufunc, result: TracedArray, out: TracedArray | None, where: object, casting: Any
) -> TracedArray:
    """Put a ufunc's result into `out` where `where` holds."""
    if out is None:
        shape = rec.shapes.broadcast(result.sizes, rec.lift(where).sizes)
        empty = rec.fresh(rec.nodes.empty(shape, result.dtype))
        return rec.elementwise("where", where, result, empty)
    if not isinstance(out, TracedArray):
        raise UnsupportedOperationError("out= is an array from outside the traced function", user_origin())
    if not np.can_cast(result.dtype, out.dtype, casting):
        raise CastError(
            f"Cannot cast ufunc '{ufunc.__name__}' output from {result.dtype!r} to {out.dtype!r} "
            f"with casting rule '{casting}'",
            user_origin(),
        )
    if not rec.shapes.fits(result.sizes, out.sizes):
        shown = rec.shapes.broadcast(out.sizes, result.sizes)
        raise ShapeError(
            f"non-broadcastable output operand with shape {text(out.sizes)} doesn't match the "
            f"broadcast shape {text(shown)}",
            user_origin(),
        )
    value = rec.nodes.broadcast(rec.nodes.cast(result.node, out.dtype), out.sizes)
    if where is not True:
        holds = rec.nodes.broadcast(rec.lift(where).node, out.sizes)
        value = rec.nodes.elementwise("where", (holds, value, out.node), out.dtype)
    out.store(value)
    return out


def deliver(rec: Recorder, result: TracedArray, out: object, casts: str = "") -> TracedArray:
    """The `out=` of a function that is not a ufunc: the result is stored there.  In general NumPy computes in another
    dtype, or refuses, where that of `out` is another; `casts`: the kinds of dtypes for which the result is cast."""
    if out is None:
        return result
    if not isinstance(out, TracedArray):
        raise UnsupportedOperationError("out= is an array from outside the traced function", user_origin())
    if out.dtype != result.dtype and not {dtypes.kind(out.dtype), dtypes.kind(result.dtype)} <= set(casts):
        raise UnsupportedOperationError(
            f"a result of dtype {result.dtype} cannot be compiled with out= of dtype {out.dtype}", user_origin(),
            "store it: out[...] = result",
        )  # fmt: skip
    if not rec.shapes.unify_shapes(out.sizes, result.sizes):
        raise ShapeError(f"output array has wrong shape {text(out.sizes)}, not {text(result.sizes)}", user_origin())
    out.store(rec.nodes.broadcast(rec.nodes.cast(result.node, out.dtype), out.sizes))
    return out


def _at(rec: Recorder, ufunc: np.ufunc, inputs: Sequence[Any]) -> None:
    """ufunc.at: repeated indices count each time."""
    target = inputs[0]
    if not isinstance(target, TracedArray):
        raise UnsupportedOperationError(
            "ufunc.at on an array from outside the traced function cannot be compiled", user_origin()
        )
    native = len(inputs) == 3 and _keeps_type(rec, ufunc, target.dtype, inputs[2])
    if native and indexing.scatter(rec, ufunc.__name__, target, inputs[1], inputs[2]):
        return
    args = (ufunc, target, indexing.encode_key(rec, inputs[1]), *inputs[2:])
    target.store(extern.call(rec, host.ufunc_at, args, {}).node)


def _keeps_type(rec: Recorder, ufunc: np.ufunc, dtype: np.dtype, value: object) -> bool:
    """Does the ufunc on elements of this dtype and the value work in that dtype?"""
    name = ufunc.__name__
    if getattr(np, name, None) is not ufunc or name not in ops.ELEMENTWISE or (name == "power" and dtype.kind == "i"):
        return False
    types = (dtype, elementwise.type_of(elementwise.operand(rec, value)))
    try:
        return elementwise.resolve(name, types, None) == ((dtype, dtype), dtype)
    except TypeError:
        return False
