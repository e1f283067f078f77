"""Which kernels ask the memory for what later blocks load.

A kernel whose instructions take as long as its memory does leaves the memory idle while its blocks compute.  Blocks
then ask for what those that will take their places load first: it waits in the second-level cache.  Where memory takes
the longer, asking only pushes out what others wait for.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.hardware import Gpu
from numstax.ir.handlers import bytes_moved, work
from numstax.ir.index import ONE, Index, atoms, bounds, hint, product
from numstax.ir.loops import Kernel, Tiling
from numstax.tiles.cuda_points import expected

SLOW = 0.7
"""Time of the operations over that of the memory, from which on it is worth asking."""
PART = 10
"""The part of the cache that may hold what was asked for: more is gone before it is used."""
THREADS = 1024
"""Of an SM, for kernels that keep rows in registers."""


def asking(kernel: Kernel, made: Tiling, gpu: Gpu) -> Tiling:
    """The tiling, with `ahead` where it pays."""
    moving = [v for v in kernel.outer if v.extent is not ONE]
    rows = made.form == "row" and made.cache == "registers" and len(moving) == 1
    if gpu.cluster == 1 or not moving or not (rows or made.form == "pointwise"):
        return made
    seconds = hint(work(kernel)) / (gpu.sms * LANES * gpu.clock)
    if seconds * gpu.bandwidth < SLOW * bytes_moved(kernel, {b.name: b for b in kernel.buffers}):
        return made
    loop = next(loop for loop in kernel.loops if loop.inner or not rows)
    loads = {x for x in loop.loads() if kernel.buffer(x[0]).kind != "local" and set(moving) <= set(atoms(x[1]))}
    points = hint(product(v.extent for v in loop.inner)) * made.threads // made.team if rows else _points(made)
    each = points * sum(kernel.buffer(name).dtype.itemsize for name, _ in loads)
    at_a_time = gpu.sms * ((THREADS if rows else gpu.threads_sm) // made.threads)
    ahead = min(at_a_time, gpu.l2 // PART // max(each, 1))
    blocks = _blocks(moving[0].extent * made.team, made.threads) if rows else _blocks(_total(kernel), _points(made))
    return replace(made, ahead=ahead) if loads and blocks >= 4 * ahead else made


LANES = 128
"""Operations of an SM in a cycle."""


def _points(made: Tiling) -> int:
    return made.threads * made.width * made.unroll


def _total(kernel: Kernel) -> Index:
    return product(v.extent for v in kernel.outer)


def _blocks(points: Index, each: int) -> int:
    return (expected(points) if bounds(points)[1] is None else bounds(points)[0] or 0) // each
