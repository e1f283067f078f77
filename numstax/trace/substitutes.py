"""What traced code sees in place of some NumPy functions and of scalar types.

NumPy's own protocols do not reach calls such as ``np.zeros(3)``, ``np.float32(x)`` or ``float(x)``; these
stand-ins do.  With arguments that are not traced, all but creation functions behave as the originals.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import SideEffectError
from numstax.trace import python_numbers
from numstax.trace.array import TracedArray
from numstax.trace.classes import StandIn
from numstax.trace.elements import contains_traced
from numstax.trace.generators import TracedGenerator, seeded_generator
from numstax.trace.origin import user_origin
from numstax.trace.registry import HANDLERS, REFUSED
from numstax.trace.sizes import Size

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


SCALAR_TYPES = {float, complex, *(d.type for d in dtypes.SUPPORTED if d not in dtypes.ML_FLOATS)}


def scalar_type(rec: Recorder, original: type) -> type:
    """A stand-in for ``np.float32``, ``float`` and the like."""
    if original in rec.stand_ins:
        return rec.stand_ins[original]
    weak = original if original in (float, complex, int, bool) else None
    dtype = np.dtype(original)

    def convert(value: Any, *more: Any) -> Any:
        if type(value) is Size and original is int:
            return value
        if more and original is complex:
            value = _joined(rec, value, *more)
        x = rec.lift(value)
        if weak and x.sizes:
            return original(x.value(f"{original.__name__}() takes the value"))
        if weak in (int, bool) and (known := rec.known(x.node)) is not None:
            return original(known)
        if weak is int:
            return python_numbers.whole(rec, x)
        if x.sizes and x.dtype == dtype:
            return x  # as NumPy's does
        is_checked = x.weak and not weak
        node = python_numbers.assigned(rec, x, dtype) if is_checked else rec.nodes.cast(x.node, dtype)
        return rec.fresh(node, not x.sizes, weak=weak)

    members = {"original": original, "convert": staticmethod(convert), "dtype": dtype, "__slots__": ()}
    bases = () if original is bool else (original,)
    found = rec.stand_ins[original] = StandIn(original.__name__, bases, members)
    return found


def _joined(rec: Recorder, real: Any, imag: Any) -> TracedArray:
    """``complex(real, imag)``: real + 1j*imag, part by part, where both may be complex."""
    a, b = rec.lift(real), rec.lift(imag)
    if a.sizes or b.sizes:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    parts = a.real, b.real
    if b.dtype.kind == "c":
        parts = parts[0] - b.imag, parts[1]
    if a.dtype.kind == "c":
        parts = parts[0], a.imag + parts[1]
    return rec.elementwise("complex", *(rec.fresh(rec.nodes.cast(x.node, dtypes.FLOAT64), True) for x in parts))


def numpy_function(rec: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for a creation function, or for one that NumPy does not dispatch."""
    creates = function in HANDLERS and HANDLERS[function].creates

    def call(*args: Any, **kwargs: Any) -> Any:
        if creates or function in REFUSED or contains_traced(args) or contains_traced(kwargs):
            return rec.call(function, args, kwargs)
        return function(*args, **kwargs)

    call.__name__ = getattr(function, "__name__", "function")
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


_DISPATCHED = type(np.sum)
"""NumPy's functions that ask their arguments, though not what is in a list of them."""


def needs_stand_in(function: object) -> bool:
    """Does NumPy run this function without asking all traced arguments?"""
    if not callable(function) or getattr(function, "__hash__", None) is None:
        return False
    if function in REFUSED or (function in HANDLERS and HANDLERS[function].creates):
        return True
    return isinstance(function, _DISPATCHED) or (function in HANDLERS and isinstance(function, types.FunctionType))


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
        "s_": lambda: np.s_,
        "index_exp": lambda: np.index_exp,
        "random": lambda: RandomModule(rec),
    }
    return made[name]() if name in made else None
