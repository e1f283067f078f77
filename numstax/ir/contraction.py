"""Products of matrices in kernels: which variables number what, and what the factors read.

A Kernel whose first loop contracts enters; a `Product` leaves.
"""

from __future__ import annotations

from numstax.ir.index import Index, Ref, Var, atoms
from numstax.ir.loops import Body, Contract, Kernel, Loop
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
