"""What traced code sees in place of some NumPy functions, NumPy scalar types, builtins and `math`.

NumPy's own protocols do not reach calls such as ``np.zeros(3)``, ``np.float32(x)`` or ``float(x)``; these
stand-ins do.  With arguments that are not traced, all but creation functions behave as the originals.
`math` functions give NaN or infinity where Python's raise.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import SideEffectError
from numstax.trace.array import TracedArray
from numstax.trace.generators import TracedGenerator, seeded_generator
from numstax.trace.loops import TracedRange
from numstax.trace.origin import user_origin
from numstax.trace.recorder import contains_traced
from numstax.trace.registry import HANDLERS, REFUSED
from numstax.trace.sizes import Size

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_MATH = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "atan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "hypot": "hypot", "pow": "power", "fabs": "fabs", "fmod": "fmod",
    "degrees": "degrees", "radians": "radians", "copysign": "copysign", "isnan": "isnan", "isinf": "isinf",
    "isfinite": "isfinite", "erf": "erf", "erfc": "erfc", "cbrt": "cbrt",
}  # fmt: skip
_EFFECTS = "open input exec eval globals locals vars setattr delattr id compile breakpoint".split()


class _ScalarType(type):
    """The type of a stand-in for a scalar type: a subclass of it that takes traced values."""

    original: type
    convert: Callable[[Any], TracedArray]

    def __call__(cls, *args: Any) -> Any:
        if len(args) == 1 and contains_traced(args[0]):
            return cls.convert(args[0])
        return cls.original(*args)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original


def scalar_type(rec: Recorder, original: type) -> type:
    """A stand-in for ``np.float32``, ``float`` and the like."""
    weak = original if original in (int, float, complex) else None
    dtype = np.dtype(original)

    def convert(value: Any) -> TracedArray:
        x = rec.lift(value)
        cast = rec.nodes.cast(x.node, dtype)
        if weak and x.sizes:
            x.value(f"{original.__name__}() takes the value")
        return rec.fresh(cast, not x.sizes, weak=weak)

    members = {"original": original, "convert": staticmethod(convert), "dtype": dtype, "__slots__": ()}
    return _ScalarType(original.__name__, (original,), members)


def numpy_function(rec: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for a creation function, or for one that NumPy does not dispatch."""
    creates = function in HANDLERS and HANDLERS[function].creates

    def call(*args: Any, **kwargs: Any) -> Any:
        if creates or contains_traced(args) or contains_traced(kwargs):
            return rec.call(function, args, kwargs)
        return function(*args, **kwargs)

    call.__name__ = function.__name__
    return call


def needs_stand_in(function: object) -> bool:
    """Does NumPy run this function without asking traced arguments?"""
    if not callable(function) or getattr(function, "__hash__", None) is None:
        return False
    if function in REFUSED or (function in HANDLERS and HANDLERS[function].creates):
        return True
    return function in (np.isscalar, np.result_type, np.can_cast, np.min_scalar_type, np.common_type, np.vectorize)


def math_function(rec: Recorder, name: str) -> Callable[..., Any]:
    original = getattr(math, name)

    def call(*args: Any) -> Any:
        if not contains_traced(args):
            return original(*args)
        operands = [rec.fresh(rec.nodes.cast(rec.lift(a).node, dtypes.FLOAT64), True) for a in args]
        if name == "log" and len(args) == 2:
            result = rec.elementwise("divide", *(rec.elementwise("log", x) for x in operands))
        else:
            result = rec.elementwise(_MATH[name], *operands)
        return rec.fresh(result.node, True, weak=bool if result.dtype == dtypes.BOOL else float)

    return call


def builtin(rec: Recorder, name: str) -> Any:
    """The builtin, or its stand-in."""
    original = getattr(builtins, name)
    if name in ("int", "float", "complex"):
        return scalar_type(rec, original)
    if name == "range":
        return _range
    if name == "len":
        return lambda value: value.shape[0] if type(value) is TracedArray and value.sizes else len(value)
    if name in ("max", "min"):
        return _extreme(rec, original, "greater" if name == "max" else "less")
    if name in _EFFECTS:
        return _refuse_call(f"{name}()")
    return original


def _range(*args: Any) -> Any:
    """``range``; with sizes and traced integers, what a loop is captured over."""
    if not contains_traced(args):
        return range(*args)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return TracedRange(start, stop, operator.index(step))


def _extreme(rec: Recorder, original: Callable[..., Any], better: str) -> Callable[..., Any]:
    """max and min of several traced numbers, as a choice."""

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [v for v in args if isinstance(v, TracedArray | int | float | np.generic)]
        if kwargs or len(args) < 2 or len(values) < len(args) or not any(type(v) is TracedArray for v in args):
            return original(*args, **kwargs)
        values = [rec.lift(v) if isinstance(v, Size) else v for v in values]
        kinds = {v.weak if isinstance(v, TracedArray) and v.weak else getattr(v, "dtype", type(v)) for v in values}
        if len(kinds) > 1 or any(np.ndim(v) for v in values):
            return original(*args)
        best = values[0]
        for v in values[1:]:
            chosen = rec.elementwise("where", rec.elementwise(better, v, best), v, best)
            best = rec.fresh(chosen.node, True, weak=next(iter(kinds)) if isinstance(next(iter(kinds)), type) else None)
        return best

    return call


def _refuse_call(what: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise SideEffectError(f"{what} inside a traced function", user_origin(), "call it outside and pass the result")

    return call


class Refused:
    """Stands for a module whose functions have effects or give other values in each call."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        raise SideEffectError(
            f"{self.__name__}.{name} inside a traced function", user_origin(), "call it outside and pass the result"
        )


class RandomModule:
    """numpy.random: generators seeded inside the function, no global ones."""

    def __init__(self, rec: Recorder) -> None:
        self._rec = rec

    def default_rng(self, seed: Any = None) -> TracedGenerator:
        return seeded_generator(self._rec, seed)

    def __getattr__(self, name: str) -> Any:
        if name in ("Generator", "RandomState", "BitGenerator"):
            return getattr(np.random, name)
        raise global_state(f"numpy.random.{name}")


def global_state(what: str) -> SideEffectError:
    """Random numbers from a generator that belongs to the process."""
    return SideEffectError(
        f"{what} inside a traced function", user_origin(),
        "pass a numpy.random.Generator (numpy.random.default_rng(...)) as an argument and draw from it",
    )  # fmt: skip


class Grid:
    """np.mgrid and np.ogrid."""

    def __init__(self, rec: Recorder, sparse: bool) -> None:
        self._rec, self._sparse = rec, sparse

    def _line(self, part: slice) -> TracedArray:
        start, step = part.start or 0, 1 if part.step is None else part.step
        if isinstance(step, complex):
            line = self._rec.call(np.linspace, (start, part.stop, int(abs(step))), {})
        else:
            line = self._rec.call(np.arange, (start, part.stop, step), {})
        return line

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._line(key)
        lines = [self._line(part) for part in key]
        kind = np.result_type(*(line.dtype for line in lines))
        rank = len(lines)
        grids = [line.astype(kind).reshape([-1 if j == k else 1 for j in range(rank)]) for k, line in enumerate(lines)]
        if self._sparse:
            return tuple(grids)
        return np.stack([np.broadcast_to(g, tuple(line.size for line in lines)) for g in grids])


class Joiner:
    """np.r_ and np.c_ of arrays, numbers and slices."""

    def __init__(self, rec: Recorder, columns: bool) -> None:
        self._rec, self._columns = rec, columns

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(p, str) for p in parts):
            raise SideEffectError("np.r_ with a string directive", user_origin(), "use np.concatenate")
        grid = Grid(self._rec, sparse=False)
        arrays = [grid[p] if isinstance(p, slice) else np.atleast_1d(self._rec.lift(p)) for p in parts]
        return self._rec.call(np.column_stack if self._columns else np.concatenate, (arrays,), {})


def numpy_object(rec: Recorder, name: str) -> Any:
    """The stand-in for an attribute of the numpy module, or None when the original serves."""
    made: dict[str, Callable[[], Any]] = {
        "mgrid": lambda: Grid(rec, sparse=False),
        "ogrid": lambda: Grid(rec, sparse=True),
        "r_": lambda: Joiner(rec, columns=False),
        "c_": lambda: Joiner(rec, columns=True),
        "random": lambda: RandomModule(rec),
    }
    return made[name]() if name in made else None


def is_math(function: object) -> bool:
    return getattr(function, "__name__", None) in _MATH and getattr(math, function.__name__) is function  # type: ignore[attr-defined]
