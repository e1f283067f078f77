"""Kernels whose loops run along rows: at each outer point the loops one after another, the last inner
variable of each as the vector; reductions in registers, local arrays in scratch memory.

Scans are serial along the row, in NumPy's order; several rows are interleaved so that one waits for its
addition while others go on.  So are short reductions, most of whose time is between their loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from numstax import dtypes
from numstax.cpu_emit import ahead, rest
from numstax.cpu_emit.reduce import BLOCK, FirstPosition, Reduction, reduction
from numstax.cpu_emit.short import LONGEST, short_sizes, with_short_rows
from numstax.cpu_emit.space import points, task_count
from numstax.emit.combine import combine, nothing
from numstax.emit.idle import TOGETHER, idle_mask, is_wanted
from numstax.emit.nest import Axis, BodyText, KernelText, Place
from numstax.emit.pieces import pieces
from numstax.emit.text import factor
from numstax.emit.values import cast
from numstax.ir.index import Atom, Index, Var, as_index, atoms, bounds, divides, less, product
from numstax.ir.loops import Accumulate, Loop, Reduce, Scan, Store

MANY = 768
"""Elements of a row that are read faster in one stream of memory than in several."""


def print_rows(kernel: KernelText, parallel: bool) -> Index:
    """Print a kernel in row form; the number of parallel tasks."""
    sizes = short_sizes(kernel.kernel)
    if not sizes:
        return _print_rows(kernel, parallel)
    tests = [f"{kernel.index(as_index(s))} <= {LONGEST}" for s in sizes]
    with kernel.text.block(f"if {' and '.join(tests)}"):
        _print_rows(KernelText(kernel.text, with_short_rows(kernel.kernel, sizes)), parallel)
    with kernel.text.block("else"):
        return _print_rows(kernel.copy({}), parallel)


def _print_rows(kernel: KernelText, parallel: bool) -> Index:
    outer, tiling = kernel.kernel.outer, kernel.kernel.tiling
    rows = 1 if tiling is None else tiling.unroll
    if rows == 1:
        _place_locals(kernel)
        with points(kernel, outer, parallel):
            for branch in kernel.branches(outer):
                _print_row([branch])
        return task_count(outer)
    *others, last = outer
    groups = Var(f"{last.name}_group", (last.extent + (rows - 1)) // rows)
    variables = (*others, groups)
    with points(kernel, variables, parallel):
        _print_group(kernel, last, groups, rows)
    return task_count(variables)


def _print_row(kernels: Sequence[KernelText], short: bool = False) -> None:
    *before, final = kernels[0].kernel.loops
    for loop in before:
        _RowLoop(kernels, loop, short=short).run()
    _RowLoop(kernels, final, ahead.next_row(kernels[0].kernel), short).run()


def _print_group(kernel: KernelText, last: Var, groups: Var, rows: int) -> None:
    """Rows side by side.  Those with sums are far apart: then each of them is followed by the next one in memory; and
    go one by one where they are long."""
    text, first, extent = kernel.text, kernel.names[groups], kernel.index(last.extent)
    scans = any(isinstance(e, Scan) for loop in kernel.kernel.loops for e in loop.effects)
    lengths = dict.fromkeys(loop.inner[-1].extent for loop in kernel.kernel.loops if loop.inner)
    unknown = [n for n in lengths if n.value is None and less(n, as_index(MANY)) is not True]
    short = "" if scans else " and ".join(f"{factor(kernel.index(n))} < {MANY}" for n in unknown)
    base, apart = (f"{rows}*{first}", "1") if scans else (first, factor(kernel.index(groups.extent)))
    names = [text.assign("i", f"{base} + {k}*{apart}") for k in range(rows)]
    together = kernel if scans else _at_most(kernel, MANY - 1)
    copies = [together.copy({last: name}) for name in names]
    for copy in copies:
        _place_locals(copy)
    alone = kernel.copy({})  # what the first branch names has no value in the other
    alone.places = copies[0].places
    with text.block(f"if {names[-1]} < {extent}{short and f' and {short}'}"):
        _print_row(copies, not scans)
    with text.block("else"):
        each, row = text.fresh("i"), text.fresh("i")
        with text.block(f"for {each} in range(rolled({rows}))"):
            place = f"{base} + {each}*{apart}"
            text.line(f"{row} = {f'{place} if {short} else {rows}*{first} + {each}' if short else place}")
            with text.block(f"if {row} < {extent}"):
                _print_row([alone.copy({last: row})])


def _at_most(kernel: KernelText, longest: int) -> KernelText:
    """The kernel where rows have so many elements at most."""
    around = {atom for var in kernel.kernel.outer for atom in atoms(var.extent)}
    sizes = short_sizes(kernel.kernel, longest)
    if not sizes or not around.isdisjoint(sizes):
        return kernel
    return kernel.copy({}, with_short_rows(kernel.kernel, sizes, longest).loops)


def _place_locals(kernel: KernelText) -> None:
    """Rank 0 is a register; arrays lie in scratch memory, one row's worth."""
    kernel.places = {**kernel.places}
    for buffer in kernel.kernel.buffers:
        if buffer.kind == "local":
            if buffer.shape:
                name = kernel.text.array("row", buffer.dtype, product(buffer.shape))
                kernel.places[buffer.name] = Place(name, array=True)
            else:
                kernel.places[buffer.name] = Place(kernel.text.fresh("r"), array=False)


@dataclass(slots=True)
class _Copy:
    """One of the rows printed side by side; `bodies`: one for each piece of the last axis."""

    kernel: KernelText
    bodies: list[BodyText]
    reductions: list[Reduction] = field(default_factory=list)
    carries: list[tuple[Scan, str]] = field(default_factory=list)


class _RowLoop:
    """One Loop at one outer point, for each of `kernels` (the same kernel at several rows).  `ahead`: what is asked
    for meanwhile, for each block of elements; `short`: a block is enough."""

    def __init__(
        self, kernels: Sequence[KernelText], loop: Loop, ahead: Sequence[ahead.Request] = (), short: bool = False
    ) -> None:
        self.loop, self.text, self.ahead = loop, kernels[0].text, ahead
        self.copies: list[_Copy] = []
        self.axes: list[Axis] = []
        self.split: rest.Split | None = None
        for kernel in kernels:
            copy = _Copy(kernel, [])
            copy.reductions = [reduction(kernel, loop, e) for e in loop.effects if isinstance(e, Reduce)]
            copy.carries = [(e, self.text.fresh("c")) for e in loop.effects if isinstance(e, Scan)]
            self.copies.append(copy)
        self.blocked = any(r.block for c in self.copies for r in c.reductions) and not short
        plain = len(kernels) == 1 and len(loop.inner) > 0 and not (self.blocked or self.ahead)
        self.idle = idle_mask(kernels[0].kernel, loop) if plain else None
        self._use(self._axes(kernels[0], self.blocked))

    def _axes(self, kernel: KernelText, blocked: bool) -> list[Axis]:
        axes: list[Axis] = []
        for var in self.loop.inner:
            extent = kernel.index(var.extent)
            size = ahead.BLOCK if self.ahead else BLOCK if self.idle is None else TOGETHER
            cut = self.ahead or self.idle is not None or (blocked and _longer_than_block(var.extent))
            if var is self.loop.inner[-1] and cut:
                block = self.text.fresh("k")
                axes.append(Axis(None, block, "0", extent, str(size)))
                end = f"{block} + {size}"
                whole = divides(size, var.extent)
                axes.append(Axis(var, self.text.fresh("j"), block, end if whole else f"min({end}, {extent})"))
            else:
                axes.append(Axis(var, self.text.fresh("j"), "0", extent))
        if not axes and self.copies[0].reductions:
            axes.append(Axis(None, self.text.fresh("j"), "0", "1"))
        return axes

    def _use(self, axes: list[Axis], inside: bool = False) -> None:
        """What is printed next iterates these.  `inside` a branch: names given there do not hold outside of it."""
        self.axes = axes
        cut = pieces([self.loop], self.loop.inner[-1]) if self.loop.inner else []
        alone = len(cut) == 1 and axes[-1].start == "0" and self.idle is None
        self.split = rest.split(self.text, axes[-1]) if alone and rest.is_worth_it(self.loop) else None
        last = [self.split.whole, self.split.rest] if self.split is not None else axes[-1:]
        for copy in self.copies:
            kernel = copy.kernel.copy({}) if inside else copy.kernel
            copy.bodies = [
                BodyText(kernel, piece.loops[0], [*axes[:-1], kernel.within(axis, piece)])
                for piece in cut
                for axis in last
            ] or [BodyText(kernel, self.loop, axes)]

    def run(self) -> None:
        for copy in self.copies:
            for r in copy.reductions:
                r.begin()
                if isinstance(r, FirstPosition):
                    r.remember(len(self.axes) - 1)
        if self._may_be_short():
            extent, blocks = self.axes[0].stop, self.axes
            with self.text.block(f"if {extent} <= {BLOCK}"):
                self._use(self._axes(self.copies[0].kernel, blocked=False), inside=True)
                self._nest(0)
            with self.text.block("else"):
                self._use(blocks, inside=True)
                self._nest(0)
        else:
            self._nest(0)
        for copy in self.copies:
            for r in copy.reductions:
                if isinstance(r, FirstPosition):
                    r.finish_at(self._find(copy, r))
                else:
                    r.finish()

    def _may_be_short(self) -> bool:
        """Sums of rows of any length: a loop over blocks costs rows of less than one block a fifth of their time."""
        sums = all(r.in_one_piece for c in self.copies for r in c.reductions)
        return self.blocked and sums and len(self.axes) == 2 and bounds(self.loop.inner[0].extent)[1] is None

    def _nest(self, depth: int) -> None:
        for copy in self.copies:
            for body in copy.bodies:
                body.enter(depth)
            if depth == self._carry_depth():
                for scan, carry in copy.carries:
                    self.text.line(f"{carry} = {nothing(scan.op, scan.dtype)}")
        if depth == len(self.axes):
            self._print_effects(0)
        elif depth == len(self.axes) - 1:
            self._innermost(depth)
        else:
            with self.text.block(self.axes[depth].header):
                self._nest(depth + 1)

    def _innermost(self, depth: int) -> None:
        for copy in self.copies:
            for r in copy.reductions:
                r.begin_block()
            self._ask_ahead(copy.kernel)
        if self.split is not None:
            self.text.line(self.split.line)
        for k, body in enumerate(self.copies[0].bodies):
            with ExitStack() as stack:
                if self.idle is not None:
                    stack.enter_context(self.text.block(f"if {is_wanted(body, self.idle)}"))
                left = self.split if self.split is not None and body.axes[depth] is self.split.rest else None
                if left is not None:
                    stack.enter_context(self.text.block(f"if {left.some}"))
                stack.enter_context(self.text.block(body.axes[depth].header))
                if left is not None:
                    stack.enter_context(self.text.block(f"if {left.wanted}"))
                for copy in self.copies:
                    copy.bodies[k].enter(depth + 1)
                self._print_effects(k)
        names = tuple(a.name for a in self.axes[:-1])
        for copy in self.copies:
            for r in copy.reductions:
                r.end_block(names, partial(self._again, copy))

    def _ask_ahead(self, kernel: KernelText) -> None:
        for request in self.ahead:
            block, buffer = self.axes[-1], kernel.buffer(request.buffer)
            assert block.var is not None
            first = kernel.copy({block.var: block.start}).index(request.offset)
            words = f"{self.text.buffer(buffer)}, {first}, {ahead.BLOCK}"
            with ExitStack() as stack:
                if request.longest is not None:
                    test = f"if {kernel.index(block.var.extent)} <= {request.longest}"
                    stack.enter_context(self.text.block(test))
                self.text.line(f"prefetch_{dtypes.name(buffer.dtype)}({words})")

    def _carry_depth(self) -> int:
        """Scans start anew for each point of the variables before the last."""
        return len(self.loop.inner) - 1

    def _print_effects(self, piece: int) -> None:
        for copy in self.copies:
            body = copy.bodies[piece]
            reductions, carries = iter(copy.reductions), iter(copy.carries)
            for effect in body.loop.effects:
                if isinstance(effect, Store | Accumulate):
                    body.print_write(effect)
                elif isinstance(effect, Reduce):
                    next(reductions).update(body)
                elif isinstance(effect, Scan):
                    _, carry = next(carries)
                    value = cast(body.value(effect.value), body.dtype(effect.value), effect.dtype)
                    self.text.line(f"{carry} = {combine(effect.op, effect.dtype, carry, value)}")
                    copy.kernel.store(effect.buffer, body.offset(effect.offset), carry)

    def _again(self, copy: _Copy, update: Callable[[BodyText], None]) -> None:
        """The innermost loop once more, inside the axes around it."""
        outside: dict[Atom, str] = {a.var: a.name for a in self.axes[:-1] if a.var is not None}
        body = BodyText(copy.kernel.copy(outside), self.loop, self.axes[-1:])
        body.enter(0)
        with self.text.block(body.axes[0].header):
            body.enter(1)
            update(body)

    def _find(self, copy: _Copy, r: FirstPosition) -> str:
        """The position of the first element with the best value, in the block where it was found."""
        last = self.axes[-1]
        found = self.text.assign("p", f"int32({1 << 30})")
        at = dict(zip((a.name for a in self.axes[:-1]), r.at, strict=True))
        names: dict[Atom, str] = {a.var: at[a.name] for a in self.axes[:-1] if a.var is not None}
        start, stop = at.get(last.start, last.start), last.stop
        if last.start in at:
            stop = stop.replace(last.start, start)
        body = BodyText(copy.kernel.copy(names), self.loop, [Axis(last.var, last.name, start, stop)])
        body.enter(0)
        with self.text.block(body.axes[0].header):
            body.enter(1)
            r.match(body, found, start)
        assert last.var is not None
        assert r.effect.position is not None
        place = copy.kernel.copy({**names, last.var: f"({start} + {found})"})
        return place.index(r.effect.position)


def _longer_than_block(extent: Index) -> bool:
    high = bounds(as_index(extent))[1]
    return high is None or high > BLOCK
