"""Whether fusing two kernels pays: bytes that need not move, against parallelism and kernel size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numstax.hardware import Gpu, Hardware
from numstax.ir.index import ZERO, Index, Var, bounds, hint, product, stride_of
from numstax.ir.loops import Buffer, Kernel, Loop, Store

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


def shared_elements(
    first: Sequence[Loop], second: Sequence[Loop], outer: Sequence[Var], buffers: Mapping[str, Buffer]
) -> int:
    """Elements that the second need not fetch, because the first wrote them or reads them at the same point."""
    written = {name for loop in first for name in loop.writes()}
    read = {(name, _at_point(offset, outer)) for loop in first for name, offset in loop.loads()}
    shared = {
        name
        for loop in second
        for name, offset in loop.loads()
        if name in written or (name, _at_point(offset, outer)) in read
    }
    return sum(hint(product(buffers[name].shape)) for name in shared)


def _at_point(offset: Index, outer: Sequence[Var]) -> tuple[Index | None, ...]:
    return tuple(stride_of(offset, var) for var in outer)


def enough_tasks(machine: Hardware | Gpu) -> int:
    """Outer points that keep a machine busy: on a GPU a block runs each."""
    return machine.sms // 2 if isinstance(machine, Gpu) else TASKS_PER_CORE * machine.cores


def serial(outer: Sequence[Var], loops: Sequence[Loop], machine: Hardware | Gpu) -> bool:
    """Would too few cores have work?  A single large reduction is split later; what follows it costs nothing."""
    enough = enough_tasks(machine)
    pointwise = all(isinstance(effect, Store) for effect in loops[0].effects)
    if points(outer) >= enough or not any(loop.inner for loop in loops[0 if pointwise else 1 :]):
        return False
    if work(outer, loops) > SMALL_WORK:
        return True
    # where sizes have no bound, little work at the hint says nothing: it must be the outer points that grow
    most = bounds(product(v.extent for v in outer))[1]
    if most is None or most >= enough:
        return False
    return bounds(sum((product(v.extent for v in loop.inner) for loop in loops), ZERO))[1] is None
