"""Objects that attributes of a traced array give (`flat`, `flags`), and why other attributes cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.errors import UnsupportedOperationError
from numstax.trace import host
from numstax.trace.layout import is_contiguous
from numstax.trace.origin import user_origin

if TYPE_CHECKING:
    from numstax.trace.array import TracedArray

_REFUSED = {
    "base": ("says which array the memory belongs to", "np.shares_memory(a, b) answers whether two arrays share it"),
    "ctypes": ("is an address", "take it outside the compiled function"),
    "data": ("is an address", "take it outside the compiled function"),
    "dump": ("writes a file", "call it outside, on the result"),
    "dumps": ("gives bytes", "call it outside, on the result"),
    "tofile": ("writes a file", "call it outside, on the result"),
    "getfield": ("reads part of each element", "use view() or astype()"),
    "setfield": ("writes part of each element", "use view() or astype()"),
    "resize": ("changes the size of an array that others may hold", "assign the result: a = np.resize(a, shape)"),
    "setflags": ("changes what others may do with the array", "copy the array where it must not change"),
}


def refusal(name: str) -> UnsupportedOperationError:
    """Why an attribute of ndarray that traced arrays lack is missing."""
    reason, remedy = _REFUSED.get(name, ("of a traced array", "use it outside the compiled function"))
    return UnsupportedOperationError(f"ndarray.{name} {reason}, which cannot be compiled", user_origin(), remedy)


class Flags:
    """ndarray.flags: what the strides say; they can be read, not set."""

    def __init__(self, array: TracedArray) -> None:
        strides = array.strides_in_elements
        if strides is None:
            raise UnsupportedOperationError("the strides of this result are not known while tracing", user_origin())
        c, f = is_contiguous(array.sizes, strides), is_contiguous(array.sizes[::-1], strides[::-1])
        writeable = not array.is_scalar and not array.storage.read_only and all(v.writeable for v in array.views)
        vars(self).update(
            c_contiguous=c, f_contiguous=f, contiguous=c, fnc=f and not c, forc=f or c, writeable=writeable,
            behaved=writeable, carray=writeable and c, farray=writeable and f and not c, aligned=True,
            writebackifcopy=False,
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if not hasattr(np.empty(0).flags, name):
            raise AttributeError(name)
        raise UnsupportedOperationError(f"ndarray.flags.{name} is not known while tracing", user_origin())

    def __getitem__(self, name: str) -> Any:
        return getattr(self, _FLAGS.get(name, name.lower()))

    def __setattr__(self, name: str, value: object) -> None:
        raise refusal("setflags")

    __setitem__ = __setattr__


_FLAGS = {"C": "c_contiguous", "F": "f_contiguous", "W": "writeable", "A": "aligned", "B": "behaved", "O": "owndata"}


class FlatIterator:
    """ndarray.flat: the elements in C order, readable and writeable."""

    def __init__(self, array: TracedArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[TracedArray]:
        return iter(self._array.reshape(-1))

    def __getitem__(self, key: object) -> TracedArray:
        return self._array.flatten()[key]

    def __setitem__(self, key: object, value: object) -> None:
        """Values are repeated, or left over, until every chosen element has one."""
        strides = self._array.strides_in_elements
        is_flat = strides is not None and is_contiguous(self._array.sizes, strides)
        flat = self._array.reshape(-1) if is_flat else self._array.flatten()
        values = self._array.recorder.call(np.array, (value, self._array.dtype), {}).ravel()
        chosen = flat[key].size
        if values.size == 1:
            flat[key] = values[0]
        elif chosen:
            flat[key] = values.take(np.arange(chosen) % values.size)
        if not is_flat:
            self._array[...] = flat.reshape(self._array.shape)


# --- methods of numbers -------------------------------------------------------------------------------


def scalar_attribute(x: TracedArray, name: str) -> Any:
    """A method of a NumPy scalar or Python number that arrays lack."""
    if name == "is_integer":
        return lambda: x.recorder.python_number(x.recorder.elementwise("floor", x) == x)
    known = x.value(f"{name} takes the value", "take it outside the compiled function")
    return getattr(known[()] if x.weak is None else x.weak(known), name)


def rounded(x: TracedArray, digits: int | None) -> Any:
    """``round(x, digits)`` of a NumPy scalar or Python number."""
    rec = x.recorder
    if digits is None:
        return whole(x, "rint")
    if x.weak is not None:
        # Python rounds the decimal number, NumPy the scaled one
        return rec.call(host.rounded, (x, digits), {})
    return rec.call(np.round, (x, digits), {})


def whole(x: TracedArray, op: str) -> Any:
    """A Python int."""
    if x.sizes:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    number = x if x.dtype.kind in "iub" else x.recorder.elementwise(op, x)
    return x.recorder.whole(number)
