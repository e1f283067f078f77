"""NumPy evaluators of Graphs and Schedules: the meaning of the IR, and the oracle of every pass.

A Graph or Schedule, its arguments and the values of its size symbols enter; arrays leave.  Graphs are
evaluated op by op exactly as NumPy would (``backend="reference"``), Schedules loop by loop over a whole
index grid at once.  Every value is checked against the shape and dtype the IR promises, memory nobody wrote
holds NaN, and an access outside a buffer or two writes to one element raise VerifyError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from numstax.errors import OutOfBoundsError, SizeError, VerifyError
from numstax.ir.graph import Arg, Graph, Literal, Node, Output
from numstax.ir.index import ONE, Index, IndexLike, Quotient, Ref, Remainder, Var
from numstax.ir.loops import Buffer, BufferView, Extern, Instr, Kernel, Loop, Reduce, Scan, Schedule, Store
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS, SCANS, identity
from numstax.ir.values import Symbols, cast, map_tree, poisoned, resolve_function, shape_value, size_value
from numstax.program import VIEWS
from numstax.records import record

Array = np.ndarray
Writes = list[tuple[int, Array]]


# --- graphs ---------------------------------------------------------------------------------------


def evaluate_graph(graph: Graph, inputs: Sequence[Array], symbols: Symbols) -> tuple[list[Any], Writes]:
    """Outputs, and what each written argument holds afterwards (the caller copies it in).

    Outputs are fresh C-contiguous arrays, except aliases, which are views of an input or an earlier output.
    """
    arguments = [np.asarray(x) for x in inputs]
    values: dict[Node, Any] = {}
    symbols = dict(symbols)
    evaluate_nodes(graph.nodes(), values, arguments, symbols)
    for kind, a, b, message in graph.asserts:
        left, right = size_value(a, symbols), size_value(b, symbols)
        if not (left == right if kind == "eq" else left <= right):
            raise SizeError(f"{message}: {a} is {left}, {b} is {right}")
    outputs: list[Any] = []
    for out in graph.outputs:
        outputs.append(_output(out, values, arguments, outputs, symbols))
    return outputs, [(position, np.array(values[node])) for position, node in graph.writes]


def evaluate_nodes(
    nodes: Iterable[Node], values: dict[Node, Any], inputs: Sequence[Array], symbols: dict[str, int]
) -> None:
    """Add to `values` those of the nodes, given in topological order, that it lacks; and to `symbols` the sizes of
    results of library functions that are symbols."""
    with np.errstate(all="ignore"):
        for node in nodes:
            if node not in values:
                values[node] = _checked(node, _evaluate_node(node, values, inputs, symbols), symbols)


def _output(
    out: Output, values: Mapping[Node, Any], arguments: Sequence[Array], outputs: Sequence[Any], symbols: Symbols
) -> Any:
    if out.alias is None:
        fresh = np.array(values[out.node], order="C")
        return fresh[()] if out.scalar else fresh
    source, k = out.alias
    view = arguments[k] if source == "input" else outputs[k]
    for kind, detail in out.views:
        plain = map_tree(detail, lambda x: size_value(x, symbols) if isinstance(x, Index) else x)
        view = VIEWS[kind](view, plain)
    return view


def _checked(node: Node, value: Any, symbols: dict[str, int]) -> Any:
    """The value, which must be what the node promises."""
    if node.op == "extern":
        expected, got = node.attr("results"), value
        if len(got) != len(expected):
            raise VerifyError(f"{node.attr('function')} gave {len(got)} results", node.origin)
        for (shape, _), array in zip(expected, got, strict=True):
            for size, n in zip(shape, array.shape, strict=False):
                if str(size).isidentifier():
                    symbols.setdefault(str(size), n)
    else:
        expected, got = ((node.shape, node.dtype),), (value,)
    for (shape, dtype), array in zip(expected, got, strict=True):
        if array.shape != shape_value(shape, symbols) or array.dtype != dtype:
            sizes = ", ".join(map(str, shape))
            raise VerifyError(f"{node.op} promises {dtype}({sizes}), but is {array.dtype}{array.shape}", node.origin)
    return value


def _evaluate_node(node: Node, values: Mapping[Node, Any], inputs: Sequence[Array], symbols: Symbols) -> Any:
    args = [values[a] for a in node.args]
    if node.op in ELEMENTWISE:
        return np.asarray(ELEMENTWISE[node.op].reference(*args))
    family, _, op = node.op.partition("_")
    if family == "reduce":
        return np.asarray(_reduce(op, args[0], node.attr("axes"), node.dtype))
    if family == "scan":
        return SCANS[op].accumulate(args[0], axis=node.attr("axis"), dtype=node.dtype)
    rule = _NODE_RULES.get(node.op)
    if rule is None:
        raise VerifyError(f"there is no node operation {node.op!r}", node.origin)
    if node.op == "input":
        return inputs[node.attr("position")]
    return rule(node, symbols, *args)


def _reduce(op: str, x: Array, axes: tuple[int, ...], dtype: np.dtype) -> Any:
    if op in ("argmax", "argmin"):
        return getattr(np, op)(x, axis=axes[0])
    if any(x.shape[axis] == 0 for axis in axes):
        shape = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
        return np.full(shape, identity(op, dtype), dtype)
    return REDUCTIONS[op].reduce(x, axis=axes, dtype=dtype)


def _slices(
    starts: Sequence[IndexLike], steps: Sequence[IndexLike], shape: Sequence[int], symbols: Symbols
) -> tuple[slice, ...]:
    """Basic slices that pick ``starts + k*steps`` for k < shape."""
    out = []
    for start, step, size in zip(shape_value(starts, symbols), shape_value(steps, symbols), shape, strict=True):
        stop = start + size * step
        out.append(slice(0, 0) if size == 0 else slice(start, stop if stop >= 0 else None, step))
    return tuple(out)


def _slice(node: Node, symbols: Symbols, x: Array) -> Any:
    shape = shape_value(node.shape, symbols)
    return x[_slices(node.attr("starts"), node.attr("steps"), shape, symbols)]


def _update(node: Node, symbols: Symbols, base: Array, value: Array) -> Array:
    out = np.array(base)
    out[_slices(node.attr("starts"), node.attr("steps"), value.shape, symbols)] = value
    return out


def _iota(node: Node, symbols: Symbols) -> Array:
    shape = shape_value(node.shape, symbols)
    axis: int = node.attr("axis")
    line = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return np.broadcast_to(line, shape)


def _diagonal(node: Node, symbols: Symbols, x: Array) -> Array:
    axis1, axis2 = node.attr("axis1"), node.attr("axis2")
    return np.diagonal(x, size_value(node.attr("offset"), symbols), axis1, axis2)


def _window(node: Node, symbols: Symbols, x: Array) -> Array:
    axes: tuple[int, ...] = node.attr("axes")
    return sliding_window_view(x, shape_value(node.shape[-len(axes) :], symbols), axes)


def _gather(node: Node, symbols: Symbols, x: Array, *indices: Array) -> Array:
    axes: tuple[int, ...] = node.attr("axes")
    try:
        return np.asarray(np.moveaxis(x, axes, range(len(axes)))[indices])
    except IndexError as error:
        raise OutOfBoundsError(str(error), node.origin) from None


def _extern(node: Node, symbols: Symbols, *args: Array) -> tuple[Array, ...]:
    def leaf(item: object) -> object:
        if isinstance(item, Arg):
            return args[item.k]
        if isinstance(item, Index):
            return size_value(item, symbols)
        return item.value if isinstance(item, Literal) else item

    function = resolve_function(node.attr("function"))
    got = function(*map_tree(node.attr("args"), leaf), **map_tree(dict(node.attr("kwargs")), leaf))
    return tuple(np.asarray(x) for x in (got if isinstance(got, tuple | list) else (got,)))


_NODE_RULES: dict[str, Callable[..., Any]] = {
    "input": lambda node, symbols: None,
    "constant": lambda node, symbols: np.asarray(node.attr("value").value),
    "size": lambda node, symbols: np.asarray(size_value(node.attr("index"), symbols), np.int64),
    "iota": _iota,
    "empty": lambda node, symbols: poisoned(shape_value(node.shape, symbols), node.dtype),
    "cast": lambda node, symbols, x: cast(x, node.dtype),
    "bitcast": lambda node, symbols, x: x.copy().view(node.dtype),
    "reshape": lambda node, symbols, x: x.reshape(shape_value(node.shape, symbols)),
    "transpose": lambda node, symbols, x: x.transpose(node.attr("axes")),
    "broadcast_to": lambda node, symbols, x: np.broadcast_to(x, shape_value(node.shape, symbols)),
    "slice": _slice,
    "diagonal": _diagonal,
    "window": _window,
    "gather": _gather,
    "update": _update,
    "matmul": lambda node, symbols, a, b: np.matmul(a, b),
    "extern": _extern,
    "result": lambda node, symbols, results: results[node.attr("k")],
}


# --- schedules ------------------------------------------------------------------------------------


@record
class _Memory:
    """The elements a Buffer spans, as a flat array, for each of `copies` outer points (1 unless local).

    Element offset k of copy c lies at ``flat[c, k - low]``.
    """

    buffer: Buffer
    flat: Array
    low: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, buffer: Buffer, symbols: Symbols, copies: int = 1) -> _Memory:
        shape, strides = shape_value(buffer.shape, symbols), shape_value(buffer.strides, symbols)
        spans = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        low, high = sum(min(s, 0) for s in spans), sum(max(s, 0) for s in spans)
        size = 0 if 0 in shape else high - low + 1
        return cls(buffer, poisoned((copies, size), buffer.dtype), 0 if 0 in shape else low, shape, strides)

    def view(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """A strided view, every element of which lies in the buffer."""
        steps = np.zeros(shape, np.int64)
        for axis, stride in enumerate(strides):
            steps += stride * np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        self.check(offset + steps, f"view of {self.buffer.name}")
        start = self.flat[0, offset - self.low :] if steps.size else self.flat[0]
        return as_strided(start, shape, [s * self.flat.itemsize for s in strides])

    def array(self) -> Array:
        return self.view(0, self.shape, self.strides)

    def check(self, offsets: Array, what: str) -> None:
        if offsets.size and not (self.low <= offsets.min() and offsets.max() < self.low + self.flat.shape[1]):
            span = f"{self.low}..{self.low + self.flat.shape[1] - 1}"
            raise VerifyError(f"{what}: offsets {offsets.min()}..{offsets.max()} leave {self.buffer.name} ({span})")


def evaluate_schedule(
    schedule: Schedule, inputs: Sequence[Array], symbols: Symbols
) -> tuple[list[Array | None], Writes]:
    """Outputs (None for an alias) and what each written argument holds afterwards.

    Buffers of kind 'input' and 'scalar' stand in argument order in `schedule.buffers`, one for each argument.
    """
    memory: dict[str, _Memory] = {}
    arguments = iter(inputs)
    for buffer in schedule.buffers:
        if buffer.kind == "local":
            continue
        memory[buffer.name] = _Memory.of(buffer, symbols)
        if buffer.kind in ("input", "scalar"):
            memory[buffer.name].array()[...] = np.asarray(next(arguments))
    with np.errstate(all="ignore"):
        for unit in schedule.units:
            if isinstance(unit, Kernel):
                evaluate_kernel(unit, memory, symbols)
            else:
                _evaluate_extern(unit, memory, symbols)
    outputs = [None if name is None else memory[name].array().copy() for name in schedule.outputs]
    return outputs, [(position, memory[name].array().copy()) for position, name in schedule.writes]


def _evaluate_extern(extern: Extern, memory: Mapping[str, _Memory], symbols: Symbols) -> None:
    def view(v: BufferView) -> Array:
        return memory[v.buffer].view(
            size_value(v.offset, symbols), shape_value(v.shape, symbols), shape_value(v.strides, symbols)
        )

    def leaf(item: object) -> object:
        if isinstance(item, BufferView):
            return view(item).copy()
        if isinstance(item, Index):
            return size_value(item, symbols)
        return item.value if isinstance(item, Literal) else item

    got = resolve_function(extern.function)(*map_tree(extern.args, leaf), **map_tree(dict(extern.kwargs), leaf))
    if extern.out is not None:
        view(extern.out)[...] = got
        return
    results = got if isinstance(got, tuple | list) else (got,)
    for name, result in zip(extern.results, results, strict=True):
        target, array = memory[name], np.asarray(result)
        if array.shape != target.shape or array.dtype != target.buffer.dtype:
            raise VerifyError(f"{extern.function} gave {array.dtype}{array.shape} for {target.buffer}", extern.origin)
        target.array()[...] = array


def evaluate_kernel(kernel: Kernel, memory: Mapping[str, _Memory], symbols: Symbols) -> None:
    """Run all loops of a kernel over all outer points at once."""
    outer = shape_value([v.extent for v in kernel.outer], symbols)
    points = int(np.prod(outer, dtype=np.int64))
    local = {b.name: _Memory.of(b, symbols, points) for b in kernel.buffers if b.kind == "local"}
    for loop in kernel.loops:
        _LoopRun(kernel, loop, {**memory, **local}, symbols, outer).run()


class _LoopRun:
    """One Loop over its whole grid: axes are the outer variables, then the inner ones."""

    def __init__(
        self, kernel: Kernel, loop: Loop, memory: Mapping[str, _Memory], symbols: Symbols, outer: tuple[int, ...]
    ) -> None:
        self.loop, self.memory, self.symbols = loop, memory, symbols
        self.outer = outer
        self.shape = outer + shape_value([v.extent for v in loop.inner], symbols)
        self.positions = {
            v: np.arange(self.shape[k]).reshape([-1 if j == k else 1 for j in range(len(self.shape))])
            for k, v in enumerate((*kernel.outer, *loop.inner))
        }
        self.values: list[Array] = []

    def run(self) -> None:
        for instr in self.loop.body:
            value = np.asarray(self._instr(instr))
            if value.dtype != instr.dtype:
                raise VerifyError(
                    f"v{len(self.values)} = {instr.op} promises {instr.dtype}, but is {value.dtype}", instr.origin
                )
            self.values.append(value)
        for effect in self.loop.effects:
            if isinstance(effect, Store):
                mask = None if effect.mask is None else self.full(self.values[effect.mask])
                self.write(effect.buffer, effect.offset, self.full(self.values[effect.value]), mask)
            elif isinstance(effect, Scan):
                value = self.full(self.values[effect.value])
                running = SCANS[effect.op].accumulate(value, axis=-1, dtype=effect.dtype)
                self.write(effect.buffer, effect.offset, running)
            else:
                self._reduce(effect)

    def full(self, value: Any, shape: tuple[int, ...] | None = None) -> Array:
        return np.broadcast_to(value, self.shape if shape is None else shape)

    def index(self, a: Index) -> Any:
        """The value of an Index at every grid point (a number or an array that broadcasts to the grid)."""
        total: Any = np.int64(0)
        for monomial, coefficient in a.terms:
            term: Any = np.int64(coefficient)
            for atom in monomial:
                if isinstance(atom, Var):
                    term = term * self.positions[atom]
                elif isinstance(atom, Ref):
                    term = term * self.values[atom.position].astype(np.int64)
                elif isinstance(atom, Quotient):
                    term = term * (self.index(atom.value) // self.index(atom.divisor))
                elif isinstance(atom, Remainder):
                    term = term * (self.index(atom.value) % self.index(atom.divisor))
                else:
                    term = term * self.symbols[atom.name]
            total = total + term
        return total

    def _instr(self, instr: Instr) -> Any:
        args = [self.values[k] for k in instr.args]
        attr: Any = instr.attr
        if instr.op == "load":
            name, offset = attr
            return self.load(name, offset, args[0] if args else None)
        if instr.op == "const":
            return np.asarray(attr, instr.dtype)
        if instr.op == "index":
            return np.asarray(self.index(attr)).astype(instr.dtype)
        if instr.op == "cast":
            return cast(args[0], instr.dtype)
        if instr.op == "bitcast":
            return args[0].copy().view(instr.dtype)
        if instr.op == "wrap":
            return self._wrap(instr, self.index(attr), *args)
        return ELEMENTWISE[instr.op].reference(*args)

    def _wrap(self, instr: Instr, n: Any, x: Array, mask: Array | None = None) -> Array:
        x = x.astype(np.int64)
        outside = (x < -n) | (x >= n)
        if mask is not None:
            outside = outside & mask
        if self.full(outside).any():
            bad = self.full(x)[self.full(outside)][0]
            raise OutOfBoundsError(f"index {bad} is out of bounds for axis with size {n}", instr.origin)
        return np.where((x < -n) | (x >= n), 0, np.where(x < 0, x + n, x)).astype(instr.dtype)

    def rows(self, memory: _Memory, ndim: int) -> Any:
        """The copy of a local buffer that each point uses; other buffers have one."""
        if memory.buffer.kind != "local":
            return np.int64(0)
        numbers = np.arange(memory.flat.shape[0]).reshape(self.outer)
        return numbers.reshape(self.outer + (1,) * (ndim - len(self.outer)))

    def load(self, name: str, offset: Index, mask: Array | None) -> Array:
        memory = self.memory[name]
        at = np.asarray(self.index(offset))
        row = self.rows(memory, len(self.shape))
        if mask is None:
            if 0 in self.shape:
                return np.zeros(self.shape, memory.flat.dtype)
            memory.check(at, f"load {name}[{offset}]")
            return np.asarray(memory.flat[row, at - memory.low])
        on = self.full(mask)
        out = np.zeros(self.shape, memory.flat.dtype)
        where = self.full(at)[on]
        memory.check(where, f"load {name}[{offset}]")
        out[on] = memory.flat[self.full(row)[on], where - memory.low]
        return out

    def write(self, name: str, offset: Index, value: Array, mask: Array | None = None) -> None:
        """buffer[offset] = value at every point of `value`'s shape: the grid, inner axes perhaps reduced to 1."""
        memory, shape = self.memory[name], value.shape
        if value.dtype != memory.flat.dtype:
            raise VerifyError(f"{value.dtype} is stored to {memory.buffer}")
        on = np.ones(shape, bool) if mask is None else mask
        at = self.full(self.index(offset), shape)[on]
        memory.check(at, f"store {name}[{offset}]")
        at, row = at - memory.low, self.full(self.rows(memory, len(shape)), shape)[on]
        if np.unique(row * memory.flat.shape[1] + at).size < at.size:
            raise VerifyError(f"store {name}[{offset}]: an element is written at several points of one loop")
        memory.flat[row, at] = value[on]

    def _reduce(self, effect: Reduce) -> None:
        inner = tuple(range(len(self.outer), len(self.shape)))
        value = self.full(self.values[effect.value]).astype(effect.dtype)
        op = {"argmax": "maximum", "argmin": "minimum", "online_softmax": "maximum"}.get(effect.op, effect.op)
        if 0 in (self.shape[axis] for axis in inner):
            kept = self.outer + (1,) * len(inner)
            best = np.full(kept, identity(op, effect.dtype), effect.dtype)
        else:
            best = REDUCTIONS[op].reduce(value, axis=inner, keepdims=True, dtype=effect.dtype)
        first = second = best
        if effect.op in ("argmax", "argmin"):
            places = self._second_input(effect, effect.position)
            hit = (value == best) | ((value != value) & (best != best))
            last = np.iinfo(np.int64).max
            first = np.where(hit, places, last).min(axis=inner, keepdims=True, initial=last)
        elif effect.op == "online_softmax":
            weight = self._second_input(effect, ONE)
            second = (weight * np.exp(value - best)).sum(axis=inner, keepdims=True, dtype=effect.dtype)
        self.write(effect.buffer, effect.offset, first)
        if effect.value_buffer is not None and effect.value_offset is not None:
            self.write(effect.value_buffer, effect.value_offset, second)

    def _second_input(self, effect: Reduce, default: Index | None) -> Any:
        """The partial results to combine, or what stands for them in a reduction of plain values."""
        if effect.position_in is not None:
            return self.values[effect.position_in]
        if default is None:
            raise VerifyError(f"Reduce {effect.op} to {effect.buffer} has no position")
        return self.index(default)
