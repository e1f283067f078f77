"""Scan splitting: running combinations along a few long rows become kernels that share a row out (for GPUs).

Enters: a kernel that scans.  Leaves: kernels that

  1. combine each part of a row,
  2. scan these results, one for each part,
  3. scan the parts, each going on from what comes before it,
  4. scan what is left over, where parts do not fill the row.

A row is read twice.  Parts that look back for what comes before them would read it once, but then time would decide in
which order floats are combined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.ir.index import ONE, ZERO, Index, Var, as_index, bounds, contiguous_strides, hint, stride_of
from numstax.ir.loops import Buffer, Effect, Kernel, Loop, Reduce, Scan, Store
from numstax.ir.renaming import substitute_vars
from numstax.schedule.kernels import has_checks, make_kernel
from numstax.schedule.record import Recorder, prune
from numstax.schedule.rewrite import Fresh
from numstax.schedule.views import flatten

PART, COLUMN_PART = 1 << 14, 128
"""Elements of a part: of a row as many as a block keeps in registers, of a column fewer: one thread scans it."""
LEAST = 8
"""Parts that are worth three kernels."""


def split_scan(kernel: Kernel, buffers: dict[str, Buffer], fresh: Fresh, names: Fresh) -> list[Kernel] | None:
    """The kernels; None where it does something else, too, or rows are not long.  Changes `buffers`."""
    if not _only_scans(kernel):
        return None
    (loop,) = kernel.loops
    (along,) = loop.inner
    contiguous = all(stride_of(offset, along) in (ZERO, ONE) for _, offset in loop.loads())
    size = PART if contiguous else COLUMN_PART
    if bounds(along.extent)[1] is not None and hint(along.extent) < LEAST * size:
        return None
    return _Split(kernel, buffers, fresh, names, size).kernels()


def _only_scans(kernel: Kernel) -> bool:
    """Is it one loop along one variable, whose elements need no others of what it writes?"""
    if len(kernel.loops) > 1 or len(kernel.loops[0].inner) != 1 or has_checks(kernel.loops[0]):
        return False
    (loop,) = kernel.loops
    written = {(e.buffer, e.offset) for e in loop.effects}
    own = all(load in written for load in loop.loads() if load[0] in kernel.writes())
    scans = any(isinstance(e, Scan) for e in loop.effects)
    return scans and own and all(isinstance(e, Scan | Store) for e in loop.effects)


class _Split:
    """`partials`, `sums` : for each scan, by its position among the effects, what each part gives and what comes before
    it; the part of number k has the place k + 1 in one and k in the other."""

    def __init__(self, kernel: Kernel, buffers: dict[str, Buffer], fresh: Fresh, names: Fresh, size: int) -> None:
        self.name, self.outer, self.size = kernel.name, kernel.outer, size
        self.buffers, self.fresh, self.names = buffers, fresh, names
        (self.loop,) = kernel.loops
        (along,) = self.loop.inner
        self.parts, self.left = along.extent // size, along.extent % size
        self.shape = (*(v.extent for v in kernel.outer), self.parts + 1)
        self.scans = {k: e for k, e in enumerate(self.loop.effects) if isinstance(e, Scan)}
        self.partials = {k: self._temporary(dtypes.compute(e.dtype)) for k, e in self.scans.items()}
        self.sums = {k: self._temporary(_wide(e)) for k, e in self.scans.items()}

    def _temporary(self, dtype: np.dtype) -> Buffer:
        name = self.names.name()
        self.buffers[name] = Buffer(name, dtype, self.shape, contiguous_strides(self.shape), "temp")
        return self.buffers[name]

    def _at(self, place: Index) -> Index:
        return flatten((*map(as_index, self.outer), place), self.shape)

    def kernels(self) -> list[Kernel]:
        part, step, rest = (self.fresh.var(n) for n in (self.parts, as_index(self.size), self.left))
        start, inside = as_index(part) * self.size, (part, *self.outer)
        made = [
            (inside, self._combine(step, start + step, as_index(part))),
            (self.outer, self._scan_parts()),
            (inside, self._scan(step, start + step, as_index(part))),
        ]
        if self.left is not ZERO:
            made.append((self.outer, self._scan(rest, self.parts * self.size + rest, self.parts)))
        kernels = [make_kernel(outer, (loop,), self.buffers) for outer, loop in made]
        return [kernels[0], *(replace(kernel, name=self.name) for kernel in kernels[1:])]

    def _combine(self, step: Var, position: Index, number: Index) -> Loop:
        recorder, effects = Recorder(self.loop.body), list[Effect]()
        for k, e in self.scans.items():
            partial = self.partials[k]
            value = recorder.cast(e.value, partial.dtype)
            effects.append(Reduce(e.op, value, partial.name, self._at(number + 1), partial.dtype))
        loop = Loop(self.loop.inner, *prune(recorder.body(), effects))
        return substitute_vars(loop, {self.loop.inner[0]: position}, (step,))

    def _scan_parts(self) -> Loop:
        number, recorder, effects = self.fresh.var(self.parts), Recorder(), list[Effect]()
        at = self._at(as_index(number) + 1)
        for k, e in self.scans.items():
            partial, total = self.partials[k], self.sums[k]
            value = recorder.cast(recorder.load(partial.name, at, partial.dtype), total.dtype)
            effects.append(Scan(e.op, value, total.name, at, total.dtype))
        return Loop((number,), recorder.body(), tuple(effects))

    def _scan(self, step: Var, position: Index, number: Index) -> Loop:
        """The part of that number, whose first element takes up what comes before."""
        loop = substitute_vars(self.loop, {self.loop.inner[0]: position}, (step,))
        recorder, effects = Recorder(loop.body), list(loop.effects)
        zero = recorder.const(0, dtypes.INT64)
        later = recorder.op("greater", (recorder.index(number), zero), dtypes.BOOL)
        begins = recorder.op("equal", (recorder.index(as_index(step)), zero), dtypes.BOOL)
        takes = recorder.op("logical_and", (later, begins), dtypes.BOOL)
        for k, e in self.scans.items():
            before = recorder.load(self.sums[k].name, self._at(number), self.sums[k].dtype, later)
            value = recorder.cast(effects[k].value, e.dtype)
            both = recorder.op(e.op, (recorder.cast(before, e.dtype), value), e.dtype)
            effects[k] = replace(effects[k], value=recorder.op("where", (takes, both, value), e.dtype))
        return Loop((step,), recorder.body(), tuple(effects))


def _wide(scan: Scan) -> np.dtype:
    """What the results of parts are combined in."""
    kind, own = dtypes.kind(scan.dtype), dtypes.compute(scan.dtype)
    wide: Mapping[str, np.dtype] = {"f": dtypes.FLOAT64, "c": dtypes.COMPLEX128}
    return wide.get(kind, own) if scan.op in ("add", "multiply") else own
