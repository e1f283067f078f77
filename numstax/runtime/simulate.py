"""The SIMT interpreter: runs a GPU Program on the CPU, its text lane by lane with NumPy, and watches what it does.

A Program, NumPy arrays that stand in for device memory, sizes and scalars enter; the arrays are changed as the kernel
changes them, and a `Report` leaves.  The text is executed as printed: types as Numba infers them, masks where lanes
part, instructions by their models (`simulate_lanes` says how they are called).  Reported are accesses out of bounds or
misaligned, reads of memory and registers that nothing was written to, races between threads, divergent barriers, and
for each access of the text its bank conflicts or the share of each 32-byte sector that it wanted.

All warps of a block step together, and several blocks do, so that one NumPy call serves thousands of lanes; where the
text waits for other blocks in a loop, they run one after the other, in order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import CompileError
from numstax.hardware import GPUS
from numstax.program import Param, Program
from numstax.runtime.simulate_frame import Frame
from numstax.runtime.simulate_lanes import Lanes
from numstax.runtime.simulate_memory import LANES, Memory, Order, pointer_to
from numstax.runtime.simulate_report import Report
from numstax.runtime.simulate_statements import Code

TOGETHER = 1 << 13
THREADS, GRID = 1024, ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
"""Of a block, and blocks along x, y and z, at most."""
_SHARED = re.compile(r"\bshared_(\w+)\(")
_ALIGNMENT = 128
_GARBAGE = 0xA5


def run(
    program: Program,
    arguments: Sequence[Any],
    *,
    status: np.ndarray | None = None,
    counters: np.ndarray | None = None,
    fresh: frozenset[str] = frozenset(),
    together: int = TOGETHER,
    check: bool = True,
) -> Report:
    """Run a program: `arguments` match its parameters but for 'status' and 'counters'.  `fresh` : the pointers to
    memory that nothing was written to yet.  `together` : so many threads step together, in whole blocks.

    Raises SimulationError if anything was reported and `check` is on, and CompileError for text that is no kernel code.
    """
    code = _code(program)
    report = Report(tuple(program.text.splitlines()))
    given = iter(arguments)
    values = {p.name: next(given) for p in program.params if p.kind not in ("status", "counters")}
    sizes = {p.name: int(values[p.name]) for p in program.params if p.kind in ("size", "size32")}
    count = np.zeros(_number(program.counters, sizes), np.uint32) if counters is None else counters
    values |= {"status": np.zeros(4, np.int64) if status is None else status, "counters": count}
    bound = [_bound(p, values[p.name], p.name in code.written, p.name in fresh) for p in program.params]
    x, y, z = (_number(g, sizes) for g in (*program.grid, "1", "1")[:3])
    shared = _number(program.shared, sizes)
    _check_launch(program, (x, y, z), shared, report)
    _check_aliases({name: v for name, v in values.items() if isinstance(v, np.ndarray)}, code.written, report)
    with np.errstate(all="ignore"):
        _run_grid(program, code, bound, (x, y, z), shared, together, report)
    if count.any():
        report.add("counters", 0, f"counter {count.argmax()} is {count.max()} at the end")
    if check:
        report.raise_violations(program.name)
    return report


@lru_cache(maxsize=256)
def _code(program: Program) -> Code:
    return Code(program)


def _number(expression: str, sizes: dict[str, int]) -> int:
    return int(eval(expression, {"__builtins__": {}, "min": min, "max": max}, sizes))


def _bound(param: Param, value: Any, written: bool, fresh: bool) -> Any:
    """An argument as a value of kernel code.  What is only read cannot be raced for."""
    match param.kind:
        case "pointer":
            return pointer_to(param.name, value, value.itemsize if written or fresh else None, not fresh)
        case "status":
            return pointer_to(param.name, value, None)
        case "counters":
            return pointer_to(param.name, value, value.dtype.itemsize)
        case "size":
            return np.int64(value)
        case "size32":
            return np.int32(value)
        case "scalar":
            assert param.dtype is not None
            return np.asarray(value, param.dtype).view(dtypes.storage(param.dtype))[()]
    raise CompileError(f"parameter '{param.name}' is of unknown kind '{param.kind}'")


def _check_launch(program: Program, grid: tuple[int, int, int], shared: int, report: Report) -> None:
    most = min((g.shared_block for g in GPUS.values() if g.target == program.target), default=shared)
    if program.block > THREADS or shared > most or any(n > limit for n, limit in zip(grid, GRID, strict=True)):
        report.add("launch", 0, f"{program.block} threads, a grid of {grid}, {shared} of {most} bytes of shared memory")


def _check_aliases(arrays: Mapping[str, np.ndarray], written: frozenset[str], report: Report) -> None:
    for (name, a), (other, b) in combinations(arrays.items(), 2):
        if not written.isdisjoint((name, other)) and np.may_share_memory(a, b) and np.shares_memory(a, b):
            report.add("alias", 0, f"{name} and {other}")


def _run_grid(
    program: Program,
    code: Code,
    arguments: list[Any],
    grid: tuple[int, int, int],
    shared: int,
    together: int,
    report: Report,
) -> None:
    blocks = math.prod(grid)
    order = Order(blocks, -(-program.block // LANES) * LANES)
    step = 1 if code.waits else max(1, together // order.threads)
    granule = min((dtypes.by_name(name).itemsize for name in _SHARED.findall(program.text)), default=1)
    for first in range(0, blocks, step):
        lanes = Lanes(report, order, program.block, grid, first, min(step, blocks - first))
        frame = Frame(lanes, code.variables, _shared(shared, lanes, granule))
        code.run(frame, arguments)


def _shared(size: int, lanes: Lanes, granule: int) -> Memory | None:
    """The shared memory of the blocks, which holds anything."""
    if not size:
        return None
    each = -(-size // _ALIGNMENT) * _ALIGNMENT
    data = np.full(each * lanes.blocks + _ALIGNMENT, _GARBAGE, np.uint8)
    start = -data.ctypes.data % _ALIGNMENT
    data = data[start : start + each * lanes.blocks]
    return Memory("shared", data, "shared", 0, size, lanes.slot * each, granule, written=False)
