"""Kernels from loops: their buffers, names and origins, and what a unit of a schedule touches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numstax.errors import Origin
from numstax.ir.index import Index, Symbol, Var, atoms, hint, product
from numstax.ir.loops import CHECKS, Accumulate, Buffer, Contract, Control, Extern, Kernel, Loop, Reduce, Scan, Unit
from numstax.ir.ops import ELEMENTWISE
from numstax.ir.show import unit_sizes

LONGEST_NAME = 5
"""Operations that a kernel's name mentions."""
PERSISTENT = 1024
"""Rows up to this length stay in registers or the first cache (section 9.4)."""


def make_kernel(outer: tuple[Var, ...], loops: tuple[Loop, ...], buffers: Mapping[str, Buffer]) -> Kernel:
    """`buffers` may hold more than the loops name."""
    named = dict.fromkeys(name for loop in loops for name in (*(b for b, _ in loop.loads()), *stored_names(loop)))
    origins = dict.fromkeys(i.origin for loop in loops for i in loop.body if i.origin is not None)
    return Kernel(describe(loops), outer, loops, tuple(buffers[n] for n in named), None, tuple[Origin, ...](origins))


def stored_names(loop: Loop) -> list[str]:
    """The buffers a loop writes, in order."""
    extra = [e.value_buffer for e in loop.effects if isinstance(e, Reduce) and e.value_buffer is not None]
    return [e.buffer for e in loop.effects] + extra


def describe(loops: Iterable[Loop]) -> str:
    """Form and operations: tem_ products, poi_ pointwise, scan_, per_ reductions of short rows, red_ of long ones."""
    loops = tuple(loops)
    form, ops = "poi", []
    for loop in loops:
        ops += [i.op for i in loop.body if i.op in ELEMENTWISE]
        ops += [e.op for e in loop.effects if isinstance(e, Scan | Reduce | Accumulate)]
        if any(isinstance(e, Contract) for e in loop.effects):
            form, ops = "tem", [*ops, "matmul"]
        elif any(isinstance(e, Scan) for e in loop.effects):
            form = "scan"
        elif form not in ("scan", "tem") and any(isinstance(e, Reduce) for e in loop.effects):
            length = hint(product(v.extent for v in loop.inner))
            form = "red" if length > PERSISTENT or form == "red" else "per"
    # the costliest operations tell kernels apart best; ties keep their order
    distinct = list(dict.fromkeys(ops))
    kept = sorted(distinct, key=lambda op: -ELEMENTWISE[op].flops if op in ELEMENTWISE else -10)[:LONGEST_NAME]
    return "_".join((form, *(op for op in distinct if op in kept))) if kept else f"{form}_copy"


def contracts(kernel: Kernel) -> bool:
    """Does it hold a product of matrices?"""
    return any(isinstance(e, Contract) for loop in kernel.loops for e in loop.effects)


def can_fail(unit: Unit) -> bool:
    """Can the unit fail after it started: an index out of bounds, a result of another shape?"""
    if isinstance(unit, Extern):
        return unit.out is None and not unit.draws
    if isinstance(unit, Control):
        return any(can_fail(inner) for body in unit.bodies for inner in body.schedule.units)
    return any(map(has_checks, unit.loops))


def has_checks(loop: Loop) -> bool:
    return any(instr.op in CHECKS for instr in loop.body)


def data_sizes(unit: Unit, results: Mapping[str, Buffer] | None = None) -> set[Symbol]:
    """The sizes that depend on data which a unit uses; with `results`, those which the results of a library call
    show."""
    indices: Iterable[Index] = unit_sizes(unit)
    if results is not None and isinstance(unit, Extern):
        indices = (n for name in unit.results for n in results[name].shape)
    return {atom for index in indices for atom in atoms(index) if isinstance(atom, Symbol) and atom.hint is None}
