"""Products with too few tiles for the multiprocessors: sums in parts, and a kernel that adds these up (section 9.8).

A tiled Kernel that begins with a product enters; the kernel of the parts, with a variable that numbers them, and one
that reduces over it and does what followed the product, leave.
"""

from __future__ import annotations

from dataclasses import replace

from numstax import dtypes
from numstax.ir.contraction import Product, moved, product_of
from numstax.ir.index import ZERO, Index, Var, as_index, contiguous_strides
from numstax.ir.loops import Buffer, Contract, Instr, Kernel, Loop, Reduce, Store


def split_product(kernel: Kernel) -> tuple[Kernel, Kernel] | None:
    """The two kernels, where the tiling asks for parts and the terms can be divided into equal ones."""
    found, tiling = product_of(kernel), kernel.tiling
    assert found is not None
    assert tiling is not None
    assert tiling.matrix is not None
    depth = found.along[0].extent.value
    if tiling.matrix.split == 1 or len(found.along) != 1 or depth is None:
        return None
    unit = tiling.matrix.block[2]
    count = next((s for s in range(tiling.matrix.split, 1, -1) if depth % (s * unit) == 0), 1)
    if count == 1:
        return None
    wide = dtypes.accumulator(found.effect.dtype)
    part = Var("part", as_index(count))
    shape = (as_index(count), *(v.extent for v in kernel.outer))
    sums = Buffer(f"{found.effect.buffer}_parts", wide, shape, contiguous_strides(shape), "temp")
    return _parts(kernel, found, part, sums), _rest(kernel, found, part, sums)


def _place(variables: tuple[Var, ...]) -> Index:
    number: Index = ZERO
    for v in variables:
        number = number * v.extent + as_index(v)
    return number


def _parts(kernel: Kernel, found: Product, part: Var, sums: Buffer) -> Kernel:
    (along,) = found.along
    short = Var(along.name, along.extent // part.extent)
    body = moved(found.loop.body, {along: as_index(part) * short.extent + as_index(short)})
    outer = (part, *kernel.outer)
    effect = replace(found.effect, buffer=sums.name, offset=_place(outer), dtype=sums.dtype)
    loop = Loop((short,), body, (effect,))
    buffers = (*(b for b in kernel.buffers if b.name in loop.reads()), sums)
    return Kernel("tem_matmul", outer, (loop,), buffers, None, kernel.origins)


def _rest(kernel: Kernel, found: Product, part: Var, sums: Buffer) -> Kernel:
    effect: Contract = found.effect
    total = Buffer(f"{effect.buffer}_total", sums.dtype, (), (), "local")
    load = Instr("load", (), sums.dtype, (sums.name, _place((part, *kernel.outer))))
    add = Loop((part,), (load,), (Reduce("add", 0, total.name, ZERO, sums.dtype),))
    again = Instr("load", (), sums.dtype, (total.name, ZERO))
    cast = Instr("cast", (0,), effect.dtype)
    body = (again,) if effect.dtype == sums.dtype else (again, cast)
    result = Loop((), body, (Store(effect.buffer, effect.offset, len(body) - 1),))
    loops = (add, result, *kernel.loops[1:])
    used = frozenset().union(*(loop.reads() | loop.writes() for loop in loops))
    buffers = (*(b for b in kernel.buffers if b.name in used), sums, total)
    return Kernel(kernel.name.replace("tem_matmul", "red_add", 1), kernel.outer, loops, buffers, None, kernel.origins)
