"""Products of matrices in kernels: which variables number what, and what the factors read.

A Kernel whose first loop contracts enters; a `Product` leaves.
"""

from __future__ import annotations

from numstax.ir.index import ONE, ZERO, Index, Ref, Var, atoms, divides, less, stride_of
from numstax.ir.loops import Body, Buffer, Contract, Kernel, Loop
from numstax.records import record

Variables = tuple[Var, ...]


@record
class Product:
    """`loop` sums over the variables `along`; `rows` tell elements of the first factor apart, `columns` those of the
    second, and `batch` those of both."""

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
    rows = tuple(v for v in kernel.outer if v in left - right)
    columns = tuple(v for v in kernel.outer if v in right - left)
    batch = tuple(v for v in kernel.outer if v not in rows and v not in columns)
    return Product(loop, effect, batch, rows, columns)


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


@record
class Operand:
    """A factor as a matrix in memory that the copy engine of a GPU can read: one of its two variables, `inner`, has
    stride 1, and all other strides are multiples of 16 bytes.

    along_k : is the inner variable the one that is summed over?  stride : of the other one.  batch : variables and
    their strides, where these are not 0.
    """

    buffer: Buffer
    offset: Index
    inner: Var
    outer: Var
    stride: Index
    batch: tuple[tuple[Var, Index], ...]
    along_k: bool


def operand_of(kernel: Kernel, product: Product, entry: int, own: Variables) -> Operand | str:
    """The factor that is entry of the product's loop, told apart by `own`; or why it is no such matrix."""
    instr = product.loop.body[entry]
    if instr.op != "load" or instr.args:
        return "a factor is computed"
    if len(own) != 1 or len(product.along) != 1:
        return "a factor has rows or columns of several variables, or none"
    name, offset = instr.attr  # type: ignore[misc]
    buffer, (row,), (deep,) = kernel.buffer(name), own, product.along
    strides = {v: stride_of(offset, v) for v in (*product.batch, row, deep)}
    if any(s is None for s in strides.values()):
        return "a factor is not strided"
    rest: Index = offset
    for v, s in strides.items():
        assert s is not None
        rest = rest - s * v
    along_k = strides[deep] is ONE
    inner, outer = (deep, row) if along_k else (row, deep)
    if strides[inner] is not ONE:
        return "a factor has no neighbours along its rows or columns"
    batch = tuple((v, s) for v in product.batch if (s := strides[v]) is not None and s is not ZERO)
    far = strides[outer]
    assert far is not None
    unit = PIECE // buffer.dtype.itemsize
    for stride in (far, *(s for _, s in batch)):
        if less(ZERO, stride) is not True or divides(unit, stride) is not True:
            return f"rows of {buffer.name} do not begin at multiples of {PIECE} bytes"
    if divides(unit, rest) is not True or len(batch) > MOST_BATCHES:
        return f"{buffer.name} does not begin at a multiple of {PIECE} bytes"
    return Operand(buffer, rest, inner, outer, far, batch, along_k)


PIECE = 16
"""Bytes: what the copy engine takes as one."""
MOST_BATCHES = 3
