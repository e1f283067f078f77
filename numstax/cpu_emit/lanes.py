"""Kernels whose vector is an outer variable: pointwise kernels, and reductions and scans down columns.

The vector variable is cut into blocks.  Inside a block each Loop runs its inner variables outside and the
lanes inside, so that memory is walked in order; what a column kernel keeps for each outer point (reduction
results, local buffers) is an array in scratch memory with one element for each lane of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby

from numstax.cpu_emit.column import Column, column
from numstax.cpu_emit.space import ENOUGH_TASKS, points, task_count
from numstax.emit.idle import TOGETHER, idle_mask, is_wanted
from numstax.emit.nest import Axis, BodyText, KernelText, Place
from numstax.emit.pieces import pieces
from numstax.emit.text import factor
from numstax.ir.index import ONE, Index, Var, as_index, divides, hint, less, product
from numstax.ir.loops import Accumulate, Loop, Reduce, Scan, Store

LONGEST_JAMMED = 8
"""Instructions of a body that is worth repeating."""


def print_lanes(kernel: KernelText, parallel: bool) -> Index:
    """Print a kernel in pointwise or column form; the number of parallel tasks."""
    tiling = kernel.kernel.tiling
    assert tiling is not None
    assert tiling.vector is not None
    lane = tiling.vector
    rows = tuple(v for v in kernel.kernel.outer if v != lane)
    pointwise = all(not loop.inner for loop in kernel.kernel.loops)
    block = as_index(tiling.block)
    if pointwise and (not parallel or (rows and hint(product(v.extent for v in rows)) >= ENOUGH_TASKS)):
        block = lane.extent  # whole rows
    elif less(block, lane.extent) is False:
        block = lane.extent
    if pointwise and not rows and parallel:
        return _flat(kernel, lane, block)
    blocks = (lane.extent + (block - 1)) // block if block is not lane.extent else ONE
    block_var = Var(f"{lane.name}_block", blocks)
    variables = rows if blocks is ONE else (*rows, block_var)
    with points(kernel, variables, parallel):
        start, stop = "0", kernel.index(lane.extent)
        if blocks is not ONE:
            size = factor(kernel.index(block))
            start = kernel.text.assign("lane", f"{size}*{kernel.names[block_var]}")
            stop = kernel.text.assign("end", f"min({start} + {size}, {stop})")
        for branch in kernel.branches(rows):
            _LaneLoops(branch, lane, start, stop, block, pointwise).run()
    return task_count(variables)


def _flat(kernel: KernelText, lane: Var, block: Index) -> Index:
    """One loop over this call's whole share; a task is a block of elements."""
    lo, hi = kernel.text.special("lo"), kernel.text.special("hi")
    size = factor(kernel.index(block))
    start = f"{size}*{lo}"
    stop = f"min({size}*{hi}, {kernel.index(lane.extent)})"
    _LaneLoops(kernel, lane, start, stop, block, True).run()
    return (lane.extent + (block - 1)) // block


class _LaneLoops:
    """The loops of a kernel over the lanes ``start <= lane < stop``."""

    def __init__(self, kernel: KernelText, lane: Var, start: str, stop: str, block: Index, pointwise: bool) -> None:
        self.kernel, self.text, self.lane = kernel, kernel.text, lane
        self.start, self.stop, self.block = start, stop, block
        self.name = self.text.fresh("i")
        self.at = self.name if start == "0" else f"{self.name} - {factor(start)}"
        self._place_locals(pointwise)

    def _place_locals(self, pointwise: bool) -> None:
        size = factor(self.kernel.index(self.block))
        for buffer in self.kernel.kernel.buffers:
            if buffer.kind != "local":
                continue
            if pointwise and not buffer.shape:
                place = Place(self.text.fresh("r"), array=False)
            else:
                name = self.text.array("lanes", buffer.dtype, product(buffer.shape) * self.block)
                place = Place(name, array=True, scale=size, lane=self.at)
            self.kernel.places[buffer.name] = place

    def axis(self) -> Axis:
        copies = all(instr.op == "load" for loop in self.kernel.kernel.loops for instr in loop.body)
        return Axis(self.lane, self.name, self.start, self.stop, copies=copies)

    def run(self) -> None:
        # loops without inner variables share one pass over the lanes
        for pointwise, group in groupby(self.kernel.kernel.loops, key=lambda loop: not _iterates(loop)):
            loops = tuple(group)
            if pointwise:
                self._one_pass(loops)
            else:
                for loop in loops:
                    self._column_loop(loop)

    def _one_pass(self, loops: Sequence[Loop]) -> None:
        for piece in pieces(loops, self.lane):
            self._piece(piece.loops, self.kernel.within(self.axis(), piece))

    def _piece(self, loops: Sequence[Loop], axis: Axis) -> None:
        mask = idle_mask(self.kernel.kernel, loops[0]) if len(loops) == 1 else None
        chunk = self._chunk() if mask is None else TOGETHER
        if chunk == 1:
            self._pass(loops, [axis])
            return
        # one vector at a time: with a known length, the compiler keeps the constants of the body in registers
        part, whole = self.text.fresh("k"), self.text.fresh("end")
        # a mask, which shows the compiler that less than a vector is left
        self.text.line(f"{whole} = {axis.stop} - (({axis.stop} - {factor(axis.start)}) & {chunk - 1})")
        blocks = Axis(None, part, axis.start, whole, str(chunk))
        self._pass(loops, [blocks, replace(axis, start=part, stop=f"{part} + {chunk}")], mask)
        self._pass(loops, [replace(axis, start=whole)])

    def _chunk(self) -> int:
        """Lanes at a time, where the number of lanes is not a number."""
        tiling = self.kernel.kernel.tiling
        assert tiling is not None
        known = self.start == "0" and self.stop.isdigit()
        return 1 if tiling.form != "pointwise" or known else tiling.unroll

    def _pass(self, loops: Sequence[Loop], axes: Sequence[Axis], mask: int | None = None) -> None:
        """`mask` : what is wanted along the last axis."""
        bodies = [BodyText(self.kernel, loop, axes, loops) for loop in loops]
        with ExitStack() as stack:
            for depth, axis in enumerate(axes):
                for body in bodies:
                    body.enter(depth)
                if mask is not None and axis is axes[-1]:
                    stack.enter_context(self.text.block(f"if {is_wanted(bodies[0], mask)}"))
                stack.enter_context(self.text.block(axis.header))
            for body in bodies:
                body.enter(len(axes))
                body.print_stores()

    def _column_loop(self, loop: Loop) -> None:
        columns = [column(self, loop, e) for e in loop.effects if isinstance(e, Reduce | Scan)]
        for c in columns:
            c.begin()
        rows = [Axis(v, self.text.fresh("j"), "0", self.kernel.index(v.extent)) for v in loop.inner]
        size = next((c.block for c in columns if c.block), 0)
        if size and rows:
            last, part = rows.pop(), self.text.fresh("k")
            rows.append(Axis(None, part, "0", last.stop, str(size)))
            rows.append(Axis(last.var, last.name, part, f"min({part} + {size}, {last.stop})"))
        jam = self._jam(loop, columns)
        if jam == 1:
            self._nest([BodyText(self.kernel, loop, [*rows, self.axis()])], columns, 0, block=columns)
        else:
            self._jammed(loop, columns, rows, jam)
        for c in columns:
            c.finish()

    def _jam(self, loop: Loop, columns: Sequence[Column]) -> int:
        """Rows combined in one pass: several where that is one sum or extremum of a short body."""
        tiling = self.kernel.kernel.tiling
        assert tiling is not None
        short = len(loop.inner) > 0 and len(loop.effects) == 1 and len(loop.body) <= LONGEST_JAMMED
        return tiling.unroll if short and columns and columns[0].any_order else 1

    def _jammed(self, loop: Loop, columns: Sequence[Column], rows: Sequence[Axis], jam: int) -> None:
        """Combine `jam` rows with the accumulators in one pass over the lanes; rows left over one by one."""
        *around, last = rows
        names = [last.name, *(f"({last.name} + {k})" for k in range(1, jam))]
        full = last.stop
        even = divides(jam, loop.inner[-1].extent) is True
        if not even:
            full = self.text.fresh("end")
        together = [
            BodyText(self.kernel, loop, [*around, Axis(last.var, name, last.start, full, str(jam)), self.axis()])
            for name in names
        ]
        bodies = list(together)
        if not even:
            rest = Axis(last.var, last.name, full, last.stop)
            bodies.append(BodyText(self.kernel, loop, [*around, rest, self.axis()]))
        with ExitStack() as stack:
            for depth, axis in enumerate(around):
                for body in bodies:
                    body.enter(depth)
                stack.enter_context(self.text.block(axis.header))
            for c in columns:
                c.begin_block()
            if not even:
                self.text.line(f"{full} = {last.start} + ({last.stop} - {last.start})//{jam}*{jam}")
            self._nest(together, columns, len(around), block=())
            for left in bodies[jam:]:
                self._nest([left], columns, len(around), block=())
            for c in columns:
                c.end_block()

    def _nest(self, bodies: Sequence[BodyText], columns: Sequence[Column], depth: int, block: Sequence[Column]) -> None:
        """The axes from `depth` inwards; several bodies are the same body at successive rows.  The columns in
        `block` begin and end their block of rows here."""
        body = bodies[0]
        for b in bodies:
            b.enter(depth)
        if depth == body.depth:
            self._effects(bodies, columns)
            return
        here = block if depth == body.depth - 2 else ()
        for c in here:
            c.begin_block()
        with self.text.block(body.axes[depth].header):
            self._nest(bodies, columns, depth + 1, block)
        for c in here:
            c.end_block()

    def _effects(self, bodies: Sequence[BodyText], columns: Sequence[Column]) -> None:
        if len(bodies) > 1:
            columns[0].update_all(bodies)
            return
        remaining = iter(columns)
        for effect in bodies[0].loop.effects:
            if isinstance(effect, Store | Accumulate):
                bodies[0].print_write(effect)
            else:
                next(remaining).update(bodies[0])


def _iterates(loop: Loop) -> bool:
    return bool(loop.inner) or any(isinstance(e, Reduce | Scan) for e in loop.effects)
