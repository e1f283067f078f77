"""Products of one group, side by side, so that one program can compute them.

Units in a valid order enter, and leave in another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from numstax.ir.loops import Contract, Kernel, Unit


def group_of(unit: Unit) -> str:
    """The name of the group that a product belongs to, if any."""
    effects = (e for loop in unit.loops for e in loop.effects) if isinstance(unit, Kernel) else ()
    return next((e.group for e in effects if isinstance(e, Contract)), "")


def gather(units: Sequence[Unit]) -> list[Unit]:
    """The products of each group one after another, where no other unit has to stand between them."""
    out = list(units)
    for group in dict.fromkeys(filter(None, map(group_of, units))):
        places = [k for k, unit in enumerate(out) if group_of(unit) == group]
        first, end = places[0], places[-1] + 1
        members: list[Unit] = []
        before: list[Unit] = []
        after: list[Unit] = []
        for unit in out[first:end]:
            if group_of(unit) != group:
                (after if _touches(unit, [*members, *after]) else before).append(unit)
            elif _touches(unit, after):
                break
            else:
                members.append(unit)
        else:
            out[first:end] = [*before, *members, *after]
    return out


def _touches(unit: Unit, others: Iterable[Unit]) -> bool:
    """Must the unit keep its place among the others?"""
    mine, written = unit.reads() | unit.writes(), unit.writes()
    return any(mine & other.writes() or written & other.reads() for other in others)
