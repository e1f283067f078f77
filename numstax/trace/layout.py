"""Memory layouts: which strides NumPy gives a result, and whether a reshape is a view.

Strides are tuples of Index in elements; None stands for a layout that numstax does not follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from numstax.ir.index import ONE, ZERO, Index, contiguous_strides, product
from numstax.trace.environment import ShapeEnvironment
from numstax.trace.sizes import Shape

Strides = tuple[Index, ...]


def is_contiguous(shape: Shape, strides: Strides) -> bool:
    """C-contiguous, sizes of one aside; False when that is not known."""
    return all(n is ONE or s is w for n, s, w in zip(shape, strides, contiguous_strides(shape), strict=True))


def is_fortran(shape: Shape, strides: Strides) -> bool:
    """Contiguous in Fortran's order and not in C's: what the memory order 'A' keeps."""
    return is_contiguous(shape[::-1], strides[::-1]) and not is_contiguous(shape, strides)


def ordered(shapes: ShapeEnvironment, shape: Shape, strides: Strides | None, order: str) -> Strides | None:
    """Strides of a copy in memory order 'C', 'F', 'A' (F when the original is, else C) or 'K' (as the original)."""
    if order == "K":
        return keep_order(shapes, shape, [(shape, strides)])
    if order == "A":
        if strides is None:
            return None
        order = "F" if is_fortran(shape, strides) else "C"
    return contiguous_strides(shape[::-1])[::-1] if order == "F" else contiguous_strides(shape)


def keep_order(
    shapes: ShapeEnvironment, shape: Shape, operands: Sequence[tuple[Shape, Strides | None]]
) -> Strides | None:
    """Strides of an elementwise result (order='K'): axes ordered as in the operands, C order at a conflict."""
    if all(s is not None and is_contiguous(n, s) for n, s in operands):
        return contiguous_strides(shape)
    if any(s is None or not shapes.can_lay_out(n, s) for n, s in operands):
        return None
    rank = len(shape)
    aligned = []
    for sizes, strides in operands:
        assert strides is not None
        shown = [_step(shapes, n, s) for n, s in zip(sizes, strides, strict=True)]
        aligned.append([ZERO] * (rank - len(shown)) + shown)
    order: list[int] = []
    for axis in reversed(range(rank)):
        place = len(order)
        for k in reversed(range(len(order))):
            outer = _is_outer(shapes, axis, order[k], aligned)
            if outer is None:
                continue
            if outer:
                break
            place = k
        order.insert(place, axis)
    out, step = [ONE] * rank, ONE
    for axis in order:
        out[axis], step = step, step * shape[axis]
    return tuple(out)


def _step(shapes: ShapeEnvironment, size: Index, stride: Index) -> Index:
    """How far a step along the axis goes; 0 where there is no step."""
    if shapes.equal(size, ONE):
        return ZERO
    return stride if shapes.at_least(stride, 0) else -stride


def _is_outer(shapes: ShapeEnvironment, axis: int, inner: int, operands: Sequence[Sequence[Index]]) -> bool | None:
    """Does `axis` stay outside `inner`?  None when no operand moves along both."""
    verdict: bool | None = None
    for strides in operands:
        if strides[axis] is not ZERO and strides[inner] is not ZERO:
            if shapes.at_least(strides[axis], strides[inner]):
                return True
            verdict = False
    return verdict


def reshape_strides(shapes: ShapeEnvironment, shape: Shape, strides: Strides, new: Shape) -> Strides | None:
    """Strides of the reshaped array without moving data (C order); None when that is impossible."""
    if is_contiguous(shape, strides) or shapes.equal(product(shape), ZERO):
        return contiguous_strides(new)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if not shapes.equal(n, ONE)]
    out: list[Index] = []
    i = j = 0
    while i < len(old) and j < len(new):
        old_end, new_end, have, want = i + 1, j + 1, old[i][0], new[j]
        while not shapes.equal(have, want):
            if shapes.at_least(have, want):
                want *= new[new_end]
                new_end += 1
            else:
                have *= old[old_end][0]
                old_end += 1
        if any(not shapes.equal(old[k][1], old[k + 1][0] * old[k + 1][1]) for k in range(i, old_end - 1)):
            return None
        step = old[old_end - 1][1]
        part = []
        for k in reversed(range(j, new_end)):
            part.append(step)
            step *= new[k]
        out += reversed(part)
        i, j = old_end, new_end
    last = out[-1] if out else ONE
    return tuple(out + [last] * (len(new) - len(out)))


def may_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Could two positions of the array share memory (strides in elements)?"""
    if 0 in shape:
        return False
    span = 1
    for step, n in sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1):
        if step < span:
            return True
        span = step * (n - 1) + span
    return False
