"""The SIMT interpreter: runs a GPU Program on the CPU, its text lane by lane with NumPy, and watches what it does.

A Program, NumPy arrays that stand in for device memory, sizes and scalars enter; the arrays are changed as the kernel
changes them, and a `Report` leaves.  The text is executed as printed: types as Numba infers them, masks where lanes
part, instructions by their models (`simulate_lanes` says how they are called).  Reported are accesses out of bounds or
misaligned, reads of memory and registers that nothing was written to, races between threads, divergent barriers, and
for each access of the text its bank conflicts or the share of each 32-byte sector that it wanted.

All warps of a block step together, and several blocks do, so that one NumPy call serves thousands of lanes; where the
text waits for other blocks in a loop, they run one after the other, in order.  In a program with instructions that wait
for other warps, each warp has its own place in the text (`simulate_team`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import CompileError
from numstax.hardware import GPUS
from numstax.program import Param, Program, TensorMap
from numstax.runtime.simulate_barriers import Barriers
from numstax.runtime.simulate_copies import PIECE, CopyingLanes
from numstax.runtime.simulate_frame import Frame
from numstax.runtime.simulate_memory import Memory, Pointer, pointer_to
from numstax.runtime.simulate_order import LANES, Order
from numstax.runtime.simulate_report import WORD, Report
from numstax.runtime.simulate_shadow import EachWarp, Shadow
from numstax.runtime.simulate_statements import Code
from numstax.runtime.simulate_team import Team
from numstax.runtime.simulate_warps import TensorView, WarpLanes

TOGETHER = 1 << 13
THREADS, GRID = 1024, ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
"""Of a block, and blocks along x, y and z, at most."""
_SHARED = re.compile(r"\bshared_(\w+)\(")
ALIGNMENT = 1024
"""Of shared memory: swizzled tiles repeat after so many bytes."""
_GARBAGE = 0xA5


def run(
    program: Program,
    arguments: Sequence[Any],
    *,
    status: np.ndarray | None = None,
    counters: np.ndarray | None = None,
    fresh: frozenset[str] = frozenset(),
    together: int = TOGETHER,
    seed: int | None = None,
    check: bool = True,
) -> Report:
    """Run a program: `arguments` match its parameters but for 'status' and 'counters'.  `fresh` : the pointers to
    memory that nothing was written to yet.  `together` : so many threads step together, in whole blocks.
    `seed` : of the order in which warps that run by themselves take turns, and copies land; without one, a warp goes on
    until it waits, and copies land as late as they may.

    Raises SimulationError if anything was reported and `check` is on, and CompileError for text that is no kernel code.
    """
    code = _code(program)
    report = Report(tuple(program.text.splitlines()))
    given = iter(arguments)
    values = {p.name: next(given) for p in program.params if p.kind not in ("status", "counters")}
    sizes = {p.name: int(values[p.name]) for p in program.params if p.kind in ("size", "size32")}
    count = np.zeros(_number(program.counters, sizes), np.uint32) if counters is None else counters
    values |= {"status": np.zeros(4, np.int64) if status is None else status, "counters": count}
    bound = [_bound(p, values[p.name], sizes, p.name in code.written, p.name in fresh) for p in program.params]
    x, y, z = (_number(g, sizes) for g in (*program.grid, "1", "1")[:3])
    shared = _number(program.shared, sizes)
    _check_launch(program, (x, y, z), shared, report)
    _check_aliases({name: v for name, v in values.items() if isinstance(v, np.ndarray)}, code.written, report)
    with np.errstate(all="ignore"):
        grid = _Grid(program, code, bound, (x, y, z), shared, report)
        grid.run_apart(seed) if code.apart else grid.run_together(together)
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


def _bound(param: Param, value: Any, sizes: dict[str, int], written: bool, fresh: bool) -> Any:
    """An argument as a value of kernel code.  What is only read cannot be raced for."""
    match param.kind:
        case "pointer":
            return pointer_to(param.name, value, value.itemsize if written or fresh else None, not fresh)
        case "tensor_map":
            assert param.map is not None
            pointer = pointer_to(param.name, value, value.itemsize if written or fresh else None, not fresh)
            return _tensor(param.map, pointer, sizes)
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


def _tensor(described: TensorMap, pointer: Pointer, sizes: dict[str, int]) -> TensorView:
    shape, strides = (tuple(_number(n, sizes) for n in each) for each in (described.sizes, described.strides))
    start = pointer.moved(np.int64(_number(described.offset, sizes)))
    return TensorView(start, shape, strides, described.box, described.swizzle)


def _check_launch(program: Program, grid: tuple[int, int, int], shared: int, report: Report) -> None:
    most = min((g.shared_block for g in GPUS.values() if g.target == program.target), default=shared)
    parted = grid[0] % program.cluster != 0
    outside = any(n > limit for n, limit in zip(grid, GRID, strict=True))
    if parted or outside or program.block > THREADS or shared > most:
        report.add("launch", 0, f"{program.block} threads, a grid of {grid}, {shared} of {most} bytes of shared memory")


def _check_aliases(arrays: Mapping[str, np.ndarray], written: frozenset[str], report: Report) -> None:
    for (name, a), (other, b) in combinations(arrays.items(), 2):
        if not written.isdisjoint((name, other)) and np.may_share_memory(a, b) and np.shares_memory(a, b):
            report.add("alias", 0, f"{name} and {other}")


class _Grid:
    """A launch."""

    def __init__(
        self,
        program: Program,
        code: Code,
        arguments: list[Any],
        grid: tuple[int, int, int],
        shared: int,
        report: Report,
    ) -> None:
        self._program, self._code, self._arguments, self._grid, self._report = program, code, arguments, grid, report
        self._blocks, self._shared = math.prod(grid), shared
        self._order = Order(self._blocks, -(-program.block // LANES) * LANES, program.cluster)
        self._warps = self._order.threads // LANES
        self._granule = _granule(program)

    def run_together(self, threads: int) -> None:
        """So many threads step together."""
        cluster = self._program.cluster
        alone = self._code.waits or self._code.chooses
        step = cluster * (1 if alone else max(1, threads // (self._order.threads * cluster)))
        for first in range(0, self._blocks, step):
            blocks = min(step, self._blocks - first)
            warps = np.arange(first * self._warps, (first + blocks) * self._warps)
            memory = self._memory(blocks, None)
            self._order.begin(first, blocks)
            lanes = CopyingLanes(self._report, self._order, self._program.block, self._grid, warps, memory)
            self._code.run(Frame(lanes, self._code.variables), self._arguments)

    def run_apart(self, seed: int | None) -> None:
        """Each warp has its own turns, block after block."""
        if self._program.cluster > 1:
            raise CompileError(f"{self._program.name}: blocks of a cluster whose warps wait are not simulated")
        for block in range(self._blocks):
            team = Team(self._report, seed)
            self._order.begin(block, 1)
            barriers, memory = Barriers(team, self._order), self._memory(1, self._warps)
            warps = range(block * self._warps, (block + 1) * self._warps)
            team.run([(warp, *self._apart(warp, memory, team, barriers)) for warp in warps])

    def _apart(
        self, warp: int, memory: Memory | None, team: Team, barriers: Barriers
    ) -> tuple[Callable[[], None], Callable[[], int]]:
        """What a warp runs, and what tells the line at which it is."""
        where = (self._report, self._order, self._program.block, self._grid, np.array([warp]), memory)
        lanes = WarpLanes(*where, team=team, barriers=barriers)
        frame = Frame(lanes, self._code.variables)

        def body() -> None:
            self._code.run(frame, self._arguments)
            lanes.end()

        return body, lambda: lanes.line

    def _memory(self, blocks: int, warps: int | None) -> Memory | None:
        """The shared memory of blocks, which holds anything; it may be of so many `warps` that run by themselves."""
        if not self._shared:
            return None
        each = -(-self._shared // ALIGNMENT) * ALIGNMENT
        data = np.full(each * blocks + ALIGNMENT, _GARBAGE, np.uint8)
        start = -data.ctypes.data % ALIGNMENT
        data = data[start : start + each * blocks]
        granules = data.size // self._granule
        shadow = Shadow(granules, False, EachWarp(granules, warps) if warps else None)
        base = np.repeat(np.arange(blocks), self._warps)[:, None] * each if blocks > 1 else 0
        return Memory("shared", data, "shared", 0, self._shared, base, self._granule, shadow)


def _granule(program: Program) -> int:
    """Bytes of the smallest access to shared memory."""
    named = (dtypes.by_name(name).itemsize for name in _SHARED.findall(program.text) if name != "address")
    return min((*named, WORD if "shared_address(" in program.text else PIECE))
