"""The parts of a kernel that begins with a product of matrices: what gives its factors, and what follows.

A Kernel enters; its `Parts` leave: loops of their own, which hand elements to each other in buffers that a template
places where it holds them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.emit.nest import KernelText
from numstax.ir.contraction import Product, product_of
from numstax.ir.index import ZERO
from numstax.ir.loops import Buffer, Instr, Kernel, Loop, Store
from numstax.records import record
from numstax.schedule.record import Recorder, move_effect, prune

SUM, LEFT, RIGHT = "sum of products", "left factor", "right factor"
"""Local buffers: what the parts hand to each other."""


@record
class Parts:
    """`left`, `right` : loops that store one element of a factor; `rest` : what follows the product."""

    product: Product
    left: Loop
    right: Loop
    rest: tuple[Loop, ...]
    buffers: tuple[Buffer, ...]


def parts_of(kernel: Kernel, factor: np.dtype | None = None) -> Parts:
    """Take apart a kernel that begins with a product, whose factors are stored as `factor` (None: as they are added
    up)."""
    product = product_of(kernel)
    assert product is not None
    effect, body = product.effect, product.loop.body
    wide = dtypes.accumulator(effect.dtype)
    factor = factor or wide

    def side(name: str, entry: int) -> Loop:
        recorder = Recorder(body)
        value = recorder.cast(entry, factor, body[entry].origin)
        return Loop(product.along, *prune(recorder.body(), (Store(name, ZERO, value),)))

    rest = list(kernel.loops[1:])
    if kernel.buffer(effect.buffer).kind != "local":
        rest.insert(0, Loop((), (), ()))
    loops = tuple(_after(loop, kernel, product, k == 0) for k, loop in enumerate(rest))
    kinds = ((SUM, wide), (LEFT, factor), (RIGHT, factor))
    buffers = tuple(Buffer(name, kind, (), (), "local") for name, kind in kinds)
    return Parts(product, side(LEFT, effect.value), side(RIGHT, effect.other), loops, (*kernel.buffers, *buffers))


def _after(loop: Loop, kernel: Kernel, product: Product, first: bool) -> Loop:
    """A loop that reads the sum instead of the product's buffer; the first one stores what others need of it."""
    effect, recorder = product.effect, Recorder()
    total = recorder.load(SUM, ZERO, dtypes.accumulator(effect.dtype))
    value = recorder.cast(total, effect.dtype)

    def forward(instr: Instr) -> int | None:
        is_product = instr.op == "load" and instr.attr[0] == effect.buffer  # type: ignore[index]
        return value if is_product else None

    moved = recorder.append(loop.body, forward)
    effects = tuple(move_effect(e, moved) for e in loop.effects)
    if first and kernel.buffer(effect.buffer).kind != "local":
        effects = (Store(effect.buffer, effect.offset, value), *effects)
    return Loop(loop.inner, *prune(recorder.body(), effects))


def taken_apart(kernel: KernelText, factor: np.dtype | None = None) -> tuple[KernelText, Parts]:
    """The same text, whose kernel has the loops and buffers of its parts."""
    parts = parts_of(kernel.kernel, factor)
    loops = (parts.left, parts.right, *parts.rest)
    return KernelText(kernel.text, replace(kernel.kernel, loops=loops, buffers=parts.buffers)), parts
