"""Pointwise kernels: every thread computes a few chunks of neighbouring points.

The points of the outer space are numbered along the lane variable first.  A block takes `unroll` times as many chunks
as it has threads; chunk c of a thread lies `threads` chunks behind chunk c - 1, so that the threads of a warp always
touch neighbouring memory.  All loads at known places come before the first computation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numstax.cuda_emit.accesses import Chunk, Staged, WideStores, early_loads
from numstax.cuda_emit.points import count, decode
from numstax.emit.nest import Axis, BodyText, KernelText, Place
from numstax.ir.index import Index, Var, divides
from numstax.ir.loops import Accumulate, Store


def print_points(kernel: KernelText) -> tuple[Index, ...]:
    """Print a kernel in pointwise form; the number of blocks."""
    return _Points(kernel).run()


class _Points:
    def __init__(self, kernel: KernelText) -> None:
        tiling = kernel.kernel.tiling
        assert tiling is not None
        self.kernel, self.text, self.tiling = kernel, kernel.text, tiling
        self.loops = kernel.kernel.loops
        self.width, self.unroll = tiling.width, tiling.unroll
        self.lane = tiling.vector or Var("lane", count(()))
        self.variables = (*(v for v in kernel.kernel.outer if v != self.lane), self.lane)
        self.total = count(self.variables)
        self.step = tiling.threads * self.width
        self.whole = divides(self.step * self.unroll, self.total) is True

    def run(self) -> tuple[Index, ...]:
        for buffer in self.kernel.kernel.buffers:
            if buffer.kind == "local":
                self.kernel.places[buffer.name] = Place(self.text.fresh("r"), array=False)
        threads = f"int64(thread_x())*{self.width}" if self.width > 1 else "int64(thread_x())"
        self.first = self.text.assign("p", f"int64(block_x())*{self.step * self.unroll} + {threads}")
        loads = early_loads(self.loops, {b.name: b for b in self.kernel.kernel.buffers})
        staged = Staged(self.kernel, loads, self.unroll, self.lane, self.width)
        chunk_name, element = self.text.fresh("c"), self.text.fresh("e")
        staged.declare(chunk_name, element)
        if self.unroll > 1:
            number = self.text.fresh("c")
            with self._chunk(number) as chunk:
                staged.load(chunk, number, element)
        self._compute(staged, chunk_name, element)
        return ((self.total + (self.step * self.unroll - 1)) // (self.step * self.unroll),)

    @contextmanager
    def _chunk(self, number: str) -> Iterator[Chunk]:
        """Inside the loop over chunks, where they lie inside of the space."""
        chunk, lines = self._decoded(f"{self.first} + {number}*{self.step}" if self.unroll > 1 else self.first)
        with self._open(number, lines):
            yield chunk

    def _decoded(self, at: str) -> tuple[Chunk, list[tuple[str, str]]]:
        point = at if at.isidentifier() else self.text.fresh("p")
        names, lines = decode(self.kernel, self.variables, point)
        if point != at:
            lines.insert(0, (point, at))
        self.point = point
        return Chunk({**self.kernel.names, **names}, self.lane, self.width), lines

    @contextmanager
    def _open(self, number: str, lines: list[tuple[str, str]]) -> Iterator[None]:
        if self.unroll == 1:
            with self._masked(lines):
                yield
            return
        with self.text.block(f"for {number} in range({self.unroll})"):
            name, value = lines.pop(0)
            self.text.line(f"{name} = {value}")
            with self._masked(lines):
                yield

    @contextmanager
    def _masked(self, lines: list[tuple[str, str]]) -> Iterator[None]:
        if self.whole:
            self._assign(lines)
            yield
            return
        with self.text.block(f"if {self.point} < {self.kernel.index(self.total)}"):
            self._assign(lines)
            yield

    def _assign(self, lines: list[tuple[str, str]]) -> None:
        for name, value in lines:
            self.text.line(f"{name} = {value}")

    def _compute(self, staged: Staged, number: str, element: str) -> None:
        chunk, lines = self._decoded(f"{self.first} + {number}*{self.step}" if self.unroll > 1 else self.first)
        axes = [Axis(v, chunk.names[v], "", "") for v in self.variables[:-1]]
        axes.append(Axis(self.lane, chunk.at(element), "", ""))
        stores = WideStores(self.kernel, self.loops, self.lane, self.width)
        elements = staged.elements
        with self._open(number, lines):
            if self.unroll == 1:
                staged.load(chunk, number, element)
            stores.declare()
            bodies = [BodyText(self.kernel, loop, axes, self.loops, elements) for loop in self.loops]
            for depth in range(len(axes)):
                for body in bodies:
                    body.enter(depth)
            with self._elements(element):
                self._point(bodies, stores, element)
            stores.store(chunk)

    @contextmanager
    def _elements(self, element: str) -> Iterator[None]:
        if self.width == 1:
            yield
            return
        with self.text.block(f"for {element} in range({self.width})"):
            yield

    def _point(self, bodies: list[BodyText], stores: WideStores, element: str) -> None:
        for k, body in enumerate(bodies):
            body.enter(body.depth)
            for j, effect in enumerate(body.loop.effects):
                if not stores.keep((k, j), body, element):
                    assert isinstance(effect, Store | Accumulate)
                    body.print_write(effect)
