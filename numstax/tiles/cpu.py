"""Tilings of kernels for the CPU, from the strides of their accesses and the sizes of the caches.

A Schedule enters; the same Schedule leaves, every Kernel with a `Tiling`.  Forms:

  pointwise  no inner loops; `vector` is the outer variable that most accesses walk with stride 1
  transpose  the same, where some loads walk another variable (`tile`) with stride 1: two-dimensional tiles
  row        the last inner variable of each loop is the vector
  column     `vector` is an outer variable, since loads walk that one with stride 1: `block` lanes at a time, and
             `unroll` rows
  scan       rows with a running sum: `unroll` rows in flight
  product    a product of matrices, and what follows it element by element

Any form computes the same values; a wrong choice only costs time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from numstax.hardware import STRIP, Hardware, host
from numstax.ir.contraction import product_of
from numstax.ir.handlers import work
from numstax.ir.index import ONE, ZERO, Index, Var, as_index, bounds, hint, product, stride_of
from numstax.ir.loops import Accumulate, Buffer, Kernel, Loop, Reduce, Scan, Schedule, Tiling, Unit, access, in_bodies
from numstax.ir.ops import ELEMENTWISE
from numstax.tiles.cpu_packing import with_packed
from numstax.tiles.cpu_products import with_panels

FLAT = 4096
"""Elements in one task of a pointwise kernel."""
SCAN_ROWS = 3
LEAST_ROWS = 32
SHORTEST, LONG_ENOUGH = 12, 96
TOGETHER = ("add", "multiply", "maximum", "minimum")
COSTLY = 20
"""Flops of a function that has many constants."""
LANES = 16
LEAST_BYTES = 1024
"""Bytes of a row in one block, where the number of columns has no bound."""
JAM = 4
STREAMED_BYTES = 1 << 21
"""So much comes from memory rather than from a core's own cache."""
NARROW_BYTES = 512
"""Bytes of a row that take no longer than what goes on around the loop over them."""
SHARED = 8192
"""Vector operations above which the columns of a kernel are shared out among threads."""


def tile(schedule: Schedule) -> Schedule:
    """Every Kernel with the Tiling for this machine."""
    machine = host()
    schedule = with_packed(in_bodies(schedule, tile))
    units: list[Unit] = []
    fresh = {b.name: b for b in schedule.buffers}
    for unit in schedule.units:
        if not isinstance(unit, Kernel):
            units.append(unit)
            continue
        found = product_of(unit)
        *copies, kernel = (unit,) if found is None else with_panels(unit, found, machine)
        fresh |= {b.name: b for copy in copies for b in copy.buffers}
        units += (copy.with_tiling(tiling(copy, machine)) for copy in copies)
        units.append(kernel.with_tiling(tiling(unit, machine)) if kernel.tiling is None else kernel)
    return replace(schedule, units=tuple(units), buffers=tuple(fresh.values()))


def tiling(kernel: Kernel, machine: Hardware) -> Tiling:
    """The tiling of one kernel."""
    if not kernel.outer:
        return Tiling(form="row")
    if all(not loop.inner for loop in kernel.loops):
        return _pointwise(kernel, machine)
    column, score = _best(kernel.outer, kernel.loops)
    placing = [loop for loop in kernel.loops if any(isinstance(e, Accumulate) for e in loop.effects)]
    placed_along_rows = sum(_unit_strides(loop, loop.inner[-1]) for loop in placing if loop.inner)
    if placing and sum(_unit_strides(loop, column) for loop in placing) >= placed_along_rows:
        return _column(kernel, column, machine)
    iterating = [loop for loop in kernel.loops if loop.inner]
    along_rows = sum(_unit_strides(loop, loop.inner[-1]) for loop in iterating)
    if sum(_unit_strides(loop, column) for loop in iterating) < along_rows:
        # what runs once for each outer point costs nothing beside what runs for each element
        score = 0
    scans = any(isinstance(e, Scan) for loop in kernel.loops for e in loop.effects)
    if score > along_rows or (scans and score == along_rows and score and not _is_long(kernel)):
        return _column(kernel, column, machine)
    return Tiling(form="scan" if scans else "row", unroll=_rows(kernel))


def _rows(kernel: Kernel) -> int:
    """Rows in flight: several where every step of a row waits for the one before, or for short rows with sums."""
    effects = [effect for loop in kernel.loops for effect in loop.effects]
    if any(isinstance(e, Scan) for e in effects):
        return SCAN_ROWS if len(kernel.loops) == 1 and all(isinstance(e, Scan) for e in effects) else 1
    reductions = [e for e in effects if isinstance(e, Reduce)]
    plain = all(e.op in TOGETHER for e in reductions) and not any(isinstance(e, Accumulate) for e in effects)
    short = all(_is_short(loop.inner[-1].extent) for loop in kernel.loops if loop.inner)
    if _costly(kernel) or not (reductions and plain and short and hint(kernel.outer[-1].extent) >= LEAST_ROWS):
        return 1
    return 4 if len(kernel.loops) == 1 else 2


def _is_short(extent: Index) -> bool:
    """May it be less than what the compiler makes straight code of?"""
    most = bounds(extent)[1]
    return most is None or SHORTEST <= most < LONG_ENOUGH


def _is_long(kernel: Kernel) -> bool:
    return any(hint(product(v.extent for v in loop.inner)) > FLAT for loop in kernel.loops)


def _pointwise(kernel: Kernel, machine: Hardware) -> Tiling:
    lane, _ = _best(kernel.outer, kernel.loops)
    written = kernel.writes()
    crossings = {
        v: sum(len(crossing(loop, lane, v, written)) for loop in kernel.loops) for v in kernel.outer if v != lane
    }
    across = max(crossings, key=lambda v: crossings[v], default=None)
    if across is not None and crossings[across] and _may_reach(across.extent, 16) and _may_reach(lane.extent, 16):
        edge = _tile_edge(kernel, machine)
        return Tiling(vector=lane, block=edge, tile=(across, edge), form="transpose")
    return Tiling(vector=lane, block=FLAT, unroll=_chunk(kernel, machine), form="pointwise")


def _chunk(kernel: Kernel, machine: Hardware) -> int:
    """One vector at a time for bodies of several mathematical functions, 1 for others."""
    return machine.lanes(max(b.dtype.itemsize for b in kernel.buffers)) if _costly(kernel) > 1 else 1


def _costly(kernel: Kernel) -> int:
    """How many functions need many registers."""
    return sum(i.op in ELEMENTWISE and ELEMENTWISE[i.op].flops >= COSTLY for loop in kernel.loops for i in loop.body)


def _may_reach(extent: Index, size: int) -> bool:
    most = bounds(extent)[1]
    return most is None or most >= size


def _tile_edge(kernel: Kernel, machine: Hardware) -> int:
    """A square of the widest element fits a quarter of the second-level cache, at most 128 wide."""
    widest = max(b.dtype.itemsize for b in kernel.buffers)
    edge = 128
    while edge > 16 and edge * edge * widest > machine.l2 // 4:
        edge //= 2
    return edge


def _column(kernel: Kernel, lane: Var, machine: Hardware) -> Tiling:
    block = _column_block(kernel, lane, machine)
    return Tiling(vector=lane, block=block, unroll=_jam(kernel, lane, block), form="column")


def _jam(kernel: Kernel, lane: Var, block: int) -> int:
    """Rows at a time.  Taking several spares loads and stores of the accumulators, but memory is read up to a third
    slower in several streams than in one."""
    widest = max(b.dtype.itemsize for b in kernel.buffers)
    sizes = (product(v.extent for v in (*kernel.outer, *loop.inner)) * widest for loop in kernel.loops)
    wide = block * widest >= NARROW_BYTES and _may_reach(lane.extent * widest, NARROW_BYTES)
    return 1 if wide and any(_may_reach(size, STREAMED_BYTES) for size in sizes) else JAM


def _column_block(kernel: Kernel, lane: Var, machine: Hardware) -> int:
    """Lanes at a time: a strip of the widest element, fewer where local buffers would outgrow the cache or
    workers would go without a task."""
    widest = max(b.dtype.itemsize for b in kernel.buffers)
    block = max(STRIP // widest, machine.lanes(widest))
    kept = max((_local_bytes(b) for b in kernel.buffers if b.kind == "local"), default=0)
    others = hint(product(v.extent for v in kernel.outer if v != lane))
    lanes, least = hint(lane.extent), machine.lanes(widest)
    small = hint(vector_work(kernel)) < SHARED
    if bounds(lane.extent)[1] is None:
        # lines of memory that any number of lanes walks well
        least = max(LEAST_BYTES // widest, least)
        lanes, small = machine.cores * least, False
    tasks = 1 if small else min(machine.cores, -(-lanes // least))
    while block > least and (block * kept > machine.l2 // 2 or others * -(-lanes // block) < tasks):
        block //= 2
    return block


def vector_work(kernel: Kernel) -> Index:
    """The operations of a kernel, those on one vector of elements counted once."""
    return (work(kernel) + (LANES - 1)) // LANES


def _local_bytes(buffer: Buffer) -> int:
    return hint(product(buffer.shape)) * buffer.dtype.itemsize


def _best(variables: Sequence[Var], loops: Sequence[Loop]) -> tuple[Var, int]:
    """The variable that most accesses walk with stride 1 (the last such), and how many do."""
    scores = {v: sum(_unit_strides(loop, v) for loop in loops) for v in variables}
    best = max(reversed(variables), key=lambda v: scores[v])
    return best, scores[best]


def _unit_strides(loop: Loop, var: Var) -> int:
    units = (ONE, as_index(-1))
    return sum(stride_of(offset, var) in units for offset in _accesses(loop))


def _accesses(loop: Loop) -> Iterator[Index]:
    """Offsets of what a loop touches for each element; stores count twice, for they also read the line."""
    for _, offset in loop.loads():
        yield offset
    for effect in loop.effects:
        if not isinstance(effect, Reduce):
            yield effect.offset
            yield effect.offset


def crossing(loop: Loop, lane: Var, across: Var, written: frozenset[str]) -> list[tuple[str, Index]]:
    """The loads of whole vectors that are contiguous along `across` but not along `lane`."""
    found = []
    for instr in loop.body:
        if instr.op == "load" and not instr.args and instr.dtype.itemsize <= 8:
            name, offset = access(instr)
            stride = stride_of(offset, lane)
            plain = name not in written and stride is not None and stride not in (ZERO, ONE, as_index(-1))
            if plain and stride_of(offset, across) is ONE:
                found.append((name, offset))
    return found
