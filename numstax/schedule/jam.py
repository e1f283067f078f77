"""Merging the loops of one kernel.

Enters: loops that run one after the other at each outer point.  Leaves: fewer loops: one moves up into an
earlier one with the same iterations when it only exchanges elements with it inside an iteration.  What the
earlier loop stores is then used from its register.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from numstax.ir.index import Index
from numstax.ir.loops import Instr, Loop, Scan, Store
from numstax.ir.renaming import substitute_vars
from numstax.schedule.align import refine
from numstax.schedule.legality import depends, same_iteration
from numstax.schedule.record import Recorder, move_effect
from numstax.schedule.rewrite import Fresh

LONGEST_BODY = 400
"""Instructions in one loop."""


def jam(loops: Iterable[Loop], more: Iterable[Loop], fresh: Fresh) -> tuple[Loop, ...]:
    """`loops` followed by `more`, each of which is merged into an earlier loop where it can be."""
    out = list(loops)
    for loop in more:
        for k in range(len(out) - 1, -1, -1):
            pair = _over_same_variables(out[k], loop, fresh)
            if pair is not None and same_iteration(*pair) and _worthwhile(*pair):
                out[k] = _merge(*pair)
                break
            if depends(loop, out[k]):
                out.append(loop)
                break
        else:
            out.append(loop)
    return tuple(out)


def _over_same_variables(first: Loop, second: Loop, fresh: Fresh) -> tuple[Loop, Loop] | None:
    if bool(first.inner) != bool(second.inner):
        return None
    found = refine(first.inner, second.inner, fresh)
    if found is None or found.first_rest or found.second_rest:
        return None
    scans = any(isinstance(e, Scan) for e in (*first.effects, *second.effects))
    if scans and (found.common != first.inner or len(first.inner) != len(second.inner)):
        return None
    return (
        substitute_vars(first, found.first, found.common),
        substitute_vars(second, found.second, found.common),
    )


def _worthwhile(first: Loop, second: Loop) -> bool:
    """Loops without iterations of their own always merge; others when they share elements."""
    if len(first.body) + len(second.body) > LONGEST_BODY:
        return False
    if not first.inner:
        return True
    stored = {(e.buffer, e.offset) for e in first.effects if isinstance(e, Store)}
    return not {*first.loads(), *stored}.isdisjoint(second.loads())


def _merge(first: Loop, second: Loop) -> Loop:
    recorder = Recorder(first.body)
    stored: dict[tuple[str, Index], int] = {
        (e.buffer, e.offset): e.value for e in first.effects if isinstance(e, Store)
    }

    def forward(instr: Instr) -> int | None:
        if instr.op != "load":
            return None
        value: int | None = stored.get(instr.attr)  # type: ignore[call-overload]
        if value is None or not instr.args:
            return value
        zero = recorder.const(0, instr.dtype)
        return recorder.op("where", (instr.args[0], value, zero), instr.dtype, instr.origin)

    moved = recorder.append(second.body, forward)
    effects = (*first.effects, *(move_effect(e, moved) for e in second.effects))
    return replace(first, body=recorder.body(), effects=effects)
