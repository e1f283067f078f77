"""What traced code sees in place of NumPy's classes that work on arrays: some work on traced ones, others are
refused by name.  isinstance and issubclass answer as for the originals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.errors import UnsupportedOperationError
from numstax.trace.array import TracedArray
from numstax.trace.elements import contains_traced
from numstax.trace.origin import user_origin

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


class StandIn(type):
    """The type of a stand-in for a class: `convert` makes the instance when an argument is traced, or always."""

    original: type
    convert: Callable[..., Any]
    always: bool = False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.always or contains_traced(args) or contains_traced(kwargs):
            return cls.convert(*args, **kwargs)
        return cls.original(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass.original if isinstance(subclass, StandIn) else subclass, cls.original)

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or cls.original == other


class Broadcast:
    """np.broadcast of traced arrays: its shape."""

    def __init__(self, rec: Recorder, args: tuple[Any, ...]) -> None:
        sizes = rec.shapes.broadcast(*(rec.lift(a).sizes for a in args))
        self.shape = tuple(rec.size(n) for n in sizes)
        self.ndim = self.nd = len(sizes)
        self.numiter = len(args)

    @property
    def size(self) -> Any:
        count = 1
        for n in self.shape:
            count *= n
        return count


def _enumerate(x: TracedArray) -> Iterator[tuple[tuple[int, ...], TracedArray]]:
    """np.ndenumerate."""
    return ((at, x[at]) for at in np.ndindex(*x.shape))


_REFUSED = {
    np.nditer: ("goes through an array one element at a time", "loop over indices, or use array operations"),
    np.vectorize: ("calls a Python function for each element", "call the function with whole arrays"),
    np.matrix: ("is an ndarray of another kind", "use a plain array; @ is the matrix product"),
    np.recarray: ("is an ndarray of another kind", "use one array for each field"),
    np.memmap: ("opens a file", "open it outside and pass the array"),
}
_ALWAYS = (np.vectorize, np.memmap, np.ndarray)
"""Not the original whatever the arguments are."""


def _new_array(
    rec: Recorder, shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None,
    order: str | None = None,
) -> Any:  # fmt: skip
    """np.ndarray(shape, dtype): an array whose contents are undefined, as that of np.empty."""
    if buffer is not None or offset or strides is not None:
        raise UnsupportedOperationError(
            "numpy.ndarray(buffer=...) is a view of any memory, which cannot be compiled", user_origin(),
            "slice or reshape the array",
        )  # fmt: skip
    return rec.call(np.empty, (shape, dtype, order or "C"), {})


_MASKED = ("is an ndarray of another kind", "keep the mask apart: np.where(mask, a, b)")


def _is_masked(cls: type) -> bool:
    """Is it np.ma.MaskedArray?  Naming that would import numpy.ma, which takes 10 ms."""
    return cls.__name__ == "MaskedArray" and cls.__module__.startswith("numpy.ma")


def refused(cls: type) -> UnsupportedOperationError:
    reason, remedy = _MASKED if _is_masked(cls) else _REFUSED[cls]
    name = f"numpy.{'ma.' if _is_masked(cls) else ''}{cls.__name__}"
    return UnsupportedOperationError(f"{name} {reason}, which cannot be compiled", user_origin(), remedy)


def numpy_class(rec: Recorder, cls: type) -> type | None:
    """The stand-in for a NumPy class, or None when the original serves."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise refused(cls)

    if cls in rec.stand_ins:
        return rec.stand_ins[cls]
    if cls in _REFUSED or _is_masked(cls):
        convert: Callable[..., Any] = refuse
    elif cls is np.broadcast:
        convert = lambda *args: Broadcast(rec, args)  # noqa: E731
    elif cls is np.ndarray:
        convert = partial(_new_array, rec)
    elif cls is np.ndenumerate:
        convert = _enumerate
    else:
        return None
    members = {"original": cls, "convert": staticmethod(convert), "always": cls in _ALWAYS, "__slots__": ()}
    found = rec.stand_ins[cls] = StandIn(cls.__name__, (), members)
    return found
