"""Row kernels of unknown length, once more for rows that are short.

Enters: a Kernel whose rows may have any length.  Leaves: the same kernel with sizes that have a bound, so that it is
printed as one of known sizes is: sums of one block in one accumulator, rows side by side, nothing asked for ahead.
What is around the loops over short rows takes as long as they do.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.ir.index import Atom, Index, Symbol, Var, as_index, atoms, substitute
from numstax.ir.loops import Kernel, Loop, Reduce, Scan
from numstax.ir.renaming import substitute_vars

LONGEST = 127
"""Elements of a short row: the compiler then takes few vectors at a time, so that little is left over."""


LARGEST = 64
"""Instructions of kernels that are printed twice, at most: others take long to compile, and to run."""


def short_sizes(kernel: Kernel, longest: int = LONGEST) -> tuple[Symbol, ...]:
    """The sizes that decide whether the rows are short: where none is more than `longest`, they are."""
    effects = [effect for loop in kernel.loops for effect in loop.effects]
    if not kernel.outer or any(isinstance(e, Scan) for e in effects) or not any(isinstance(e, Reduce) for e in effects):
        return ()
    if any(len(loop.inner) > 1 for loop in kernel.loops) or sum(len(loop.body) for loop in kernel.loops) > LARGEST:
        return ()
    found = (a for loop in kernel.loops for var in loop.inner for a in atoms(var.extent) if isinstance(a, Symbol))
    return tuple(dict.fromkeys(s for s in found if s.lo < longest and (s.hi is None or s.hi > longest)))


def with_short_rows(kernel: Kernel, sizes: tuple[Symbol, ...], longest: int = LONGEST) -> Kernel:
    """`kernel` where none of the sizes is more than `longest`."""
    bounded: dict[Atom, Index] = {s: as_index(replace(s, hi=longest)) for s in sizes}

    def variable(var: Var) -> Var:
        return Var(var.name, substitute(var.extent, bounded))

    def loop(old: Loop) -> Loop:
        inner = tuple(map(variable, old.inner))
        mapping = bounded | dict(zip((*kernel.outer, *old.inner), map(as_index, (*outer, *inner)), strict=True))
        return substitute_vars(old, mapping, inner)

    outer = tuple(map(variable, kernel.outer))
    buffers = tuple(
        replace(
            b,
            shape=tuple(substitute(n, bounded) for n in b.shape),
            strides=tuple(substitute(n, bounded) for n in b.strides),
        )
        for b in kernel.buffers
    )
    return replace(kernel, outer=outer, loops=tuple(map(loop, kernel.loops)), buffers=buffers)
