"""A kernel for sizes that are multiples of an access, beside the one for all sizes.

Where sizes are known only at run time, no row is known to begin at a multiple of 16 bytes.  Most do: `divisible` gives
the kernel as it is when all sizes in its extents are such multiples, and the condition for that.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from numstax.hardware import Gpu
from numstax.ir.index import Atom, Index, Symbol, Var, as_index, atoms, substitute
from numstax.ir.loops import Kernel, Tiling
from numstax.records import record
from numstax.schedule.rewrite import substitute_vars
from numstax.tiles.cuda import tiling
from numstax.tiles.cuda_points import ACCESS


@record
class Divisible:
    """`kernel` is right, and has wider accesses, where the `symbols` are multiples of `multiple`."""

    kernel: Kernel
    symbols: tuple[str, ...]
    multiple: int


def divisible(kernel: Kernel, gpu: Gpu) -> Divisible | None:
    """None where that changes nothing."""
    variables = dict.fromkeys((*kernel.outer, *(v for loop in kernel.loops for v in loop.inner)))
    symbols = dict.fromkeys(a for v in variables for a in atoms(v.extent) if isinstance(a, Symbol))
    assert kernel.tiling is not None
    if not symbols or kernel.tiling.width > 1 or any(b.kind == "local" and b.shape for b in kernel.buffers):
        return None
    multiple = ACCESS // min((b.dtype.itemsize for b in kernel.buffers if b.shape), default=ACCESS)
    if multiple < 2:
        return None
    names: dict[Atom, Index] = {s: as_index(replace(s, multiple_of=lcm(s.multiple_of, multiple))) for s in symbols}
    new = {v: Var(v.name, substitute(v.extent, names)) for v in variables}
    mapping: dict[Atom, Index] = {v: as_index(moved) for v, moved in new.items()}
    mapping |= names

    def sizes(indices: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(substitute(n, names) for n in indices)

    made = replace(
        kernel,
        outer=tuple(new[v] for v in kernel.outer),
        loops=tuple(substitute_vars(loop, mapping, tuple(new[v] for v in loop.inner)) for loop in kernel.loops),
        buffers=tuple(replace(b, shape=sizes(b.shape), strides=sizes(b.strides)) for b in kernel.buffers),
    )
    made = made.with_tiling(tiling(made, gpu))
    assert made.tiling is not None
    if made.tiling.width == 1 or made.tiling.form != kernel.tiling.form:
        return None
    return Divisible(made, tuple(s.name for s in symbols), multiple)


def narrowed(wide: Tiling, vector: Var | None, tile: tuple[Var, int] | None) -> Tiling:
    """A tiling of a kernel for blocks of the same size without wide accesses."""
    unroll = wide.unroll if wide.form == "column" else wide.unroll * wide.width
    return replace(wide, vector=vector, tile=tile, width=1, unroll=unroll if wide.cache else min(unroll, 16))
