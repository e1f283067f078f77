"""One pass of a group of threads over numbered points: chunks in flight, loads first, then bodies and effects.

A group covers `count` chunks of every thread.  Where the last point of the space is not the last of a chunk of some
thread, chunks are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from numstax.cuda_emit.accesses import Chunk, Staged, WideStores
from numstax.cuda_emit.points import decode
from numstax.emit.nest import Axis, BodyText, KernelText
from numstax.ir.index import Atom, Var
from numstax.ir.loops import Accumulate, Effect, Loop, Store
from numstax.records import record

Handler = Callable[[BodyText, Effect, Chunk], bool]
"""Prints an effect at one point; False when it is a store like any other."""


QUOTIENTS = 2
"""More quotients by one number cost more than its reciprocal."""
Mask = Callable[[Mapping[Atom, str]], str]


@record
class Span:
    """The points of one group of chunks.

    variables : what is numbered, last one fastest; the lane is the last of them, or one that has a name already.
    first : the number of this thread's first point; its chunks are `step` points apart.
    limit : numbers from here on are no points; None where all chunks lie inside.
    inside_loop : groups follow one another.
    mask : from the names of the variables, the condition under which there is such a point.
    most : there are no more points, where that is known of more than their variables.
    """

    variables: tuple[Var, ...]
    lane: Var
    width: int
    count: int
    first: str
    step: int
    limit: str | None
    inside_loop: bool = False
    mask: Mask | None = None
    most: int | None = None


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
        if self.span.count > 1 and self.staged.pending:
            with self.chunks() as chunk:
                self.staged.load(chunk)
        if self.span.inside_loop and self.span.count > 1 and self.span.width > 1:
            self._flat(handle)
            return
        with self.chunks() as chunk:
            if self.span.count == 1:
                self.staged.load(chunk)
            self.staged.load_late(chunk)
            self.stores.declare(1)
            bodies = self._bodies(chunk)
            self._enter(bodies, range(bodies[0].depth))
            with chunk.elements(self.kernel):
                self._point(bodies, chunk, handle)
            self.stores.store(chunk)

    def _flat(self, handle: Handler) -> None:
        """One loop over the points of all chunks: compilers do not take apart a loop over chunks with a loop over
        points inside, where another loop is around them, and then keep no registers."""
        self.stores.declare(self.span.count)
        flat, width = self.text.fresh("f"), self.span.width
        element = self.element or self.text.fresh("e")
        with self.text.block(f"for {flat} in range({self.span.count * width})"):
            self.text.line(f"{element} = {flat} % {width}")
            number = f"{flat} // {width}"
            point = self.text.assign("p", f"{self.span.first} + {number}*{self.span.step}")
            with self._masked(point, number, element) as chunk:
                chunk = replace(chunk, flat=flat)
                self._point(self._bodies(chunk), chunk, handle)
        if self.stores.effects:
            with self.chunks() as chunk:
                self.stores.store(replace(chunk, flat=flat))

    @contextmanager
    def chunks(self) -> Iterator[Chunk]:
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
        names, lines = decode(self.kernel, span.variables, point, most=span.most)
        chunk = Chunk({**self.kernel.names, **names}, self.lane, span.width, point, number, element)
        with self.text.block(f"if {point} < {span.limit}") if span.limit is not None else nullcontext():
            for name, value in lines:
                self.text.line(f"{name} = {value}")
            with self.text.block(f"if {span.mask(chunk.names)}") if span.mask is not None else nullcontext():
                yield chunk

    def _bodies(self, chunk: Chunk) -> list[BodyText]:
        for name, place in self.kernel.places.items():
            if place.slot:
                self.kernel.places[name] = replace(place, slot=chunk.slot)
        axes = [Axis(v, chunk.names[v], "", "") for v in self.span.variables if v != self.lane]
        axes.append(Axis(self.lane, chunk.at(chunk.element), "", ""))
        elements = self.staged.elements(chunk)
        # a copy: what is named inside of a mask or loop does not hold outside
        kernel = self.kernel.copy({})
        inverts = self.span.width * self.span.count > QUOTIENTS
        return [BodyText(kernel, loop, axes, self.loops, elements, inverts) for loop in self.loops]

    def _enter(self, bodies: Sequence[BodyText], depths: Iterable[int]) -> None:
        for depth in depths:
            for body in bodies:
                body.enter(depth)

    def _point(self, bodies: Sequence[BodyText], chunk: Chunk, handle: Handler) -> None:
        """What is not known before, and the effects, at one point."""
        for k, body in enumerate(bodies):
            self._enter([body], range(0 if chunk.flat else body.depth, body.depth + 1))
            for j, effect in enumerate(body.loop.effects):
                if self.stores.keep((k, j), body, chunk) or handle(body, effect, chunk):
                    continue
                assert isinstance(effect, Store | Accumulate)
                body.print_write(effect)


def stores_only(body: BodyText, effect: Effect, chunk: Chunk) -> bool:
    """The handler of loops whose effects are stores."""
    return False
