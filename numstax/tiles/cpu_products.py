"""Products of matrices on the CPU: by the library, or by a kernel that also computes what follows.

The kernel holds a tile of the result in registers.  It reads the right factor from panels, a copy in which the columns
of a tile lie side by side, and copies rows of the left factor likewise, as many as fit the second-level cache beside a
panel.  What follows element by element reads each tile while it is in the first-level cache.

The products of a graph enter, and those that become such kernels leave; then a Kernel that begins with a product
enters, and it leaves with its tiling, behind the kernels that make the panels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from numstax import dtypes
from numstax.hardware import Hardware, host
from numstax.ir.contraction import Product, Variables, loads, moved
from numstax.ir.graph import Node
from numstax.ir.index import ONE, ZERO, Index, Var, as_index, atoms, contiguous_strides, divides, hint, product
from numstax.ir.loops import Buffer, Instr, Kernel, Loop, MatrixTiling, Store, Tiling
from numstax.ir.ops import VIEWS
from numstax.tiles.candidates import LIBRARY, Candidate

FAMILY = "panels"
ACROSS = 2
"""Vectors along a row of a tile."""
SPARE = 1
"""Registers besides sums and a row of the right factor: an element of the left one."""
DEPTH = 512
"""Terms that are added up in registers before they are added to the sum: about as many as libraries take, so that the
rounding errors of long sums are as small as theirs."""
LEAST = 64
"""Rows, columns and terms of a product that is worth copies of its factors."""
LONGEST = 4096
"""Terms of a sum: with more, panels do not stay in the second-level cache."""
LIBRARY_SHARE, KERNEL_SHARE = 0.88, 0.97
"""Of the multiplications that a core could make: OpenBLAS and the kernel on a Zen 4, where nothing is left over."""
COPIED, PASSED = 8, 10
"""Cycles for a vector of a copy of a factor, and of a pass over the result."""
CLOCK = 3e9


def chosen_products(products: Mapping[Node, bool]) -> Iterable[Node]:
    """Which products of a graph are kernels, rather than calls of the library: all or none, as takes less time in all.
    For some 20 ms after a call, the library's threads ask for more work again and again, and take the cores from ours.
    Where nothing follows any product, all are the library's, whose results are NumPy's to the last bit."""
    if not (any(products.values()) and all(map(_can_be_kernel, products))):
        return ()
    totals = dict.fromkeys((LIBRARY, FAMILY), 0.0)
    for node, followed in products.items():
        a, b = node.args
        *batch, m, k = (hint(n) for n in a.shape)
        for one in candidates(m, hint(b.shape[-1]), k, node.dtype.itemsize, batch, host(), followed):
            totals[one.template] += math.inf if one.reason else one.cost
    return products if totals[FAMILY] < totals[LIBRARY] else ()


def _can_be_kernel(node: Node) -> bool:
    plain = not (node.attr("group") or node.attr("template")) and node.dtype in (dtypes.FLOAT32, dtypes.FLOAT64)
    return plain and all(a.dtype == node.dtype and _is_read(a) for a in node.args)


def _is_read(factor: Node) -> bool:
    """Does it lie in memory, rather than being the same number, or a count, everywhere?"""
    while factor.op in (*VIEWS, "cast"):
        (factor,) = factor.args
    return factor.op not in ("constant", "size", "iota", "empty")


def candidates(
    m: int, n: int, k: int, itemsize: int, batch: list[int], machine: Hardware, followed: bool = True
) -> tuple[Candidate, ...]:
    """The library, with a pass over its result if something follows, and the kernel: (m, k) by (k, n) matrices."""
    count, lanes = hint(product(batch)), machine.lanes(itemsize)
    vectors = count * m * n * k / lanes / machine.cores / LIBRARY_SHARE
    library = vectors + followed * PASSED * count * m * n / lanes / machine.cores
    every = (Candidate(LIBRARY, library / CLOCK),)
    reason = _binding(m, n, k, machine)
    if reason:
        return (*every, Candidate(FAMILY, 0.0, reason=reason))
    tiling = _tiling(m, n, k, itemsize, count, machine)
    assert tiling.matrix is not None
    return (*every, Candidate(FAMILY, tiling.matrix.cost, (tiling,)))


def _binding(m: int, n: int, k: int, machine: Hardware) -> str:
    """What prevents the kernel."""
    if machine.registers < 32 and machine.vector < 32:
        return "the processor may not multiply and add in one instruction"
    if min(m, n, k) < LEAST:
        return f"rows, columns or terms are fewer than {LEAST}"
    return f"sums of more than {LONGEST} terms do not fit the cache" if k > LONGEST else ""


def _tiling(m: int, n: int, k: int, itemsize: int, batch: int, machine: Hardware) -> Tiling:
    """Rows are shared out in equal parts, a multiple of the cores where there are enough, that fit half of the
    second-level cache."""
    lanes = machine.lanes(itemsize)
    columns = ACROSS * lanes
    rows = max((machine.registers - ACROSS - SPARE) // ACROSS // 2 * 2, 1)
    panels = -(-m // rows)
    most = max(machine.l2 // 2 // (rows * k * itemsize), 1)
    parts = min(machine.cores * -(-panels // (machine.cores * most)), panels)
    part = -(-panels // parts)
    each = part * -(-n // columns) * rows * ACROSS * k / KERNEL_SHARE
    copies = COPIED * k * (m + n) / lanes / machine.cores
    cost = (-(-batch * parts // machine.cores) * each + batch * copies) / CLOCK
    name = {4: "f32", 8: "f64"}[itemsize]
    matrix = MatrixTiling(
        FAMILY, name, (part * rows, columns, DEPTH), (rows, columns), 1, group=1, resident=parts, cost=cost
    )
    return Tiling(form="product", matrix=matrix)


def with_panels(kernel: Kernel, found: Product, machine: Hardware) -> tuple[Kernel, ...]:
    """The kernels that copy the right factor to panels, and the tiled product that reads those."""
    sizes = (hint(product(v.extent for v in side)) for side in (found.rows, found.columns, found.along, found.batch))
    m, n, k, batch = sizes
    dtype = dtypes.accumulator(found.effect.dtype)
    tiling = _tiling(m, n, k, dtype.itemsize, batch, machine)
    assert tiling.matrix is not None
    panels = _Panels(kernel, found, tiling.matrix.warp[1])
    return (*panels.copies(), panels.product().with_tiling(tiling))


class _Panels:
    """The right factor of a product in panels of `width` columns."""

    def __init__(self, kernel: Kernel, found: Product, width: int) -> None:
        self.kernel, self.found, self.width = kernel, found, width
        self.load = replace(found.loop.body[found.effect.other], origin=None)
        assert self.load.op == "load"
        assert not self.load.args
        ((self.source, self.offset),) = loads((self.load,), 0)
        used = set(atoms(self.offset))
        (self.along,) = found.along
        self.column = found.columns[-1] if found.columns else Var("column", ONE)
        self.batch = tuple(v for v in kernel.outer if v in used and v != self.column)
        n, dtype = self.column.extent, dtypes.accumulator(found.effect.dtype)
        self.whole, self.even = n // width, divides(width, n) is True
        count = self.whole if self.even else self.whole + 1
        shape = (*(v.extent for v in self.batch), count, self.along.extent, as_index(width))
        name = f"{self.source}_panels_{found.effect.buffer}"
        self.buffer = Buffer(name, dtype, shape, contiguous_strides(shape), "temp")

    def place(self, panel: Index, lane: Index) -> Index:
        """Where the panels have an element."""
        position = (*(as_index(v) for v in self.batch), panel, as_index(self.along), lane)
        return sum((i * s for i, s in zip(position, self.buffer.strides, strict=True)), ZERO)

    def copies(self) -> Iterator[Kernel]:
        """Row by row of the factor.  Of a panel that goes beyond the last column the rest begins anew with the first:
        what it holds there is never used."""
        lane, panel = (
            Var(f"{self.column.name}_lane", as_index(self.width)),
            Var(f"{self.column.name}_panel", self.whole),
        )
        if self.whole is not ZERO:
            yield self._copy((panel, lane), as_index(panel), as_index(panel) * self.width + lane)
        if not self.even:
            yield self._copy((lane,), self.whole, (self.whole * self.width + lane) % self.column.extent)

    def _copy(self, variables: Variables, panel: Index, column: Index) -> Kernel:
        body = moved((self.load,), {self.column: column})
        if self.load.dtype != self.buffer.dtype:
            body = (*body, Instr("cast", (0,), self.buffer.dtype))
        effect = Store(self.buffer.name, self.place(panel, as_index(variables[-1])), len(body) - 1)
        buffers = (self.kernel.buffer(self.source), self.buffer)
        return Kernel("poi_copy", (*self.batch, self.along, *variables), (Loop((), body, (effect,)),), buffers)

    def product(self) -> Kernel:
        """The product that reads the panels."""
        column = as_index(self.column) if self.found.columns else ZERO
        offset = self.place(column // self.width, column % self.width)
        body, effect = self.found.loop.body, self.found.effect
        kept = body if effect.value == effect.other else (*body[: effect.other], *body[effect.other + 1 :])
        assert all(not instr.args for instr in body)
        value = effect.value - (len(kept) < len(body) and effect.other < effect.value)
        if self.load.dtype != self.buffer.dtype:
            kept, value = (*kept, Instr("cast", (value,), self.buffer.dtype)), len(kept)
        read = Instr("load", (), self.buffer.dtype, (self.buffer.name, offset))
        first = Loop(self.found.along, (*kept, read), (replace(effect, value=value, other=len(kept)),))
        loops = (first, *self.kernel.loops[1:])
        still = frozenset().union(*(loop.reads() | loop.writes() for loop in loops))
        buffers = (*(b for b in self.kernel.buffers if b.name in still), self.buffer)
        return replace(self.kernel, loops=loops, buffers=buffers)
