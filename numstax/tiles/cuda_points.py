"""Tilings of pointwise kernels for GPUs: the lane variable, the width of an access, chunks in flight.

Chosen by coalesced bytes (section 9.3) and by Little's law (section 9.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numstax.hardware import Gpu
from numstax.ir.handlers import operations
from numstax.ir.index import ONE, ZERO, Index, Ref, Var, atoms, divides, hint, product, stride_of, substitute
from numstax.ir.loops import Kernel, Loop, Store, Tiling

ACCESS = 16
"""Bytes of the widest access of a thread."""
MARGIN = 2
"""Loads under way beside what Little's law asks for: not all threads are always loading."""
MOST_UNROLL = 8
CODE = 900
"""Operations of a thread's code that the compiler still unrolls: what it does not unroll keeps no registers."""


def tile_points(kernel: Kernel, gpu: Gpu) -> Tiling:
    total = hint(product(v.extent for v in kernel.outer))
    lane = max(reversed(kernel.outer), key=lambda v: _coalesced(kernel, v), default=None)
    width = 1 if lane is None else access_width(kernel, kernel.loops, lane)
    code = sum(operations(loop.body) for loop in kernel.loops)
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
    while width > 1 and not (divides(width, lane.extent) is True and any(is_wide(o, lane, width) for _, o in along)):
        width //= 2
    return width


def is_wide(offset: Index, lane: Var, width: int) -> bool:
    """Are `width` neighbours along `lane`, from a multiple of `width` on, neighbours in memory and aligned?"""
    if any(isinstance(a, Ref) for a in atoms(offset)) or stride_of(offset, lane) is not ONE:
        return False
    return divides(width, substitute(offset, {lane: ZERO})) is True
