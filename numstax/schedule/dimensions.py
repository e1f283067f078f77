"""Loop variables of a kernel: splitting, ordering and merging them.

Enters: the outer variables and loops of one kernel.  Leaves: the same accesses over other variables:

* a variable that accesses divide (``x[i // 6, i % 6]``: a reshape) is split, so that accesses become linear;
* inner variables are ordered by the strides of the loads, slowest first;
* neighbours that walk memory like one dimension in every access become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from numstax.ir.index import (
    ZERO,
    Atom,
    Index,
    Quotient,
    Remainder,
    Var,
    as_index,
    atoms,
    divides,
    hint,
    less,
    mergeable,
    product,
    stride_of,
)
from numstax.ir.loops import Accumulate, Loop, Scan
from numstax.ir.renaming import indices, substitute_vars
from numstax.schedule.rewrite import Fresh

Variables = tuple[Var, ...]
Loops = tuple[Loop, ...]


def simplify(outer: Variables, loops: Loops, itemsize: Mapping[str, int], fresh: Fresh) -> tuple[Variables, Loops]:
    """Split, order and merge; `itemsize` gives the element size of each buffer."""
    outer, loops = split_divided(outer, loops, fresh)
    loops = tuple(replace(loop, inner=_ordered(loop, itemsize)) for loop in loops)
    return merge(outer, loops, fresh)


# --- splitting ------------------------------------------------------------------------------------


def split_divided(outer: Variables, loops: Loops, fresh: Fresh) -> tuple[Variables, Loops]:
    """Split variables until no access divides one by a divisor of its extent."""
    rejected: set[Var] = set()
    while True:
        cut = next(_cuts(outer, loops, rejected), None)
        if cut is None:
            return outer, loops
        var, size = cut
        high, low = fresh.var(var.extent // size), fresh.var(size)
        mapping: dict[Atom, Index] = {var: as_index(high) * size + low}

        def parts(variables: Variables, var: Var = var, pair: Variables = (high, low)) -> Variables:
            return tuple(new for v in variables for new in (pair if v is var else (v,)))

        new = tuple(substitute_vars(loop, mapping, parts(loop.inner)) for loop in loops)
        if _divisions(new) < _divisions(loops):
            outer, loops = parts(outer), new
        else:
            rejected.add(var)


def _cuts(outer: Variables, loops: Loops, rejected: set[Var]) -> Iterator[tuple[Var, Index]]:
    """Variables that are divided, each with the size of the part to split off; a scan keeps its one variable."""
    splittable = (outer, *(loop.inner for loop in loops if not _scans(loop)))
    for atom in _division_atoms(loops):
        for variables in splittable:
            for var in variables:
                stride = stride_of(atom.value, var)
                if var in rejected or stride is None or less(ZERO, stride) is not True:
                    continue
                if divides(stride, atom.divisor) is not True:
                    continue
                size = atom.divisor // stride
                if size is not var.extent and divides(size, var.extent) is True:
                    yield var, size


def _division_atoms(loops: Loops) -> Iterator[Quotient | Remainder]:
    for index in dict.fromkeys(i for loop in loops for i in indices(loop)):
        for atom in atoms(index):
            if isinstance(atom, Quotient | Remainder):
                yield atom


def _divisions(loops: Loops) -> int:
    return sum(1 for _ in _division_atoms(loops))


def _scans(loop: Loop) -> bool:
    return any(isinstance(e, Scan) for e in loop.effects)


# --- ordering -------------------------------------------------------------------------------------


def _ordered(loop: Loop, itemsize: Mapping[str, int]) -> Variables:
    """The inner variables, the one with the longest steps through memory first."""
    if len(loop.inner) < 2 or any(isinstance(e, Scan | Accumulate) for e in loop.effects):
        return loop.inner
    votes = dict.fromkeys(loop.inner, 0)
    for name, offset in set(loop.loads()):
        for var in loop.inner:
            stride = stride_of(offset, var)
            if stride is not None:
                votes[var] += abs(hint(stride)) * itemsize[name]
    return tuple(sorted(loop.inner, key=lambda var: -votes[var]))


# --- merging --------------------------------------------------------------------------------------


def merge(outer: Variables, loops: Loops, fresh: Fresh) -> tuple[Variables, Loops]:
    """Merge neighbouring variables wherever all accesses allow it."""
    used = list(dict.fromkeys(i for loop in loops for i in indices(loop)))
    mapping, outer = _merged(outer, used, fresh)
    loops = tuple(substitute_vars(loop, mapping) for loop in loops)
    return outer, tuple(_merge_inner(loop, fresh) for loop in loops)


def _merge_inner(loop: Loop, fresh: Fresh) -> Loop:
    if _scans(loop):
        return loop
    mapping, inner = _merged(loop.inner, list(dict.fromkeys(indices(loop))), fresh)
    return substitute_vars(loop, mapping, inner)


def _merged(variables: Variables, used: Sequence[Index], fresh: Fresh) -> tuple[dict[Atom, Index], Variables]:
    """Groups of neighbours that merge: what each variable becomes, and the variables that are left."""
    mapping: dict[Atom, Index] = {}
    left: list[Var] = []
    group: list[Var] = []
    for var in reversed(variables):
        if group and _merges(var, group[0], used):
            group.insert(0, var)
            continue
        _close(group, mapping, left, fresh)
        group = [var]
    _close(group, mapping, left, fresh)
    return mapping, tuple(reversed(left))


def _merges(outer: Var, inner: Var, used: Iterable[Index]) -> bool:
    for index in used:
        a, b = stride_of(index, outer), stride_of(index, inner)
        if a is None or b is None or not mergeable(a, inner.extent, b):
            return False
    return True


def _close(group: list[Var], mapping: dict[Atom, Index], left: list[Var], fresh: Fresh) -> None:
    """One variable for the whole group: only its last member keeps a stride."""
    if len(group) > 1:
        whole = fresh.var(product(v.extent for v in group))
        mapping.update(dict.fromkeys(group[:-1], ZERO))
        mapping[group[-1]] = as_index(whole)
        left.append(whole)
    else:
        left.extend(group)
