"""Products of matrices in kernels: which variables number what, and what the factors read.

A Kernel whose first loop contracts enters; a `Product` leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from numstax.ir.index import ONE, ZERO, Atom, Index, Ref, Var, atoms, divides, hint, less, stride_of, substitute
from numstax.ir.loops import Body, Buffer, Contract, Instr, Kernel, Loop
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


def moved(body: Body, places: Mapping[Atom, Index]) -> Body:
    """A body with other variables."""

    def instruction(instr: Instr) -> Instr:
        if isinstance(instr.attr, tuple):
            name, offset = instr.attr
            return replace(instr, attr=(name, substitute(offset, places)))
        return replace(instr, attr=substitute(instr.attr, places)) if isinstance(instr.attr, Index) else instr

    return tuple(map(instruction, body))


PIECE = 16
"""Bytes: what the copy engine takes as one."""
MOST_BATCHES = 3


Steps = tuple[tuple[Var, Index], ...]


@record
class Tensor:
    """A factor or result as the copy engine of a GPU can work on it: the variable `inner` has stride 1, the others the
    strides in `dims`, all multiples of 16 bytes, the smallest first."""

    buffer: Buffer
    offset: Index
    inner: Var
    dims: Steps


def tensor_of(buffer: Buffer, offset: Index, variables: Variables, batch: Variables) -> Tensor | str:
    """Accesses at that offset as a strided array, or why they are none; strides of `batch` may be 0."""
    strides = {v: stride_of(offset, v) for v in (*batch, *variables)}
    inner = next((v for v in variables if strides[v] is ONE), None)
    if inner is None:
        return f"{buffer.name} has no neighbours along its rows or columns"
    rest, unit = offset - inner, PIECE // buffer.dtype.itemsize
    kept: list[tuple[Var, Index]] = []
    for v, stride in strides.items():
        if v == inner:
            continue
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
    return Tensor(buffer, rest, inner, tuple(sorted(kept, key=lambda step: hint(step[1]))))


@record
class Matrix:
    """A tensor over two variables, the second of which is `outer`, and batches of such matrices.

    stride : of the variable `outer`.  batch : variables and their strides, where these are not 0.
    """

    buffer: Buffer
    offset: Index
    inner: Var
    outer: Var
    stride: Index
    batch: Steps


def matrix_of(buffer: Buffer, offset: Index, variables: Variables, batch: Variables) -> Matrix | str:
    """Accesses at that offset as a matrix over two variables, or why they are none."""
    if len(variables) != 2:
        return "rows or columns are numbered by several variables, or by none"
    found = tensor_of(buffer, offset, variables, batch)
    if isinstance(found, str):
        return found
    strides = dict(found.dims)
    (outer,) = (v for v in variables if v != found.inner)
    steps = tuple((v, strides[v]) for v in batch if v in strides)
    return Matrix(buffer, found.offset, found.inner, outer, strides[outer], steps)


def factor_of(kernel: Kernel, product: Product, entry: int, own: Variables) -> Tensor | str:
    """The factor that is entry of the product's loop, told apart by `own`; or why it is no such tensor."""
    load = _load_of(product, entry)
    if load is None:
        return "a factor is computed, or read where data says"
    return tensor_of(kernel.buffer(load[0]), load[1], (*product.along, *own), product.batch)


def _load_of(product: Product, entry: int) -> tuple[str, Index] | None:
    """Buffer and offset, where the factor is nothing but read."""
    found = loads(product.loop.body, entry)
    return found[0] if product.loop.body[entry].op == "load" and len(found) == 1 else None


def operand_of(kernel: Kernel, product: Product, entry: int, own: Variables) -> Matrix | str:
    """The factor that is entry of the product's loop, told apart by `own`; or why it is no such matrix."""
    load = _load_of(product, entry)
    if load is None:
        return "a factor is computed, or read where data says"
    return matrix_of(kernel.buffer(load[0]), load[1], (*product.along, *own), product.batch)
