"""Whether the iterations of a loop can run in any order, or at once.

Enters: a 'for' Control and the buffers around it.  Leaves: why not, or ''.  They can when no iteration touches what
another one writes: elements of arrays are told apart by their position along each axis, and a single element that
every iteration writes before it reads it is each iteration's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from numstax.ir.index import ZERO, Atom, Index, Ref, Symbol, Var, as_index, atoms, less, substitute
from numstax.ir.loops import Buffer, Control, Extern, Kernel, Nested, Reduce, Store, Unit, unit_name
from numstax.ir.overlap import digits
from numstax.records import record

MOST_PAIRS = 1000
"""Pairs of accesses that are looked at: more are not worth the time."""


@record
class Access:
    """An access to the buffer of that name around the loop, in one iteration."""

    buffer: str
    offset: Index
    writes: bool


class _Refused(Exception):  # noqa: N818 (never leaves this file)
    pass


def carried(control: Control, around: Mapping[str, Buffer]) -> str:
    """What one iteration may hand to another; '' when nothing."""
    if control.rotate:
        return "its buffers exchange their parts after each iteration"
    assert isinstance(control.head, Index)
    names = {b.name: a for b, a in zip(_inputs(control.bodies[0]), control.args, strict=True)}
    counter = Var(control.var, control.head)
    try:
        found = list(_accesses(control.bodies[0].schedule.units, names, {control.var: as_index(counter)}))
    except _Refused as error:
        return str(error)
    written = {a.buffer for a in found if a.writes}
    exposed, certain = _flow(control.bodies[0].schedule.units, names)
    for name in written:
        if not around[name].shape:
            if name in exposed or name not in certain:
                return f"{name} is carried from one iteration to the next"
        elif not _apart([a for a in found if a.buffer == name], around[name], counter):
            return f"iterations may meet at an element of {name}"
    return ""


def _inputs(body: Nested) -> list[Buffer]:
    return [b for b in body.schedule.buffers if b.kind == "input"]


# --- arrays ---------------------------------------------------------------------------------------


def _apart(found: Sequence[Access], buffer: Buffer, counter: Var) -> bool:
    """Do different iterations touch different elements, as far as one of them writes?"""
    other, later = _other(counter), as_index(counter) + as_index(Symbol("later", 1))
    first = [list(digits(a.offset, buffer)) for a in found]
    second = [[substitute(d, {other: later}) for d in digits(_elsewhere(a.offset), buffer)] for a in found]
    pairs = [(j, k) for j, a in enumerate(found) for k, b in enumerate(found) if a.writes or b.writes]
    return len(pairs) <= MOST_PAIRS and all(
        any(less(x, y) or less(y, x) for x, y in zip(first[j], second[k], strict=True)) for j, k in pairs
    )


def _other(var: Var) -> Var:
    """The same variable in another iteration."""
    return Var(f"{var.name}'", var.extent)


def _elsewhere(offset: Index) -> Index:
    """The offset in another iteration: what varies within an iteration varies anew."""
    moved: dict[Atom, Index] = {}
    for atom in atoms(offset):
        if isinstance(atom, Var):
            moved[atom] = as_index(_other(atom))
        elif isinstance(atom, Ref):
            moved[atom] = as_index(Ref(-1 - atom.position, atom.extent))
    return substitute(offset, moved)


def _accesses(units: Sequence[Unit], names: Mapping[str, str], counters: Mapping[str, Index]) -> Iterator[Access]:
    """Those to buffers around the loop; the rest is memory of the iteration."""
    for unit in units:
        if isinstance(unit, Extern):
            raise _Refused(f"{unit_name(unit)} is a library function")
        if isinstance(unit, Kernel):
            for access in _kernel_accesses(unit):
                if access.buffer in names:
                    offset = substitute(access.offset, _values(access.offset, counters))
                    yield Access(names[access.buffer], offset, access.writes)
            continue
        yield from _control_accesses(unit, names, counters)


def _control_accesses(control: Control, names: Mapping[str, str], counters: Mapping[str, Index]) -> Iterator[Access]:
    turning = {control.args[k] for pair in control.rotate for k in pair}
    if turning & names.keys():
        raise _Refused("an inner loop exchanges the parts of its buffers")
    if isinstance(control.head, str) and control.head in names:
        yield Access(names[control.head], ZERO, False)
    inner = dict(counters)
    if control.kind == "for":
        unknown = as_index(Symbol(f"{control.var}_trips", 0))
        trips = control.head if isinstance(control.head, Index) else unknown
        inner[control.var] = as_index(Var(control.var, substitute(trips, _values(trips, counters))))
    for body in control.bodies:
        within = {b.name: names[a] for b, a in zip(_inputs(body), control.args, strict=True) if a in names}
        yield from _accesses(body.schedule.units, within, inner)


def _values(index: Index, counters: Mapping[str, Index]) -> dict[Atom, Index]:
    return {a: counters[a.name] for a in atoms(index) if isinstance(a, Symbol) and a.name in counters}


def _kernel_accesses(kernel: Kernel) -> Iterator[Access]:
    for loop in kernel.loops:
        for buffer, offset in loop.loads():
            yield Access(buffer, offset, False)
        for effect in loop.effects:
            yield Access(effect.buffer, effect.offset, True)
            if isinstance(effect, Reduce) and effect.value_buffer is not None:
                assert effect.value_offset is not None
                yield Access(effect.value_buffer, effect.value_offset, True)


# --- single elements ------------------------------------------------------------------------------


def _flow(units: Sequence[Unit], names: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """(buffers around that may be read before this has written them, those that this certainly writes)."""
    exposed: set[str] = set()
    written: set[str] = set()

    def follow(reads: set[str], writes: set[str]) -> None:
        exposed.update(reads - written)
        written.update(writes)

    for unit in units:
        if isinstance(unit, Kernel):
            for loop in unit.loops:
                sure = {e.buffer for e in loop.effects if isinstance(e, Reduce | Store) and _is_certain(e, unit)}
                follow({names[b] for b in loop.reads() if b in names}, {names[b] for b in sure if b in names})
        elif isinstance(unit, Control):
            if isinstance(unit.head, str) and unit.head in names:
                follow({names[unit.head]}, set())
            flows = []
            for body in unit.bodies:
                within = {b.name: names[a] for b, a in zip(_inputs(body), unit.args, strict=True) if a in names}
                flows.append(_flow(body.schedule.units, within))
            if unit.kind == "cond":
                (reads, sure), (others, also) = flows
                follow(reads | others, sure & also)
            else:
                for k, (reads, sure) in enumerate(flows):
                    # the test of a 'while' runs at least once, a body perhaps never
                    follow(reads, sure if k < len(flows) - 1 else set())
    return exposed, written


def _is_certain(effect: Reduce | Store, kernel: Kernel) -> bool:
    return not kernel.outer and (isinstance(effect, Reduce) or effect.mask is None)
