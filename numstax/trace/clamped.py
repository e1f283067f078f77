"""What is left of a size that values may make negative: ``max(n, 0)``, which no Index says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numstax.ir.index import ZERO, Index, Symbol, atoms
from numstax.trace import extern, host

if TYPE_CHECKING:
    from numstax.trace.environment import ShapeEnvironment
    from numstax.trace.recorder import Recorder


def positive(rec: Recorder, size: Index, at_most: Index) -> Index:
    """``max(size, 0)``, which is known to be no more than `at_most`: a size of its own, unless the sign is known."""
    shapes = rec.shapes
    size = shapes.resolve(size)
    if shapes.known(">=", size):
        return size
    if shapes.known(">=", -size):
        return ZERO
    made = rec.clamped.get(size)
    if made is None or made[1] not in rec.binders:
        array = extern.call(
            rec, host.as_many, (size,), {}, shapes=lambda parts: ((shapes.unbacked(parts[0].shape[0], at_most),),)
        )
        made = rec.clamped[size] = (array.sizes[0], array.node)
        shapes.note(made[0] - size)
    return shapes.resolve(made[0])


def depends_on_counter(shapes: ShapeEnvironment, *sizes: Index) -> bool:
    """Is one of them another in each iteration of a loop that is captured?"""
    return any(isinstance(a, Symbol) and a.name in shapes.counters for n in sizes for a in atoms(n))
