"""Recorder: everything one trace has seen so far.

It holds the nodes, the inputs with the values of this first call, and makes handles.  It is handed to every
function of the tracer as an argument; a trace that fails is dropped with its Recorder.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import (
    SideEffectError,
    UnsupportedArgumentError,
    UnsupportedDtypeError,
    UnsupportedOperationError,
)
from numstax.ir.graph import CONTROL, InputSpec, Node, control_args, topological
from numstax.ir.index import Index, contiguous_strides
from numstax.ir.reference import evaluate_nodes
from numstax.ir.show import index_leaves
from numstax.ir.values import map_tree
from numstax.trace import draws, elementwise, extern, indexing, python_numbers, ufuncs
from numstax.trace.array import Storage, TracedArray
from numstax.trace.elements import contains_traced
from numstax.trace.environment import ShapeEnvironment
from numstax.trace.layout import Strides, may_overlap
from numstax.trace.nodes import Nodes
from numstax.trace.origin import user_origin
from numstax.trace.registry import DATA_DEPENDENT, HANDLERS, REFUSED
from numstax.trace.selection import Selection
from numstax.trace.sizes import Condition, Size
from numstax.trace.unassigned import Unassigned

if TYPE_CHECKING:
    from numstax.trace.scopes import Scope

WEAK_DTYPES: Mapping[type, np.dtype] = {
    bool: dtypes.BOOL,
    int: dtypes.INT64,
    float: dtypes.FLOAT64,
    complex: dtypes.COMPLEX128,
}


class Recorder:
    """`shapes` answers every question about sizes; `fill` is called before the values of an argument are looked at."""

    def __init__(
        self, shapes: ShapeEnvironment | None = None, fill: Callable[[np.ndarray], None] = lambda array: None
    ) -> None:
        self.shapes, self.fill = shapes or ShapeEnvironment(), fill
        self.nodes = Nodes()
        self.inputs: list[InputSpec] = []
        self.examples: list[Any] = []
        self.storages: list[Storage] = []
        """Memory of the inputs, in their order."""
        self.binders: list[Node] = []
        """Results whose shapes show sizes that depend on data."""
        self.clamped: dict[Index, tuple[Index, Node]] = {}
        """For a size, what is left of it where it is negative, and the node that shows that."""
        self.counts: dict[Node, Index] = {}
        """How many elements of a mask are not 0."""
        self.constants: dict[int, tuple[np.ndarray, np.ndarray, TracedArray]] = {}
        """Arrays made while tracing that are the same in every call, by id: the array, what it held, its handle."""
        self.turn = Storage(self.nodes.constant(0, dtypes.INT64))
        """How many numbers have been drawn from generators of the caller."""
        self.namespace: Any = None
        """numpy, as traced code sees it."""
        self.stand_ins: dict[type, type] = {}
        """Scalar types that traced code sees another type in place of."""
        self.written_by: dict[types.CodeType, tuple[Storage, ...]] = {}
        """Arrays that a loop was found to write, by the code of its body."""
        self._rehearsals: list[draws.Ticket] = []
        self._fixed_inputs: set[int] = set()
        self.pins: dict[int, Callable[[], None]] = {}
        """Captured arrays whose elements may be taken for constants: what guards that they stay."""
        self._values: dict[Node, Any] = {}
        self._exact: dict[Node, Any] = {}
        self.scope: Scope | None = None
        """The innermost part of the program that is being run on trial."""
        self.storage_serial = 0
        self.mixed: set[Node] = set()
        """Numbers that are Python's integers or elements of an array of integers, as values decide."""
        self.library_error: Exception | None = None
        """What the last library call that failed raised, with the values of this call."""
        self.entries: dict[Node, Node] = {}
        """What the placeholders of loops and branches start from."""

    # --- inputs -----------------------------------------------------------------------------------

    def input(self, value: Any, name: str, symbolic: bool = False) -> TracedArray:
        """An argument of this call: an array in native byte order, a NumPy scalar, a Python float or complex.
        `symbolic`: its sizes may become symbols."""
        position = len(self.inputs)
        weak = type(value) if type(value) in (float, complex) else None
        array = np.asarray(value)
        if not dtypes.is_supported(array.dtype):
            raise UnsupportedDtypeError(
                f"argument {name!r} has dtype {array.dtype}, which cannot be compiled",
                user_origin(),
                "convert it to a numeric dtype, or keep it out of the compiled function",
            )
        is_scalar = not isinstance(value, np.ndarray)
        steps = [s // array.itemsize for s in array.strides]
        shape, strides = (self.shapes if symbolic else ShapeEnvironment()).layout(array.shape, steps, name)
        self.inputs.append(InputSpec("scalar" if is_scalar else "array", array.dtype, shape, strides, name))
        self.examples.append(array)
        node = self.nodes.input(position, shape, array.dtype)
        fixed = "an array whose elements overlap in memory" if may_overlap(array.shape, steps) else ""
        storage = Storage(node, position, not array.flags.writeable, fixed)
        self.storages.append(storage)
        return TracedArray(self, storage, node, strides, is_scalar=is_scalar, weak=weak)

    def constant_array(self, array: np.ndarray) -> TracedArray:
        """An array whose contents are the same in every call; it counts as memory made by the function."""
        found = self.constants.get(id(array))
        if found is None:
            if array.dtype.kind in "OSUVMm" and not dtypes.is_supported(array.dtype):
                raise UnsupportedOperationError(
                    f"an array of dtype {array.dtype} cannot be compiled",
                    user_origin(),
                    "convert it to a numeric dtype",
                )
            copied = np.array(array, array.dtype.newbyteorder("="), order="C")
            if not copied.ndim:
                handle = self.fresh(self.nodes.constant(copied, copied.dtype))
            else:
                handle = self.input(copied, f"constant{len(self.constants)}")
                self._fixed_inputs.add(len(self.inputs) - 1)
                handle.storage.position = None
            found = self.constants[id(array)] = (array, copied, handle)
        return found[2]

    @property
    def arguments(self) -> list[tuple[int, Storage]]:
        """Memory that the caller can see, by position."""
        return [(storage.position, storage) for storage in self.storages if storage.position is not None]

    @property
    def draws(self) -> bool:
        """Have numbers been drawn from generators of the caller?"""
        return self.turn.node.op != "constant"

    def rehearse(self, generator: np.random.Generator) -> int:
        """The ticket of a generator that draws the same numbers while tracing."""
        self._rehearsals.append(draws.rehearsal(generator))
        return int(self._rehearsals[-1])

    def check_constants(self) -> None:
        """Raise SideEffectError when an array that was taken for a constant has been changed since."""
        for array, taken, _ in self.constants.values():
            if array.astype(taken.dtype).tobytes() != taken.tobytes():
                raise SideEffectError(
                    "an array that the function made with NumPy alone is changed after its first use", None,
                    "make it with np.zeros, np.array or np.copy, or change it first",
                )  # fmt: skip

    @property
    def constant_inputs(self) -> Mapping[int, np.ndarray]:
        """Inputs that hold constant arrays: position -> array."""
        return {position: self.examples[position] for position in self._fixed_inputs - self.pins.keys()}

    # --- handles ----------------------------------------------------------------------------------

    def write(self, storage: Storage, node: Node) -> None:
        """The memory holds `node` from now on."""
        if self.scope is not None:
            self.scope.note(storage)
        storage.node = node

    def storage(self, node: Node, read_only: bool = False) -> Storage:
        """New memory."""
        return Storage(node, read_only=read_only, born=self.storage_serial)

    def fresh(self, node: Node, is_scalar: bool = False, weak: type | None = None) -> TracedArray:
        """A handle of new C-contiguous memory, or of a scalar."""
        return TracedArray(self, self.storage(node), node, contiguous_strides(node.shape), (), is_scalar, weak)

    def laid_out(self, node: Node, strides: Strides | None, is_scalar: bool = False) -> TracedArray:
        """A handle of new memory with these strides."""
        return TracedArray(self, self.storage(node), node, strides, (), is_scalar)

    def lift(self, value: object) -> TracedArray:
        """Any array-like as a handle."""
        if isinstance(value, TracedArray):
            return value
        if type(value) is Selection:
            return value.packed()
        if isinstance(value, Size):
            return self._lift_size(value.index)
        if isinstance(value, Unassigned):
            value.use()
        if isinstance(value, Condition):
            value = bool(value)
        weak = WEAK_DTYPES.get(type(value))
        if weak is not None:
            return self.fresh(self.nodes.constant(value, weak), is_scalar=True, weak=type(value))
        if isinstance(value, np.generic) and dtypes.is_supported(value.dtype):
            return self.fresh(self.nodes.constant(value, value.dtype), is_scalar=True)
        if isinstance(value, list | tuple) and contains_traced(value):
            return self.call(np.stack, ([self.lift(v) for v in value],), {})  # of which Python numbers are arrays, too
        array = np.asarray(value)
        if not dtypes.is_supported(array.dtype.newbyteorder("=")):
            what = type(value).__name__ if array.dtype.kind == "O" else f"array of dtype {array.dtype}"
            raise UnsupportedArgumentError(
                f"an operand of type {what} cannot be compiled", user_origin(), "use arrays and numbers as operands"
            )
        return self.constant_array(array)

    def array(self, value: object) -> TracedArray:
        """As `lift`, where NumPy makes an array first: a Python number gets a dtype that counts as any other."""
        x = self.lift(value)
        return x if x.weak is None else self.fresh(x.node, is_scalar=True)

    def known(self, node: Node) -> np.ndarray | None:
        """The value of `node` when it does not depend on the arguments of the call."""
        nodes = topological([node])
        if any(self._is_varying(n) for n in nodes) or any(self._sizes_of(nodes)):
            return None
        return self.example(node)

    def demanded(self, node: Node) -> np.ndarray | None:
        """As `known`, but sizes and small captured arrays that the value depends on become constants."""
        nodes = topological([node])
        varying = [n for n in nodes if self._is_varying(n)]
        positions: set[int] = {n.attr("position") for n in varying if n.op == "input"}
        if any(n.op != "input" for n in varying) or positions - self.pins.keys():
            return None
        for position in positions:
            self.pins[position]()
        self._fixed_inputs |= positions
        for size in self._sizes_of(nodes):
            self.shapes.number(size)
        return self.example(node)

    def _is_varying(self, node: Node) -> bool:
        if node.op == "input":
            return node.attr("position") not in self._fixed_inputs
        return node.op in ("placeholder", *CONTROL)

    def _sizes_of(self, nodes: Sequence[Node]) -> list[Index]:
        """What is not known to be a number among the sizes in the nodes."""
        used = (n for node in nodes for n in (*node.shape, *index_leaves(tuple(value for _, value in node.attrs))))
        return [n for n in map(self.shapes.resolve, used) if n.value is None]

    def example(self, node: Node, exact: bool = False) -> np.ndarray:
        """The value of `node` for the arguments of this call.  Loops and branches give what they start from, unless
        `exact`, which may take long; random draws are not repeated."""
        values = self._exact if exact else self._values
        for part in topological([node]):
            if part in values:
                continue
            if part.op == "placeholder":
                values[part] = self.example(self.entries[part], exact)
            elif exact and part.op == "extern" and part.attr("function") == extern.name_of(draws.draw):
                values[part] = self._values[part]
            elif part.op in CONTROL and not exact:
                values[part] = [self.example(state) for state in control_args(part)[1]]
        nodes = topological([node])
        for part in nodes:
            if part.op == "input":
                self.fill(self.examples[part.attr("position")])
        evaluate_nodes(nodes, values, self.examples, self.shapes.values)
        return values[node]

    def remember(self, node: Node, results: Sequence[object]) -> None:
        """What the call of a library function has just given."""
        self._values[node] = tuple(np.asarray(r) for r in results)

    def python_number(self, x: TracedArray) -> Any:
        """What ``item()`` gives: a Python number, traced when its value is not known."""
        known = self.known(x.node)
        if known is not None:
            return known.item()
        kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtypes.kind(x.dtype)]
        if kind is int:
            return self.whole(x)
        return self.fresh(self.nodes.cast(x.node, WEAK_DTYPES[kind]), True, kind)

    def whole(self, x: TracedArray) -> Any:
        """``int(x)`` of a number."""
        known = self.known(x.node)
        return python_numbers.whole(self, x) if known is None else int(known)

    # --- sizes ------------------------------------------------------------------------------------

    def size(self, index: Index) -> Any:
        """What the user's program sees for a size: an int, or a Size."""
        resolved = self.shapes.resolve(index)
        return Size(self, resolved) if resolved.value is None else resolved.value

    def condition(self, relation: str, index: Index) -> Any:
        """The answer to a comparison of sizes: a bool, or a Condition where only the run will tell."""
        answer = self.shapes.known(relation, index)
        if answer is None and not self.shapes.has_hint(index):
            return Condition(self, relation, index)
        return self.shapes.holds(relation, index) if answer is None else answer

    def _lift_size(self, index: Index) -> TracedArray:
        return python_numbers.of_size(self, self.shapes.resolve(index))

    # --- operations -------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A NumPy function with at least one traced argument."""
        handler = HANDLERS.get(function)
        if handler is not None and handler.keywords >= kwargs.keys():
            return handler.run(self, *args, **kwargs)
        if function in DATA_DEPENDENT:
            fixed = [self._fixed(a) for a in args]
            if all(a is not None for a in fixed):
                return map_tree(function(*fixed, **kwargs), self.lift)
        if function in REFUSED or function in DATA_DEPENDENT:
            raise extern.refusal(function, REFUSED.get(function))
        out = kwargs.get("out")
        if out is None:
            return extern.call(self, function, args, kwargs)
        rest = {k: v for k, v in kwargs.items() if k != "out"}
        return ufuncs.deliver(self, extern.call(self, function, args, rest), out)

    def _fixed(self, value: object) -> object:
        """An argument with the value of a traced array, where that is known; else None."""
        return self.known(value.node) if isinstance(value, TracedArray) else value

    def operator(self, op: str, *operands: object) -> Any:
        return ufuncs.operator(self, op, *operands)

    def in_place(self, op: str, target: TracedArray, operand: object) -> TracedArray:
        return ufuncs.in_place(self, op, target, operand)

    def ufunc(self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return ufuncs.apply(self, ufunc, method, inputs, dict(kwargs))

    def getitem(self, x: TracedArray, key: object) -> Any:
        return indexing.getitem(self, x, key)

    def setitem(self, x: TracedArray, key: object, value: object) -> None:
        indexing.setitem(self, x, key, value)

    def elementwise(self, op: str, *operands: object, dtype: np.dtype | None = None) -> TracedArray:
        return elementwise.apply(self, op, operands, dtype)
