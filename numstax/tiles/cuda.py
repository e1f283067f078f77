"""Tilings of kernels for GPUs, in closed form from the `Gpu` row (sections 9.1, 9.4 and 9.6).

A Schedule enters; the same Schedule leaves, every Kernel with a `Tiling`.  Forms:

  pointwise  no inner loops: every thread computes `unroll` chunks of `width` points
  transpose  no inner loops, some loads along another variable: tiles are turned in shared memory
  stencil    no inner loops, neighbouring rows load the same: a thread has several rows
  row        a team of threads for each outer point runs the loops one after another, along their last variable
  column     the loops run down columns: threads lie along an outer variable, and `team` of them down the rows

Any form computes the same values; a wrong choice only costs time.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.hardware import Gpu
from numstax.ir.loops import Kernel, Schedule, Tiling, in_bodies
from numstax.tiles.cuda_columns import tile_columns
from numstax.tiles.cuda_locals import in_memory
from numstax.tiles.cuda_points import tile_points
from numstax.tiles.cuda_rows import tile_rows


def tile(schedule: Schedule, gpu: Gpu) -> Schedule:
    """Every Kernel with the Tiling for this GPU; local rows for which a block has no room become temporaries."""
    schedule = in_bodies(schedule, lambda body: tile(body, gpu))
    units = (u.with_tiling(tiling(u, gpu)) if isinstance(u, Kernel) else u for u in schedule.units)
    return in_memory(replace(schedule, units=tuple(units)), gpu)


def tiling(kernel: Kernel, gpu: Gpu) -> Tiling:
    """The tiling of one kernel."""
    if not any(loop.inner for loop in kernel.loops):
        return tile_points(kernel, gpu)
    return tile_columns(kernel, gpu) or tile_rows(kernel, gpu)
