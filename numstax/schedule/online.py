"""Online softmax: maximum and sum of exponentials of a long row in one pass (section 9.5).

Enters: a fused kernel with a loop that reduces ``m = max(x)`` and a later one that reduces
``s = sum(exp(x - m))``, over rows that do not stay in the cache between the two.  Leaves: a kernel that reads
the row once for both, as pairs (m, s), and computes ``exp(x - m)`` again where it had been stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.ir.index import ZERO, Atom, Index, as_index, hint, product
from numstax.ir.loops import Buffer, Effect, Instr, Kernel, Loop, Reduce, Store
from numstax.ir.renaming import substitute_vars
from numstax.records import record
from numstax.schedule.kernels import make_kernel
from numstax.schedule.record import Recorder, move_effect, prune


@record
class _Match:
    """The positions of the two loops, and the reduction of each."""

    first: int
    second: int
    maximum: Reduce
    total: Reduce


def online(kernel: Kernel, buffers: dict[str, Buffer], private: frozenset[str], cache: int, name: str) -> Kernel | None:
    """`kernel` with one pass less, or None.  `private` are temporaries that no other kernel uses; `name` is free for
    a new local buffer, which is added to `buffers`."""
    match = next(_matches(kernel, cache), None)
    if match is None:
        return None
    first, second = kernel.loops[match.first], kernel.loops[match.second]
    stored = {e.buffer: e for e in second.effects if isinstance(e, Store) and e.value == match.total.value}
    if not stored.keys() <= private or len(stored) + 1 < len(second.effects):
        return None
    rest = [recomputed(loop, second, stored) for loop in kernel.loops[match.second + 1 :]]
    if any(loop.reads() & stored.keys() for loop in rest):
        return None
    buffers[name] = Buffer(name, match.total.dtype, (), (), "local")
    pair = replace(match.maximum, op="online_softmax", value_buffer=name, value_offset=ZERO)
    effects: list[Effect] = [pair if e is match.maximum else e for e in first.effects]
    loops = list(kernel.loops[: match.second])
    loops[match.first] = replace(first, effects=tuple(effects))
    return make_kernel(kernel.outer, (*loops, _sum_of_nothing(match, name), *rest), buffers)


def _matches(kernel: Kernel, cache: int) -> Iterator[_Match]:
    for a, first in enumerate(kernel.loops):
        length = hint(product(v.extent for v in first.inner))
        for maximum in first.effects:
            if not isinstance(maximum, Reduce) or maximum.op != "maximum" or length * maximum.dtype.itemsize <= cache:
                continue
            if maximum.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64):
                continue
            for b in range(a + 1, len(kernel.loops)):
                for total in kernel.loops[b].effects:
                    if (
                        isinstance(total, Reduce)
                        and total.op == "add"
                        and _shifts(first, kernel.loops[b], maximum, total)
                    ):
                        yield _Match(a, b, maximum, total)


def _shifts(first: Loop, second: Loop, maximum: Reduce, total: Reduce) -> bool:
    """Does `second` add ``exp(x - m)`` for the x of which `first` takes the maximum m?"""
    if [v.extent for v in first.inner] != [v.extent for v in second.inner] or total.dtype != maximum.dtype:
        return False
    body = second.body
    exp = body[total.value]
    difference = body[exp.args[0]] if exp.op == "exp" else exp
    if difference.op != "subtract" or body[difference.args[1]].attr != (maximum.buffer, maximum.offset):
        return False
    recorder = Recorder(first.body)
    moved = recorder.append(_over(second, first).body)
    return moved[difference.args[0]] == maximum.value


def _over(loop: Loop, other: Loop) -> Loop:
    """`loop` over the inner variables of `other`, which have the same extents."""
    mapping: dict[Atom, Index] = dict(zip(loop.inner, map(as_index, other.inner), strict=True))
    return substitute_vars(loop, mapping, other.inner)


def recomputed(loop: Loop, second: Loop, stored: dict[str, Store]) -> Loop:
    """`loop` with what `second` stored computed again."""
    if not loop.reads() & stored.keys() or [v.extent for v in loop.inner] != [v.extent for v in second.inner]:
        return loop
    source = _over(second, loop)
    recorder = Recorder(source.body)
    values = {(e.buffer, e.offset): e.value for e in source.effects if e.buffer in stored and isinstance(e, Store)}

    def forward(instr: Instr) -> int | None:
        return values.get(instr.attr) if instr.op == "load" and not instr.args else None  # type: ignore[call-overload]

    moved = recorder.append(loop.body, forward)
    return Loop(loop.inner, *prune(recorder.body(), (move_effect(e, moved) for e in loop.effects)))


def _sum_of_nothing(match: _Match, name: str) -> Loop:
    """A row of nothing but -inf has the sum NaN, for its differences are NaN; the pairs give 0."""
    recorder, dtype = Recorder(), match.total.dtype
    lowest = recorder.load(match.maximum.buffer, match.maximum.offset, dtype)
    empty = recorder.op("equal", (lowest, recorder.const(-np.inf, dtype)), dtypes.BOOL)
    total = recorder.load(name, ZERO, dtype)
    value = recorder.op("where", (empty, recorder.const(np.nan, dtype), total), dtype)
    return Loop((), recorder.body(), (Store(match.total.buffer, match.total.offset, value),))
