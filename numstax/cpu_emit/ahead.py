"""What a row kernel asks the memory for before it needs it.

A row that several loops go through comes from memory in the first of them and from the cache in the others, and while
those compute, the processor's own prefetching does not get far beyond the row.  So the last loop asks for what the
first one will read of the next row: as many elements as it goes through itself, a block at a time.
"""

from __future__ import annotations

from numstax.ir.index import ONE, ZERO, Index, Ref, as_index, atoms, less, stride_of, substitute
from numstax.ir.loops import Kernel, Loop, Store
from numstax.records import record

BLOCK = 256
LONGEST_BYTES = 1 << 14
"""Of a row: in a longer one the processor's own prefetching has long caught up, and asking costs up to a tenth."""


@record
class Request:
    """`offset` : in the buffer, what belongs to the current element of the last loop; `longest` : elements of rows for
    which it is worth asking, None where all are short enough."""

    buffer: str
    offset: Index
    longest: int | None


def next_row(kernel: Kernel) -> tuple[Request, ...]:
    """What the last loop asks for."""
    iterating = [loop for loop in kernel.loops if loop.inner]
    if len(iterating) < 2 or not kernel.outer or not _is_plain(iterating[0]) or not _is_plain(iterating[-1]):
        return ()
    first, last = iterating[0], iterating[-1]
    (theirs,), (ours,), row = first.inner, last.inner, kernel.outer[-1]
    stores = all(isinstance(effect, Store) for effect in last.effects)
    if not stores or theirs.extent is not ours.extent or less(ours.extent, as_index(BLOCK)):
        return ()
    found: dict[Request, None] = {}
    for name, offset in first.loads():
        step, buffer = stride_of(offset, row), kernel.buffer(name)
        moves = step not in (None, ZERO) and stride_of(offset, theirs) is ONE
        moves = moves and not any(isinstance(atom, Ref) for atom in atoms(offset))
        longest = LONGEST_BYTES // buffer.dtype.itemsize
        longer = less(as_index(longest), ours.extent)
        if moves and buffer.kind != "local" and not longer:
            there = substitute(offset, {theirs: as_index(ours), row: row + ONE})
            found[Request(name, there, longest if longer is None else None)] = None
    return tuple(found)


def _is_plain(loop: Loop) -> bool:
    return len(loop.inner) == 1
