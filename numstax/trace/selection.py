"""``a[mask]`` where the mask is known only at run time.

As long as it can, it stays at full size together with the mask: elementwise operations work on all elements, and
only those under the mask are reduced or stored.  What needs the elements side by side packs them: a library call,
whose result has a size without hint.  From then on the packed array is what counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.ir.graph import Node
from numstax.ir.index import Index
from numstax.ir.ops import ELEMENTWISE
from numstax.trace import extern, host
from numstax.trace.array import TracedArray
from numstax.trace.scopes import Scope, in_body
from numstax.trace.trees import leaves

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


def _of_packed(name: str) -> Method:
    return lambda self, *args: getattr(self.packed(), name)(*args)


class Selection:
    """`full` : new memory with all elements; `mask` covers its leading axes."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_packed", "_packed_in", "full", "mask", "recorder")

    def __init__(self, recorder: Recorder, full: TracedArray, mask: TracedArray) -> None:
        self.recorder, self.full, self.mask = recorder, full, mask
        self._packed: TracedArray | None = None
        self._packed_in: Scope | None = None

    @property
    def is_packed(self) -> bool:
        return self._packed is not None and not (self._packed_in is not None and self._packed_in.is_undone)

    def packed(self) -> TracedArray:
        """The elements side by side."""
        if not self.is_packed:
            self._packed = selected(self.recorder, self.full, self.mask, 0)
            self._packed_in = self.recorder.scope
        assert self._packed is not None
        return self._packed

    def is_under(self, mask: Node) -> bool:
        """Does it still stand at full size, under this mask?"""
        return not self.is_packed and self.mask.node is mask

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """isinstance answers as for the array this stands for."""
        return np.ndarray

    @property
    def ndim(self) -> int:
        return self.full.ndim - self.mask.ndim + 1

    @property
    def dtype(self) -> np.dtype:
        return self.full.dtype

    @property
    def sizes(self) -> tuple[Index, ...]:
        if self.is_packed:
            return self.packed().sizes
        count = extern.call(self.recorder, host.count, (self.mask,), {})
        return (*count.sizes, *self.full.sizes[self.mask.ndim :])

    @property
    def shape(self) -> tuple[Any, ...]:
        """In a body, whose sizes are not known outside, the number of elements is a traced integer."""
        rec = self.recorder
        if self.is_packed or not in_body(rec):
            return tuple(map(rec.size, self.sizes))
        count = rec.python_number(rec.call(np.count_nonzero, (self.mask,), {}))
        return (count, *map(rec.size, self.full.sizes[self.mask.ndim :]))

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    def replaced(self, op: str, other: object) -> Selection:
        """An augmented assignment."""
        whole = _whole(op, (self, other))
        target, operand = (self.packed(), packed(other)) if whole is None else whole
        self.recorder.in_place(op, target, operand)
        return self

    def astype(self, dtype: Any, **options: Any) -> Any:
        if self.is_packed or options:
            return self.packed().astype(dtype, **options)
        return Selection(self.recorder, self.full.astype(dtype), self.mask)

    def copy(self, order: str = "C") -> Any:
        if self.is_packed:
            return self.packed().copy(order)
        return Selection(self.recorder, self.recorder.fresh(self.full.node), self.mask)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.packed(), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Any:
        return self.recorder.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Reductions over all elements, or over the axes of the mask (axis 0 of the selection), need not pack."""
        axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
        plain = function in _REDUCTIONS and args[0] is self and not kwargs.keys() - {"axis"} and len(args) <= 2
        if self.is_packed or not plain or axis not in (None, 0):
            return self.recorder.call(function, packed(tuple(args)), packed(dict(kwargs)))
        axes = None if axis is None else tuple(range(self.mask.ndim))
        spread = self.mask.reshape(self.mask.shape + (1,) * (self.full.ndim - self.mask.ndim))
        return self.recorder.call(function, (self.full,), {"axis": axes, "where": spread})

    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide"), _reflected("divide"), _in_place("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = (
        _binary("floor_divide"),
        _reflected("floor_divide"),
        _in_place("floor_divide"),
    )
    __mod__, __rmod__, __imod__ = _binary("remainder"), _reflected("remainder"), _in_place("remainder")
    __pow__, __rpow__, __ipow__ = _binary("power"), _reflected("power"), _in_place("power")
    __lshift__, __rlshift__, __ilshift__ = _binary("left_shift"), _reflected("left_shift"), _in_place("left_shift")
    __rshift__, __rrshift__, __irshift__ = _binary("right_shift"), _reflected("right_shift"), _in_place("right_shift")
    __and__, __rand__, __iand__ = _binary("bitwise_and"), _reflected("bitwise_and"), _in_place("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or"), _reflected("bitwise_or"), _in_place("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor"), _reflected("bitwise_xor"), _in_place("bitwise_xor")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __divmod__, __rdivmod__ = _binary("divmod"), _reflected("divmod")
    __lt__, __le__, __gt__, __ge__ = (_binary(op) for op in ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __neg__, __pos__, __abs__, __invert__ = (_unary(op) for op in ("negative", "positive", "absolute", "invert"))

    sum, prod, mean, var, std, any, all = (_method(function) for function in _REDUCTIONS)
    __len__, __iter__, __getitem__, __setitem__ = map(_of_packed, ("__len__", "__iter__", "__getitem__", "__setitem__"))
    __bool__, __int__, __float__, __index__ = map(_of_packed, ("__bool__", "__int__", "__float__", "__index__"))
    __complex__, __array__, __contains__ = map(_of_packed, ("__complex__", "__array__", "__contains__"))
    __format__ = _of_packed("__format__")


def selected(rec: Recorder, base: TracedArray, mask: TracedArray, at: int) -> TracedArray:
    """``base[..., mask, ...]`` side by side, where the mask covers the axes from `at` on.  In a body the mask has to be
    known before, and only its places are."""
    if not in_body(rec) or not mask.ndim:
        return extern.call(rec, host.select, (base, mask, at), {})
    places = [part.node for part in rec.call(np.nonzero, (mask,), {})]
    node = rec.nodes.gather(base.node, places, tuple(range(at, at + mask.ndim)))
    return rec.fresh(rec.nodes.transpose(node, (*range(1, at + 1), 0, *range(at + 1, node.ndim))))


def packed(tree: Any) -> Any:
    """Nested arguments with packed arrays in place of selections."""
    if type(tree) is Selection:
        return tree.packed()
    if type(tree) in (list, tuple):
        return type(tree)(map(packed, tree))
    return {key: packed(item) for key, item in tree.items()} if type(tree) is dict else tree


def has_selection(values: Sequence[object]) -> bool:
    return any(type(x) is Selection for x in values)


def pack(values: tuple) -> None:
    """Take the elements of the selections among the variables: before a body, where their number can be known."""
    for leaf in leaves(values):
        if type(leaf) is Selection:
            leaf.packed()


def elementwise(rec: Recorder, op: str, operands: Sequence[Any]) -> Any:
    whole = _whole(op, operands)
    if whole is None:
        return rec.operator(op, *map(packed, operands))
    mask = next(x.mask for x in operands if type(x) is Selection)
    return Selection(rec, rec.operator(op, *whole), mask)


def _whole(op: str, operands: Sequence[Any]) -> list[Any] | None:
    """The operands at full size, where they are selections under one mask and values that broadcast over their
    trailing axes."""
    first = next(x for x in operands if type(x) is Selection)
    covered, whole = first.mask.ndim, list[Any]()
    if op == "power" and type(operands[1]) is not int and all(np.result_type(x).kind in "biu" for x in operands):
        return None  # exponents outside the mask may be negative, which NumPy does not meet
    for x in operands:
        if type(x) is Selection:
            fits = op in ELEMENTWISE and x.is_under(first.mask.node) and x.full.sizes[:covered] == first.mask.sizes
        else:
            fits = not first.is_packed and np.ndim(x) < first.ndim
        if not fits:
            return None
        whole.append(x.full if type(x) is Selection else x)
    return whole
