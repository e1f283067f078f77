"""When two kernels may share their outer points, and two loops their iterations.

Outer points run in parallel and in any order, so everything that the fused kernels exchange through a buffer
must stay within one outer point; inside a point loops run one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from numstax.ir.index import ZERO, Index, Ref, Var, atoms, less, stride_of
from numstax.ir.loops import Loop, Reduce, Store

Offsets = dict[str, set[Index]]


def reads_of(loops: Iterable[Loop]) -> Offsets:
    out: Offsets = {}
    for loop in loops:
        for name, offset in loop.loads():
            out.setdefault(name, set()).add(offset)
    return out


def writes_of(loops: Iterable[Loop]) -> Offsets:
    out: Offsets = {}
    for loop in loops:
        for e in loop.effects:
            out.setdefault(e.buffer, set()).add(e.offset)
            if isinstance(e, Reduce) and e.value_buffer is not None and e.value_offset is not None:
                out.setdefault(e.value_buffer, set()).add(e.value_offset)
    return out


def crossing(first: Iterable[Loop], second: Iterable[Loop], outer: tuple[Var, ...]) -> str | None:
    """A buffer through which different outer points would depend on each other, if there is one."""
    w1, w2 = writes_of(first), writes_of(second)
    a1, a2 = _union(reads_of(first), w1), _union(reads_of(second), w2)
    for name in (w1.keys() & a2.keys()) | (a1.keys() & w2.keys()):
        offsets = a1[name] | a2[name]
        points = {point_of(offset, outer) for offset in offsets}
        if len(points) != 1 or None in points:
            return name
    return None


def _union(a: Offsets, b: Offsets) -> Offsets:
    return {name: a.get(name, set()) | b.get(name, set()) for name in a.keys() | b.keys()}


def point_of(offset: Index, outer: tuple[Var, ...]) -> tuple[tuple[Index, Index], ...] | None:
    """How the outer point follows from an offset alone; None when it does not.

    Each variable v must be a digit of the offset in the base of the strides: ``offset // stride == v + c``, where
    needed after removing higher digits.  The result holds stride and digit of each; equal results for two offsets
    mean that equal elements are touched by equal points only.
    """
    digits: list[tuple[Index, Index]] = []
    for var in outer:
        stride = stride_of(offset, var)
        if stride is None or less(ZERO, stride) is not True:
            return None
        digit = offset // stride
        if (digit - var).value is None:
            digit = digit % var.extent
            if (digit - var).value is None:
                return None
        digits.append((stride, digit))
    return tuple(digits)


def depends(later: Loop, earlier: Loop) -> bool:
    """Must `later` stay behind `earlier`?"""
    return bool(later.reads() & earlier.writes() or later.writes() & (earlier.reads() | earlier.writes()))


def same_iteration(earlier: Loop, later: Loop) -> bool:
    """Do the loops, over the same variables, exchange elements only within one iteration, through stores?"""
    final = {e.buffer for e in earlier.effects if not isinstance(e, Store) or e.mask is not None}
    final |= {e.value_buffer for e in earlier.effects if isinstance(e, Reduce) and e.value_buffer is not None}
    if final & (later.reads() | later.writes()):
        return False
    final = {name for e in later.effects if not isinstance(e, Store) for name in (e.buffer,)}
    if final & (earlier.reads() | earlier.writes()):
        return False
    w1, w2 = writes_of((earlier,)), writes_of((later,))
    a1, a2 = _union(reads_of((earlier,)), w1), _union(reads_of((later,)), w2)
    shared = [a1[name] | a2[name] for name in (w1.keys() & a2.keys()) | (a1.keys() & w2.keys())]
    # the same Ref in two loops is two values
    return all(len(offsets) == 1 and not any(map(_is_data, offsets)) for offsets in shared)


def _is_data(offset: Index) -> bool:
    """Does the offset depend on an element of an array?"""
    return any(isinstance(atom, Ref) for atom in atoms(offset))
