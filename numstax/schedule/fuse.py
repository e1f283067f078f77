"""Schedule -> Schedule with fewer kernels.

Enters: a lowered Schedule.  Leaves: an equal Schedule in which kernels that exchange or share elements at the
same iteration points have become one kernel of several loops.  Every kernel is offered to the kernels that
computed what it reads, latest first, then to those that read the same; a pair that is not fused leaves a
`Refusal` that says why.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.hardware import Gpu, Hardware, host
from numstax.ir.loops import Control, Extern, Kernel, Loop, Refusal, Schedule, Store, in_bodies, unit_name
from numstax.schedule.align import Joined, join
from numstax.schedule.cost import SMALL_WORK, points, serial, shared_elements, too_large, work
from numstax.schedule.dependences import Group, Order
from numstax.schedule.dimensions import merge
from numstax.schedule.groups import gather, group_of
from numstax.schedule.inplace import write_in_place
from numstax.schedule.jam import jam
from numstax.schedule.kernels import can_fail, contracts, make_kernel
from numstax.schedule.legality import crossing
from numstax.schedule.locals import localise, remove_dead
from numstax.schedule.rewrite import Fresh

SHARE = 4
"""Kernels are fused when they share at least one element for so many iterations of the smaller."""
CANDIDATES = 6
"""Earlier kernels that one is offered to, of each kind."""


def fuse(schedule: Schedule, machine: Hardware | Gpu | None = None) -> Schedule:
    machine = machine or host()
    schedule = in_bodies(schedule, lambda body: fuse(body, machine))
    fuser = _Fuser(schedule, machine)
    fuser.run()
    buffers = dict(fuser.buffers)
    units = remove_dead((group.unit for group in fuser.order.groups), buffers)
    units = localise(units, buffers, machine.row_bytes if isinstance(machine, Gpu) else machine.l2 // 2)
    units = write_in_place(units, buffers)
    fused = []
    for unit in units:
        if isinstance(unit, Kernel):
            unit = make_kernel(*merge(unit.outer, unit.loops, fuser.fresh), buffers)
        fused.append(unit)
    fused = gather(fused)
    used = {name for unit in fused for name in unit.reads() | unit.writes()}
    kept = tuple(b for name, b in buffers.items() if b.kind not in ("temp", "local") or name in used)
    refusals = (*schedule.refusals, *fuser.refusals.values())
    return replace(schedule, units=tuple(fused), buffers=kept, refusals=refusals)


class _Fuser:
    def __init__(self, schedule: Schedule, machine: Hardware | Gpu) -> None:
        self.machine, self.private = machine, schedule.private
        self.buffers = {b.name: b for b in schedule.buffers}
        self.order = Order(schedule.units, self.buffers, schedule.private)
        self.refusals: dict[tuple[str, str], Refusal] = {}
        self.fresh = Fresh("f")

    def run(self) -> None:
        for group in list(self.order.groups):
            grown: Group | None = group
            while grown is not None and isinstance(grown.unit, Kernel):
                grown = self._grow(grown)

    def _grow(self, group: Group) -> Group | None:
        """`group` fused with one earlier group, if any agrees."""
        for candidate in self._candidates(group):
            needed = self.order.movable(candidate, group)
            if needed is None:
                continue  # what stands between them has been offered too
            fused = self._fused(candidate, group)
            if isinstance(fused, Kernel):
                return self.order.merge(candidate, group, fused, needed)
            what = f"{unit_name(candidate.unit)} + {unit_name(group.unit)}"
            self.refusals.setdefault((what, fused), Refusal(what, fused))
        return None

    def _candidates(self, group: Group) -> list[Group]:
        earlier = self.order.groups[: self.order.groups.index(group)]
        reads = group.unit.reads() | group.unit.writes()
        producers = [g for g in reversed(earlier) if g in group.after]
        sharing = [g for g in reversed(earlier) if g not in group.after and reads & g.unit.reads()]
        return producers[:CANDIDATES] + sharing[:CANDIDATES]

    def _fused(self, first: Group, second: Group) -> Kernel | str:
        """The two as one kernel, or why not."""
        a, b = first.unit, second.unit
        if isinstance(a, Control) or isinstance(b, Control):
            return "control flow is not part of any kernel"
        if isinstance(a, Extern) or isinstance(b, Extern):
            draws = any(isinstance(unit, Extern) and unit.draws for unit in (a, b))
            return f"{'a draw of random numbers' if draws else 'a library call'} is not part of any kernel"
        reason = too_large(a, b)
        if reason is not None:
            return reason
        if self._fails_late(a, b):
            return "an argument is written only when nothing can fail any more"
        if contracts(b):
            return "a product of matrices begins a kernel"
        if contracts(a) and group_of(a):
            return "products of a group are computed in one launch"
        joined = join(a, b, self.fresh)
        if joined is None:
            return "different iteration spaces"
        if contracts(a) and not all(_is_pointwise(loop) for loop in joined.second):
            return "a product of matrices takes up what follows element by element"
        if crossing(joined.first, joined.second, joined.outer) is not None:
            return "elements are exchanged between different points of the iteration space"
        if not self._pays(joined):
            return "nothing of size is read or written by both"
        loops = jam(joined.first, joined.second, self.fresh)
        if serial(joined.outer, loops, self.machine):
            return f"only {points(joined.outer)} iterations would run in parallel"
        return make_kernel(joined.outer, loops, self.buffers)

    def _fails_late(self, a: Kernel, b: Kernel) -> bool:
        written = not self.private and any(self.buffers[name].kind == "input" for name in a.writes() | b.writes())
        return written and (can_fail(a) or can_fail(b))

    def _pays(self, joined: Joined) -> bool:
        if work(joined.outer, (*joined.first, *joined.second)) <= SMALL_WORK:
            return True
        smaller = min(
            max(points((*joined.outer, *loop.inner)) for loop in loops) for loops in (joined.first, joined.second)
        )
        return SHARE * shared_elements(joined.first, joined.second, joined.outer, self.buffers) >= smaller


def _is_pointwise(loop: Loop) -> bool:
    return not loop.inner and all(isinstance(effect, Store) for effect in loop.effects)
