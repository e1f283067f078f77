"""What a loop combines over its points: reductions and scans, group after group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk
from numstax.cuda_emit.passes import Pass
from numstax.cuda_emit.reduce import Cells, reduction
from numstax.cuda_emit.scan import Carry, TeamScan
from numstax.emit.nest import BodyText, KernelText
from numstax.ir.index import Index, bounds, divides, same
from numstax.ir.loops import Effect, Loop, Reduce, Scan

MakeScan = Callable[[Scan], Carry | TeamScan]
PassAt = Callable[[str, str | None, bool], Pass]
"""Makes the pass over the group of points from a number on; its limit; is it inside of a loop?"""


class Combining:
    """The reductions and scans of one loop; `one_group` : all points of a thread are one group of chunks."""

    def __init__(
        self, kernel: KernelText, loop: Loop, cells: Cells, one_group: bool, scan: MakeScan | None = None
    ) -> None:
        self.kernel, self.text, self.loop, self.cells = kernel, kernel.text, loop, cells
        effects, scan = list(enumerate(loop.effects)), scan or self._carry
        self.reductions = {k: reduction(kernel, loop, e, cells, one_group) for k, e in effects if isinstance(e, Reduce)}
        self.scans = {k: scan(e) for k, e in effects if isinstance(e, Scan)}

    def _carry(self, effect: Scan) -> Carry:
        register = self.text.fresh("c")
        if self.cells.count:
            kind = dtypes.name(dtypes.compute(effect.dtype))
            self.text.line(f"{register} = registers_{kind}({self.cells.count})")
            register = f"{register}[{self.cells.element}]"
        return Carry(self.kernel, self.loop, effect, register)

    @contextmanager
    def each(self) -> Iterator[None]:
        """For each result of the thread."""
        if not self.cells.count:
            yield
            return
        with self.text.block(f"for {self.cells.element} in range({self.cells.count})"):
            yield

    def begin(self) -> None:
        combining = (*self.reductions.values(), *self.scans.values())
        if combining:
            with self.each():
                for one in combining:
                    one.begin()

    def _group(self, made: Pass) -> None:
        for scan in self.scans.values():
            scan.begin_group(made.span.limit is not None)
        made.run(self.handle)
        for scan in self.scans.values():
            scan.end_group(made)
        ending = [r for r in self.reductions.values() if r.in_groups]
        if ending:
            with self.each():
                for r in ending:
                    r.end_group()

    def run(self, total: Index, group: int, inside: str, pass_at: PassAt, resident: bool = False) -> None:
        """Print all groups of `group` points: those that are whole one after another, then what is left over.

        inside : the condition under which there is anything to do.
        resident : the first group is not part of the loop.
        """
        self.begin()
        whole, text = total // group * group, self.text
        most = bounds(total)[1]
        if most is not None and most <= group:
            known = same(total, group) is True and not inside
            self._group(pass_at("0", None if known else self._limit(total, inside), False))
        else:
            if resident:
                self._group(pass_at("0", None, False))
            g = text.fresh("g")
            with text.block(f"for {g} in range({group if resident else 0}, {self._limit(whole, inside)}, {group})"):
                self._group(pass_at(g, None, True))
            if divides(group, total) is not True:
                self._group(pass_at(self.kernel.index(whole), self._limit(total, inside), False))
        for r in self.reductions.values():
            with self.each():
                r.end()

    def _limit(self, count: Index, inside: str) -> str:
        text = self.kernel.index(count)
        return self.text.assign("m", f"{text} if {inside} else 0") if inside else text

    def handle(self, body: BodyText, effect: Effect, chunk: Chunk) -> bool:
        """Print an effect at one point; False when it is a store."""
        k = next(k for k, e in enumerate(self.loop.effects) if e is effect)
        combining = self.reductions.get(k) or self.scans.get(k)
        if combining is None:
            return False
        combining.update(body, chunk)
        return True
