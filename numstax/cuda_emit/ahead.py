"""What a block asks the memory for before another block needs it.

Blocks start in order.  While a block computes, its part of the memory would be idle; so it asks for what the block that
is to take its place loads first, and that finds it in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numstax import dtypes
from numstax.cuda_emit.accesses import Access
from numstax.emit.nest import KernelText
from numstax.ir.index import ONE, ZERO, Atom, Index, Var, divides, stride_of, substitute
from numstax.tiles.cuda_points import ACCESS, is_wide


def ask(
    kernel: KernelText,
    loads: Sequence[Access],
    variables: Sequence[Var],
    names: Mapping[Atom, str],
    first: str,
    count: Index,
) -> None:
    """Ask for `count` neighbouring points of `variables`, last one fastest, from the one of number `first` on."""
    for name, offset in loads:
        buffer = kernel.buffer(name)
        whole = ACCESS // buffer.dtype.itemsize
        wide = is_wide(buffer, offset, variables[-1], whole) and divides(whole, count) is True
        if wide and _is_contiguous(offset, variables):
            start = kernel.text.index(substitute(offset, dict.fromkeys(variables, ZERO)), names)
            size = f"uint32({kernel.text.index(count * buffer.dtype.itemsize, names)})"
            kernel.text.line(
                f"fetch_{dtypes.name(buffer.dtype)}({kernel.text.buffer(buffer)}, {start} + {first}, {size})"
            )


def _is_contiguous(offset: Index, variables: Sequence[Var]) -> bool:
    """Are neighbouring points neighbours in memory?"""
    step = ONE
    for var in reversed(variables):
        if var.extent is not ONE and stride_of(offset, var) is not step:
            return False
        step = step * var.extent
    return True
