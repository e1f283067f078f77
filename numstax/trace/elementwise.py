"""Elementwise operations: promotion (NEP 50), casts, broadcasting and the layout of the result."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import CastError, UnsupportedOperationError
from numstax.ir import ops
from numstax.ir.graph import Node
from numstax.trace.array import TracedArray
from numstax.trace.layout import keep_order
from numstax.trace.origin import user_origin
from numstax.trace.python_numbers import converted
from numstax.trace.sizes import Shape, Size

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_PYTHON_NUMBERS = (int, float, complex)
_COMPARISONS = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


_ALIKE = (*_COMPARISONS, "where", "logical_and", "logical_or", "logical_not")
"""These do not depend on the types of numbers."""


@lru_cache(maxsize=4096)
def resolve(op: str, types: tuple[ops.Operand, ...], dtype: np.dtype | None) -> tuple[tuple[np.dtype, ...], np.dtype]:
    """Operand dtypes and result dtype; `dtype` asks for the loop with that result."""
    if dtype is None:
        if all(isinstance(t, type) for t in types):  # NumPy would take two Python ints for objects
            types = tuple(map(np.dtype, types))
        return ops.resolve(op, types)
    ufunc = getattr(np, op)
    found = ufunc.resolve_dtypes((*types, None), signature=(*[None] * len(types), dtype), casting="same_kind")
    return tuple(found[:-1]), found[-1]


def operand(rec: Recorder, value: object) -> TracedArray | int | float | complex:
    """Python numbers stay as they are, so that they can be written in the dtype they meet."""
    return value if type(value) in _PYTHON_NUMBERS else rec.lift(value)  # type: ignore[return-value]


def type_of(value: TracedArray | int | float | complex) -> ops.Operand:
    if isinstance(value, TracedArray):
        return value.weak if value.weak in _PYTHON_NUMBERS else value.dtype
    return type(value)


def expand(rec: Recorder, value: TracedArray | int | float | complex, dtype: np.dtype, shape: Shape) -> Node:
    """The operand cast to `dtype` and broadcast to `shape`."""
    if isinstance(value, TracedArray):
        return rec.nodes.broadcast(converted(rec, value, dtype), shape)
    with np.errstate(over="ignore"):
        return rec.nodes.full(np.array(value, dtype), dtype, shape)


def shape_of(rec: Recorder, operands: Sequence[TracedArray | int | float | complex]) -> Shape:
    return rec.shapes.broadcast(*(x.sizes if isinstance(x, TracedArray) else () for x in operands))


def apply(rec: Recorder, op: str, values: Sequence[object], dtype: np.dtype | None = None) -> TracedArray:
    """A row of ops.ELEMENTWISE on array-likes; a NumPy scalar when every operand is 0-d."""
    operands = [operand(rec, v) for v in values]
    types = tuple(type_of(x) for x in operands)
    if op not in _ALIKE and _is_ambiguous(rec, operands):
        raise UnsupportedOperationError(
            f"{op} of a number that is a Python integer or an element of an array, as values decide", user_origin(),
            "convert it: int(x)",
        )  # fmt: skip
    if op in _COMPARISONS and any(
        isinstance(x, TracedArray) and dtypes.kind(x.dtype) in "iub" and x.weak is None for x in operands
    ):
        # NumPy compares with the integer itself
        types = tuple(
            dtypes.INT64 if isinstance(x, TracedArray) and x.weak is int else t
            for x, t in zip(operands, types, strict=True)
        )
    try:
        operand_dtypes, result = resolve(op, types, dtype)
    except TypeError as error:
        raise CastError(str(error), user_origin()) from None
    shape = shape_of(rec, operands)
    operands = [in_range(rec, x, v, d) for x, v, d in zip(operands, values, operand_dtypes, strict=True)]
    decided = _decided(op, operands, operand_dtypes)
    if decided is not None:
        return rec.fresh(rec.nodes.full(decided, dtypes.BOOL, shape), is_scalar=not shape)
    nodes = [expand(rec, x, d, shape) for x, d in zip(operands, operand_dtypes, strict=True)]
    arrays = [(x.sizes, x.strides_in_elements) for x in operands if isinstance(x, TracedArray) and x.sizes]
    made = rec.nodes.elementwise(op, nodes, result)
    if op == "power" and dtypes.kind(result) == "i":
        made = _power_of_integers(rec, made, nodes[1])
    return rec.laid_out(made, keep_order(rec.shapes, shape, arrays), not shape)


def _power_of_integers(rec: Recorder, power: Node, exponent: Node) -> Node:
    """NumPy has no negative powers of integers."""
    known = rec.known(exponent)
    if known is not None:
        if (known < 0).any():
            raise ValueError("Integers to negative integer powers are not allowed.")
        return power
    zero = rec.nodes.full(0, exponent.dtype, exponent.shape)
    holds = rec.nodes.elementwise("greater_equal", (exponent, zero), dtypes.BOOL)
    return rec.nodes.require(power, holds, "power")


def _is_ambiguous(rec: Recorder, operands: Sequence[Any]) -> bool:
    """Would the result be another if a number that is a Python integer in some calls were one in all?  For elements of
    int64 that is for the operators of Python to find out (see `python_numbers.operate_mixed`)."""
    mixed = [
        x
        for x in operands
        if isinstance(x, TracedArray) and x.is_scalar and x.dtype != dtypes.INT64 and x.node in rec.mixed
    ]
    others = [x for x in operands if all(x is not m for m in mixed)]
    return bool(mixed) and not (
        len(mixed) == 1
        and others
        and all(isinstance(o, TracedArray) and o.weak is None for o in others)
        and all(ops.result_type(mixed[0].dtype, o.dtype) == o.dtype for o in others)
    )


def in_range(rec: Recorder, operand: Any, value: object, dtype: np.dtype) -> Any:
    """The operand; a size that an integer dtype may not hold becomes a number, which is treated as Python's are."""
    if type(value) is not Size or dtypes.kind(dtype) not in "iu":
        return operand
    info, shapes = np.iinfo(dtype), rec.shapes
    if not shapes.has_hint(value.index) and dtype.itemsize >= 4:
        return operand  # the counter of a loop, or a number of elements
    if shapes.at_least(value.index, int(info.min)) and shapes.at_least(int(info.max), value.index):
        return operand
    return shapes.number(value.index)


def mask(rec: Recorder, where: object) -> TracedArray:
    """The `where` of ufuncs and reductions, which takes nothing but bools."""
    found = rec.lift(where)
    if found.dtype != dtypes.BOOL and found.weak is None:
        raise CastError(
            f"Cannot cast array data from {found.dtype!r} to {dtypes.BOOL!r} according to the rule 'safe'",
            user_origin(),
        )
    return found.astype(dtypes.BOOL)


def _decided(op: str, operands: Sequence[object], operand_dtypes: Sequence[np.dtype]) -> bool | None:
    """The outcome of comparing integers with a Python int that their dtype cannot hold."""
    if op not in _COMPARISONS:
        return None
    for k, (value, dtype) in enumerate(zip(operands, operand_dtypes, strict=True)):
        if type(value) is int and dtypes.kind(dtype) in "iu":
            info = np.iinfo(dtype)
            if not info.min <= value <= info.max:
                return bool(_COMPARISONS[op](*((value, 0) if k == 0 else (0, value))))
    return None
