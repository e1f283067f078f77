"""Whether two accesses to one buffer can meet.

Enters: the offsets of two accesses, each repeated over its own loop variables, and the buffer.  Leaves: True when they
provably never touch the same element.
"""

from __future__ import annotations

from collections.abc import Iterator

from numstax.ir.index import ZERO, Atom, Index, Ref, Var, as_index, atoms, hint, less, product, substitute
from numstax.ir.loops import Buffer

_OTHER = 1 << 20
"""Added to the number of an SSA entry: its value in another iteration."""


def apart(a: Index, b: Index, buffer: Buffer) -> bool:
    """Do accesses at `a` and at `b` touch different elements, whatever the variables of each are?"""
    moved: dict[Atom, Index] = {}
    for atom in atoms(b):
        if isinstance(atom, Var):
            moved[atom] = as_index(Var(f"{atom.name}'", atom.extent))
        elif isinstance(atom, Ref):
            moved[atom] = as_index(Ref(atom.position + _OTHER, atom.extent))
    b = substitute(b, moved)
    pairs = zip(digits(a, buffer), digits(b, buffer), strict=True)
    return any(less(x, y) or less(y, x) for x, y in pairs)


def digits(offset: Index, buffer: Buffer) -> Iterator[Index]:
    """Numbers that are equal for equal offsets: the position along each axis, where the strides allow."""
    yield offset
    for stride in sorted(buffer.strides, key=hint, reverse=True):
        if less(ZERO, stride) is True:
            digit, offset = _divided(offset, stride)
            yield digit


def _divided(offset: Index, stride: Index) -> tuple[Index, Index]:
    """Floor quotient and remainder.  On a diagonal, ``9*i`` in rows of 8, the division is ``i`` and ``i`` left over."""
    step = stride.value
    if step is not None:
        whole = sum((product((int(coef / step), *mono)) for mono, coef in offset.terms), ZERO)
        rest = offset - whole * step
        if less(rest, ZERO) is False and less(rest, stride) is True:
            return whole, rest
    return offset // stride, offset % stride
