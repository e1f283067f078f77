"""Which trees a GPU can run (paper, section 4): shared memory bounds the block's tile, registers the warp's.

An operator with its tree, and a `Gpu` row enter; what each block needs leaves, or an `Infeasible` naming the constraint
that binds.  Nothing is decided here: `feasible` keeps every tree that fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil, prod
from typing import TypeVar

from numstax.hardware import Gpu
from numstax.records import record
from numstax.tiles.tree import (
    ABOVE_ATOM,
    ATOM,
    BLOCK,
    REGISTERS,
    WARP,
    Chain,
    Clear,
    Contract,
    CutVisitor,
    Frame,
    Grid,
    Operator,
    Rescale,
    Stream,
    Write,
)

T = TypeVar("T")
ADDRESSES = 40
"""Registers of a thread for addresses, counters and what the compiler needs."""
PRODUCER = 24
"""Registers of a thread that only starts copies."""


@record
class Infeasible:
    """A constraint that a tree breaks: at a level, a resource of which it needs more than there is."""

    level: str
    resource: str
    needed: int
    available: int

    def __str__(self) -> str:
        return f"{self.level}: {self.needed} {self.resource}, {self.available} available"

    @property
    def excess(self) -> float:
        return self.needed / max(self.available, 1)


@record
class Usage:
    """What one block needs.

    shared : bytes.
    team : threads that execute an atom together; teams : of them that compute; producers : threads that only load.
    held : bytes of arrays in the registers of one team, copies included.
    broken : constraints.
    """

    shared: int = 0
    team: int = 1
    teams: int = 1
    producers: int = 0
    held: tuple[tuple[str, float], ...] = ()
    broken: tuple[Infeasible, ...] = ()

    @property
    def threads(self) -> int:
        return self.team * self.teams + self.producers

    def registers(self, name: str) -> int:
        """Registers of a thread for one array."""
        return ceil(dict(self.held)[name] / (4 * self.team))

    @property
    def registers_thread(self) -> int:
        return sum(self.registers(name) for name, _ in self.held) + ADDRESSES

    def then(self, other: Usage) -> Usage:
        """One after the other: buffers are used again, what registers hold stays live."""
        held = dict(self.held)
        for name, size in other.held:
            held[name] = max(held.get(name, 0), size)
        return Usage(
            max(self.shared, other.shared),
            max(self.team, other.team),
            max(self.teams, other.teams),
            max(self.producers, other.producers),
            tuple(held.items()),
            tuple(dict.fromkeys((*self.broken, *other.broken))),
        )


class FeasibilityVisitor(CutVisitor[Usage]):
    """Adds up what a block needs, from the leaves to the block."""

    def __init__(self, operator: Operator, gpu: Gpu) -> None:
        super().__init__(operator)
        self.gpu = gpu

    def grid(self, node: Grid, at: Frame) -> Usage:
        inner = self.inside(node, at)
        usage = self.visit(node.body, inner)
        teams = usage.teams * (prod(cut.count for cut in inner[len(at) :]) if node.unit == WARP else 1)
        usage = replace(usage, shared=usage.shared + self._bytes(node.loads, inner), teams=teams)
        return self._checked(usage) if node.unit == BLOCK else usage

    def stream(self, node: Stream, at: Frame) -> Usage:
        inner = self.inside(node, at)
        usage = self.visit(node.body, inner)
        shared = usage.shared + node.stages * self._bytes(node.loads, inner)
        return replace(usage, shared=shared, producers=usage.producers + node.producers * self.gpu.warp)

    def chain(self, node: Chain, at: Frame) -> Usage:
        usage = Usage()
        for step in node.steps:
            usage = usage.then(self.visit(step, at))
        return usage

    def clear(self, node: Clear, at: Frame) -> Usage:
        return Usage()

    def contract(self, node: Contract, at: Frame) -> Usage:
        atom = node.atom
        held = [(node.target, 1.0)]
        for name, fragment in ((node.left, atom.a), (node.right, atom.b)):
            if fragment is not None and (atom.b is not None or self._in_registers(name)):
                held.append((name, fragment.copies))
        sizes = tuple((name, self._size(name, at) * copies) for name, copies in held)
        return Usage(team=atom.threads, held=sizes, broken=self._misfits(at))

    def rescale(self, node: Rescale, at: Frame) -> Usage:
        return self._holding((node.scores, node.weights, node.maximum, node.denominator), at)

    def write(self, node: Write, at: Frame) -> Usage:
        return Usage()

    def _holding(self, names: tuple[str, ...], at: Frame) -> Usage:
        held = tuple((name, float(self._size(name, at))) for name in names if self._in_registers(name))
        return Usage(team=self.gpu.warp, held=held)

    def _in_registers(self, name: str) -> bool:
        return self.operator.operand(name).home == REGISTERS

    def _size(self, name: str, at: Frame) -> int:
        """Bytes of a team's tile of an array."""
        operand = self.operator.operand(name)
        return prod(operand.shape(self.sizes(at, ABOVE_ATOM))) * operand.itemsize

    def _misfits(self, at: Frame) -> tuple[Infeasible, ...]:
        """A team's tile is whole atoms."""
        team, atom = self.sizes(at, ABOVE_ATOM), self.sizes(at)
        cut = dict.fromkeys(c.axis for c in at if c.unit == ATOM)
        return tuple(Infeasible(ATOM, f"values of {x} at a time", atom[x], team[x]) for x in cut if team[x] % atom[x])

    def _bytes(self, names: tuple[str, ...], at: Frame) -> int:
        sizes = self.sizes(at)
        operands = [self.operator.operand(name) for name in names]
        return sum(prod(operand.shape(sizes)) * operand.itemsize for operand in operands)

    def _checked(self, usage: Usage) -> Usage:
        gpu = self.gpu
        registers = usage.team * usage.teams * usage.registers_thread + usage.producers * PRODUCER
        limits = (
            Infeasible(BLOCK, "bytes of shared memory", usage.shared, gpu.shared_block),
            Infeasible(BLOCK, "threads", usage.threads, gpu.threads_block),
            Infeasible(WARP, "registers a thread", usage.registers_thread, gpu.registers_thread),
            Infeasible(BLOCK, "registers", registers, gpu.registers_sm),
        )
        return replace(usage, broken=(*usage.broken, *(limit for limit in limits if limit.needed > limit.available)))


def usage_of(operator: Operator, gpu: Gpu) -> Usage | Infeasible:
    """What a block of the operator's tree needs, or the constraint that is exceeded most."""
    found = FeasibilityVisitor(operator, gpu).run()
    return max(found.broken, key=lambda c: c.excess) if found.broken else found


def feasible(trees: Iterable[tuple[T, Operator]], gpu: Gpu) -> tuple[tuple[T, Usage], ...] | Infeasible:
    """Every tree that fits, with what it needs; where none does, the constraint of the one that comes nearest.

    `trees` : pairs of a tile, or a name, and an operator with that tree; at least one.
    """
    found = [(name, usage_of(operator, gpu)) for name, operator in trees]
    fits = tuple((name, needs) for name, needs in found if isinstance(needs, Usage))
    return fits or min((needs for _, needs in found if isinstance(needs, Infeasible)), key=lambda c: c.excess)
