"""Factors of products that the copy engine cannot read where they are, and that are worth a copy.

A Kernel that begins with a product enters; the kernels that copy its factors leave, and the product of the copies, or
nothing where it is as fast as it is.  In a copy rows begin at multiples of 16 bytes.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.errors import TemplateError
from numstax.hardware import LATENCY, Gpu
from numstax.ir.contraction import PIECE, Matrix, Product, loads, moved, operand_of, product_of
from numstax.ir.index import ONE, ZERO, Atom, Index, Var, as_index, atoms, contiguous_strides, hint, product, stride_of
from numstax.ir.loops import Buffer, Kernel, Loop, Store
from numstax.tiles.cuda_points import tile_points
from numstax.tiles.cuda_products import tile_product


def with_copies(kernel: Kernel, gpu: Gpu) -> tuple[Kernel, ...]:
    """The tiled kernel, behind copies of its factors where these make it so much faster."""
    found = product_of(kernel)
    assert found is not None
    copies: list[Kernel] = []
    windows = len(found.along) > 1
    copied = _one_sum(kernel, found) if windows else kernel
    merged = product_of(copied)
    assert merged is not None
    for entry, own in ((found.effect.value, found.rows), (found.effect.other, found.columns)):
        made = _copy(copied, merged, entry, own)
        if made is not None:
            copy, copied = made
            copies.append(copy)
    again = product_of(copied)
    assert again is not None
    try:
        tiling = tile_product(kernel, found, gpu)
    except TemplateError:  # perhaps the named template can read copies
        better = tile_product(copied, again, gpu)
    else:
        better = tile_product(copied, again, gpu)
        assert tiling.matrix is not None
        assert better.matrix is not None
        cost = better.matrix.cost + sum(_seconds(copy, gpu) for copy in copies)
        # windows would be fetched element by element, for which there is no prediction
        slower = better.matrix.family == tiling.matrix.family if windows else cost > tiling.matrix.cost
        if not copies or slower:
            return (kernel.with_tiling(tiling),)
    return (*(copy.with_tiling(tile_points(copy, gpu)) for copy in copies), copied.with_tiling(better))


def _one_sum(kernel: Kernel, found: Product) -> Kernel:
    """With one variable to sum over instead of several."""
    along = Var(found.along[-1].name, product(v.extent for v in found.along))
    places: dict[Atom, Index] = {}
    rest = as_index(along)
    for v in reversed(found.along):
        places[v], rest = rest % v.extent, rest // v.extent
    loop = replace(found.loop, inner=(along,), body=moved(found.loop.body, places))
    return replace(kernel, loops=(loop, *kernel.loops[1:]))


def _seconds(copy: Kernel, gpu: Gpu) -> float:
    nbytes = sum(hint(product(b.shape)) * b.dtype.itemsize for b in copy.buffers)
    return nbytes / gpu.bandwidth + 2 * LATENCY


def _copy(kernel: Kernel, found: Product, entry: int, own: tuple[Var, ...]) -> tuple[Kernel, Kernel] | None:
    """The kernel that copies a factor, and the kernel that reads the copy."""
    contract = kernel.loops[0]
    instr = contract.body[entry]
    matrix = operand_of(kernel, found, entry, own)
    # only elements of 16 bits can be turned by the instructions that multiply
    deep = found.loop.body[entry].dtype.itemsize != 2
    if isinstance(matrix, Matrix) and (matrix.inner in found.along or not deep):
        return None
    if instr.op != "load" or instr.args:
        return None
    if len(own) != 1 or len(found.along) != 1:
        return None
    ((name, offset),) = loads(contract.body, entry)
    source = kernel.buffer(name)
    used = set(atoms(offset))
    batch = tuple(v for v in found.batch if v in used)
    rows, columns = (own, found.along) if deep or stride_of(offset, own[-1]) is not ONE else (found.along, own)
    unit = PIECE // source.dtype.itemsize
    length = (product(v.extent for v in columns) + (unit - 1)) // unit * unit
    shape = (*(v.extent for v in batch), product(v.extent for v in rows), length)
    copy = Buffer(f"{name}_aligned{entry}", source.dtype, shape, contiguous_strides(shape), "temp")
    place = _number((*batch, *rows)) * length + _number(columns)
    copied = Loop((), (replace(instr, origin=None),), (Store(copy.name, place, 0),))
    body = (*contract.body[:entry], replace(instr, attr=(copy.name, place)), *contract.body[entry + 1 :])
    loops = (replace(contract, body=body), *kernel.loops[1:])
    still = frozenset().union(*(loop.reads() | loop.writes() for loop in loops))
    buffers = (*(b for b in kernel.buffers if b.name in still), copy)
    first = Kernel("poi_copy", (*batch, *rows, *columns), (copied,), (source, copy))
    return first, replace(kernel, loops=loops, buffers=buffers)


def _number(variables: tuple[Var, ...]) -> Index:
    """The number of the point of these variables, the last one fastest."""
    number: Index = ZERO
    for v in variables:
        number = number * v.extent + as_index(v)
    return number
