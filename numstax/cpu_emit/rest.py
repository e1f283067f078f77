"""What is left over of a row of unknown length when vectors have taken their part.

Enters: a loop of a row kernel and its axis.  Leaves: the axes of two loops that do the same.
The compiler takes what does not fill a vector one element after another.  With a body that has an exponential in it,
fifteen of them take longer than ten vectors, so they are one more vector here, of which only a part is wanted.
"""

from __future__ import annotations

from dataclasses import replace

from numstax import dtypes
from numstax.emit.nest import Axis
from numstax.emit.text import Text, factor
from numstax.ir.index import divides
from numstax.ir.loops import CHECKS, Loop, Reduce, Store
from numstax.ir.ops import ELEMENTWISE
from numstax.records import record
from numstax.tiles.cpu import COSTLY, TOGETHER

LANES = 16
WIDEST = 4
"""Bytes of an element.  With wider ones the compiler writes out a loop of so few steps before it looks for vectors."""


def is_worth_it(loop: Loop) -> bool:
    """Is the body costly, and the number of elements unknown?"""
    if not loop.inner or divides(LANES, loop.inner[-1].extent) or loop.inner[-1].extent.value is not None:
        return False
    if any(i.op in CHECKS or dtypes.compute(i.dtype).itemsize > WIDEST for i in loop.body):
        return False
    plain = all(isinstance(e, Store) or (isinstance(e, Reduce) and e.op in TOGETHER) for e in loop.effects)
    return plain and any(i.op in ELEMENTWISE and ELEMENTWISE[i.op].flops >= COSTLY for i in loop.body)


@record
class Split:
    """`whole` : the axis up to what is left over; `rest` : the axis of that, if `some` holds, of which the steps are
    wanted for which `wanted` holds; `line` : a statement before both."""

    whole: Axis
    rest: Axis
    some: str
    wanted: str
    line: str


def split(text: Text, axis: Axis) -> Split:
    """An axis that begins at 0, to be walked LANES elements at a time."""
    middle, name, size = text.fresh("end"), text.fresh("j"), factor(axis.stop)
    rest = replace(axis, name=name, start=middle, stop=f"{middle} + {LANES}")
    line = f"{middle} = {size} & -{LANES}"
    return Split(replace(axis, stop=middle), rest, f"{middle} < {size}", f"{name} < {size}", line)
