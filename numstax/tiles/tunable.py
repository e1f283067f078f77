"""What can be tuned of a kernel's tiling (section 9.6).

A tiled Kernel, and its GPU if it has one, enter; a `Space`, the point in it that the formulas chose, and for every
point the kernel with that tiling leave.  All of them compute the same values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numstax.hardware import Gpu
from numstax.ir.contraction import product_of
from numstax.ir.loops import Kernel, MatrixTiling, Tiling
from numstax.records import record
from numstax.tiles.cuda_products import product_tilings
from numstax.tiles.space import Config, Space

CPU = {
    "pointwise": (("block", 512, 1 << 16),),
    "transpose": (("edge", 16, 256),),
    "column": (("block", 16, 1 << 14), ("unroll", 1, 8)),
    "row": (("unroll", 1, 8),),
    "scan": (("unroll", 1, 8),),
}
"""By form: fields of the tiling, and the least and most of each.  'edge' is `block` and that of `tile`."""
GPU = {
    "pointwise": (("threads", 64, 1024), ("unroll", 1, 16)),
    "scatter": (("threads", 64, 1024), ("unroll", 1, 16)),
    "column": (("unroll", 1, 16),),
}


CHEAPEST, MOST_PRODUCTS = 4, 16
"""Tilings of a product that are measured first, and all that are considered."""
GROUPS = (2, 4, 8, 16)


@record
class Tunable:
    """kernel : as the formulas tiled it; start : its point in the space.  products : for a product of matrices the
    tilings that the first parameter numbers, by predicted cost."""

    kernel: Kernel
    space: Space
    start: Config
    products: tuple[Tiling, ...] = ()

    def candidates(self) -> list[Config]:
        """What to measure first: the start and its neighbours, of products also what is predicted to be fast."""
        cheap = [(k, *self.start[1:]) for k in range(min(len(self.products), CHEAPEST))]
        return list(dict.fromkeys((*cheap, *self.space.around(self.start))))

    def at(self, config: Config) -> Kernel:
        """The kernel with the tiling of a point."""
        if self.products:
            number, group = config
            chosen = self.products[number]
            assert chosen.matrix is not None
            return self.kernel.with_tiling(replace(chosen, matrix=replace(chosen.matrix, group=group)))
        tiling = self.kernel.tiling
        assert tiling is not None
        fields: dict[str, Any] = dict(zip((name for name, _ in self.space.parameters), config, strict=True))
        edge = fields.pop("edge", None)
        if edge is not None and tiling.tile is not None:
            tiling = replace(tiling, block=edge, tile=(tiling.tile[0], edge))
        return self.kernel.with_tiling(replace(tiling, **fields))


def tunable(kernel: Kernel, gpu: Gpu | None = None) -> Tunable | None:
    """None where the form leaves nothing to choose, and where what is run depends on sizes to come."""
    tiling = kernel.tiling
    assert tiling is not None
    if gpu is not None and tiling.matrix is not None:
        return _product(kernel, tiling.matrix, gpu)
    names = (GPU if tiling.threads else CPU).get(tiling.form, ())
    one_by_one = tiling.form in ("row", "scan") and tiling.unroll == 1
    if kernel.cases or not names or one_by_one:
        return None
    start = tuple(tiling.block if name == "edge" else getattr(tiling, name) for name, _, _ in names)
    sets = tuple(
        (name, tuple(sorted({value, *(1 << e for e in range(17) if low <= 1 << e <= high)})))
        for value, (name, low, high) in zip(start, names, strict=True)
    )
    return Tunable(kernel, Space(sets), start)


def _product(kernel: Kernel, matrix: MatrixTiling, gpu: Gpu) -> Tunable | None:
    """Tiles in the order of their predicted cost, and the rows of tiles that are numbered together."""
    found = product_of(kernel)
    assert found is not None
    every = [t for t in product_tilings(kernel, found, gpu) if t.matrix is not None and t.matrix.split == matrix.split]
    if len(every) < 2:
        return None
    groups = tuple(sorted({matrix.group, *GROUPS}))
    tilings = tuple(every[:MOST_PRODUCTS])
    return Tunable(kernel, Space((("tile", tuple(range(len(tilings)))), ("group", groups))), (0, matrix.group), tilings)
