"""Buffers of a fused schedule: those nobody reads vanish, those one kernel keeps to itself become local.

Enters: fused units and all buffers.  Leaves: the same, without dead stores and with 'local' buffers where a
temporary is written and read at the same outer point of one kernel: a register when each point holds one
element, else a contiguous row of scratch memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from numstax.ir.index import ONE, ZERO, Index, Var, as_index, hint, less, product, stride_of
from numstax.ir.loops import Buffer, Kernel, Loop, Scan, Store, Unit
from numstax.ir.renaming import map_accesses
from numstax.schedule.kernels import has_checks, make_kernel
from numstax.schedule.legality import reads_of, writes_of
from numstax.schedule.record import prune


def remove_dead(units: Iterable[Unit], buffers: Mapping[str, Buffer]) -> list[Unit]:
    """Without stores to temporaries that are not read afterwards; what is checked for them is checked all the same."""
    live = {name for name, b in buffers.items() if b.kind != "temp"}
    out: list[Unit] = []
    for unit in reversed(list(units)):
        if not isinstance(unit, Kernel):
            live |= unit.reads()
            out.append(unit)
            continue
        loops: list[Loop] = []
        for loop in reversed(unit.loops):
            effects = tuple(e for e in loop.effects if live & {e.buffer, getattr(e, "value_buffer", None)})
            if not effects and has_checks(loop):
                effects = loop.effects[:1]
            if effects:
                body, effects = prune(loop.body, effects)
                loops.append(Loop(loop.inner, body, effects))
                live |= loops[-1].reads()
        if loops:
            out.append(make_kernel(unit.outer, tuple(reversed(loops)), buffers))
    return out[::-1]


def localise(units: list[Unit], buffers: dict[str, Buffer], budget: int) -> list[Unit]:
    """Make temporaries local, with at most `budget` bytes of scratch rows in a kernel.  Changes `buffers`."""
    users: dict[str, int] = {}
    for unit in units:
        for name in unit.reads() | unit.writes():
            users[name] = users.get(name, 0) + 1
    out: list[Unit] = []
    for unit in units:
        if isinstance(unit, Kernel):
            own = [b for b in unit.buffers if b.kind == "temp" and users[b.name] == 1]
            unit = _localise(unit, own, buffers, budget)
        out.append(unit)
    return out


def _localise(kernel: Kernel, own: list[Buffer], buffers: dict[str, Buffer], budget: int) -> Kernel:
    shares: dict[str, dict[Index, Index]] = {}
    for buffer in own:
        rows = _within_point(kernel, buffer.name)
        size = None if rows is None else _row_size(kernel, buffer.name, rows)
        if rows is None or size is None:
            continue
        nbytes = hint(size) * buffer.dtype.itemsize
        if size is not ONE:
            if nbytes > budget:
                continue
            budget -= nbytes
        shares[buffer.name] = rows
        shape, strides = ((), ()) if size is ONE else ((size,), (ONE,))
        buffers[buffer.name] = replace(buffer, shape=shape, strides=strides, kind="local")
    if not shares:
        return kernel

    def access(name: str, offset: Index) -> tuple[str, Index]:
        return name, shares[name][offset] if name in shares else offset

    loops = tuple(map_accesses(loop, access) for loop in kernel.loops)
    return make_kernel(kernel.outer, loops, buffers)


def _within_point(kernel: Kernel, name: str) -> dict[Index, Index] | None:
    """Each offset of a buffer less its part in the outer variables, which must be the same for all."""
    offsets = reads_of(kernel.loops).get(name, set()) | writes_of(kernel.loops).get(name, set())
    parts: set[Index | None] = set()
    rows: dict[Index, Index] = {}
    for offset in offsets:
        outer = _linear_part(offset, kernel.outer)
        parts.add(outer)
        if outer is not None:
            rows[offset] = offset - outer
    return rows if len(parts) == 1 and None not in parts else None


def _linear_part(offset: Index, variables: tuple[Var, ...]) -> Index | None:
    total: Index = ZERO
    for var in variables:
        stride = stride_of(offset, var)
        if stride is None:
            return None
        total = total + stride * var
    return total


def _row_size(kernel: Kernel, name: str, rows: Mapping[Index, Index]) -> Index | None:
    """The number of elements one outer point uses, when a store fills them without gaps."""
    if all(row is ZERO for row in rows.values()):
        return ONE
    for loop in kernel.loops:
        for effect in loop.effects:
            if effect.buffer == name and isinstance(effect, Store | Scan):
                size = _contiguous(rows[effect.offset], loop.inner)
                if size is not None and all(_inside(row, size) for row in rows.values()):
                    return size
    return None


def _contiguous(row: Index, inner: tuple[Var, ...]) -> Index | None:
    step: Index = ONE
    expected: Index = ZERO
    for var in sorted(inner, key=lambda v: hint(stride_of(row, v) or ZERO)):
        expected = expected + step * var
        step = step * var.extent
    return product(v.extent for v in inner) if row is expected else None


def _inside(row: Index, size: Index) -> bool:
    return less(as_index(-1), row) is True and less(row, size) is True
