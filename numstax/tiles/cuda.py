"""Tilings of kernels for GPUs, in closed form from the `Gpu` row (sections 9.1, 9.4 and 9.6).

A Schedule enters; the same Schedule leaves, every Kernel with a `Tiling`.  Forms:

  pointwise  no inner loops: every thread computes `unroll` chunks of `width` points
  transpose  no inner loops, some loads along another variable: tiles are turned in shared memory
  stencil    no inner loops, neighbouring rows load the same: a thread has several rows
  scatter    pointwise, with atomic updates
  row        a team of threads for each outer point runs the loops one after another, along their last variable
  product    a product of matrices, and what follows it element by element
  column     the loops run down columns: threads lie along an outer variable, and `team` of them down the rows

Any form computes the same values; a wrong choice only costs time.
"""

from __future__ import annotations

from dataclasses import replace

from numstax.hardware import Gpu
from numstax.ir.contraction import product_of
from numstax.ir.loops import Kernel, Refusal, Schedule, Unit, in_bodies
from numstax.tiles.cuda_cases import tiled
from numstax.tiles.cuda_copies import with_copies
from numstax.tiles.cuda_locals import in_memory
from numstax.tiles.cuda_points import tile_points
from numstax.tiles.cuda_products import group_tilings, tile_product
from numstax.tiles.cuda_rows import in_order
from numstax.tiles.cuda_scatters import pieces
from numstax.tiles.cuda_splits import split_product


def tile(schedule: Schedule, gpu: Gpu) -> Schedule:
    """Every Kernel with the Tiling for this GPU; local rows for which a block has no room become temporaries."""
    schedule = in_bodies(schedule, lambda body: tile(body, gpu))
    units: list[Unit] = []
    slow: list[Refusal] = []
    fresh = {b.name: b for b in schedule.buffers}
    groups = group_tilings([unit for unit in schedule.units if isinstance(unit, Kernel)], gpu)
    for unit in schedule.units:
        if not isinstance(unit, Kernel):
            units.append(unit)
            continue
        found = product_of(unit)
        if found is not None:
            grouped = groups.get(found.effect.group)
            made = (unit.with_tiling(grouped),) if grouped is not None else _product(unit, gpu)
            units += (kernel if product_of(kernel) is not None else tiled(kernel, gpu) for kernel in made)
            fresh |= {b.name: b for kernel in made for b in kernel.buffers if b.kind != "local"}
            continue
        parts = pieces(unit)
        if parts == (unit,):
            units.append(tiled(unit, gpu))
            if reason := in_order(unit):
                slow.append(Refusal(unit.name, f"{reason}: one thread for each row"))
        else:
            units += [part.with_tiling(replace(tile_points(part, gpu, tiles=False), form="scatter")) for part in parts]
    refusals = (*schedule.refusals, *slow)
    done = replace(schedule, units=tuple(units), buffers=tuple(fresh.values()), refusals=refusals)
    return in_memory(done, gpu)


def _product(kernel: Kernel, gpu: Gpu) -> tuple[Kernel, ...]:
    """A product of matrices, which is tiled, and what is done for it before and after."""
    *copies, last = with_copies(kernel, gpu)
    parts = split_product(last)
    if parts is None:
        return (*copies, last)
    sums, rest = parts
    found = product_of(sums)
    assert found is not None
    return (*copies, sums.with_tiling(tile_product(sums, found, gpu)), rest)
