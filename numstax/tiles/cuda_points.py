"""Tilings of pointwise kernels for GPUs: the lane variable, the width of an access, chunks in flight.

Chosen by coalesced bytes (section 9.3) and by Little's law (section 9.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numstax.hardware import Gpu
from numstax.ir.handlers import operations
from numstax.ir.index import (
    ONE,
    ZERO,
    Index,
    Ref,
    Var,
    atoms,
    bounds,
    contiguous_strides,
    divides,
    hint,
    product,
    stride_of,
    substitute,
)
from numstax.ir.loops import Buffer, Kernel, Loop, Store, Tiling
from numstax.tiles.cpu import crossing

ACCESS = 16
"""Bytes of the widest access of a thread."""
MARGIN = 2
"""Loads under way beside what Little's law asks for: not all threads are always loading."""
MOST_UNROLL = 8
CODE = 900
"""Operations of a thread's code that the compiler still unrolls: what it does not unroll keeps no registers."""

TILE_EDGE, TILE_THREADS, TILE_BYTES = 64, 256, 48 << 10
"""Points on a side of a tile that is turned in shared memory, threads for it, and bytes that all tiles may take."""
SMALL_SIDE = 16
"""Sides of spaces that are not worth a tile."""
STENCIL_ROWS, WINDOW = 8, 8
"""Rows of a thread, and bytes that it loads or stores together."""
WARP = 32
MANY = 1 << 24
"""Points of a space, where there may be any number."""


def expected(size: Index) -> int:
    """What a size is taken to be: that of the capture, but large where it has no bound, since time counts then."""
    return hint(size) if bounds(size)[1] is not None else max(hint(size), MANY)


def tile_points(kernel: Kernel, gpu: Gpu, tiles: bool = True) -> Tiling:
    """`tiles`: the form may be one of two-dimensional tiles."""
    total = expected(product(v.extent for v in kernel.outer))
    lane = max(reversed(kernel.outer), key=lambda v: _coalesced(kernel, v), default=None)
    width = 1 if lane is None else access_width(kernel, kernel.loops, lane)
    code = sum(operations(loop.body) for loop in kernel.loops)
    if lane is not None and tiles:
        tiled = _transposed(kernel, lane, width, code) or _stencil(kernel, lane, code)
        if tiled is not None:
            return tiled
    while width > 1 and width * code > CODE:
        width //= 2
    loaded = max(sum(kernel.buffer(n).dtype.itemsize for n, _ in _moving(kernel)), 1) * width
    threads = 256
    unroll = 1
    while unroll < MOST_UNROLL and gpu.threads_sm * loaded * unroll < MARGIN * gpu.in_flight:
        unroll *= 2
    while unroll > 1 and (unroll * width * code > CODE or total < unroll * width * threads * 2 * gpu.sms):
        unroll //= 2
    while threads > 64 and total < width * threads * gpu.sms:
        threads //= 2
    return Tiling(vector=lane, form="pointwise", threads=threads, width=width, unroll=unroll)


def _transposed(kernel: Kernel, lane: Var, width: int, code: int) -> Tiling | None:
    """Square tiles, where some loads lie side by side along another variable than the lane."""
    written = kernel.writes()
    found = {
        v: {x for loop in kernel.loops for x in crossing(loop, lane, v, written)} for v in kernel.outer if v != lane
    }
    rows = max(found, key=lambda v: len(found[v]), default=None)
    if rows is None or not found[rows] or min(hint(rows.extent), hint(lane.extent)) < SMALL_SIDE:
        return None
    widest = max(kernel.buffer(name).dtype.itemsize for name, _ in found[rows])
    edge = TILE_EDGE if widest <= 4 and code * TILE_EDGE**2 <= CODE * TILE_THREADS else TILE_EDGE // 2
    if len(found[rows]) * edge * (edge + 1) * widest > TILE_BYTES:
        return None
    while width > 1 and width * TILE_THREADS > edge * edge:
        width //= 2
    return Tiling(lane, edge, (rows, edge), form="transpose", threads=TILE_THREADS, width=width)


def _stencil(kernel: Kernel, lane: Var, code: int) -> Tiling | None:
    """Several rows for each thread, where neighbouring rows load the same."""
    shared = {v: sum(_rows_apart(a, b, v) for a, b in _pairs(kernel)) for v in kernel.outer if v != lane}
    rows = max(shared, key=lambda v: shared[v], default=None)
    if rows is None or not shared[rows] or hint(rows.extent) < STENCIL_ROWS:
        return None
    height = STENCIL_ROWS
    while height > 1 and height * code > CODE:
        height //= 2
    if height == 1:
        return None
    width = _window_width(kernel, lane)
    threads = TILE_THREADS
    while threads > WARP and threads * width >= 2 * expected(lane.extent):
        threads //= 2
    return Tiling(lane, threads * width, (rows, height), form="stencil", threads=threads, width=width)


def _window_width(kernel: Kernel, lane: Var) -> int:
    """Neighbouring points of a thread, for which it loads aligned chunks that together hold all that these need."""
    along = [x for loop in kernel.loops for x in accesses(loop) if stride_of(x[1], lane) is not ZERO]
    width = WINDOW // max((kernel.buffer(name).dtype.itemsize for name, _ in along), default=WINDOW)
    stored = [(e.buffer, e.offset) for loop in kernel.loops for e in loop.effects if isinstance(e, Store)]
    while width > 1 and not (
        divides(width, lane.extent) is True
        and all(is_wide(kernel.buffer(name), offset, lane, width) for name, offset in stored)
        and all(place_in_chunk(kernel.buffer(name), offset, lane, width) is not None for name, offset in along)
    ):
        width //= 2
    return max(width, 1)


def place_in_chunk(buffer: Buffer, offset: Index, lane: Var, width: int) -> int | None:
    """Where in an aligned chunk an access is at multiples of `width` of the lane; None where that is not known, or the
    chunk may not lie in memory."""
    whole = buffer.strides == contiguous_strides(buffer.shape) and divides(width, product(buffer.shape)) is True
    first = substitute(offset, {lane: ZERO})
    if not whole or stride_of(offset, lane) is not ONE or any(isinstance(a, Ref) for a in atoms(offset)):
        return None
    return next((k for k in range(width) if divides(width, first - k) is True), None)


def _pairs(kernel: Kernel) -> Iterator[tuple[Index, Index]]:
    """Loads of one buffer at different places."""
    for loop in kernel.loops:
        places = [(name, offset) for name, offset in dict.fromkeys(loop.loads()) if name not in kernel.writes()]
        yield from ((a, b) for k, (name, a) in enumerate(places) for other, b in places[:k] if name == other)


def _rows_apart(a: Index, b: Index, var: Var) -> bool:
    """Does one load what the other does a few steps of `var` on, or nearly?"""
    stride = stride_of(a, var)
    if stride is None or stride != stride_of(b, var) or any(isinstance(n, Var | Ref) for n in atoms(a - b)):
        return False
    distance, step = hint(a - b), hint(stride)
    return step != 0 and 0 < abs(round(distance / step)) < STENCIL_ROWS


def along_width(kernel: Kernel, touched: tuple[str, Index], lane: Var, extent: Index) -> int:
    """Neighbouring elements of one access along a variable that takes `extent` values."""
    name, offset = touched
    width = ACCESS // kernel.buffer(name).dtype.itemsize
    while width > 1 and not (divides(width, extent) is True and is_wide(kernel.buffer(name), offset, lane, width)):
        width //= 2
    return max(width, 1)


def _coalesced(kernel: Kernel, var: Var) -> int:
    """Bytes a point touches that neighbours along `var` touch side by side (section 9.3)."""
    found = 0
    for loop in kernel.loops:
        for name, offset in accesses(loop):
            if stride_of(offset, var) is ONE:
                found += kernel.buffer(name).dtype.itemsize
    return found


def accesses(loop: Loop) -> Iterator[tuple[str, Index]]:
    yield from loop.loads()
    yield from ((e.buffer, e.offset) for e in loop.effects if isinstance(e, Store))


def _moving(kernel: Kernel) -> list[tuple[str, Index]]:
    """What is loaded for each point: not what all points share."""
    loads = (access for loop in kernel.loops for access in loop.loads())
    return [(name, offset) for name, offset in dict.fromkeys(loads) if any(isinstance(a, Var) for a in atoms(offset))]


def access_width(kernel: Kernel, loops: Sequence[Loop], lane: Var) -> int:
    """Neighbouring elements of the widest dtype that fill one access, where rows are whole numbers of them."""
    touched = (x for loop in loops for x in accesses(loop) if kernel.buffer(x[0]).kind != "local")
    along = [(name, offset) for name, offset in touched if stride_of(offset, lane) is ONE]
    width = ACCESS // max((kernel.buffer(n).dtype.itemsize for n, _ in along), default=ACCESS)
    while width > 1 and not (
        divides(width, lane.extent) is True and any(is_wide(kernel.buffer(n), o, lane, width) for n, o in along)
    ):
        width //= 2
    return width


def is_wide(buffer: Buffer, offset: Index, lane: Var, width: int) -> bool:
    """Can `width` neighbours along `lane`, from a multiple of `width` on, be accessed at once?  They are neighbours in
    memory, aligned, and not too large."""
    if (
        width * buffer.dtype.itemsize > ACCESS
        or any(isinstance(a, Ref) for a in atoms(offset))
        or stride_of(offset, lane) is not ONE
    ):
        return False
    return divides(width, substitute(offset, {lane: ZERO})) is True
