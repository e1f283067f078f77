"""TracedArray: what stands for an array or a number while a function is traced.

An array handle is a Storage (memory that may change) and a chain of Views into it; handles of views share
the Storage of their base, so a write through one is seen by all.  Operators and methods append to the graph
of the handle's Recorder.  Handles of NumPy scalars (`is_scalar`) and of Python numbers (`weak`) are
immutable, as those are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.dtypes import is_supported
from numstax.errors import (
    DataDependentError,
    ReadOnlyError,
    SideEffectError,
    UnsupportedOperationError,
    is_asked_by_program,
)
from numstax.ir.graph import Node
from numstax.ir.index import Index
from numstax.trace import attributes, host
from numstax.trace.attributes import Flags, FlatIterator
from numstax.trace.layout import Strides
from numstax.trace.origin import name_in_program, user_origin
from numstax.trace.sizes import Shape, total
from numstax.trace.views import BitcastView, View

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


_FEW = 1024
"""Elements of an array that may become Python numbers."""


@dataclass(slots=True)
class Storage:
    """Memory: `node` is what it holds now.

    position : the argument that owns it, None when it was made inside the function.
    read_only : writes are an error, as in NumPy.
    fixed : why a write cannot be traced ('' when it can).
    copies : memory that this stands for in part, and what it held: while it holds that, reading is right.
    born : the number of the scope in which it was made.
    """

    node: Node
    position: int | None = None
    read_only: bool = False
    fixed: str = ""
    born: int = 0
    copies: tuple[tuple[Storage, Node], ...] = ()

    def stand_for(self, sources: Iterable[Storage], what: str) -> None:
        """Be a copy of parts of the sources, where NumPy would show the sources themselves."""
        self.copies = tuple((source, source.node) for source in sources)
        self.fixed = what if self.copies else self.fixed


Method = Callable[..., Any]


def _method(function: Callable[..., Any]) -> Method:
    return lambda self, *args, **kwargs: self.recorder.call(function, (self, *args), kwargs)


def _binary(op: str) -> Method:
    return lambda self, other: self.recorder.operator(op, self, other)


def _reflected(op: str) -> Method:
    return lambda self, other: self.recorder.operator(op, other, self)


def _in_place(op: str) -> Method:
    return lambda self, other: self.recorder.in_place(op, self, other)


def _unary(op: str) -> Method:
    return lambda self: self.recorder.operator(op, self)


class TracedArray:
    __array_priority__ = 1000.0
    __slots__ = ("_dtype", "_read", "is_scalar", "recorder", "sizes", "storage", "strides_in_elements", "views", "weak")

    def __init__(
        self,
        recorder: Recorder,
        storage: Storage,
        node: Node,
        strides: Strides | None,
        views: tuple[View, ...] = (),
        is_scalar: bool = False,
        weak: type | None = None,
    ) -> None:
        self.recorder, self.storage, self.views = recorder, storage, views
        self.sizes: Shape = node.shape
        self._dtype = node.dtype
        self.strides_in_elements = strides
        self.is_scalar, self.weak = is_scalar, weak
        self._read = (storage.node, node)

    # --- contents ---------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """The value now."""
        if any(source.node is not held for source, held in self.storage.copies):
            raise UnsupportedOperationError(
                f"{self.storage.fixed} is read after its memory was written", user_origin(), "copy it where it is made"
            )
        base, node = self._read
        if base is not self.storage.node:
            base = node = self.storage.node
            for view in self.views:
                node = view.read(self.recorder.nodes, node)
            self._read = (base, node)
        return node

    def derive(self, step: View) -> TracedArray:
        """The handle of a view of this array; of a scalar, which has no memory to share, an array of its own."""
        base = self.strides_in_elements
        strides = None if base is None else step.strides(base, self.sizes)
        node = step.read(self.recorder.nodes, self.node)
        if self.is_scalar:
            return TracedArray(self.recorder, self.recorder.storage(node, not step.writeable), node, strides)
        return TracedArray(self.recorder, self.storage, node, strides, (*self.views, step))

    def store(self, value: Node) -> None:
        """Replace the contents; `value` has the shape and dtype of this array."""
        if self.storage.read_only or not all(v.writeable for v in self.views):
            raise ReadOnlyError("assignment destination is read-only", user_origin(), "copy the array first")
        if self.storage.fixed:
            raise UnsupportedOperationError(f"a write into {self.storage.fixed} cannot be compiled", user_origin())
        nodes = self.recorder.nodes
        bases = [self.storage.node]
        for view in self.views:
            bases.append(view.read(nodes, bases[-1]))
        for view, base in zip(reversed(self.views), reversed(bases[:-1]), strict=True):
            value = view.put(nodes, base, value)
        self.recorder.write(self.storage, value)

    # --- attributes -------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """isinstance answers as for the value this stands for."""
        if self.weak is not None:
            return self.weak
        return self.dtype.type if self.is_scalar else np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        raise SideEffectError("the dtype of an array is changed", user_origin(), "use a.view(dtype)")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._read_size(n) for n in self.sizes)

    @shape.setter
    def shape(self, shape: Any) -> None:
        """In place: this handle becomes the reshaped view."""
        if self.storage.position is not None and not self.views:
            raise SideEffectError("the shape of an argument is changed", user_origin(), "use a.reshape(shape)")
        view = self.reshape(shape)
        if view.storage is not self.storage:
            raise AttributeError("Incompatible shape for in-place modification. Use `.reshape()` to make a copy.")
        self.views, self.sizes, self._read = view.views, view.sizes, view._read
        self.strides_in_elements = view.strides_in_elements

    def _read_size(self, size: Index) -> Any:
        self.recorder.shapes.was_read = True
        return self.recorder.size(size)

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    @property
    def size(self) -> int:
        return self._read_size(total(self.sizes))

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        if self.strides_in_elements is None:
            raise UnsupportedOperationError("the strides of this result are not known while tracing", user_origin())
        return tuple(self._read_size(s * self.itemsize) for s in self.strides_in_elements)

    @property
    def T(self) -> TracedArray:
        return self.transpose()

    @property
    def mT(self) -> TracedArray:
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> TracedArray:
        return self.recorder.call(np.real, (self,), {})

    @real.setter
    def real(self, value: object) -> None:
        self.real[...] = value

    @property
    def imag(self) -> TracedArray:
        return self.recorder.call(np.imag, (self,), {})

    @imag.setter
    def imag(self, value: object) -> None:
        self.imag[...] = value

    @property
    def flags(self) -> Flags:
        return Flags(self)

    @property
    def flat(self) -> FlatIterator:
        return FlatIterator(self)

    @flat.setter
    def flat(self, value: object) -> None:
        self.flat[:] = value

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and hasattr(np.ndarray, name):
            raise attributes.refusal(name)
        if self.is_scalar and not name.startswith("__") and hasattr(self.__class__, name):
            return attributes.scalar_attribute(self, name)
        kind = self.__class__
        text = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise AttributeError(f"'{text}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        if is_asked_by_program():
            known = self._shown("text takes the value")
            return repr(known if self.weak is None else self.weak(known))
        kind = "scalar" if self.is_scalar else "array"
        return f"<traced {kind} {self.dtype.name}{list(map(str, self.sizes))}>".replace("'", "")

    # --- leaving the graph ------------------------------------------------------------------------

    def value(self, what: str, remedy: str = "") -> np.ndarray:
        """The value, when it is the same for all arguments; else a DataDependentError."""
        known = self.recorder.demanded(self.node)
        if known is None:
            name = name_in_program(self)
            whose = "a traced array" if not name else f"{name!r}, which depends on the values of arrays"
            if self.node.op == "input":
                kind = "number" if self.is_scalar else "array"
                whose = f"the traced {kind} {self.recorder.inputs[self.node.attr('position')].name!r}"
            raise DataDependentError(f"{what} of {whose}", user_origin(), remedy)
        return known

    def __bool__(self) -> bool:
        remedy = "choose elements with np.where, np.minimum or np.maximum; decide on values outside the function"
        return bool(self.value("branch on the value", remedy))

    def __int__(self) -> int:
        return int(self.value("int() takes the value", "keep it an array: .astype(int)"))

    def __float__(self) -> float:
        return float(self.value("float() takes the value", "keep it an array: .astype(float)"))

    def __complex__(self) -> complex:
        return complex(self.value("complex() takes the value", "keep it an array: .astype(complex)"))

    def __index__(self) -> int:
        remedy = "pass it as a Python int"
        if self.node.op != "input":
            remedy = (
                "return the whole array and this number, and slice outside: a, n = f(x); a[:n]; "
                "inside, a mask selects: a[np.arange(len(a)) < n]"
            )
        return operator.index(self.value("a size, index or loop bound is the value", remedy)[()])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.value("conversion to numpy.ndarray needs the value", "convert it outside the function").astype(
            dtype or self.dtype
        )

    def __str__(self) -> str:
        return str(self._shown("text takes the value"))

    def __format__(self, spec: str) -> str:
        return format(self._shown("formatting takes the value"), spec)

    def _shown(self, what: str) -> Any:
        return self.value(what, "print or format the result, outside")[()]

    def item(self, *index: Any) -> Any:
        """One element as a Python number."""
        at = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
        if not at and self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        chosen = self.reshape(-1)[at[0] if at else 0] if len(at) < 2 else self[tuple(at)]
        return self.recorder.python_number(chosen)

    def tolist(self) -> Any:
        """Nested lists of Python numbers, as long as they are few."""
        if self.size > _FEW:
            return self.value("tolist() takes the values", "call it outside, on the result").tolist()
        return [part.tolist() for part in self] if self.sizes else self.item()

    def tobytes(self) -> bytes:
        return self.value("tobytes() takes the values", "call it outside, on the result").tobytes()

    # --- items ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if not self.sizes:
            raise TypeError("len() of unsized object")
        return self.recorder.shapes.number(self.sizes[0])

    def __iter__(self) -> Iterator[TracedArray]:
        if not self.sizes:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(len(self)))

    def __contains__(self, item: object) -> bool:
        return bool((self == item).any())

    def __getitem__(self, key: object) -> Any:
        return self.recorder.getitem(self, key)

    def __setitem__(self, key: object, value: object) -> None:
        self.recorder.setitem(self, key, value)

    # --- protocols --------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Any:
        return self.recorder.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Callable[..., Any], types: object, args: Any, kwargs: Any) -> Any:
        return self.recorder.call(function, args, kwargs)

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        np.empty(0).__array_namespace__(api_version=api_version)  # raises where NumPy does
        return self.recorder.namespace

    # --- operators ----------------------------------------------------------------------------------

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
    __matmul__, __rmatmul__, __imatmul__ = _binary("matmul"), _reflected("matmul"), _in_place("matmul")
    __divmod__, __rdivmod__ = _binary("divmod"), _reflected("divmod")
    __lt__, __le__, __gt__, __ge__ = (_binary(op) for op in ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")

    def __hash__(self) -> int:
        if not self.is_scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self.value("a key of a dict or set is the value", "use an array, with the numbers as indices")[()])

    __neg__, __pos__, __abs__, __invert__ = (_unary(op) for op in ("negative", "positive", "absolute", "invert"))

    def __round__(self, ndigits: int | None = None) -> Any:
        if not self.is_scalar:
            raise TypeError("type numpy.ndarray doesn't define __round__ method")
        return attributes.rounded(self, ndigits)

    def __trunc__(self) -> Any:
        return attributes.whole(self, "trunc")

    def __floor__(self) -> Any:
        return attributes.whole(self, "floor")

    def __ceil__(self) -> Any:
        return attributes.whole(self, "ceil")

    # --- methods that are the function of the same name -----------------------------------------------

    sum, prod, max, min = _method(np.sum), _method(np.prod), _method(np.max), _method(np.min)
    mean, std, var, any = _method(np.mean), _method(np.std), _method(np.var), _method(np.any)
    all, argmax, argmin, cumsum = _method(np.all), _method(np.argmax), _method(np.argmin), _method(np.cumsum)
    cumprod, clip, round, take = _method(np.cumprod), _method(np.clip), _method(np.round), _method(np.take)
    repeat, ravel, squeeze, swapaxes = _method(np.repeat), _method(np.ravel), _method(np.squeeze), _method(np.swapaxes)
    diagonal, trace, dot, argsort = _method(np.diagonal), _method(np.trace), _method(np.dot), _method(np.argsort)
    argpartition, searchsorted, nonzero = _method(np.argpartition), _method(np.searchsorted), _method(np.nonzero)
    choose = _method(np.choose)

    # --- methods that differ from the function of the same name ---------------------------------------

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> TracedArray:
        return self._call(np.reshape, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)

    def transpose(self, *axes: Any) -> TracedArray:
        return self._call(np.transpose, None if not axes else axes[0] if len(axes) == 1 else axes)

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> TracedArray:
        return self._call(np.ndarray.astype, dtype, casting=casting, copy=copy, order=order)

    def view(self, dtype: Any = None) -> TracedArray:
        target = self.dtype if dtype is None or dtype is np.ndarray else np.dtype(dtype)
        if target.itemsize != self.itemsize or not is_supported(target):
            raise UnsupportedOperationError(
                f"ndarray.view({target}) of a {self.dtype} array cannot be compiled", user_origin(),
                "view it as a dtype with elements of the same size",
            )  # fmt: skip
        if self.is_scalar:
            return self.recorder.fresh(self.recorder.nodes.bitcast(self.node, target), is_scalar=True)
        return self.derive(BitcastView(target))

    def copy(self, order: str = "C") -> TracedArray:
        return self if self.is_scalar else self._call(np.copy, order=order)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> TracedArray:
        return self.copy()

    def flatten(self, order: str = "C") -> TracedArray:
        return self._call(np.ravel, order=order)._call(np.copy)

    def fill(self, value: object) -> None:
        self[...] = value

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        self._call(np.put, indices, values, mode)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        words = {"axis": axis} if out is None else {"axis": axis, "out": out}
        return self.recorder.call(np.compress, (condition, self), words)

    def byteswap(self, inplace: bool = False) -> TracedArray:
        swapped = self._call(host.byteswapped)
        if inplace:
            self[...] = swapped
        return self if inplace else swapped

    device = "cpu"

    def to_device(self, device: object, /, *, stream: object = None) -> TracedArray:
        if device != "cpu" or stream is not None:
            raise ValueError(f"Unsupported device: {device}")
        return self

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self[...] = self._call(np.sort, axis=axis, kind=kind)

    def partition(self, kth: Any, axis: int = -1) -> None:
        self[...] = self._call(np.partition, kth, axis=axis)

    def conj(self) -> Any:
        return self.recorder.operator("conjugate", self) if self.dtype.kind == "c" else self

    conjugate = conj

    def _call(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        return self.recorder.call(function, (self, *args), kwargs)
