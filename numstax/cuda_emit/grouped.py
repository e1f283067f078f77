"""Products of different sizes in one program: a block finds its product, and computes a tile of it.

Kernels that are a product each, with the same tiling, enter.  The text is that of one kernel whose sizes, strides and
arrays are variables, which the branch of the block's number sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd

from numstax import dtypes
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText
from numstax.ir.contraction import Product, loads, product_of
from numstax.ir.index import ZERO, Index, Symbol, Var, as_index, stride_of
from numstax.ir.loops import Buffer, Contract, Instr, Kernel, Loop
from numstax.records import record

ARRAYS, SIZES = ("a", "b", "c"), ("m", "n", "k", "left", "right")
"""What differs between the products: arrays; sizes, and the stride of each factor that is not 1."""


@record
class Member:
    """One product: its buffers and where in them it begins, and its sizes, by the names above.  `deep` : do neighbours
    of each factor lie along k?"""

    buffers: tuple[Buffer, Buffer, Buffer]
    starts: tuple[int, int, int]
    sizes: tuple[int, ...]
    deep: tuple[bool, bool]
    effect: Contract


def alike(kernels: Sequence[Kernel]) -> list[Member] | None:
    """The products, when one text can do for all of them."""
    members = [_member(kernel) for kernel in kernels]
    kinds = {
        None if m is None else (*(b.dtype for b in m.buffers), m.deep, m.effect.precision, kernel.tiling)
        for m, kernel in zip(members, kernels, strict=True)
    }
    return [m for m in members if m is not None] if len(kinds) == 1 and None not in kinds else None


def _member(kernel: Kernel) -> Member | None:
    found = product_of(kernel)
    if found is None or len(kernel.loops) > 1 or found.batch or kernel.tiling is None:
        return None
    if not len(found.rows) == len(found.columns) == len(found.along) == 1:
        return None
    left, right = (_factor(kernel, found, *side) for side in _sides(found))
    target = kernel.buffer(found.effect.buffer)
    extents = [v.extent.value for v in (*found.rows, *found.columns, *found.along)]
    plain = found.effect.offset is as_index(found.rows[0]) * found.columns[0].extent + as_index(found.columns[0])
    if left is None or right is None or None in extents or not plain:
        return None
    sizes = (*(n for n in extents if n is not None), left[2], right[2])
    buffers = (left[0], right[0], target)
    return Member(buffers, (left[1], right[1], 0), sizes, (left[3], right[3]), found.effect)


def _sides(found: Product) -> tuple[tuple[int, Var], tuple[int, Var]]:
    return (found.effect.value, found.rows[0]), (found.effect.other, found.columns[0])


def _factor(kernel: Kernel, found: Product, entry: int, own: Var) -> tuple[Buffer, int, int, bool] | None:
    """Its buffer, first element, the stride that is not 1, and whether neighbours lie along k."""
    instr = found.loop.body[entry]
    if instr.op != "load" or instr.args:
        return None
    ((name, offset),) = loads(found.loop.body, entry)
    strides = stride_of(offset, own), stride_of(offset, found.along[0])
    values = [None if s is None else s.value for s in strides]
    if None in values or 1 not in values:
        return None
    deep = values[1] == 1
    far = values[0] if deep else values[1]
    first = (offset - as_index(own) * values[0] - as_index(found.along[0]) * values[1]).value  # type: ignore[operator]
    return None if first is None or far is None else (kernel.buffer(name), first, far, deep)


def print_grouped(
    text: DeviceText,
    kernels: Sequence[Kernel],
    members: Sequence[Member],
    form: Callable[[KernelText], tuple[Index, ...]],
) -> tuple[str, ...]:
    """Print them; the grid."""
    tiling = kernels[0].tiling
    assert tiling is not None
    assert tiling.matrix is not None
    names = {what: text.counter(what, what) for what in (*ARRAYS, *SIZES)}
    height, length, _ = tiling.matrix.block
    first = 0
    text.line(f"# {len(members)} products")
    for k, member in enumerate(members):
        blocks = -(-member.sizes[0] // height) * -(-member.sizes[1] // length)
        last = k == len(members) - 1
        header = "else" if last and k else f"{'el' if k else ''}if int64(block_x()) < {first + blocks}"
        with text.block(header):
            for what, buffer, start in zip(ARRAYS, member.buffers, member.starts, strict=True):
                array = text.buffer(buffer)
                moved = f"offset_{dtypes.name(buffer.dtype)}({array}, {start})" if start else array
                text.line(f"{names[what]} = {moved}")
            for what, size in zip(SIZES, member.sizes, strict=True):
                text.line(f"{names[what]} = {size}")
            text.line(f"first = {first}")
        first += blocks
    text.number = "int64(block_x()) - first"
    form(KernelText(text, _kernel(kernels[0], members)))
    return (str(first),)


def _kernel(kernel: Kernel, members: Sequence[Member]) -> Kernel:
    """The kernel of any of them: sizes are symbols."""
    m, n, k, left, right = (_symbol(what, [x.sizes[at] for x in members]) for at, what in enumerate(SIZES))
    i, j, along = Var("i0", m), Var("i1", n), Var("j0", k)
    model = members[0]

    def factor(at: int, own: Var, stride: Index) -> Instr:
        near, far = (along, own) if model.deep[at] else (own, along)
        place = as_index(far) * stride + as_index(near)
        return Instr("load", (), model.buffers[at].dtype, (ARRAYS[at], place))

    effect = replace(model.effect, value=0, other=1, buffer="c", offset=as_index(i) * n + as_index(j))
    loop = Loop((along,), (factor(0, i, left), factor(1, j, right)), (effect,))
    shapes = ((m, k), (k, n), (m, n))
    buffers = tuple(
        Buffer(what, buffer.dtype, shape, (ZERO, ZERO), "temp")
        for what, buffer, shape in zip(ARRAYS, model.buffers, shapes, strict=True)
    )
    return replace(kernel, outer=(i, j), loops=(loop,), buffers=buffers)


def _symbol(name: str, values: Sequence[int]) -> Index:
    """A size that takes these values."""
    return as_index(Symbol(name, min(values), max(values), max(gcd(*values), 1), max(values)))
