"""Scatters whose updates may come in any order: every update is a point of its own, and made by an atomic instruction.

Enters: a kernel.  Leaves: the kernel with its inner variables among the outer ones, unless the order counts or the
machine has no such instruction.  Sums of floats are rounded differently from one order to another.
"""

from __future__ import annotations

from dataclasses import replace

from numstax import dtypes
from numstax.ir.loops import Accumulate, Buffer, Kernel, Loop, Store
from numstax.tiles.cuda_rows import is_own

_WHOLE = ("i32", "u32", "i64", "u64")
ATOMIC = {
    "add": (*_WHOLE, "f32", "f64"),
    **dict.fromkeys(("maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"), _WHOLE),
}
"""Operations and the dtypes for which there is an instruction."""


def pieces(kernel: Kernel) -> tuple[Kernel, ...]:
    """A kernel for each loop, spread, where one of them is such a scatter and all can be; else the kernel."""
    if len(kernel.loops) == 1:
        return (spread(kernel) or kernel,)
    if any(b.kind == "local" for b in kernel.buffers):
        return (kernel,)
    each = [replace(kernel, loops=(loop,), buffers=_used(kernel, loop)) for loop in kernel.loops]
    spreads = [spread(piece, only_stores=True) for piece in each]
    scatters = any(isinstance(e, Accumulate) for loop in kernel.loops for e in loop.effects)
    return tuple(s for s in spreads if s is not None) if scatters and None not in spreads else (kernel,)


def _used(kernel: Kernel, loop: Loop) -> tuple[Buffer, ...]:
    return tuple(b for b in kernel.buffers if b.name in loop.reads() | loop.writes())


def spread(kernel: Kernel, only_stores: bool = False) -> Kernel | None:
    """The one loop of a kernel as points; `only_stores`: also where it updates nothing."""
    (loop,) = kernel.loops
    updates = [e for e in loop.effects if isinstance(e, Accumulate)]
    if not loop.inner or not all(isinstance(e, Accumulate | Store) for e in loop.effects):
        return None
    if not updates and not only_stores:
        return None
    if any(dtypes.name(e.dtype) not in ATOMIC.get(e.op, ()) for e in updates):
        return None
    read = {name for name, _ in loop.loads()}
    if any(e.buffer in read or sum(o.buffer == e.buffer for o in loop.effects) > 1 for e in updates):
        return None
    if not all(is_own(kernel, e.buffer) for e in loop.effects if isinstance(e, Store)):
        return None
    return replace(kernel, outer=(*kernel.outer, *loop.inner), loops=(replace(loop, inner=()),))
