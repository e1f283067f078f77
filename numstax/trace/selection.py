"""``a[mask]`` where the mask is known only at run time.

Its size is unknown, so it is kept at full size together with the mask: elementwise operations work on all
elements, and only those under the mask are stored or reduced.  What needs the size raises DataDependentError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.errors import CastError, DataDependentError, Origin
from numstax.ir.graph import Node
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

Method = Callable[..., Any]
_REDUCTIONS = (np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all)


def _binary(op: str) -> Method:
    return lambda self, other: elementwise(self.recorder, op, (self, other))


def _reflected(op: str) -> Method:
    return lambda self, other: elementwise(self.recorder, op, (other, self))


def _in_place(op: str) -> Method:
    return lambda self, other: self.replaced(op, other)


def _unary(op: str) -> Method:
    return lambda self: elementwise(self.recorder, op, (self,))


def _method(function: Callable[..., Any]) -> Method:
    return lambda self, *args, **kwargs: self.__array_function__(function, (), (self, *args), kwargs)


class Selection:
    """`full` : new memory with all elements; `mask` covers its leading axes; `origin` : the line that selects."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("full", "mask", "origin", "recorder")

    def __init__(self, recorder: Recorder, full: TracedArray, mask: TracedArray) -> None:
        self.recorder, self.full, self.mask = recorder, full, mask
        self.origin = user_origin()

    def same_places(self, mask: Node) -> bool:
        return self.mask.node is mask

    @property
    def ndim(self) -> int:
        return self.full.ndim - self.mask.ndim + 1

    @property
    def dtype(self) -> np.dtype:
        return self.full.dtype

    def replaced(self, op: str, other: object) -> Selection:
        """An augmented assignment: the dtype stays."""
        result = elementwise(self.recorder, op, (self, other))
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise CastError(
                f"Cannot cast ufunc '{op}' output from {result.dtype!r} to {self.dtype!r} "
                "with casting rule 'same_kind'",
                user_origin(),
            )
        return result.astype(self.dtype)

    def astype(self, dtype: Any) -> Selection:
        return Selection(self.recorder, self.full.astype(dtype), self.mask)

    def copy(self) -> Selection:
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise size_unknown()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")
        raise size_unknown()

    def __len__(self) -> int:
        raise size_unknown()

    def __iter__(self) -> Any:
        raise size_unknown()

    def __getitem__(self, key: object) -> Any:
        raise size_unknown()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Any:
        return self.recorder.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Reductions over all elements, or over the axes of the mask (axis 0 of the selection)."""
        axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
        if function not in _REDUCTIONS or args[0] is not self or kwargs.keys() - {"axis"} or len(args) > 2:
            raise size_unknown()
        if axis not in (None, 0):
            raise size_unknown()
        axes = None if axis is None else tuple(range(self.mask.ndim))
        spread = self.mask.reshape(self.mask.shape + (1,) * (self.full.ndim - self.mask.ndim))
        return self.recorder.call(function, (self.full,), {"axis": axes, "where": spread})

    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide"), _reflected("divide"), _in_place("divide")
    __floordiv__, __ifloordiv__ = _binary("floor_divide"), _in_place("floor_divide")
    __mod__, __imod__ = _binary("remainder"), _in_place("remainder")
    __pow__, __rpow__, __ipow__ = _binary("power"), _reflected("power"), _in_place("power")
    __and__, __or__, __xor__ = (_binary(op) for op in ("bitwise_and", "bitwise_or", "bitwise_xor"))
    __lt__, __le__, __gt__, __ge__ = (_binary(op) for op in ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __neg__, __abs__, __invert__ = (_unary(op) for op in ("negative", "absolute", "invert"))
    sum, prod, mean, var, std, any, all = (_method(function) for function in _REDUCTIONS)


def size_unknown(origin: Origin | None = None) -> DataDependentError:
    """`origin` : the line to blame; default: the current one."""
    return DataDependentError(
        "boolean-mask indexing gives a size that depends on the values of an array",
        origin or user_origin(),
        "keep the full size: np.where(mask, a, 0)",
    )


def elementwise(rec: Recorder, op: str, operands: Sequence[Any]) -> Selection:
    """An operation on selections under one mask and values that broadcast over their trailing axes."""
    first = next(x for x in operands if isinstance(x, Selection))
    whole: list[Any] = []
    for x in operands:
        if isinstance(x, Selection):
            if not x.same_places(first.mask.node) or x.full.sizes[: x.mask.ndim] != first.mask.sizes:
                raise size_unknown()
            whole.append(x.full)
        elif np.ndim(x) < first.ndim:
            whole.append(x)
        else:
            raise size_unknown()
    return Selection(rec, rec.operator(op, *whole), first.mask)
