"""Expressions of program text as functions of a `Frame`.

Syntax enters; ``expression(frame) -> value`` leaves.  What depends on lanes is evaluated for all active lanes at once;
a part that only some reach (the branches of a conditional expression, the second operand of ``and``) is evaluated
under their mask, unless it is `pure`: nothing can go wrong in lanes that do not want it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from numstax.errors import CompileError
from numstax.program import Program
from numstax.runtime.simulate_calls import CONSTANTS, find
from numstax.runtime.simulate_frame import Frame, Registers, merged
from numstax.runtime.simulate_memory import Pointer
from numstax.runtime.simulate_values import UNARY, binary, constant, truth

Expression = Callable[[Frame], Any]
_PURE = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop, ast.Load)


class Expressions:
    """`slots` : the number of each variable, in the order they are met."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.slots: dict[str, int] = {}

    def slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    def of(self, node: ast.expr) -> Expression:
        match node:
            case ast.Constant(value):
                return partial(_always, constant(value))
            case ast.UnaryOp(ast.USub(), ast.Constant(value)) if type(value) is int:
                return partial(_always, constant(-value))
            case ast.Name(name):
                slot, line = self.slot(name), node.lineno
                return lambda frame: frame.get(slot, name, line)
            case ast.BinOp(left, operator, right):
                a, b, kind = self.of(left), self.of(right), type(operator)
                return lambda frame: binary(kind, a(frame), b(frame))
            case ast.UnaryOp(operator, operand):
                function, a = UNARY[type(operator)], self.of(operand)
                return lambda frame: function(a(frame))
            case ast.Compare(left, operators, comparators):
                return self._compare(left, operators, comparators)
            case ast.BoolOp(operator, values):
                return self._logic(isinstance(operator, ast.And), values)
            case ast.IfExp(test, body, orelse):
                return self._choice(test, body, orelse)
            case ast.Attribute(ast.Name("math"), name) if name in CONSTANTS:
                return partial(_always, CONSTANTS[name])
            case ast.Attribute(value, "real" | "imag" as part):
                a = self.of(value)
                return lambda frame: getattr(a(frame), part)
            case ast.Tuple(elements):
                parts = tuple(map(self.of, elements))
                return lambda frame: tuple(part(frame) for part in parts)
            case ast.Subscript(value, index):
                return partial(_element, self.of(value), self.of(index), node.lineno)
            case ast.Call(ast.Name(name), arguments, []):
                return partial(_call, find(self.program, name), tuple(map(self.of, arguments)), node.lineno)
        raise CompileError(f"line {node.lineno}: no such expression in kernel code: {ast.unparse(node)}")

    def _compare(self, left: ast.expr, operators: list[ast.cmpop], comparators: list[ast.expr]) -> Expression:
        if len(operators) > 1:
            pairs = zip([left, *comparators], operators, comparators, strict=False)
            return self._logic(True, [ast.copy_location(ast.Compare(a, [o], [b]), left) for a, o, b in pairs])
        a, b, kind = self.of(left), self.of(comparators[0]), type(operators[0])
        return lambda frame: binary(kind, a(frame), b(frame))

    def _logic(self, conjunction: bool, nodes: list[ast.expr]) -> Expression:
        values = [(self.of(node), _pure(node)) for node in nodes]

        def evaluate(frame: Frame) -> Any:
            """Lanes for which an operand decides do not evaluate the others."""
            mask, undecided, result = frame.lanes.mask, frame.lanes.mask, np.bool_(conjunction)
            for value, pure in values:
                frame.lanes.mask = mask if pure else undecided
                got = truth(value(frame))
                result = result & got if conjunction else result | got
                if not np.ndim(result):
                    if bool(result) is not conjunction:
                        break
                else:
                    undecided = mask.only(result if conjunction else ~result)
                    if not undecided.count:
                        break
            frame.lanes.mask = mask
            return result

        return evaluate

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Expression:
        condition, a, b = self.of(test), self.of(body), self.of(orelse)
        pure = _pure(body) and _pure(orelse)

        def evaluate(frame: Frame) -> Any:
            chosen = truth(condition(frame))
            if not np.ndim(chosen):
                return a(frame) if chosen else b(frame)
            if pure:
                return merged(chosen, a(frame), b(frame))
            mask = frame.lanes.mask
            wanted = mask.only(chosen)
            if wanted.count in (0, mask.count):
                return a(frame) if wanted.count else b(frame)
            frame.lanes.mask = wanted
            first = a(frame)
            frame.lanes.mask = mask.without(wanted)
            second = b(frame)
            frame.lanes.mask = mask
            return merged(chosen, first, second)

        return evaluate


def _pure(node: ast.expr) -> bool:
    return all(isinstance(part, _PURE) for part in ast.walk(node))


def _always(value: Any, frame: Frame) -> Any:
    return value


def _call(function: Callable[..., Any], arguments: tuple[Expression, ...], line: int, frame: Frame) -> Any:
    values = [argument(frame) for argument in arguments]
    frame.lanes.line = line
    return function(frame, *values)


def _element(base: Expression, at: Expression, line: int, frame: Frame) -> Any:
    """``base[at]``, from memory, registers or a tuple."""
    held, index = base(frame), at(frame)
    lanes = frame.lanes
    lanes.line = line
    if isinstance(held, Pointer):
        return lanes.load(held, index)
    if isinstance(held, Registers):
        return held.get(lanes, index)
    if isinstance(held, tuple):
        held = lanes.settled(held)
        return held[int(index)] if not np.ndim(index) else np.choose(index, held, mode="clip")
    raise CompileError(f"line {line}: no element {index} of {type(held).__name__}")


def store_element(base: Expression, at: Expression, line: int, frame: Frame, value: Any) -> None:
    """``base[at] = value``."""
    held, index = base(frame), at(frame)
    lanes = frame.lanes
    lanes.line = line
    if isinstance(held, Pointer):
        lanes.store(held, index, (value,))
    elif isinstance(held, Registers):
        held.set(lanes, index, value)
    else:
        raise CompileError(f"line {line}: no element of {type(held).__name__} can be assigned")
