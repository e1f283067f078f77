"""Kernels for sizes that are known at run time only: the cases in which more is known of them.

A Kernel enters; it leaves with a tiling, and with cases, each of them tiled like a kernel of such sizes:

  rows of a bounded length stay where rows of that length do: in the registers of a warp, of a block, of a cluster
  sizes that are multiples of an access have wide ones, since rows then begin at multiples of 16 bytes
  numbers of points that 32 bits hold are divided in 32 bits

Each case costs its text; it is compiled when a call needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from numstax.hardware import Gpu
from numstax.ir.index import ONE, ZERO, Index, Symbol, as_index, atoms, bounds, product, stride_of, substitute
from numstax.ir.limits import Symbols, limits, of_rows, restricted, row_lengths
from numstax.ir.loops import NARROW, Case, Kernel, Limit
from numstax.ir.show import kernel_sizes
from numstax.tiles.cuda_ahead import asking
from numstax.tiles.cuda_columns import tile_columns
from numstax.tiles.cuda_points import ACCESS, accesses, tile_points
from numstax.tiles.cuda_rows import in_order, tile_rows

LENGTHS = (16, 128, 256, 512, 1024, 2048, 8192, 32768, 65536, 131072)
"""Elements of the longest row of each case.  From one to the next the threads of a row double, or what each of them
keeps; a thread whose row has nothing for some of its registers does nothing for these."""


def tiled(kernel: Kernel, gpu: Gpu) -> Kernel:
    """The kernel with a tiling, and with cases where its sizes are symbols."""
    if not any(isinstance(a, Symbol) for size in kernel_sizes(kernel) for a in atoms(size)):
        return _with_tiling(kernel, gpu)
    long = _with_tiling(kernel, gpu)
    short = _by_length(kernel, gpu) if _any_length(long) else []
    made = [case for one in short for case in _by_size(one, gpu, anyhow=False)]
    *others, rest = _by_size(Case((), _longer(long, short, gpu) if short else long), gpu, anyhow=True)
    return replace(kernel, tiling=rest.kernel.tiling, cases=(*made, *others))


def _with_tiling(kernel: Kernel, gpu: Gpu, rows: bool = False) -> Kernel:
    """`rows` : it is of that form."""
    if not any(loop.inner for loop in kernel.loops):
        made = tile_points(kernel, gpu)
    else:
        made = (None if rows else tile_columns(kernel, gpu)) or tile_rows(kernel, gpu)
    return replace(kernel, tiling=asking(kernel, made, gpu), cases=())


# --- lengths of rows ----------------------------------------------------------------------------------


def _any_length(kernel: Kernel) -> bool:
    """Has it rows that may be of very different lengths, whose points need not be met in order?"""
    assert kernel.tiling is not None
    found = [bounds(n) for n in row_lengths(kernel)] if kernel.tiling.form == "row" else []
    return any(high is None or high > 2 * max(low or 0, 1) for low, high in found) and not in_order(kernel)


def _by_length(kernel: Kernel, gpu: Gpu) -> list[Case]:
    """The kernel for rows of bounded lengths that stay on the chip, short ones first."""
    base = kernel.cases[0] if kernel.cases else Case((), kernel)
    found: list[Case] = []
    for most in LENGTHS:
        symbols = of_rows(base.kernel, most)
        if symbols is None:
            continue
        case = Case((*base.limits, *limits(symbols)), _with_tiling(restricted(base.kernel, symbols), gpu, rows=True))
        made = case.kernel.tiling
        assert made is not None
        if not case.limits or (made.team > 1 and not made.cache):
            break
        if found and found[-1].kernel.tiling == made:
            found.pop()
        found.append(case)
        if not symbols:
            break
    return found


def _longer(kernel: Kernel, short: list[Case], gpu: Gpu) -> Kernel:
    """The kernel, with rows taken to be longer than those of the cases."""
    symbols = {a for size in kernel_sizes(kernel) for a in atoms(size) if isinstance(a, Symbol)}
    least = {limit.size: limit.most + 1 for limit in short[-1].limits if limit.most is not None}
    longer = {s: replace(s, hint=max(least[as_index(s)], s.hint or 0)) for s in symbols if as_index(s) in least}
    return _with_tiling(restricted(kernel, longer), gpu, rows=True)


# --- sizes and numbers ----------------------------------------------------------------------------------


def _by_size(case: Case, gpu: Gpu, anyhow: bool) -> Iterator[Case]:
    """A tiled case where its sizes are multiples of an access, and where they are not; `anyhow` : one of them is to be
    right for all numbers of points."""
    wide = _wide(case.kernel, gpu)
    both = ([wide] if wide is not None else []) + [Case((), case.kernel)]
    if _divides_numbers(case.kernel):
        limit = Limit(product(v.extent for v in case.kernel.outer), NARROW)
        for one in both:
            assert one.kernel.tiling is not None
            narrow = one.kernel.with_tiling(replace(one.kernel.tiling, narrow=True))
            yield Case((*case.limits, *one.limits, limit), narrow)
        if not anyhow:
            return
    for one in both:
        yield Case((*case.limits, *one.limits), one.kernel)


def _divides_numbers(kernel: Kernel) -> bool:
    """Are points, not blocks, numbered, and may there be more than 32 bits hold?"""
    made, moving = kernel.tiling, [v for v in kernel.outer if v.extent is not ONE]
    assert made is not None
    numbered = made.form in ("pointwise", "scatter") or (made.form == "row" and made.team < made.threads)
    most = bounds(product(v.extent for v in moving))[1]
    return numbered and len(moving) > 1 and (most is None or most > NARROW)


def _wide(kernel: Kernel, gpu: Gpu) -> Case | None:
    """The kernel for sizes that are multiples of an access; None where that changes nothing."""
    symbols = _multiples(kernel)
    assert kernel.tiling is not None
    made = _with_tiling(restricted(kernel, symbols), gpu, rows=kernel.tiling.form == "row")
    assert made.tiling is not None
    if made.tiling.width <= kernel.tiling.width and made.tiling.form == kernel.tiling.form:
        return None
    return Case(limits(symbols), made)


def _multiples(kernel: Kernel) -> Symbols:
    """Symbols as multiples, such that rows begin at multiples of an access: one of each product of sizes."""
    multiple = ACCESS // min((b.dtype.itemsize for b in kernel.buffers if b.shape), default=ACCESS)
    found: dict[Symbol, Symbol] = {}
    for size in _row_starts(kernel):
        for monomial, factor in size.terms:
            symbols = [a for a in monomial if isinstance(a, Symbol)]
            if symbols and factor % multiple and not any(s in found for s in symbols):
                last = symbols[-1]
                found[last] = replace(last, multiple_of=lcm(last.multiple_of, multiple))
    return found


def _row_starts(kernel: Kernel) -> list[Index]:
    """What has to be a multiple: the lengths of what neighbouring threads go along, then where that begins."""
    made = kernel.tiling
    assert made is not None
    across = [made.vector] if made.vector is not None else []
    across += [made.tile[0]] if made.tile is not None else []
    pairs = [(loop, v) for loop in kernel.loops for v in (*across, *(loop.inner[-1:] if made.form == "row" else ()))]
    starts = [
        substitute(offset, {lane: ZERO})
        for loop, lane in pairs
        for _, offset in accesses(loop)
        if stride_of(offset, lane) is ONE
    ]
    return [*(lane.extent for _, lane in pairs), *starts]
