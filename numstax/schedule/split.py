"""Reduction splitting: a reduction with too few results for the cores becomes two kernels (section 9.4).

Enters: a fused Schedule.  Leaves: a Schedule in which the slowest inner variable of such a reduction runs in
P parts that are outer points of a first kernel; a second kernel combines the P partial results, reduces what is
left over when P does not divide the extent, and does what followed the reduction.  Long rows of softmax are read
once less (`online`).  P is chosen by the sizes
seen at capture and is right for all sizes; it does not depend on the machine, so results do not either.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.hardware import STRIP, Gpu, Hardware, host
from numstax.ir.index import ONE, ZERO, Index, Var, as_index, bounds, contiguous_strides, hint, product, stride_of
from numstax.ir.limits import limits, of_rows, restricted
from numstax.ir.loops import Buffer, Case, Effect, Kernel, Loop, Reduce, Schedule, Store, Unit, in_bodies
from numstax.ir.renaming import substitute_vars
from numstax.records import record
from numstax.schedule.cost import SMALL_WORK, enough_tasks, points, work
from numstax.schedule.kernels import make_kernel
from numstax.schedule.online import online
from numstax.schedule.recompute import recompute
from numstax.schedule.record import Recorder
from numstax.schedule.rewrite import Fresh, canonical
from numstax.schedule.split_scans import split_scan
from numstax.schedule.views import flatten

PLACES = ("argmax", "argmin")


PARTS = 64
"""Outer points of the first kernel, at most."""
PART = 1 << 14
"""Elements in one part, at least."""
ROWS, COLUMN_PART = 128, 1 << 17
"""Rows and elements in one part of a reduction down columns, at least: its partial results are as long as a row."""
BLOCKS_PER_SM, BLOCK_PART, LINES = 4, 1 << 13, 512
"""On a GPU: parts for each SM, elements of one, and bytes of a row that the threads of a warp read together."""
ALIGNED = 8
"""Elements that a thread may read at once, of the smallest dtype that is worth it."""
BLOCK_WORK = 1 << 17
"""Operations that one block does in the time that another kernel takes to start."""
ROW_IN_REGISTERS = 1 << 15
"""Elements of a row that the threads of a block keep in registers; in a cluster a block keeps half of that."""


@record
class Limits:
    """What is worth splitting on a machine.

    tasks : outer points that keep it busy.
    parts, part, rows, column_part : as the constants above.
    strip : bytes of a row that one task takes where a reduction goes down columns.
    small : elementary operations that are never shared out.
    cache : bytes of a row that stay near the core from one loop to the next.
    kept : elements of the longest rows that are kept rather than computed again; None: all.
    """

    tasks: int
    parts: int
    part: int
    rows: int
    column_part: int
    strip: int
    small: int
    cache: int
    kept: int | None


def limits_of(machine: Hardware | Gpu) -> Limits:
    if isinstance(machine, Gpu):
        blocks = BLOCKS_PER_SM * machine.sms
        kept = machine.row_bytes, max(ROW_IN_REGISTERS, ROW_IN_REGISTERS // 2 * machine.cluster)
        return Limits(enough_tasks(machine), blocks, BLOCK_PART, ROWS, BLOCK_PART, LINES, BLOCK_WORK, *kept)
    return Limits(enough_tasks(machine), PARTS, PART, ROWS, COLUMN_PART, STRIP, SMALL_WORK, machine.l2 // 2, None)


def split(schedule: Schedule, machine: Hardware | Gpu | None = None) -> Schedule:
    machine = machine or host()
    schedule = in_bodies(schedule, lambda body: split(body, machine))
    limit = limits_of(machine)
    splitter = _Splitter(schedule)
    users = Counter(name for unit in schedule.units for name in unit.reads() | unit.writes())
    private = frozenset(b.name for b in schedule.buffers if b.kind == "temp" and users[b.name] == 1)
    units: list[Unit] = []
    for unit in schedule.units:
        parts = _parts(unit, limit) if isinstance(unit, Kernel) else None
        if not isinstance(unit, Kernel):
            units.append(unit)
        elif parts is not None:
            units += splitter.split(unit, parts, ALIGNED if isinstance(machine, Gpu) else 1)
        elif isinstance(machine, Gpu) and (scans := splitter.split_scans(unit, limit)) is not None:
            units += scans
        else:
            units.append(_shortened(unit, limit, splitter, private))
    units = [_renamed(unit) if isinstance(unit, Kernel) else unit for unit in units]
    used = {name for unit in units for name in unit.reads() | unit.writes()}
    buffers = tuple(b for b in splitter.buffers.values() if b.kind not in ("temp", "local") or b.name in used)
    return replace(schedule, units=tuple(units), buffers=buffers)


def _shortened(kernel: Kernel, limit: Limits, splitter: _Splitter, private: frozenset[str]) -> Kernel:
    """Rows that are too long to stay on the chip are read fewer times, and not kept.  Where rows may have any length,
    the kernel as it is becomes the case of short ones."""
    buffers, cache, cases = splitter.buffers, limit.cache, tuple[Case, ...]()
    if limit.kept is not None:
        in_memory = not (kernel.reads() | kernel.writes()).isdisjoint(private)
        short = (recompute(kernel, buffers, private, 0) if in_memory else None) or kernel
        symbols = of_rows(short, limit.kept)
        if symbols and (short.reads() | short.writes()).isdisjoint(private):
            cases, cache = (Case(limits(symbols), restricted(short, symbols)),), 0
    long = online(kernel, buffers, private, cache, splitter.names.name()) or kernel
    if limit.kept is not None:
        long = recompute(long, buffers, private, limit.kept) or long
    return kernel if long is kernel else replace(long, cases=cases)


def _renamed(kernel: Kernel) -> Kernel:
    """With readable names of variables."""
    outer, loops = canonical(kernel.outer, kernel.loops)
    cases = tuple(replace(case, kernel=_renamed(case.kernel)) for case in kernel.cases)
    return replace(kernel, outer=outer, loops=loops, cases=cases)


def _parts(kernel: Kernel, limit: Limits) -> int | None:
    """How many parts to reduce in; None when the kernel has enough outer points, or cannot be split."""
    first, *rest = kernel.loops
    outer = points(kernel.outer)
    if not first.inner or any(loop.inner for loop in rest):
        return None
    columns = _columns(kernel, limit.strip)
    tasks = points(kernel.outer[:-1]) * -(-hint(kernel.outer[-1].extent) // columns) if columns else outer
    if tasks >= limit.tasks:
        return None
    reductions = [e for e in first.effects if isinstance(e, Reduce)]
    stored = [kernel.buffer(e.buffer).kind for e in first.effects if isinstance(e, Store)]
    if not reductions or len(reductions) + len(stored) < len(first.effects) or "local" in stored:
        return None
    if any(e.value_buffer is not None or e.position_in is not None for e in reductions):
        return None
    extent = first.inner[0].extent
    if bounds(product(v.extent for v in kernel.outer))[1] and bounds(product(v.extent for v in first.inner))[1] is None:
        # the next call may bring any length; parts without elements are right, and cost little, unless all are
        longest = bounds(extent)[1]
        parts = limit.parts // max(tasks, 1)
        parts = parts if longest is None else min(parts, longest)
        return parts if parts >= 2 else None
    rows, part = (limit.rows, limit.column_part) if columns else (1, limit.part)
    most = min(limit.parts // max(tasks, 1), hint(extent) // rows, outer * points(first.inner) // part)
    if most < 2 or work(kernel.outer, kernel.loops) <= limit.small:
        return None
    # a divisor needs no remainder
    return next((p for p in range(most, most // 2, -1) if hint(extent) % p == 0), most)


def _columns(kernel: Kernel, strip: int) -> int:
    """How many results one task makes where a reduction goes down columns: a strip of each row; 0 where not."""
    first = kernel.loops[0]
    if not kernel.outer:
        return 0
    offsets = [offset for _, offset in first.loads()]
    along = [stride_of(offset, kernel.outer[-1]) for offset in offsets]
    if ONE not in along or ONE in (stride_of(offset, first.inner[-1]) for offset in offsets):
        return 0
    return strip // max(b.dtype.itemsize for b in kernel.buffers)


@record
class _Partial:
    """The partial results of one reduction: `values`, and for argmax and argmin `positions`."""

    values: Buffer
    positions: Buffer | None


Partials = dict[int, _Partial]
"""By position in the effects of the loop."""


class _Splitter:
    def __init__(self, schedule: Schedule) -> None:
        self.buffers = {b.name: b for b in schedule.buffers}
        self.fresh = Fresh("s")
        self.names = Fresh("partial")

    def split(self, kernel: Kernel, parts: int, multiple: int) -> list[Unit]:
        """`multiple` : of so many elements are parts of a row whose length is not known."""
        first, *rest = kernel.loops
        along = first.inner[0]
        multiple = multiple if bounds(along.extent)[1] is None else 1
        size = along.extent // (parts * multiple) * multiple
        left = along.extent % (parts * multiple)
        # the slowest dimension is the part, so that results side by side have partial results side by side
        shape = (as_index(parts if left is ZERO else parts + 1), *(v.extent for v in kernel.outer))
        partials = {k: self._partial(e, shape) for k, e in enumerate(first.effects) if isinstance(e, Reduce)}
        part, step = self.fresh.var(as_index(parts)), self.fresh.var(size)
        reduced = self._reduce(first, step, size * part + step, kernel.outer, as_index(part), partials)
        units: list[Unit] = [make_kernel((part, *kernel.outer), (reduced,), self.buffers)]
        last: list[Loop] = []
        if left is not ZERO:
            step = self.fresh.var(left)
            position = size * parts + step
            last.append(self._reduce(first, step, position, kernel.outer, as_index(parts), partials))
        last += self._combine(first, kernel.outer, shape, partials)
        units.append(make_kernel(kernel.outer, (*last, *rest), self.buffers))
        return units

    def split_scans(self, kernel: Kernel, limit: Limits) -> list[Kernel] | None:
        """Kernels that share out the rows that are scanned, where there are few of them."""
        known = all(bounds(v.extent)[1] is not None for loop in kernel.loops for v in loop.inner)
        if points(kernel.outer) >= limit.tasks or (known and work(kernel.outer, kernel.loops) <= limit.small):
            return None
        return split_scan(kernel, self.buffers, self.fresh, self.names)

    def _partial(self, effect: Reduce, shape: tuple[Index, ...]) -> _Partial:
        wide = dtypes.compute(effect.dtype)
        values = self._temp(effect.dtype if effect.op in PLACES else wide, shape)
        return _Partial(values, self._temp(dtypes.INT64, shape) if effect.op in PLACES else None)

    def _temp(self, dtype: np.dtype, shape: tuple[Index, ...]) -> Buffer:
        name = self.names.name()
        self.buffers[name] = Buffer(name, dtype, shape, contiguous_strides(shape), "temp")
        return self.buffers[name]

    def _reduce(
        self, loop: Loop, step: Var, position: Index, outer: tuple[Var, ...], row: Index, partials: Partials
    ) -> Loop:
        """`loop` over a part of its slowest variable, its results going to element `row` of the partials."""
        recorder = Recorder(loop.body)
        effects: list[Effect] = []
        for k, effect in enumerate(loop.effects):
            if k in partials:
                assert isinstance(effect, Reduce)
                effect = self._to_partial(effect, partials[k], outer, row, recorder)
            effects.append(effect)
        new = Loop(loop.inner, recorder.body(), tuple(effects))
        return substitute_vars(new, {loop.inner[0]: position}, (step, *loop.inner[1:]))

    def _to_partial(
        self, effect: Reduce, partial: _Partial, outer: tuple[Var, ...], row: Index, recorder: Recorder
    ) -> Reduce:
        offset = flatten((row, *map(as_index, outer)), partial.values.shape)
        if partial.positions is not None:
            places = partial.positions.name
            return replace(effect, buffer=places, offset=offset, value_buffer=partial.values.name, value_offset=offset)
        value, dtype = effect.value, partial.values.dtype
        if recorder.dtype(value) != dtype:
            value = recorder.op("cast", (value,), dtype)
        return replace(effect, value=value, buffer=partial.values.name, offset=offset, dtype=dtype)

    def _combine(self, loop: Loop, outer: tuple[Var, ...], shape: tuple[Index, ...], partials: Partials) -> list[Loop]:
        """Reduce the partial results to what the loop was to give."""
        part = self.fresh.var(shape[0])
        offset = flatten(tuple(map(as_index, (part, *outer))), shape)
        recorder, narrow = Recorder(), Recorder()
        effects: list[Effect] = []
        stores: list[Effect] = []
        for k, partial in partials.items():
            effect = loop.effects[k]
            assert isinstance(effect, Reduce)
            value = recorder.load(partial.values.name, offset, partial.values.dtype)
            if partial.positions is not None:
                place = recorder.load(partial.positions.name, offset, dtypes.INT64)
                effects.append(replace(effect, value=value, position=None, position_in=place))
            elif partial.values.dtype == effect.dtype:
                effects.append(replace(effect, value=value))
            else:
                total = self._temp(partial.values.dtype, ())
                self.buffers[total.name] = replace(total, kind="local")
                effects.append(replace(effect, value=value, buffer=total.name, offset=ZERO, dtype=total.dtype))
                wide = narrow.load(total.name, ZERO, total.dtype)
                stores.append(Store(effect.buffer, effect.offset, narrow.op("cast", (wide,), effect.dtype)))
        loops = [Loop((part,), recorder.body(), tuple(effects))]
        return [*loops, Loop((), narrow.body(), tuple(stores))] if stores else loops
