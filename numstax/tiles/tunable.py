"""What can be tuned of a kernel's tiling (section 9.6).

A tiled Kernel enters; a `Space`, the point in it that the formulas chose, and for every point the kernel with that
tiling leave.  All of them compute the same values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numstax.ir.loops import Kernel
from numstax.records import record
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


@record
class Tunable:
    """kernel : as the formulas tiled it; start : its point in the space."""

    kernel: Kernel
    space: Space
    start: Config

    def at(self, config: Config) -> Kernel:
        """The kernel with the tiling of a point."""
        tiling = self.kernel.tiling
        assert tiling is not None
        fields: dict[str, Any] = dict(zip((name for name, _ in self.space.parameters), config, strict=True))
        edge = fields.pop("edge", None)
        if edge is not None and tiling.tile is not None:
            tiling = replace(tiling, block=edge, tile=(tiling.tile[0], edge))
        return self.kernel.with_tiling(replace(tiling, **fields))


def tunable(kernel: Kernel) -> Tunable | None:
    """None where the form leaves nothing to choose."""
    tiling = kernel.tiling
    assert tiling is not None
    names = (GPU if tiling.threads else CPU).get(tiling.form, ())
    if not names or (tiling.form in ("row", "scan") and tiling.unroll == 1):  # its rows have to go one by one
        return None
    start = tuple(tiling.block if name == "edge" else getattr(tiling, name) for name, _, _ in names)
    sets = tuple(
        (name, tuple(sorted({value, *(1 << e for e in range(17) if low <= 1 << e <= high)})))
        for value, (name, low, high) in zip(start, names, strict=True)
    )
    return Tunable(kernel, Space(sets), start)
