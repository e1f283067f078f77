"""Rows that are computed again instead of kept: for long rows on a GPU, where only what was read stays on the chip.

Enters: a fused kernel.  Leaves: the kernel without the local rows that its later loops can compute from what the
loop before read, or None where there are none.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.ir.index import bounds, hint, product
from numstax.ir.loops import Buffer, Kernel, Loop, Store
from numstax.schedule.kernels import make_kernel
from numstax.schedule.online import recomputed


def recompute(kernel: Kernel, buffers: dict[str, Buffer], private: frozenset[str], longest: int) -> Kernel | None:
    """Rows of at most `longest` elements are kept, if they have a bound.

    `private` are temporaries that no other kernel uses.
    """
    loops = list(kernel.loops)
    for k, loop in enumerate(loops):
        length = product(v.extent for v in loop.inner)
        if hint(length) <= longest and bounds(length)[1] is not None:
            continue
        stored = {e.buffer: e for e in loop.effects if isinstance(e, Store) and _is_private(kernel, e, private)}
        if not stored or not _stays(loops, k):
            continue
        rest = [recomputed(later, loop, stored) for later in loops[k + 1 :]]
        if any(later.reads() & stored.keys() for later in rest):
            continue
        kept = tuple(e for e in loop.effects if e.buffer not in stored)
        loops[k:] = [replace(loop, effects=kept), *rest]
    loops = [loop for loop in loops if loop.effects]
    return None if tuple(loops) == kernel.loops else make_kernel(kernel.outer, tuple(loops), buffers)


def _is_private(kernel: Kernel, effect: Store, private: frozenset[str]) -> bool:
    buffer = kernel.buffer(effect.buffer)
    row = buffer.name in private or (buffer.kind == "local" and bool(buffer.shape))
    return row and effect.mask is None and sum(effect.buffer in loop.writes() for loop in kernel.loops) == 1


def _stays(loops: list[Loop], k: int) -> bool:
    """Is what the loop reads not written from there on?"""
    return not any(loops[k].reads() & later.writes() for later in loops[k:])
