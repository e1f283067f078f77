"""What a loop combines over its points: reductions, and scans whose points are met in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk
from numstax.cuda_emit.passes import Pass
from numstax.cuda_emit.reduce import Cells, reduction
from numstax.emit.combine import combine, start
from numstax.emit.nest import BodyText, KernelText
from numstax.emit.values import cast
from numstax.ir.index import Index, bounds, divides, same
from numstax.ir.loops import Effect, Loop, Reduce, Scan

PassAt = Callable[[str, str | None, bool], Pass]
"""Makes the pass over the group of points from a number on; its limit; is it inside of a loop?"""


class Combining:
    """The reductions and scans of one loop; `one_group` : all points of a thread are one group of chunks."""

    def __init__(self, kernel: KernelText, loop: Loop, cells: Cells, one_group: bool) -> None:
        self.kernel, self.text, self.loop, self.cells = kernel, kernel.text, loop, cells
        effects = list(enumerate(loop.effects))
        self.reductions = {k: reduction(kernel, loop, e, cells, one_group) for k, e in effects if isinstance(e, Reduce)}
        self.carries = {k: self._register(e) for k, e in effects if isinstance(e, Scan)}

    def _register(self, effect: Scan) -> str:
        if not self.cells.count:
            return self.text.fresh("c")
        name = dtypes.name(dtypes.compute(effect.dtype))
        return f"{self.text.assign('c', f'registers_{name}({self.cells.count})')}[{self.cells.element}]"

    @contextmanager
    def each(self) -> Iterator[None]:
        """For each result of the thread."""
        if not self.cells.count:
            yield
            return
        with self.text.block(f"for {self.cells.element} in range({self.cells.count})"):
            yield

    def begin(self) -> None:
        if not self.reductions and not self.carries:
            return
        with self.each():
            for r in self.reductions.values():
                r.begin()
            for k in self.carries:
                self._restart(k)

    def end_group(self) -> None:
        ending = [r for r in self.reductions.values() if r.in_groups]
        if ending:
            with self.each():
                for r in ending:
                    r.end_group()

    def run(self, total: Index, group: int, inside: str, pass_at: PassAt) -> None:
        """Print all groups of `group` points: those that are whole one after another, then what is left over.

        inside : the condition under which there is anything to do.
        """
        self.begin()
        whole, text = total // group * group, self.text
        most = bounds(total)[1]
        if most is not None and most <= group:
            known = same(total, group) is True and not inside
            pass_at("0", None if known else self._limit(total, inside), False).run(self.handle)
            self.end_group()
        else:
            g = text.fresh("g")
            with text.block(f"for {g} in range(0, {self._limit(whole, inside)}, {group})"):
                pass_at(g, None, True).run(self.handle)
                self.end_group()
            if divides(group, total) is not True:
                pass_at(self.kernel.index(whole), self._limit(total, inside), False).run(self.handle)
                self.end_group()
        for r in self.reductions.values():
            with self.each():
                r.end()

    def _limit(self, count: Index, inside: str) -> str:
        text = self.kernel.index(count)
        return self.text.assign("m", f"{text} if {inside} else 0") if inside else text

    def handle(self, body: BodyText, effect: Effect, chunk: Chunk) -> bool:
        """Print an effect at one point; False when it is a store."""
        k = next(k for k, e in enumerate(self.loop.effects) if e is effect)
        if k in self.reductions:
            self.reductions[k].update(body, chunk)
        elif k in self.carries:
            self._carry(k, body, chunk)
        return k in self.reductions or k in self.carries

    def _restart(self, k: int) -> None:
        effect = self.loop.effects[k]
        assert isinstance(effect, Scan)
        self.text.line(f"{self.carries[k]} = {start(effect.op, effect.dtype)}")

    def _carry(self, k: int, body: BodyText, chunk: Chunk) -> None:
        """A running combination, one point after another; it starts anew where the last variable does."""
        effect, carry = self.loop.effects[k], self.carries[k]
        assert isinstance(effect, Scan)
        if len(self.loop.inner) > 1:
            with self.text.block(f"if {chunk.names[self.loop.inner[-1]]} == 0"):
                self._restart(k)
        value = cast(body.value(effect.value), body.dtype(effect.value), effect.dtype)
        self.text.line(f"{carry} = {combine(effect.op, effect.dtype, carry, value)}")
        self.kernel.store(effect.buffer, body.offset(effect.offset), carry)
