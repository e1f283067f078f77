"""Kernels with inner loops on a GPU: who touches what, and the tiling of rows.

`touches` lists the accesses of a loop.  Two accesses are of the *same* element at the same point where the loops have
the same extents and the offsets agree; a thread meets its own points in every loop alike, so such accesses need no
synchronisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from numstax.hardware import Gpu
from numstax.ir.handlers import operations
from numstax.ir.index import (
    ONE,
    ZERO,
    Atom,
    Index,
    Ref,
    Var,
    as_index,
    atoms,
    bounds,
    hint,
    less,
    product,
    stride_of,
    substitute,
)
from numstax.ir.loops import Accumulate, Buffer, Kernel, Loop, Reduce, Scan, Tiling
from numstax.ir.overlap import apart
from numstax.records import record
from numstax.tiles.cuda_points import ACCESS, CODE, access_width, expected, is_wide

Key = tuple[object, ...]


@record
class Touch:
    """One access: `key` None where no other access is known to be of the same element by the same thread."""

    buffer: str
    key: Key | None
    offset: Index
    writes: bool


def canonical(loop: Loop, offset: Index) -> Key:
    """An offset in the terms of the loop's points: equal for equal accesses of loops with equal extents."""
    extents = tuple(v.extent for v in loop.inner)
    mapping: dict[Atom, Index] = {v: as_index(Var(f"q{k}", v.extent)) for k, v in enumerate(loop.inner)}
    return (*extents, substitute(offset, mapping))


def _injective(loop: Loop, offset: Index) -> bool:
    """Do different points touch different elements?  Strides must nest."""
    if any(isinstance(a, Ref) for a in atoms(offset)):
        return False
    strides = [(stride_of(offset, v), v.extent) for v in loop.inner if v.extent is not ONE]
    if any(s is None or less(ZERO, s) is not True for s, _ in strides):
        return False
    reach = ZERO
    for stride, extent in sorted(strides, key=lambda pair: hint(pair[0] or ZERO)):
        if stride is None or less(reach, stride) is not True:
            return False
        reach = reach + stride * (extent - 1)
    return True


def touches(loop: Loop) -> Iterator[Touch]:
    def key(offset: Index) -> Key | None:
        return canonical(loop, offset) if loop.inner and _injective(loop, offset) else None

    for name, offset in loop.loads():
        yield Touch(name, key(offset), offset, False)
    for effect in loop.effects:
        if isinstance(effect, Reduce):
            yield Touch(effect.buffer, None, effect.offset, True)
            if effect.value_buffer is not None and effect.value_offset is not None:
                yield Touch(effect.value_buffer, None, effect.value_offset, True)
        else:
            yield Touch(effect.buffer, key(effect.offset), effect.offset, True)
            if isinstance(effect, Accumulate):
                yield Touch(effect.buffer, None, effect.offset, False)


def is_register(buffer: Buffer) -> bool:
    return buffer.kind == "local" and not buffer.shape


def is_own(kernel: Kernel, name: str) -> bool:
    """Does every thread touch the elements of its own points only, and those alike in all loops?"""
    keys = {t.key for loop in kernel.loops for t in touches(loop) if t.buffer == name}
    return len(keys) == 1 and None not in keys


def is_reused(kernel: Kernel, number: int, name: str, offset: Index) -> bool:
    """Do later loops load again what loop `number` loads, while nobody writes it?"""
    key = canonical(kernel.loops[number], offset)
    later = ((n, canonical(loop, o)) for loop in kernel.loops[number + 1 :] for n, o in loop.loads())
    return name not in kernel.writes() and (name, key) in later


def _shared_touches(kernel: Kernel, loop: Loop) -> list[Touch]:
    written = kernel.writes()
    return [t for t in touches(loop) if t.buffer in written and not is_register(kernel.buffer(t.buffer))]


def exchanges(kernel: Kernel) -> set[int]:
    """The loops before which the threads of a team have to wait for each other."""
    waits: set[int] = set()
    before: list[Touch] = []
    for k, loop in enumerate(kernel.loops):
        mine = _shared_touches(kernel, loop)
        if any(_meet(a, b) for a in before for b in mine):
            waits.add(k)
            before = []
        before += mine
    return waits


def _meet(a: Touch, b: Touch) -> bool:
    own = a.key is not None and a.key == b.key
    return a.buffer == b.buffer and (a.writes or b.writes) and not own


def in_order(kernel: Kernel) -> str:
    """Why the points of a row have to be met one after another; '' where they need not."""
    for loop in kernel.loops:
        if loop.inner and any(isinstance(e, Accumulate) for e in loop.effects):
            return "elements are updated in order"
        if len(loop.inner) > 1 and any(isinstance(e, Scan) for e in loop.effects):
            return "a running combination that starts anew within a row"
        # what runs once for a row is left to one thread, unless all need what it gives
        shared = loop.inner or any(is_register(kernel.buffer(e.buffer)) for e in loop.effects)
        if shared and _entangled(kernel, _shared_touches(kernel, loop)):
            return "points of a row depend on each other"
    return ""


def _entangled(kernel: Kernel, mine: list[Touch]) -> bool:
    pairs = ((a, b) for a in mine for b in mine if a.writes and a is not b and _meet(a, b))
    return not all(apart(a.offset, b.offset, kernel.buffer(a.buffer)) for a, b in pairs)


# --- tilings ----------------------------------------------------------------------------------------

IN_REGISTERS = 32
"""Elements of a row that a thread keeps."""
SOON, WORD = 1024, 4
"""Rows of words up to which twice the threads, with half of that, are done sooner.  Smaller elements take more
instructions, and more of those are for each thread."""
CLUSTERED, CLUSTER_THREADS = 256, (256, 512)
"""Threads for a row from which on it is left to a cluster, and of each block of one: as few as do."""
KEEPING = 1024
"""Threads of an SM that can keep so much: some more where they have nothing else to keep."""
SERIAL_THREADS = 128
SHORT = 16
"""Elements of a row that one thread reads alone, where there are rows enough."""


def tile_rows(kernel: Kernel, gpu: Gpu) -> Tiling:
    """The tiling of a kernel with inner loops in row form."""
    inner = [loop for loop in kernel.loops if loop.inner]
    rows = expected(product(v.extent for v in kernel.outer))
    lengths = [product(v.extent for v in loop.inner) for loop in inner]
    longest = max(hint(n) for n in lengths)
    if in_order(kernel) or (longest <= SHORT and rows >= gpu.sms * gpu.warp):
        return Tiling(form="row", threads=SERIAL_THREADS if kernel.outer else gpu.warp)
    code = max(operations(loop.body) + len(loop.effects) for loop in inner)
    width = min(access_width(kernel, (loop,), loop.inner[-1]) for loop in inner)
    while width > 1 and width * code > CODE:
        width //= 2
    held = IN_REGISTERS // 2 if longest <= SOON and width * WORD <= ACCESS else IN_REGISTERS
    most = max(min(held // _arrays(kernel), CODE // max(code, 1)), width)
    known = [bounds(n)[1] for n in lengths]
    bounded = [n for n in known if n is not None]
    if len(bounded) == len(known):
        cluster = _clustered(kernel, gpu, width, most, max(bounded))
        if cluster is not None:
            return cluster
    team = gpu.warp
    while team < 1024 and longest > team * most:
        team *= 2
    while team < 1024 and rows * team < gpu.sms * gpu.threads_sm // 2 and longest > team * width:
        team *= 2
    chunks = max(-(-n // (team * width)) for n in bounded) if len(bounded) == len(known) else None
    if chunks is not None and chunks * width <= most:
        unroll, cache = chunks, "registers"
    else:
        unroll, cache = max(min(16, most) // width, 1), ""
        kept = _in_shared(kernel, gpu, width)
        if kept is not None:
            return kept
    threads = team if team > gpu.warp else 4 * gpu.warp
    return Tiling(form="row", vector=None, threads=threads, team=team, width=width, unroll=unroll, cache=cache)


def _clustered(kernel: Kernel, gpu: Gpu, width: int, most: int, length: int) -> Tiling | None:
    """Rows that the registers of several blocks hold: some such blocks on an SM, so that one loads while another
    computes."""
    combining = [e for loop in kernel.loops if loop.inner for e in loop.effects if isinstance(e, Reduce | Scan)]
    if length <= CLUSTERED * most or not combining:
        return None
    threads = next((n for n in CLUSTER_THREADS if gpu.cluster * n * most >= length), None)
    if threads is None or gpu.cluster == 1:
        return None
    if not all(isinstance(e, Reduce) and e.dtype.itemsize >= 4 and e.dtype.kind in "fiu" for e in combining):
        return None
    if not all(is_own(kernel, b.name) for b in kernel.buffers if b.kind == "local" and b.shape):
        return None
    team = threads
    while length > team * most:
        team *= 2
    chunks = -(-length // (team * width))
    shared = any(_is_shared(kernel, loop, *load) for loop in kernel.loops for load in loop.loads())
    blocks = KEEPING // threads if shared or threads > CLUSTER_THREADS[0] else KEEPING // threads + 1
    made = Tiling(form="row", threads=threads, team=team, width=width, unroll=chunks, cache="registers")
    return replace(made, blocks=blocks)


def _is_shared(kernel: Kernel, loop: Loop, name: str, offset: Index) -> bool:
    """Is it loaded along the row, and the same for all rows?"""
    parts = set(atoms(offset))
    return kernel.buffer(name).kind != "local" and not parts.isdisjoint(loop.inner) and parts.isdisjoint(kernel.outer)


def _in_shared(kernel: Kernel, gpu: Gpu, width: int) -> Tiling | None:
    """Rows that stay in shared memory from one loop to the next, for two blocks on an SM, or one, where they have room;
    of rows that are just too long, the first group stays in registers."""
    inner = [(k, loop) for k, loop in enumerate(kernel.loops) if loop.inner]
    reused = {
        (name, canonical(loop, offset)): (kernel.buffer(name).dtype.itemsize, product(v.extent for v in loop.inner))
        for k, loop in inner
        for name, offset in loop.loads()
        if is_reused(kernel, k, name, offset)
        and (width == 1 or is_wide(kernel.buffer(name), offset, loop.inner[-1], width))
    }
    lengths = {n for _, n in reused.values()}
    if len(lengths) != 1 or any(b.kind == "local" and b.shape for b in kernel.buffers):
        return None
    length = lengths.pop()
    low, high = bounds(length)
    if high is None:
        return None
    each = sum(itemsize for itemsize, _ in reused.values())
    unroll = max(16 // width, 1)
    for blocks, team in ((2, 512), (1, 1024)):
        room = min(gpu.shared_block, gpu.shared_sm // blocks - BLOCK_OVERHEAD) - slots(kernel)
        for resident in (0, 1):
            group = team * width * unroll
            if (high - resident * group) * each <= room and (not resident or (low or 0) > group):
                made = Tiling(form="row", threads=team, team=team, width=width, unroll=unroll, cache="shared")
                return replace(made, resident=resident, blocks=blocks)
    return None


BLOCK_OVERHEAD = 1024
"""Bytes of shared memory that the system takes of each block."""
SLOTS = 512
"""Bytes of shared memory for what the warps of a block exchange to combine one value: two states of eight bytes."""


def slots(kernel: Kernel) -> int:
    return SLOTS * sum(isinstance(e, Reduce | Scan) for loop in kernel.loops for e in loop.effects)


def _arrays(kernel: Kernel) -> int:
    """Rows that a thread keeps at a time: what is loaded at each point, and local rows."""
    loads = {
        (name, canonical(loop, offset))
        for loop in kernel.loops
        for name, offset in loop.loads()
        if any(stride_of(offset, v) is not ZERO for v in loop.inner) and kernel.buffer(name).kind != "local"
        # what all rows share is near, and loaded where it is needed
        if not kernel.outer or any(stride_of(offset, v) is not ZERO for v in kernel.outer)
    }
    own = sum(1 for b in kernel.buffers if b.kind == "local" and b.shape)
    words = max((b.dtype.itemsize for b in kernel.buffers if b.shape), default=4) // 8 or 1
    kept = len(loads) + own
    return max(1, (kept + 1) // 2) * words
