"""Kernels whose loops run down columns: the threads of a block lie along an outer variable and down the rows.

A thread has `width` neighbouring columns.  `team` threads share them: each takes every `team`-th row, `unroll` of them
at a time; what they found is combined through shared memory, by all alike, in the order of the threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace

from numstax.cuda_emit.accesses import Staged, early_loads
from numstax.cuda_emit.effects import Combining
from numstax.cuda_emit.passes import Pass, Span, stores_only
from numstax.cuda_emit.points import count, decode
from numstax.cuda_emit.reduce import Cells, Reduction
from numstax.cuda_emit.text import DeviceText
from numstax.dtypes import name as short
from numstax.dtypes import storage
from numstax.emit.combine import result
from numstax.emit.nest import KernelText, Place
from numstax.emit.values import loaded, stored
from numstax.ir.index import Index, bounds, divides
from numstax.ir.loops import NARROW, Loop
from numstax.tiles.cuda_rows import exchanges


def print_columns(kernel: KernelText) -> tuple[Index, ...]:
    """Print a kernel in column form; the number of blocks."""
    return _Columns(kernel).run()


TOGETHER = 8
"""Parts of a column that every thread of a team combines; more are combined by pairs first."""


class _Columns:
    def __init__(self, kernel: KernelText) -> None:
        tiling = kernel.kernel.tiling
        assert tiling is not None
        assert tiling.vector is not None
        assert isinstance(kernel.text, DeviceText)
        self.kernel, self.text, self.tiling, self.lane = kernel, kernel.text, tiling, tiling.vector
        self.across = tiling.threads // tiling.team
        self.others = tuple(v for v in kernel.kernel.outer if v != self.lane)
        self.element = self.text.fresh("e")
        self.cells = Cells(tiling.width if tiling.width > 1 else 0, self.element, 1)

    def run(self) -> tuple[Index, ...]:
        text, tiling = self.text, self.tiling
        columns = self.across * tiling.width
        strips = (self.lane.extent + (columns - 1)) // columns
        total = count(self.others) * strips
        block = text.assign("p", "int64(block_x())")
        strip, other = block, "0"
        if self.others:
            other = text.assign("p", text.division("quotient", block, NARROW, strips, within=True))
            strip = text.assign("p", text.division("rest", block, NARROW, strips, within=True))
        names, lines = decode(self.kernel, self.others, other, most=NARROW)
        for name, value in lines:
            text.line(f"{name} = {value}")
        self.thread, self.row = "int64(thread_x())", "0"
        if tiling.team > 1:
            self.thread = text.assign("t", f"int64(thread_x() % {self.across})")
            self.row = text.assign("t", f"int64(thread_x() // {self.across})")
        first = self.thread if tiling.width == 1 else f"{self.thread}*{tiling.width}"
        column = text.assign("j", f"{strip}*{columns} + {first}")
        self.kernel.names.update({**names, self.lane: column})
        extent = self.kernel.index(self.lane.extent)
        self.inside = "" if divides(columns, self.lane.extent) is True else f"{column} < {extent}"
        with ExitStack() as stack:
            if tiling.team == 1 and self.inside:
                stack.enter_context(text.block(f"if {self.inside}"))
                self.inside = ""
            self._loops()
        return (total,)

    def _loops(self) -> None:
        for buffer in self.kernel.kernel.buffers:
            if buffer.kind == "local":
                self.kernel.places[buffer.name] = self._place(short(storage(buffer.dtype)))
        waits = exchanges(self.kernel.kernel)
        for k, loop in enumerate(self.kernel.kernel.loops):
            if k in waits and self.tiling.team > 1:
                self.text.line("barrier()")
            if loop.inner:
                self._pass(loop)
            else:
                self._once(loop)

    def _place(self, dtype: str) -> Place:
        """Registers that have a value in threads without a column, too."""
        element = self.element if self.tiling.width > 1 else "0"
        return Place(self.text.assign("r", f"registers_{dtype}({self.tiling.width})"), array=True, lane=element)

    def _once(self, loop: Loop) -> None:
        """What is kept is computed by all threads of a team, what is stored by the first."""
        kept = tuple(e for e in loop.effects if e.buffer in self.kernel.places)
        written = tuple(e for e in loop.effects if e.buffer not in self.kernel.places)
        if kept:
            with self.text.block(f"if {self.inside}") if self.inside else nullcontext():
                self._print_once(replace(loop, effects=kept))
        if written:
            with self._first():
                self._print_once(replace(loop, effects=written))

    def _print_once(self, loop: Loop) -> None:
        span = Span((), self.lane, self.tiling.width, 1, "0", 1, None)
        Pass(self.kernel, (loop,), span, self._staged(loop, 1, True), self.element).run(stores_only)

    @contextmanager
    def _first(self) -> Iterator[None]:
        """Inside of what the first thread of a team does, where there is a column."""
        conditions = [f"({self.row} == 0)"] if self.tiling.team > 1 else []
        conditions += [f"({self.inside})"] if self.inside else []
        if not conditions:
            yield
            return
        with self.text.block(f"if {' & '.join(conditions)}"):
            yield

    def _staged(self, loop: Loop, chunks: int, nested: bool) -> Staged:
        written = self.kernel.kernel.writes()
        loads = early_loads((loop,), {b.name: b for b in self.kernel.kernel.buffers})
        loads = [x for x in loads if x[0] not in written]
        return Staged(self.kernel, loads, chunks, self.lane, self.tiling.width, nested=nested)

    def _pass(self, loop: Loop) -> None:
        tiling, text = self.tiling, self.text
        rows, group = count(loop.inner), tiling.team * tiling.unroll
        most = bounds(rows)[1]
        combining = Combining(self.kernel, loop, self.cells, most is not None and most <= group)

        def pass_at(start: str, limit: str | None, inside_loop: bool) -> Pass:
            first = start if self.row == "0" else text.assign("q", f"{start} + {self.row}")
            span = Span(loop.inner, self.lane, tiling.width, tiling.unroll, first, tiling.team, limit, inside_loop)
            return Pass(self.kernel, (loop,), span, self._staged(loop, tiling.unroll, not inside_loop), self.element)

        combining.run(rows, group, self.inside, pass_at)
        for r in combining.reductions.values():
            self._combine(r, combining)
            self._finish(r, combining)

    def _combine(self, r: Reduction, combining: Combining) -> None:
        """Every thread of a team gets what all of them found."""
        team, across, width = self.tiling.team, self.across, self.tiling.width
        if team == 1:
            return
        text = self.text
        slots = [text.array("s", dtype, team * across * width) for _, dtype in r.states]

        def kept(slot: str, row: str) -> str:
            place = row if width == 1 else f"({row}*{width} + {self.element})"
            return f"{slot}[{place}*{across} + {self.thread}]"

        def keep() -> None:
            for slot, (name, dtype) in zip(slots, r.states, strict=True):
                text.line(f"{kept(slot, self.row)} = {stored(name, dtype)}")

        def merge(row: str) -> None:
            states = zip(slots, r.states, strict=True)
            r.merge([text.assign("o", loaded(kept(slot, row), dtype)) for slot, (_, dtype) in states])

        with combining.each():
            keep()
        # the loop over results is the inner one: what is not unrolled keeps no registers
        rest, k = min(team, TOGETHER), text.fresh("k")
        if team > rest:
            with text.block(f"for {k} in range({(team // rest).bit_length() - 1})"):
                text.line("barrier()")
                half = text.assign("h", f"{team // 2} >> {k}")
                with text.block(f"if {self.row} < {half}"), combining.each():
                    merge(f"({self.row} + {half})")
                    keep()
        text.line("barrier()")
        with combining.each():
            for slot, (name, dtype) in zip(slots, r.states, strict=True):
                text.line(f"{name} = {loaded(kept(slot, '0'), dtype)}")
        with text.block(f"for {k} in range(1, {rest})"), combining.each():
            merge(k)

    def _finish(self, r: Reduction, combining: Combining) -> None:
        effect = r.effect
        targets = ((effect.buffer, effect.offset), (effect.value_buffer, effect.value_offset))
        for (name, offset), value in zip(targets, r.results(), strict=False):
            if name is None or offset is None:
                continue
            with ExitStack() as stack:
                if name not in self.kernel.places:
                    stack.enter_context(self._first())
                stack.enter_context(combining.each())
                column = self.kernel.names[self.lane]
                kernel = self.kernel.copy({self.lane: f"({column} + {self.element})"} if self.cells.count else {})
                kernel.store(name, kernel.index(offset), result(value, kernel.buffer(name).dtype))
