"""Operators on Python numbers: what they give is what Python gives, or the call is done by Python.

Handles of Python numbers and constants enter; the handle of the result leaves.  Integers are held in 64 bits, and
no operator raises an exception, so results carry requirements (see `requirements`): that nothing is divided by zero,
that integers fit, that values have the type which they have been given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import CastError, UnsupportedOperationError
from numstax.ir.graph import Node
from numstax.ir.index import Index, Quotient, Remainder, as_index
from numstax.ir.ranges import index_interval
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

ORDER = (bool, int, float, complex)
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
_EXACT = 1 << 53
"""Integers up to this size are float64 numbers."""
_LARGEST = 1 << 63
_MOST_FACTORS = 16
"""Powers up to this one are products."""


def operate(rec: Recorder, op: str, operands: tuple[Any, ...]) -> TracedArray:
    """The operator `op`, by the name of its ufunc."""
    try:
        return _operate(rec, op, operands)
    except CastError as error:
        # where Python comes by; it may never
        raise UnsupportedOperationError(str(error.what), user_origin()) from None


def operate_mixed(rec: Recorder, op: str, operands: tuple[Any, ...], mixed: Sequence[bool]) -> TracedArray:
    """The operator where some operands are, as values decide, Python integers or elements of an array of int64: what
    gives different results for the two is done by Python."""
    made = operate(rec, op, tuple(_weak(rec, x.node, int) if m else x for x, m in zip(operands, mixed, strict=True)))
    if made.weak is int:
        rec.mixed.add(made.node)
    return rec.fresh(made.node, True)


def _operate(rec: Recorder, op: str, operands: tuple[Any, ...]) -> TracedArray:
    kinds = [_kind(v) for v in operands]
    kind = max(kinds, key=ORDER.index)
    if op in COMPARISONS:
        return _number(rec, rec.elementwise(op, *_comparable(rec, operands, kinds)))
    if op not in _BITS or kind is not bool:
        # True + True is 2, and -True is -1
        operands = tuple(rec.lift(v).astype(np.int64) if k is bool else v for v, k in zip(operands, kinds, strict=True))
        kind = max(kind, int, key=ORDER.index)
    rule = _RULES.get((op, kind))
    if rule is None:
        return _number(rec, rec.elementwise(op, *operands))
    return rule(rec, *(_handle(rec, v, kind) for v in operands))


def whole(rec: Recorder, x: TracedArray) -> TracedArray:
    """``int(x)`` of a number."""
    node, nodes = x.node, rec.nodes
    if dtypes.kind(x.dtype) == "f":
        wide = nodes.cast(node, dtypes.FLOAT64)
        holds = nodes.elementwise("isfinite", (wide,), dtypes.BOOL)
        wide = nodes.require(wide, holds, "raises")
        wide = nodes.require(wide, _within(rec, wide, -float(_LARGEST), np.nextafter(float(_LARGEST), 0)), "range")
        node = nodes.cast(wide, dtypes.INT64)
    elif x.dtype == dtypes.UINT64:
        node = nodes.require(node, _test(rec, "less_equal", node, _LARGEST - 1), "range")
    return _weak(rec, nodes.cast(node, dtypes.INT64), int)


def of_size(rec: Recorder, index: Index) -> TracedArray:
    """The number that an Index is: one node where all of it fits, and else operations that are checked."""
    if index_interval(index) is not None:
        return _weak(rec, rec.nodes.size(index), int)
    total: Any = 0
    for monomial, coefficient in index.terms:
        term: Any = coefficient
        for atom in monomial:
            factor = _weak(rec, rec.nodes.size(as_index(atom)), int)
            if isinstance(atom, Quotient | Remainder):
                op = "floor_divide" if isinstance(atom, Quotient) else "remainder"
                factor = operate(rec, op, (of_size(rec, atom.value), of_size(rec, atom.divisor)))
            term = operate(rec, "multiply", (term, factor)) if isinstance(term, TracedArray) or term != 1 else factor
        total = operate(rec, "add", (total, term)) if isinstance(total, TracedArray) or total else term
    return rec.lift(total)


def converted(rec: Recorder, x: TracedArray, dtype: np.dtype) -> Node:
    """A number or array in another dtype; NumPy takes a Python integer only for a dtype that holds it."""
    node = x.node
    if x.weak is int and dtypes.kind(dtype) in "iu":
        known = _constant(x)
        if known is not None:
            return rec.nodes.constant(np.array(int(known), dtype), dtype)
        node = _in_dtype(rec, node, dtype, "raises")
    return rec.nodes.cast(node, dtype)


def joined(rec: Recorder, node: Node, dtype: np.dtype) -> Node:
    """The value of a variable that is a Python number in some places, in the dtype that it is taken to have."""
    if node.dtype == dtypes.INT64 and not node.shape:
        if dtypes.kind(dtype) in "iu":
            node = _in_dtype(rec, node, dtype, "type")
        elif dtype == dtypes.FLOAT64:
            node = _exact(rec, node)
    return rec.nodes.cast(node, dtype)


def assigned(rec: Recorder, x: TracedArray, dtype: np.dtype) -> Node:
    """A number or array that is stored in an array; NumPy takes a number only for a dtype of signed integers, and a
    Python number for any dtype, that holds it."""
    kind, known = dtypes.kind(dtype), _constant(x)
    if x.weak and known is not None:
        with np.errstate(all="ignore"):
            return rec.nodes.constant(np.array(x.weak(known), dtype), dtype)
    if x.weak is complex and kind not in "bc":
        raise CastError("a real number must be given to be stored in an array of real numbers", user_origin())
    is_float, is_wider = dtypes.kind(x.dtype) == "f", not x.weak and not np.can_cast(x.dtype, dtype)
    if x.is_scalar and ((kind == "i" and (is_float or is_wider)) or (kind == "u" and is_float and x.weak)):
        x = whole(rec, x)
    return converted(rec, x, dtype)


def math_result(rec: Recorder, result: TracedArray, operands: list[TracedArray]) -> TracedArray:
    """What a function of `math` gives: it raises an exception instead of giving NaN or infinity for a number."""
    nodes = rec.nodes
    holds = _finite(rec, result.node)
    for x in operands:
        nan = nodes.elementwise("isnan", (x.node,), dtypes.BOOL)
        holds = _either(rec, holds, nan)
    infinite = nodes.elementwise("isinf", (result.node,), dtypes.BOOL)
    for x in operands:
        holds = _either(rec, holds, _both(rec, infinite, nodes.elementwise("isinf", (x.node,), dtypes.BOOL)))
    return _weak(rec, nodes.require(result.node, holds, "raises"), float)


# --- what the rules are made of -----------------------------------------------------------------------


def _kind(value: Any) -> type:
    if isinstance(value, TracedArray):
        assert value.weak is not None
        return value.weak
    return type(value) if type(value) in ORDER else int


def _handle(rec: Recorder, value: Any, kind: type) -> TracedArray:
    """A Python number as one of a wider type."""
    if type(value) is int and kind is not int:
        value = kind(value)
    x = rec.lift(value)
    wanted = {int: dtypes.INT64, float: dtypes.FLOAT64, complex: dtypes.COMPLEX128, bool: dtypes.BOOL}[kind]
    return _weak(rec, rec.nodes.cast(x.node, wanted), kind)


def _weak(rec: Recorder, node: Node, kind: type) -> TracedArray:
    return rec.fresh(node, True, kind)


def _number(rec: Recorder, x: TracedArray) -> TracedArray:
    return _weak(rec, x.node, {"b": bool, "i": int, "f": float, "c": complex}[x.dtype.kind])


def _test(rec: Recorder, op: str, node: Node, value: Any) -> Node:
    return rec.nodes.elementwise(op, (node, rec.nodes.constant(value, node.dtype)), dtypes.BOOL)


def _both(rec: Recorder, a: Node, b: Node) -> Node:
    return rec.nodes.elementwise("logical_and", (a, b), dtypes.BOOL)


def _either(rec: Recorder, a: Node, b: Node) -> Node:
    return rec.nodes.elementwise("logical_or", (a, b), dtypes.BOOL)


def _not(rec: Recorder, a: Node) -> Node:
    return rec.nodes.elementwise("logical_not", (a,), dtypes.BOOL)


def _constant(x: TracedArray) -> Any:
    return x.node.attr("value").value if x.node.op == "constant" else None


def _finite(rec: Recorder, node: Node) -> Node:
    return rec.nodes.elementwise("isfinite", (node,), dtypes.BOOL)


def _within(rec: Recorder, node: Node, low: Any, high: Any) -> Node:
    return _both(rec, _test(rec, "greater_equal", node, low), _test(rec, "less_equal", node, high))


def _in_dtype(rec: Recorder, node: Node, dtype: np.dtype, requirement: str) -> Node:
    info, own = np.iinfo(dtype), np.iinfo(np.int64)
    if info.max < own.max:
        return rec.nodes.require(node, _within(rec, node, info.min, info.max), requirement)
    if info.min > own.min:
        return rec.nodes.require(node, _test(rec, "greater_equal", node, info.min), requirement)
    return node


def _exact(rec: Recorder, node: Node) -> Node:
    """An integer that a float64 holds."""
    return rec.nodes.require(node, _within(rec, node, -_EXACT, _EXACT), "exact")


def _comparable(rec: Recorder, operands: tuple[Any, ...], kinds: list[type]) -> list[Any]:
    """Python compares integers with floats exactly."""
    if not {int, float} <= {*kinds}:
        return list(operands)
    return [_as_float(rec, v) if k is int else v for v, k in zip(operands, kinds, strict=True)]


def _as_float(rec: Recorder, value: Any) -> Any:
    if type(value) is int:
        nearest = float(value)
        return nearest if nearest == value else _weak(rec, _exact(rec, rec.lift(value).node), int)
    return _weak(rec, _exact(rec, rec.lift(value).node), int)


# --- rules: operands of one type -> result --------------------------------------------------------------

Rule = Callable[..., TracedArray]


def _nonzero(rec: Recorder, b: TracedArray) -> Callable[[Node], Node]:
    """What gives a node the requirement that the divisor is not 0."""
    if _constant(b):
        return lambda node: node
    return lambda node: rec.nodes.require(node, _test(rec, "not_equal", b.node, 0), "zero")


def _divided(op: str) -> Rule:
    def rule(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
        result = rec.elementwise(op, a, b)
        return _number(rec, rec.fresh(_nonzero(rec, b)(result.node), True))

    return rule


def _fitting(op: str) -> Rule:
    """Integer arithmetic whose result has to fit."""

    def rule(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
        fits = rec.nodes.elementwise(f"{op}_fits", (a.node, b.node), dtypes.BOOL)
        return _weak(rec, rec.nodes.require(rec.elementwise(op, a, b).node, fits, "range"), int)

    return rule


_product = _fitting("multiply")


def _int_negative(rec: Recorder, a: TracedArray) -> TracedArray:
    return _fitting("subtract")(rec, rec.lift(0), a)


def _int_absolute(rec: Recorder, a: TracedArray) -> TracedArray:
    fits = _test(rec, "not_equal", a.node, -_LARGEST)
    return _weak(rec, rec.nodes.require(rec.elementwise("absolute", a).node, fits, "range"), int)


def _int_divide(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
    """The exact quotient, rounded once: what rounding the operands first gives where they are small."""
    value = _constant(b)
    scales = value is not None and value > 0 and value & (value - 1) == 0
    top, bottom = (rec.nodes.cast(x.node if scales else _exact(rec, x.node), dtypes.FLOAT64) for x in (a, b))
    return _divided("divide")(rec, _weak(rec, top, float), _weak(rec, bottom, float))


def _int_floor_divide(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
    quotient = rec.elementwise("floor_divide", a, b).node
    if _constant(b) in (None, -1):
        least, minus = _test(rec, "not_equal", a.node, -_LARGEST), _test(rec, "not_equal", b.node, -1)
        quotient = rec.nodes.require(quotient, _either(rec, least, minus), "range")
    return _weak(rec, _nonzero(rec, b)(quotient), int)


def _shift_left(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
    made = rec.elementwise("left_shift", a, b)
    back = rec.elementwise("equal", rec.elementwise("right_shift", made, b), a)
    node = rec.nodes.require(made.node, back.node, "range")
    return _weak(rec, rec.nodes.require(node, _test(rec, "greater_equal", b.node, 0), "raises"), int)


def _shift_right(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
    made = rec.elementwise("right_shift", a, b).node
    return _weak(rec, rec.nodes.require(made, _test(rec, "greater_equal", b.node, 0), "raises"), int)


def _int_power(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
    known = _constant(b)
    if known is not None and known < 0:
        return _float_power(rec, *(_handle(rec, x, float) for x in (a, b)))
    if known is not None and known <= _MOST_FACTORS:
        made = rec.lift(1)
        for _ in range(known):
            made = _product(rec, made, a)
        return made
    size = rec.elementwise("power", rec.elementwise("absolute", a).astype(float), b.astype(float))
    made = rec.elementwise("power", a, rec.elementwise("maximum", b, 0))
    node = rec.nodes.require(made.node, _test(rec, "less", size.node, 0.999 * _LARGEST), "range")
    return _weak(rec, rec.nodes.require(node, _test(rec, "greater_equal", b.node, 0), "type"), int)


def _float_power(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
    """Python raises where a number of this size has no power, and gives complex powers of negative numbers."""
    nodes, base, exponent = rec.nodes, _constant(a), _constant(b)
    made = (rec.elementwise("square", a) if exponent == 2 else rec.elementwise("power", a, b)).node
    numbers = _both(rec, _finite(rec, a.node), _finite(rec, b.node))
    made = nodes.require(made, _either(rec, _finite(rec, made), _not(rec, numbers)), "raises")
    if not (base is not None and base > 0) and not (exponent is not None and exponent.is_integer()):
        whole = nodes.elementwise("equal", (nodes.elementwise("floor", (b.node,), dtypes.FLOAT64), b.node), dtypes.BOOL)
        made = nodes.require(made, _either(rec, _not(rec, _test(rec, "less", a.node, 0.0)), whole), "type")
    if not base and not (exponent is not None and exponent >= 0):
        positive = _not(rec, _test(rec, "less", b.node, 0.0))
        made = nodes.require(made, _either(rec, _test(rec, "not_equal", a.node, 0.0), positive), "zero")
    return _weak(rec, made, float)


def _complex_power(rec: Recorder, a: TracedArray, b: TracedArray) -> TracedArray:
    made = rec.elementwise("power", a, b).node
    return _weak(rec, rec.nodes.require(made, _test(rec, "not_equal", a.node, 0), "zero"), complex)


def _complex_absolute(rec: Recorder, a: TracedArray) -> TracedArray:
    made = rec.elementwise("absolute", a).node
    return _weak(
        rec, rec.nodes.require(made, _either(rec, _finite(rec, made), _not(rec, _finite(rec, a.node))), "raises"), float
    )


_RULES: dict[tuple[str, type], Rule] = {
    **{(op, int): _fitting(op) for op in ("add", "subtract", "multiply")},
    **{(op, float): _divided(op) for op in ("divide", "floor_divide", "remainder")},
    ("remainder", int): _divided("remainder"),
    ("divide", complex): _divided("divide"),
    ("negative", int): _int_negative,
    ("absolute", int): _int_absolute,
    ("divide", int): _int_divide,
    ("floor_divide", int): _int_floor_divide,
    ("left_shift", int): _shift_left,
    ("right_shift", int): _shift_right,
    ("power", int): _int_power,
    ("power", float): _float_power,
    ("power", complex): _complex_power,
    ("absolute", complex): _complex_absolute,
}
