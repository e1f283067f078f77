"""Recorded loops in other terms: other loop variables, other sizes, other buffers.

Enters: a Loop and a mapping.  Leaves: an equal Loop over the new names.  Variables are compared by name and extent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from numstax.ir.index import Atom, Index, Var, substitute
from numstax.ir.loops import Effect, Instr, Loop, Reduce

Renaming = Mapping[Atom, Index]


def indices(loop: Loop) -> Iterator[Index]:
    """Every Index a loop evaluates."""
    for instr in loop.body:
        if isinstance(instr.attr, tuple):
            yield instr.attr[1]
        elif isinstance(instr.attr, Index):
            yield instr.attr
    for effect in loop.effects:
        yield effect.offset
        if isinstance(effect, Reduce):
            for extra in (effect.position, effect.value_offset):
                if extra is not None:
                    yield extra


def map_accesses(
    loop: Loop, buffer: Callable[[str, Index], tuple[str, Index]], other: Callable[[Index], Index] = lambda i: i
) -> Loop:
    """`buffer` renames (buffer, offset) pairs; `other` rewrites the remaining Index values."""

    def instr(i: Instr) -> Instr:
        if isinstance(i.attr, tuple):
            new = buffer(*i.attr)
            return i if new == i.attr else replace(i, attr=new)
        if isinstance(i.attr, Index):
            index = other(i.attr)
            return i if index is i.attr else replace(i, attr=index)
        return i

    def effect(e: Effect) -> Effect:
        name, offset = buffer(e.buffer, e.offset)
        e = replace(e, buffer=name, offset=offset)
        if isinstance(e, Reduce):
            if e.position is not None:
                e = replace(e, position=other(e.position))
            if e.value_buffer is not None and e.value_offset is not None:
                name, offset = buffer(e.value_buffer, e.value_offset)
                e = replace(e, value_buffer=name, value_offset=offset)
        return e

    return Loop(loop.inner, tuple(map(instr, loop.body)), tuple(map(effect, loop.effects)))


def substitute_vars(loop: Loop, mapping: Renaming, inner: tuple[Var, ...] | None = None) -> Loop:
    """`loop` with its variables replaced, running over `inner`."""
    if mapping:
        known: dict[Index, Index] = {}

        def other(index: Index) -> Index:
            if index not in known:
                known[index] = substitute(index, mapping)
            return known[index]

        loop = map_accesses(loop, lambda name, offset: (name, other(offset)), other)
    return loop if inner is None else replace(loop, inner=inner)
