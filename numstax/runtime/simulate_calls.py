"""What text can call, by name: a function of the frame and of the values of the arguments.

The names are those that `compile_cuda` lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.emit.vecmath_lanes import evaluate
from numstax.errors import CompileError
from numstax.program import Instruction, Intrinsic, Program
from numstax.runtime.simulate_copies import SHARED_START, CopyingLanes
from numstax.runtime.simulate_flights import InFlight
from numstax.runtime.simulate_frame import Frame, Registers
from numstax.runtime.simulate_memory import Pointer
from numstax.runtime.simulate_values import (
    Value,
    converted,
    largest,
    made_complex,
    magnitude,
    overflows,
    smallest,
    truth,
)

Function = Callable[..., Any]
_TYPES = {d.name: d for d in dtypes.SUPPORTED if not dtypes.is_low(d) and d != dtypes.BOOL} | {"boolean": dtypes.BOOL}
_TILE = re.compile(r"([a-z]+\d+)x(\d+)")
"""Registers that are used together, ``f32x64``: a tuple."""
_MEMORY = re.compile(r"(load|store|offset|shared|registers)(\d*)_(\w+)")
FEW = 4
"""A function is evaluated for the active lanes only, where they are fewer than one in so many."""


def find(program: Program, name: str) -> Function:
    """The function of that name: (frame, arguments..) -> value."""
    row = next((i for i in program.intrinsics if i.name == name), None)
    if isinstance(row, Instruction):
        return partial(_instruction, row)
    if row is not None:
        return partial(_intrinsic, row)
    if name in _TYPES:
        return partial(_convert, _TYPES[name])
    if name in _BUILTINS:
        return _BUILTINS[name]
    if name.startswith("spread_") and _TILE.fullmatch(name.removeprefix("spread_")):
        return _spread
    found = _MEMORY.fullmatch(name)
    if found is not None and found[3] in map(dtypes.name, dtypes.SUPPORTED):
        dtype = dtypes.by_name(found[3])
        return partial(_HELPERS[found[1]], dtype, int(found[2] or 1))
    raise CompileError(f"kernel code cannot call {name!r}")


def _convert(dtype: np.dtype, frame: Frame, value: Value) -> Value:
    wrong = overflows(value, dtype)
    if wrong is not None:
        frame.lanes.violation("conversion", frame.lanes.active & wrong, f"{dtype} of a float that it cannot hold")
    return converted(value, dtype)


def _intrinsic(row: Intrinsic, frame: Frame, *values: Value) -> Value:
    operands = [converted(v, dtypes.by_name(p)) for v, p in zip(values, row.params, strict=True)]
    mask = frame.lanes.mask
    if FEW * mask.count < mask.lanes.size and any(v.ndim for v in operands):
        got = evaluate(row, *(frame.lanes.spread(v)[mask.lanes] for v in operands))
        out = np.zeros(mask.lanes.shape, got.dtype)
        out[mask.lanes] = got
        return out
    return evaluate(row, *operands)[()]


def _instruction(row: Instruction, frame: Frame, *values: Value) -> Any:
    if row.model is None:
        raise CompileError(f"the instruction {row.name} has no model")
    lanes = frame.lanes
    lanes.pause()
    if row.together:
        lanes.together(row.name)
    given = [v if k < row.tied else lanes.settled(v) for k, v in enumerate(values)]
    operands = [_operand(lanes, *pair) for pair in zip(given, row.operands, strict=True)]
    made = row.model(lanes, *operands)
    results = made if len(row.results) > 1 else (made,)
    typed = tuple(_result(*pair) for pair in zip(results, row.results, strict=False))
    return typed[0] if len(typed) == 1 else typed


def _operand(lanes: CopyingLanes, value: Any, kind: str) -> Any:
    """What a model gets: each number for all lanes."""
    tile = _TILE.fullmatch(kind)
    if tile is not None and isinstance(value, tuple):
        parts = (lanes.spread(converted(v, dtypes.by_name(tile[1]))) for v in value)
        return value if isinstance(value, InFlight) else tuple(parts)
    if kind == "tensor" or kind.startswith("p_"):
        return value
    return lanes.spread(converted(value, dtypes.by_name(kind)))


def _result(value: Any, kind: str) -> Any:
    tile = _TILE.fullmatch(kind)
    if tile is None:
        return np.asarray(value).astype(dtypes.by_name(kind), copy=False)
    if len(value) != int(tile[2]):
        raise CompileError(f"{len(value)} values for registers {kind}")
    return value


def _load(dtype: np.dtype, count: int, frame: Frame, pointer: Pointer, offset: Value) -> Any:
    got = frame.lanes.load(pointer, offset, count)
    return got if count > 1 else (got,)


def _store(dtype: np.dtype, count: int, frame: Frame, pointer: Pointer, offset: Value, values: tuple) -> None:
    frame.lanes.store(pointer, offset, values)


def _offset(dtype: np.dtype, count: int, frame: Frame, pointer: Pointer, elements: Value) -> Pointer:
    return pointer.moved(elements)


def _shared(dtype: np.dtype, count: int, frame: Frame, start: Value) -> Pointer:
    return frame.lanes.shared(start + np.int64(SHARED_START), dtypes.storage(dtype))


def _registers(dtype: np.dtype, count: int, frame: Frame, length: Value) -> Registers:
    return Registers(int(length), dtypes.compute(dtype), frame.every)


def _spread(frame: Frame, registers: Registers, tile: tuple[Value, ...], first: Value) -> None:
    """``registers[first + k] = tile[k]``."""
    for k, value in enumerate(frame.lanes.settled(tile)):
        registers.set(frame.lanes, first + np.int64(k), value)


_HELPERS: dict[str, Function] = {
    "load": _load,
    "store": _store,
    "offset": _offset,
    "shared": _shared,
    "registers": _registers,
}
_BUILTINS: dict[str, Function] = {
    "abs": lambda frame, a: magnitude(a),
    "min": lambda frame, *values: smallest(*values),
    "max": lambda frame, *values: largest(*values),
    "complex": lambda frame, *parts: made_complex(*parts),
    "bool": lambda frame, a: truth(a),
    "int": lambda frame, a: _convert(dtypes.INT64, frame, a) if a.dtype.kind in "fb" else a,
    "float": lambda frame, a: a if a.dtype == dtypes.FLOAT32 else converted(a, dtypes.FLOAT64),
    "rolled": lambda frame, a: a,
    "shared_address": lambda frame: np.uint32(SHARED_START),
    "unroll": lambda frame: np.int64(0),
}
CONSTANTS = {name: np.float64(getattr(math, name)) for name in ("inf", "nan", "pi", "e")}
"""What text may name of `math`."""
