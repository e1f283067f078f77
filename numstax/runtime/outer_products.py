"""Sums of outer products in vector registers, as LLVM's language has them.

The name of such an operation enters, ``add_products_f32_14x32``; what expands its calls leaves.  For `rows` elements of
the left factor and `columns` of the right, sums[i, j] += sum over p < steps of left[p, i] * right[p, j], each product
added with one rounding, as libraries do; ``products_f32_14x32`` does not add to what is there.
"""

# llvmlite is only partly annotated.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import re
from functools import partial
from typing import Any

from llvmlite import ir

from numstax.runtime.expand import Codegen

CALLS = re.compile(r"\b((add_)?products_([a-z]\d+)_(\d+)x(\d+))\(")
VECTORS = 2
"""Along a row of a tile."""


def outer_products(adds: bool, rows: int, columns: int) -> Codegen:
    """Expands a call with (sums, left, right, steps), the first three pointers; there may be no steps."""
    return partial(_expand, adds, rows, columns)


def _expand(
    adds: bool, rows: int, columns: int, context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]
) -> ir.Value:
    sums, left, right, steps = args
    element, number, lane = sums.type.pointee, ir.IntType(64), ir.IntType(32)
    vector = ir.VectorType(element, columns // VECTORS)
    align = context.get_abi_sizeof(element)
    zero, unknown = ir.Constant(vector, [0.0] * vector.count), ir.Constant(vector, ir.Undefined)
    everywhere = ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count)
    name, module = f"llvm.fma.v{vector.count}f{8 * align}", builder.module
    fma = module.globals.get(name) or ir.Function(module, ir.FunctionType(vector, [vector] * 3), name)

    def place(pointer: ir.Value, start: ir.Value, k: int) -> ir.Value:
        at = builder.gep(pointer, [builder.add(start, number(k * vector.count))], inbounds=True)
        return builder.bitcast(at, vector.as_pointer())

    before, loop, after = builder.block, builder.append_basic_block("steps"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed(">", steps, number(0)), loop, after)
    builder.position_at_end(loop)
    step = builder.phi(number)
    held = [builder.phi(vector) for _ in range(rows * VECTORS)]
    beside, down = builder.mul(step, number(columns)), builder.mul(step, number(rows))
    row = [builder.load(place(right, beside, k), align=align) for k in range(VECTORS)]
    added = []
    for i in range(rows):
        scalar = builder.load(builder.gep(left, [builder.add(down, number(i))], inbounds=True))
        spread = builder.shuffle_vector(builder.insert_element(unknown, scalar, lane(0)), unknown, everywhere)
        added += [builder.call(fma, (spread, row[k], held[VECTORS * i + k])) for k in range(VECTORS)]
    following = builder.add(step, number(1))
    for phi, first, value in zip((step, *held), (number(0), *[zero] * len(held)), (following, *added), strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
    builder.position_at_end(after)
    totals = [builder.phi(vector) for _ in added]
    for total, value in zip(totals, added, strict=True):
        total.add_incoming(zero, before)
        total.add_incoming(value, loop)
    for k, total in enumerate(totals):
        to = place(sums, number(0), k)
        builder.store(builder.fadd(builder.load(to, align=align), total) if adds else total, to, align=align)
    return context.get_dummy_value()
