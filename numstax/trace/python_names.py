"""What traced code sees in place of Python's builtins and the functions of `math`.

With arguments that are not traced they behave as the originals.  Functions of `math` that are no operations of the
graph are called as they are.
"""

from __future__ import annotations

import builtins
import math
import operator
import types
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import SideEffectError
from numstax.ir.ops import ELEMENTWISE
from numstax.trace import extern, python_numbers
from numstax.trace.array import TracedArray
from numstax.trace.classes import StandIn, numpy_class
from numstax.trace.counted import Iteration, TracedRange
from numstax.trace.elements import contains_traced
from numstax.trace.origin import user_origin
from numstax.trace.scopes import check_iterator
from numstax.trace.selection import Selection
from numstax.trace.sizes import Size
from numstax.trace.substitutes import SCALAR_TYPES, scalar_type

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_MATH = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "atan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "hypot": "hypot", "pow": "power", "fabs": "fabs", "fmod": "fmod",
    "degrees": "degrees", "radians": "radians", "copysign": "copysign", "isnan": "isnan", "isinf": "isinf",
    "isfinite": "isfinite", "erf": "erf", "erfc": "erfc", "cbrt": "cbrt", "nextafter": "nextafter",
}  # fmt: skip
_SILENT = ("fabs", "degrees", "radians", "copysign", "nextafter", "atan2", "erf", "erfc")
"""These raise no exceptions."""
_ROUNDING = ("floor", "ceil", "trunc")
"""These ask the number itself."""
_EFFECTS = "open input print exec eval globals locals vars setattr delattr id compile breakpoint".split()
_FEW = 64
"""Elements of an array that Python's max and min go through."""


def math_function(rec: Recorder, name: str) -> Callable[..., Any]:
    original = getattr(math, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if name in _ROUNDING or not contains_traced([*args, kwargs]):
            return original(*args, **kwargs)
        if name not in _MATH or kwargs or (len(args) != ELEMENTWISE[_MATH[name]].arity and name != "log"):
            return extern.call(rec, original, args, kwargs)
        operands = [rec.lift(a) for a in args]
        if any(x.sizes for x in operands):
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        operands = [rec.fresh(rec.nodes.cast(x.node, dtypes.FLOAT64), True) for x in operands]
        if name == "log" and len(args) == 2:
            result = rec.elementwise("divide", *(rec.elementwise("log", x) for x in operands))
        else:
            result = rec.elementwise(_MATH[name], *operands)
        if result.dtype == dtypes.BOOL or name in _SILENT:
            return rec.fresh(result.node, True, weak=bool if result.dtype == dtypes.BOOL else float)
        return python_numbers.math_result(rec, result, operands)

    return call


def is_math(function: object) -> bool:
    name = getattr(function, "__name__", "")
    return callable(function) and getattr(math, name, None) is function


def is_builtin(function: object) -> bool:
    name = getattr(function, "__name__", "")
    return callable(function) and getattr(builtins, name, None) is function


def builtin(rec: Recorder, name: str) -> Any:
    """The builtin, or its stand-in."""
    original = getattr(builtins, name)
    if name in ("float", "complex", "int", "bool"):
        return scalar_type(rec, original)
    if name == "type":
        return _type_question(rec)
    if name == "range":
        return _range
    if name == "hasattr":
        return _has_attribute
    if name == "isinstance":
        return _is_instance
    if name in ("enumerate", "zip", "reversed"):
        return partial(Iteration, original)
    if name == "next":
        return partial(_next, rec)
    if name == "len":
        return lambda value: value.shape[0] if type(value) in (TracedArray, Selection) and value.ndim else len(value)
    if name in ("max", "min"):
        return _extreme(rec, original, "greater" if name == "max" else "less")
    if name in ("any", "all"):
        return _truth(rec, original, "logical_or" if name == "any" else "logical_and")
    if name in _EFFECTS:
        return _refuse_call(f"{name}()")
    return original


def _has_attribute(value: Any, name: str) -> bool:
    """A traced number has no length, whatever the class of its handle has."""
    if type(value) not in (TracedArray, Size):
        return hasattr(value, name)
    return any(name in vars(kind) for kind in value.__class__.__mro__)


def _is_instance(value: Any, kinds: Any) -> bool:
    """Abstract classes look at the class of the handle, too."""
    is_traced = type(value) in (TracedArray, Size)
    return issubclass(value.__class__, kinds) if is_traced else isinstance(value, kinds)


def _range(*args: Any) -> Any:
    """``range``; with sizes and traced integers, what a loop is captured over."""
    if not contains_traced(args):
        return range(*args)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return TracedRange(start, stop, operator.index(step))


def _next(rec: Recorder, *args: Any) -> Any:
    check_iterator(rec, args[0])
    return next(*args)


def _type_question(rec: Recorder) -> type:
    """``type(x)``: the stand-in for the type, so that ``type(x) is float`` answers as it does in Python."""

    def question(*args: Any) -> Any:
        if len(args) != 1:
            return type(*args)
        found = args[0].__class__ if type(args[0]) in (TracedArray, Size) else type(args[0])
        if found in SCALAR_TYPES or found in (int, bool):
            return scalar_type(rec, found)
        return numpy_class(rec, found) or rec.stand_ins.get(found, found)

    members = {"original": type, "convert": staticmethod(question), "always": True, "__slots__": ()}
    return StandIn("type", (), members)


def _extreme(rec: Recorder, original: Callable[..., Any], better: str) -> Callable[..., Any]:
    """max and min of traced numbers, as a choice: the first of equals, as Python goes through them."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], types.GeneratorType):
            args = ([*args[0]],)
        values: Any = args
        if len(args) == 1 and type(args[0]) in (TracedArray, list, tuple) and 0 < len(args[0]) <= _FEW:
            values = tuple(args[0])
        if any(type(v) is TracedArray or (type(v) is Size and not rec.shapes.has_hint(v.index)) for v in values):
            values = tuple(rec.lift(v) if type(v) is Size else v for v in values)
        kind = None if kwargs else _common_kind(values)
        if kind is None:
            return original(*args, **kwargs)
        weak = kind if isinstance(kind, type) else None
        best, *rest = (rec.lift(v).astype(kind) for v in values)
        for v in rest:
            best = rec.elementwise("where", rec.elementwise(better, v, best), v, best)
        if weak is None and dtypes.kind(kind) in "iu" and any(_may_be_python(rec, v) for v in values):
            rec.mixed.add(best.node)
        return rec.fresh(best.node, True, weak)

    return call


def _may_be_python(rec: Recorder, value: Any) -> bool:
    """Is it a Python number, in some calls at least?"""
    if type(value) is TracedArray:
        return value.weak is not None or value.node in rec.mixed
    return type(value) in (bool, int)


def _common_kind(values: tuple[Any, ...]) -> np.dtype | type | None:
    """The one dtype (or Python type) of all traced numbers, which holds the numbers among them exactly; else None."""
    kinds = {v.weak or v.dtype for v in values if type(v) is TracedArray and not v.sizes}
    if len({np.dtype(kind) for kind in kinds}) != 1:
        return None
    kind = next((kind for kind in kinds if isinstance(kind, np.dtype)), next(iter(kinds)))
    exact = np.dtype(kind).type
    for v in values:
        if type(v) is TracedArray:
            if v.sizes:
                return None
        elif not isinstance(v, int | float | np.generic) or exact(v) != v or (exact(0.5) == 0 and isinstance(v, float)):
            return None
    return kind


def _truth(rec: Recorder, original: Callable[..., Any], op: str) -> Callable[..., Any]:
    """any and all of traced values, all of which are looked at."""

    def call(values: Iterable[Any], /) -> Any:
        items = values if type(values) is TracedArray else [*values]
        if type(items) is TracedArray:
            if items.ndim != 1:
                return original(items)
            return rec.python_number(items.any() if op == "logical_or" else items.all())
        if not any(type(v) is TracedArray for v in items):
            return original(items)
        found: Any = op == "logical_and"
        for v in items:
            found = rec.elementwise(op, found, rec.lift(v))
        return rec.python_number(found)

    return call


def _refuse_call(what: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise SideEffectError(f"{what} inside a traced function", user_origin(), "call it outside and pass the result")

    return call
