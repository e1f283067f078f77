"""Products of matrices in kernels: which variables number what, and what the factors read.

A Kernel whose first loop contracts enters; a `Product` leaves.
"""

from __future__ import annotations

from collections.abc import Iterable

from numstax.ir.index import ONE, ZERO, Index, Ref, Var, atoms, divides, hint, less, stride_of
from numstax.ir.loops import Body, Buffer, Contract, Kernel, Loop
from numstax.records import record

Variables = tuple[Var, ...]


@record
class Product:
    """`loop` sums over the variables `along`; `rows` tell elements of the first factor apart, `columns` those of the
    second, and `batch` those of both, or products that are apart."""

    loop: Loop
    effect: Contract
    batch: Variables
    rows: Variables
    columns: Variables

    @property
    def along(self) -> Variables:
        return self.loop.inner


def product_of(kernel: Kernel) -> Product | None:
    """The product that a kernel begins with, if any."""
    loop = kernel.loops[0]
    effect = next((e for e in loop.effects if isinstance(e, Contract)), None)
    if effect is None:
        return None
    left, right = ({a for _, i in loads(loop.body, k) for a in atoms(i)} for k in (effect.value, effect.other))
    rows = _side(v for v in kernel.outer if v in left - right)
    columns = _side(v for v in kernel.outer if v in right - left)
    batch = tuple(v for v in kernel.outer if v not in rows and v not in columns)
    return Product(loop, effect, batch, rows, columns)


def _side(variables: Iterable[Var]) -> Variables:
    """The variables that number rows or columns: one that is long enough does, others beside it are batches."""
    found = tuple(variables)
    return found[-1:] if len(found) > 1 and hint(found[-1].extent) >= LONG else found


LONG = 64


def loads(body: Body, entry: int) -> list[tuple[str, Index]]:
    """The loads that an entry depends on."""
    needed = {entry}
    found: list[tuple[str, Index]] = []
    for k in range(entry, -1, -1):
        if k not in needed:
            continue
        instr = body[k]
        needed.update(instr.args)
        index = instr.attr[1] if isinstance(instr.attr, tuple) else instr.attr
        if isinstance(index, Index):
            needed.update(a.position for a in atoms(index) if isinstance(a, Ref))
        if instr.op == "load":
            found.append(instr.attr)  # type: ignore[arg-type]
    return found


PIECE = 16
"""Bytes: what the copy engine takes as one."""
MOST_BATCHES = 3


@record
class Matrix:
    """A factor or result as a matrix in memory that the copy engine of a GPU can work on: the variable `inner` has
    stride 1, and all other strides are multiples of 16 bytes.

    stride : of the variable `outer`.  batch : variables and their strides, where these are not 0.
    """

    buffer: Buffer
    offset: Index
    inner: Var
    outer: Var
    stride: Index
    batch: tuple[tuple[Var, Index], ...]


def matrix_of(buffer: Buffer, offset: Index, variables: Variables, batch: Variables) -> Matrix | str:
    """Accesses at that offset as a matrix over two variables, or why they are none."""
    strides = {v: stride_of(offset, v) for v in (*batch, *variables)}
    if len(variables) != 2:
        return "rows or columns are numbered by several variables, or by none"
    inner = next((v for v in variables if strides[v] is ONE), None)
    if inner is None:
        return f"{buffer.name} has no neighbours along its rows or columns"
    (outer,) = (v for v in variables if v != inner)
    rest, unit = offset - inner, PIECE // buffer.dtype.itemsize
    kept: list[tuple[Var, Index]] = []
    for v in (outer, *batch):
        stride = strides[v]
        if stride is None:
            return f"{buffer.name} is not strided"
        rest = rest - stride * v
        if v in batch and stride is ZERO:
            continue
        if less(ZERO, stride) is not True or divides(unit, stride) is not True:
            return f"rows of {buffer.name} do not begin at multiples of {PIECE} bytes"
        kept.append((v, stride))
    if divides(unit, rest) is not True or len(kept) > 1 + MOST_BATCHES:
        return f"{buffer.name} does not begin at a multiple of {PIECE} bytes"
    return Matrix(buffer, rest, inner, outer, kept[0][1], tuple(kept[1:]))


def operand_of(kernel: Kernel, product: Product, entry: int, own: Variables) -> Matrix | str:
    """The factor that is entry of the product's loop, told apart by `own`; or why it is no such matrix."""
    instr = product.loop.body[entry]
    if instr.op != "load" or len(loads(product.loop.body, entry)) != 1:
        return "a factor is computed, or read where data says"
    ((name, offset),) = loads(product.loop.body, entry)
    return matrix_of(kernel.buffer(name), offset, (*product.along, *own), product.batch)
