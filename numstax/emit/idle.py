"""Elements that a loop leaves as they are: where a mask does not hold, ``a[mask] = f(a[mask])`` changes nothing.

A Loop enters; the entry of its body that is such a mask leaves, where there is one.  A printer can then pass over
neighbours of which none is wanted: `is_wanted` prints the test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numstax import dtypes
from numstax.emit.nest import BodyText
from numstax.ir.loops import CHECKS, Effect, Instr, Kernel, Loop, Reduce, Store, access

TOGETHER = 32
"""Neighbours that are looked at together."""
LEAST = 8
"""Operations that are worth looking first."""

Known = int | bool
"""What an entry is where the mask does not hold: the value of the entry of that number (perhaps its own), or a truth
value or that as a number."""


def idle_mask(kernel: Kernel, loop: Loop) -> int | None:
    """The entry of a load from memory: where it is False, the effects of the loop are none."""
    operations = sum(instr.op not in ("load", "const", "cast", "index") for instr in loop.body)
    if operations < LEAST or any(instr.op in CHECKS for instr in loop.body):
        return None
    loads = (k for k, i in enumerate(loop.body) if i.op == "load" and i.dtype == dtypes.BOOL and not i.args)
    masks = (k for k in loads if kernel.buffer(access(loop.body[k])[0]).kind not in ("local", "scalar"))
    return next((k for k in masks if _is_idle(loop, k)), None)


def is_wanted(body: BodyText, mask: int) -> str:
    """The name of a truth value: does the mask hold for one of the elements of the last axis?"""
    text, axis = body.kernel.text, body.axes[-1]
    assert axis.var is not None
    wanted, at = text.assign("m", "False"), text.fresh("j")
    name, offset = access(body.loop.body[mask])
    with text.block(replace(axis, name=at).header):
        element = body.kernel.load(name, text.index(offset, {**body.names, axis.var: at}))
        text.line(f"{wanted} = {wanted} | {element}")
    return wanted


def _is_idle(loop: Loop, mask: int) -> bool:
    name, offset = access(loop.body[mask])
    if any(effect.buffer == name and effect.offset is not offset for effect in loop.effects):
        return False  # an element may make another one wanted
    known: list[Known] = []
    for k, instr in enumerate(loop.body):
        known.append(False if k == mask else _known(k, instr, known))
    return all(_is_nothing(effect, loop.body, known, mask) for effect in loop.effects)


def _known(k: int, instr: Instr, known: Sequence[Known]) -> Known:
    args = [known[a] for a in instr.args]
    match instr.op:
        case "const" if instr.dtype == dtypes.BOOL:
            return bool(instr.attr)
        case "cast" if type(args[0]) is bool:
            return args[0]
        case "where" if type(args[0]) is bool:
            return args[1] if args[0] else args[2]
        case "where" if type(args[1]) is type(args[2]) and args[1] == args[2]:
            return args[1]
        case "logical_not" | "invert" if type(args[0]) is bool and instr.dtype == dtypes.BOOL:
            return not args[0]
        case "logical_and" | "logical_or" | "bitwise_and" | "bitwise_or" if instr.dtype == dtypes.BOOL:
            decides = instr.op.endswith("or")
            if any(a is decides for a in args):
                return decides
            rest = [a for a in args if a is not (not decides)]
            return k if len(rest) > 1 else rest[0] if rest else not decides
    return k


def _is_nothing(effect: Effect, body: Sequence[Instr], known: Sequence[Known], mask: int) -> bool:
    value = known[effect.value]
    if isinstance(effect, Store):
        if effect.mask is not None and known[effect.mask] is False:
            return True
        source = mask if value is False else value
        return type(source) is int and body[source].op == "load" and _is_same(body[source], effect)
    if not isinstance(effect, Reduce):
        return False
    whole = dtypes.kind(effect.dtype) in "biu"
    return (effect.op == "logical_and" and value is True) or (
        effect.op in ("logical_or", "add") and value is False and whole
    )


def _is_same(load: Instr, store: Store) -> bool:
    """Is what is loaded what was there?"""
    return not load.args and access(load) == (store.buffer, store.offset)
