"""Tilings of kernels whose loops run down columns of memory."""

from __future__ import annotations

from numstax.hardware import Gpu
from numstax.ir.handlers import operations
from numstax.ir.index import ONE, Var, hint, product, stride_of
from numstax.ir.loops import Kernel, Loop, Scan, Tiling
from numstax.tiles.cuda_points import CODE, access_width, accesses
from numstax.tiles.cuda_rows import in_order

THREADS = 256
SECTORS = 64
"""Bytes of a row that the threads of a block read together, at least."""
LONG = 1024
"""Rows that a thread does not scan alone where columns are too few to keep the GPU busy."""
UNROLL = 4
"""Rows of a thread under way together."""


def tile_columns(kernel: Kernel, gpu: Gpu) -> Tiling | None:
    """The tiling in column form; None where rows are the better form."""
    if not kernel.outer:
        return None
    inner = [loop for loop in kernel.loops if loop.inner]
    lane = max(reversed(kernel.outer), key=lambda v: _along(kernel, inner, v))
    scans = any(isinstance(e, Scan) for loop in inner for e in loop.effects)
    reason = in_order(kernel)
    ordered = bool(reason) or scans
    if _along(kernel, inner, lane) <= sum(_along(kernel, [loop], loop.inner[-1]) for loop in inner):
        return None
    code = max(operations(loop.body) + len(loop.effects) for loop in inner)
    width = min(access_width(kernel, (loop,), lane) for loop in kernel.loops)
    while width > 1 and width * code > CODE:
        width //= 2
    lanes, others = hint(lane.extent), hint(product(v.extent for v in kernel.outer if v != lane))
    rows = max(hint(product(v.extent for v in loop.inner)) for loop in inner)
    if scans and not reason and lanes * others < gpu.sms * gpu.warp and rows > LONG:
        return None
    while width > 1 and ordered and lanes * others < gpu.sms * gpu.warp * width:
        width //= 2
    across = 1
    while across < gpu.warp and across * width < lanes:
        across *= 2
    team = 1
    if ordered:
        across = max(across, gpu.warp)
    else:
        narrow = SECTORS // max(kernel.buffer(name).dtype.itemsize for loop in inner for name, _ in accesses(loop))
        while across * width > narrow and others * -(-lanes // (across * width)) < gpu.sms // 2:
            across //= 2
        while team * across < THREADS and team * UNROLL < rows:
            team *= 2
        while team * across < gpu.warp:
            across *= 2
    unroll = UNROLL
    while unroll > 1 and (unroll * width * code > CODE or unroll * team > rows):
        unroll //= 2
    if ordered and any(loop.reads() & loop.writes() for loop in inner):
        unroll = 1
    return Tiling(vector=lane, form="column", threads=across * team, team=team, width=width, unroll=unroll)


def _along(kernel: Kernel, loops: list[Loop], var: Var) -> int:
    """Bytes that the loops touch at each point and that lie side by side along a variable."""
    touched = [x for loop in loops for x in accesses(loop)]
    return sum(kernel.buffer(name).dtype.itemsize for name, offset in touched if stride_of(offset, var) is ONE)
