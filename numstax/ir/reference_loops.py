"""NumPy evaluator of Schedules: loop by loop over a whole index grid at once.

A Schedule, its arguments and the values of its size symbols enter; arrays leave.  Memory nobody wrote holds NaN, and
an access outside a buffer or two writes to one element raise VerifyError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from numstax import dtypes
from numstax.errors import OutOfBoundsError, VerifyError
from numstax.ir.graph import Literal
from numstax.ir.index import ONE, Index, Quotient, Ref, Remainder, Var
from numstax.ir.loops import (
    Accumulate,
    Buffer,
    BufferView,
    Contract,
    Control,
    Extern,
    Instr,
    Kernel,
    Loop,
    Nested,
    Reduce,
    Scan,
    Schedule,
    Store,
)
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS, SCANS, identity, resolve
from numstax.ir.values import Symbols, cast, map_tree, poisoned, resolve_function, shape_value, size_value
from numstax.records import record
from numstax.requirements import CannotRunError

Array = np.ndarray
Writes = list[tuple[int, Array]]


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
    _run(schedule, memory, symbols)
    outputs = [None if name is None else memory[name].array().copy() for name in schedule.outputs]
    return outputs, [(position, memory[name].array().copy()) for position, name in schedule.writes]


def _run(schedule: Schedule, memory: Mapping[str, _Memory], symbols: Symbols) -> None:
    with np.errstate(all="ignore"):
        for unit in schedule.units:
            if isinstance(unit, Kernel):
                evaluate_kernel(unit, memory, symbols)
            elif isinstance(unit, Extern):
                _evaluate_extern(unit, memory, symbols)
            else:
                _ControlRun(unit, memory, symbols).run()


class _ControlRun:
    """Control flow; `roles` are the buffers that stand for the arguments now."""

    def __init__(self, control: Control, memory: Mapping[str, _Memory], symbols: Symbols) -> None:
        self.control, self.memory, self.symbols = control, memory, symbols
        self.roles = [memory[name] for name in control.args]

    def run(self) -> None:
        control, (*tests, body) = self.control, self.control.bodies
        if control.kind == "cond":
            self.body(control.bodies[0 if self.head() else 1])
        elif control.kind == "for":
            for k in range(self.head()):
                self.body(body, k)
                self.rotate()
        else:
            while self.body(tests[0])[()]:
                self.body(body)
                self.rotate()
        for home, role in [(self.memory[n], r.flat.copy()) for n, r in zip(control.args, self.roles, strict=True)]:
            home.flat[...] = role

    def head(self) -> int:
        head = self.control.head
        return int(self.memory[head].array()) if isinstance(head, str) else size_value(head or 0, self.symbols)

    def rotate(self) -> None:
        turned = {k: self.roles[j] for k, j in self.control.rotate}
        self.roles = [turned.get(k, role) for k, role in enumerate(self.roles)]

    def body(self, body: Nested, counter: int = 0) -> Array:
        """Run one body; its output, if it has one."""
        symbols, roles, memory = {**self.symbols, self.control.var: counter}, iter(self.roles), {}
        for buffer in body.schedule.buffers:
            if buffer.kind != "local":
                own = _Memory.of(buffer, symbols)
                memory[buffer.name] = replace(own, flat=next(roles).flat) if buffer.kind == "input" else own
        _run(body.schedule, memory, symbols)
        return memory[body.schedule.outputs[0] or ""].array() if body.schedule.outputs else np.empty(0)


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
            elif isinstance(effect, Accumulate):
                self._accumulate(effect)
            elif isinstance(effect, Scan):
                value = self.full(self.values[effect.value])
                running = SCANS[effect.op].accumulate(value, axis=-1, dtype=effect.dtype)
                self.write(effect.buffer, effect.offset, running)
            elif isinstance(effect, Contract):
                self._contract(effect)
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
        if instr.op == "require":
            return self._require(instr, *args)
        return ELEMENTWISE[instr.op].reference(*args)

    def _require(self, instr: Instr, x: Array, holds: Array, mask: Array | None = None) -> Array:
        if not self.full(holds if mask is None else holds | ~mask).all():
            raise CannotRunError.unmet(str(instr.attr), str(instr.origin or ""))
        return x

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

    def _accumulate(self, effect: Accumulate) -> None:
        memory, value = self.memory[effect.buffer], self.full(self.values[effect.value])
        at = self.full(self.index(effect.offset))
        memory.check(at, f"accumulate {effect.buffer}[{effect.offset}]")
        points = self._points(at)
        if memory.buffer.kind != "local" and np.unique(points, axis=0).shape[0] > np.unique(points[:, -1]).size:
            raise VerifyError(f"accumulate {effect.buffer}[{effect.offset}]: different outer points meet")
        rows = self.full(self.rows(memory, at.ndim))
        for row, k, new in zip(rows.ravel(), at.ravel() - memory.low, value.ravel(), strict=True):
            memory.flat[row, k] = _combined(effect, memory.flat[row, k], new)

    def _points(self, at: Array) -> Array:
        """For each access the number of its outer point, and the element."""
        count = int(np.prod(self.outer, dtype=np.int64))
        outer = np.arange(count).reshape(self.outer + (1,) * (at.ndim - len(self.outer)))
        return np.stack([self.full(outer).ravel(), at.ravel()], -1)

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

    def _contract(self, effect: Contract) -> None:
        inner = tuple(range(len(self.outer), len(self.shape)))
        wide = dtypes.accumulator(effect.dtype)
        left, right = (self.full(self.values[k]).astype(wide) for k in (effect.value, effect.other))
        total = (left * right).sum(axis=inner, keepdims=True, dtype=wide)
        self.write(effect.buffer, effect.offset, total.astype(effect.dtype))

    def _second_input(self, effect: Reduce, default: Index | None) -> Any:
        """The partial results to combine, or what stands for them in a reduction of plain values."""
        if effect.position_in is not None:
            return self.values[effect.position_in]
        if default is None:
            raise VerifyError(f"Reduce {effect.op} to {effect.buffer} has no position")
        return self.index(default)


def _combined(effect: Accumulate, old: Any, new: Any) -> Any:
    if effect.op == "set":
        return new
    wanted, _ = resolve(effect.op, (effect.dtype, effect.dtype))
    operands = (cast(np.asarray(x), dtype) for x, dtype in zip((old, new), wanted, strict=True))
    return cast(np.asarray(ELEMENTWISE[effect.op].reference(*operands)), effect.dtype)
