"""One pass of a group of threads over numbered points: chunks in flight, loads first, then bodies and effects.

A group covers `count` chunks of every thread.  Where the last point of the space is not the last of a chunk of some
thread, chunks are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from numstax.cuda_emit.accesses import Chunk, Staged, WideStores
from numstax.cuda_emit.points import decode
from numstax.emit.nest import Axis, BodyText, KernelText
from numstax.ir.index import Var
from numstax.ir.loops import Accumulate, Effect, Loop, Store
from numstax.records import record

Handler = Callable[[BodyText, Effect, Chunk], bool]
"""Prints an effect at one point; False when it is a store like any other."""


@record
class Span:
    """The points of one group of chunks: `variables` are numbered, last one fastest; `first` names the number of this
    thread's first point, its chunks are `step` points apart.  Numbers at or beyond `limit` are none; None where all
    chunks lie inside.  The `lane` is the last variable, or one that has a name already."""

    variables: tuple[Var, ...]
    lane: Var
    width: int
    count: int
    first: str
    step: int
    limit: str | None


class Pass:
    """`loops` at every point of a span; `element` is the name for the points of a chunk, where it has to be a given
    one."""

    def __init__(
        self, kernel: KernelText, loops: Sequence[Loop], span: Span, staged: Staged, element: str = ""
    ) -> None:
        self.kernel, self.text, self.loops, self.span, self.staged = kernel, kernel.text, loops, span, staged
        self.lane, self.element = span.lane, element
        self.stores = WideStores(kernel, loops, self.lane, span.width)

    def run(self, handle: Handler) -> None:
        """Print it; `handle` takes effects that are no stores to memory."""
        self.staged.declare()
        if self.span.count > 1 and (self.staged.wide or self.staged.others):
            with self._chunks() as chunk:
                self.staged.load(chunk)
        with self._chunks() as chunk:
            if self.span.count == 1:
                self.staged.load(chunk)
            self._compute(chunk, handle)

    @contextmanager
    def _chunks(self) -> Iterator[Chunk]:
        """Inside the loop over the chunks, where they lie inside of the space."""
        span, text = self.span, self.text
        number, element = "0", self.element or text.fresh("e")
        if span.count == 1:
            with self._masked(span.first, number, element) as chunk:
                yield chunk
            return
        number = text.fresh("c")
        with text.block(f"for {number} in range({span.count})"):
            point = text.assign("p", f"{span.first} + {number}*{span.step}")
            with self._masked(point, number, element) as chunk:
                yield chunk

    @contextmanager
    def _masked(self, point: str, number: str, element: str) -> Iterator[Chunk]:
        span = self.span
        names, lines = decode(self.kernel, span.variables, point)
        chunk = Chunk({**self.kernel.names, **names}, self.lane, span.width, point, number, element)
        if span.limit is None:
            self._assign(lines)
            yield chunk
            return
        with self.text.block(f"if {point} < {span.limit}"):
            self._assign(lines)
            yield chunk

    def _assign(self, lines: Sequence[tuple[str, str]]) -> None:
        for name, value in lines:
            self.text.line(f"{name} = {value}")

    def _compute(self, chunk: Chunk, handle: Handler) -> None:
        axes = [Axis(v, chunk.names[v], "", "") for v in self.span.variables if v != self.lane]
        axes.append(Axis(self.lane, chunk.at(chunk.element), "", ""))
        self.stores.declare()
        for name, place in self.kernel.places.items():
            if place.slot:
                self.kernel.places[name] = replace(place, slot=chunk.slot)
        elements = self.staged.elements(chunk)
        # a copy: what is named inside of a mask or loop does not hold outside
        kernel = self.kernel.copy({})
        bodies = [BodyText(kernel, loop, axes, self.loops, elements) for loop in self.loops]
        for depth in range(len(axes)):
            for body in bodies:
                body.enter(depth)
        with chunk.elements(self.kernel):
            for k, body in enumerate(bodies):
                body.enter(body.depth)
                for j, effect in enumerate(body.loop.effects):
                    if self.stores.keep((k, j), body, chunk.element) or handle(body, effect, chunk):
                        continue
                    assert isinstance(effect, Store | Accumulate)
                    body.print_write(effect)
        self.stores.store(chunk)


def stores_only(body: BodyText, effect: Effect, chunk: Chunk) -> bool:
    """The handler of loops whose effects are stores."""
    return False
