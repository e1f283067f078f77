"""The order of units and what forces it.

Enters: units in a valid order.  Leaves: an `Order` of groups that can be merged pairwise while it stays valid.
What holds in between: every group stands behind the groups in its `after`, and `before` is the inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numstax.ir.index import Symbol
from numstax.ir.loops import Buffer, Extern, Unit
from numstax.schedule.kernels import can_fail, data_sizes


class Group:
    """A unit being fused: its direct predecessors and successors."""

    __slots__ = ("after", "before", "number", "unit")

    def __init__(self, unit: Unit, number: int) -> None:
        self.unit, self.number = unit, number
        self.after: set[Group] = set()
        self.before: set[Group] = set()


class Order:
    """`private` : nobody sees the arguments when something fails."""

    def __init__(self, units: Iterable[Unit], buffers: Mapping[str, Buffer], private: bool = False) -> None:
        self.groups = [Group(unit, k) for k, unit in enumerate(units)]
        self._count = len(self.groups)
        writers: dict[str, list[Group]] = {}
        readers: dict[str, list[Group]] = {}
        failing: list[Group] = []
        binders: dict[Symbol, Group] = {}
        for group in self.groups:
            reads, writes = group.unit.reads(), group.unit.writes()
            needed = data_sizes(group.unit)
            _link([binders[size] for size in needed if size in binders], group)
            if isinstance(group.unit, Extern):
                for size in data_sizes(group.unit, buffers):
                    binders.setdefault(size, group)
            for name in reads:
                _link(writers.get(name, ()), group)
                readers.setdefault(name, []).append(group)
            for name in writes:
                _link(writers.get(name, ()), group)
                _link(readers.get(name, ()), group)
                writers.setdefault(name, []).append(group)
            if can_fail(group.unit):
                failing.append(group)
            if not private and any(buffers[name].kind == "input" for name in writes):
                # nothing the caller can see changes before all that can fail has not
                _link(failing, group)

    def movable(self, first: Group, second: Group) -> set[Group] | None:
        """The groups that must stand before `second`, the first standing earlier; None when one of them must stand
        behind `first`."""
        needed = set(second.after)
        for group in reversed(self.groups[self.groups.index(first) + 1 : self.groups.index(second)]):
            if group in needed:
                if first in group.after:
                    return None
                needed |= group.after
        return needed

    def merge(self, first: Group, second: Group, unit: Unit, needed: set[Group]) -> Group:
        """Replace two groups by one, which runs `unit`; `needed` is what `movable` gave."""
        i, j = self.groups.index(first), self.groups.index(second)
        between = self.groups[i + 1 : j]
        merged = Group(unit, self._count)
        self._count += 1
        merged.after = (first.after | second.after) - {first, second}
        merged.before = (first.before | second.before) - {first, second}
        for group in merged.after:
            group.before -= {first, second}
            group.before.add(merged)
        for group in merged.before:
            group.after -= {first, second}
            group.after.add(merged)
        self.groups[i : j + 1] = [
            *(g for g in between if g in needed),
            merged,
            *(g for g in between if g not in needed),
        ]
        return merged


def _link(earlier: Iterable[Group], later: Group) -> None:
    for group in earlier:
        if group is not later:
            later.after.add(group)
            group.before.add(later)
