"""Statements of program text as functions of a `Frame`, under masks.

The text of a Program enters; ``run(frame)`` leaves.  Both sides of a branch that divides the lanes are run, one after
the other; a loop runs while any lane is in it.  The interpreter reads the text once, and then only calls functions.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import CompileError
from numstax.program import Instruction, Program
from numstax.runtime.simulate_expressions import Expressions, store_element
from numstax.runtime.simulate_frame import Frame
from numstax.runtime.simulate_lanes import Mask
from numstax.runtime.simulate_values import binary, converted, truth

Statement = Callable[[Frame], None]
Assign = Callable[[Frame, Any], None]
READING = ("load", "copy_async", "tensor_load", "tensor_prefetch")
"""Calls that only read what their operands point to begin like this."""
MOST_TRIPS = 1 << 12
"""Of a `while` loop: one that runs longer waits for something that does not come."""


class Code:
    """The statements of a program.

    params : the names of its parameters; written : of those, what it may write through.  variables : how many a frame
    has.  waits : a loop may wait for what other threads do; apart : warps run by themselves.
    chooses : blocks may work on different arrays by one name.
    """

    def __init__(self, program: Program) -> None:
        self._expressions = Expressions(program)
        tree = next(
            node
            for node in ast.parse(program.text).body
            if isinstance(node, ast.FunctionDef) and node.name == program.entry
        )
        self._uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        self.params = tuple(argument.arg for argument in tree.args.args)
        self._uses.update(self.params)
        for name in self.params:
            self._expressions.slot(name)
        self._body = self._block(tree.body)
        self.variables = len(self._expressions.slots)
        self.written = frozenset(self.params) - _only_read(tree)
        calls = {row.name for row in program.intrinsics if isinstance(row, Instruction) and row.effect}
        self.apart = any(isinstance(row, Instruction) and row.waits for row in program.intrinsics)
        self.waits = any(_accesses(node, calls) for node in ast.walk(tree) if isinstance(node, ast.While))
        arrays = {p.name for p in program.params if p.is_array}
        taken = (node.value for node in ast.walk(tree) if isinstance(node, ast.Assign))
        self.chooses = any(isinstance(value, ast.Name) and value.id in arrays for value in taken)

    def run(self, frame: Frame, arguments: Sequence[Any]) -> None:
        for slot, value in enumerate(arguments):
            frame.set(slot, value)
        self._body(frame)

    # --- statements

    def _block(self, nodes: Sequence[ast.stmt]) -> Statement:
        statements = tuple(self._statement(node) for node in nodes)

        def run(frame: Frame) -> None:
            lanes = frame.lanes
            for statement in statements:
                statement(frame)
                if not lanes.mask.count:
                    return

        return run

    def _statement(self, node: ast.stmt) -> Statement:
        match node:
            case ast.Assign([target], value):
                assign, new = self._target(target), self._expressions.of(value)
                return lambda frame: assign(frame, new(frame))
            case ast.AugAssign(target, operator, value):
                return self._update(target, type(operator), value)
            case ast.Expr(value):
                evaluate = self._expressions.of(value)
                return lambda frame: _drop(evaluate(frame))
            case ast.If(test, body, orelse):
                return self._branch(test, body, orelse)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), bounds, []), body, []):
                return self._counted(name, bounds, body)
            case ast.While(test, body, []):
                return self._conditional(test, body, node.lineno)
            case ast.Break():
                return lambda frame: frame.stop(frame.jumps[-1][1])
            case ast.Continue():
                return lambda frame: frame.stop(frame.jumps[-1][0])
            case ast.Return(None):
                return lambda frame: frame.stop()
            case ast.Pass():
                return lambda frame: None
        raise CompileError(f"line {node.lineno}: no such statement in kernel code: {ast.unparse(node)}")

    def _target(self, node: ast.expr) -> Assign:
        match node:
            case ast.Name(name):
                slot = self._expressions.slot(name)
                return lambda frame, value: frame.set(slot, value)
            case ast.Subscript(value, index):
                return partial(store_element, self._expressions.of(value), self._expressions.of(index), node.lineno)
            case ast.Tuple(elements):
                return partial(_unpack, tuple(map(self._target, elements)), node.lineno)
        raise CompileError(f"line {node.lineno}: nothing can be assigned to {ast.unparse(node)}")

    def _update(self, target: ast.expr, operator: type, value: ast.expr) -> Statement:
        assign, old, other = self._target(target), self._expressions.of(target), self._expressions.of(value)
        return lambda frame: assign(frame, binary(operator, old(frame), other(frame)))

    def _branch(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> Statement:
        condition, then, other = self._expressions.of(test), self._block(body), self._block(orelse)
        forgotten, forgotten_else = self._own(body), self._own(orelse)

        def run(frame: Frame) -> None:
            lanes = frame.lanes
            holds = truth(condition(frame))
            if not np.ndim(holds):
                (then if holds else other)(frame)
                return
            before = lanes.mask
            wanted = before.only(holds)
            if wanted.count in (0, before.count):
                (then if wanted.count else other)(frame)
                return
            rest = before.without(wanted)
            lanes.mask = wanted
            frame.forget(forgotten)
            then(frame)
            after = lanes.mask
            lanes.mask = rest
            frame.forget(forgotten_else)
            other(frame)
            frame.join(before, after, lanes.mask)

        return run

    def _counted(self, name: str, bounds: Sequence[ast.expr], nodes: Sequence[ast.stmt]) -> Statement:
        slot, limits = self._expressions.slot(name), tuple(map(self._expressions.of, bounds))
        trip = self._trip(nodes)

        def run(frame: Frame) -> None:
            start, stop, step = _range([limit(frame) for limit in limits])
            loop = _Loop(frame)
            if np.ndim(start) or np.ndim(stop) or np.ndim(step):
                while loop.keep(np.where(step > 0, start < stop, start > stop)):
                    frame.set(slot, start)
                    trip(loop)
                    start = start + step
            else:
                for k in map(start.dtype.type, range(int(start), int(stop), int(step))):
                    frame.set(slot, k)
                    if not trip(loop):
                        break
            loop.end()

        return run

    def _conditional(self, test: ast.expr, nodes: Sequence[ast.stmt], line: int) -> Statement:
        condition, trip = self._expressions.of(test), self._trip(nodes)

        def run(frame: Frame) -> None:
            loop, trips = _Loop(frame), 0
            while loop.keep(truth(condition(frame))) and trip(loop):
                trips += 1
                if trips > MOST_TRIPS:
                    frame.lanes.line = line
                    frame.lanes.violation("endless", frame.lanes.active, f"more than {MOST_TRIPS} trips")
                    break
            loop.end()

        return run

    def _trip(self, nodes: Sequence[ast.stmt]) -> Callable[[_Loop], bool]:
        """Run the body of a loop once; do any lanes go on?"""
        body, own = self._block(nodes), self._own(nodes)
        return lambda loop: loop.trip(body, own)

    def _own(self, nodes: Sequence[ast.stmt]) -> tuple[int, ...]:
        """The variables that nothing but these statements names, and that they assign before they read them."""
        inside = Counter(n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
        first: dict[str, bool] = {}
        for node in nodes:
            assigned = _assigned(node)
            read = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in assigned]
            updated = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            for name in (*read, *updated):
                first.setdefault(name, False)
            for name in assigned:
                first.setdefault(name, True)
        return tuple(self._expressions.slot(k) for k, n in inside.items() if n == self._uses[k] and first[k])


class _Loop:
    """A loop being run by the lanes that reached it."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._before = frame, frame.lanes.mask
        self._left: list[Mask] = []

    def keep(self, holds: Any) -> bool:
        """Lanes for which it does not hold are done; do any go on?"""
        lanes = self._frame.lanes
        if not np.ndim(holds):
            return bool(holds)
        stay = lanes.mask.only(holds)
        if stay is not lanes.mask:
            self._left.append(lanes.mask.without(stay))
            lanes.mask = stay
        return stay.count > 0

    def trip(self, body: Statement, own: tuple[int, ...]) -> bool:
        """Run the body; do any lanes go on?"""
        frame, mask = self._frame, self._frame.lanes.mask
        waiting: list[Mask] = []
        frame.jumps.append((waiting, self._left))
        frame.forget(own)
        body(frame)
        frame.jumps.pop()
        if waiting:
            frame.join(mask, frame.lanes.mask, *waiting)
        return frame.lanes.mask.count > 0

    def end(self) -> None:
        self._frame.join(self._before, self._frame.lanes.mask, *self._left)


def _assigned(node: ast.stmt) -> tuple[str, ...]:
    """The variables that a statement certainly assigns."""
    if not isinstance(node, ast.Assign):
        return ()
    return tuple(n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name) and _is_stored(n))


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _only_read(tree: ast.FunctionDef) -> frozenset[str]:
    """Names of which every use loads through them."""
    read: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(ast.Name() as base, ctx=ast.Load()):
                read.add(id(base))
            case ast.Call(ast.Name(name), operands) if name.startswith(READING):
                read.update(map(id, operands))
    other = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in read}
    return frozenset(argument.arg for argument in tree.args.args if argument.arg not in other)


def _accesses(loop: ast.While, instructions: set[str]) -> bool:
    """Does it read memory, or call an instruction that does?"""
    return any(
        isinstance(node, ast.Subscript) or (isinstance(node, ast.Name) and node.id in instructions)
        for node in ast.walk(loop)
    )


def _range(bounds: list[Any]) -> tuple[Any, Any, Any]:
    """Start, stop and step, of the type of the counter."""
    kinds = {bound.dtype for bound in bounds}
    dtype = kinds.pop() if kinds in ({dtypes.INT32}, {dtypes.UINT64}) else dtypes.INT64
    given = [converted(bound, dtype) for bound in bounds]
    start, stop = (dtype.type(0), given[0]) if len(given) == 1 else given[:2]
    return start, stop, given[2] if len(given) > 2 else dtype.type(1)


def _unpack(targets: tuple[Assign, ...], line: int, frame: Frame, value: Any) -> None:
    if not isinstance(value, tuple) or len(value) != len(targets):
        raise CompileError(f"line {line}: {len(targets)} names for {value!r}")
    for target, part in zip(targets, value, strict=True):
        target(frame, part)


def _drop(value: Any) -> None:
    """The value of an expression statement."""
