"""Whether fusing two kernels pays: bytes that need not move, against parallelism and kernel size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numstax.hardware import Hardware
from numstax.ir.index import Var, hint, product
from numstax.ir.loops import Buffer, Kernel, Loop
from numstax.schedule.legality import reads_of, writes_of

SMALL_WORK = 1 << 16
"""Element operations below which starting a kernel costs more than running it on one core."""
LARGEST_KERNEL = 600
"""Instructions in one kernel."""
MOST_BUFFERS = 24
TASKS_PER_CORE = 2


def points(outer: Sequence[Var]) -> int:
    return hint(product(v.extent for v in outer))


def work(outer: Sequence[Var], loops: Sequence[Loop]) -> int:
    """Instructions executed, at the sizes seen at capture."""
    return points(outer) * sum(points(loop.inner) * max(len(loop.body), 1) for loop in loops)


def too_large(first: Kernel, second: Kernel) -> str | None:
    size = sum(len(loop.body) for kernel in (first, second) for loop in kernel.loops)
    if size > LARGEST_KERNEL:
        return f"the kernel would have {size} instructions"
    buffers = {b.name for kernel in (first, second) for b in kernel.buffers}
    if len(buffers) > MOST_BUFFERS:
        return f"the kernel would use {len(buffers)} buffers"
    return None


def shared_elements(first: Sequence[Loop], second: Sequence[Loop], buffers: Mapping[str, Buffer]) -> int:
    """Elements that the second need not fetch because the first has just read or written them."""
    touched = reads_of(first)
    for name, offsets in writes_of(first).items():
        touched.setdefault(name, set()).update(offsets)
    return sum(
        hint(product(buffers[name].shape))
        for name, offsets in reads_of(second).items()
        if offsets & touched.get(name, set())
    )


def serial(outer: Sequence[Var], loops: Sequence[Loop], hardware: Hardware) -> bool:
    """Would too few cores have work?  A single large reduction is split later; what follows it costs nothing."""
    if points(outer) >= TASKS_PER_CORE * hardware.cores or work(outer, loops) <= SMALL_WORK:
        return False
    return any(loop.inner for loop in loops[1:])
