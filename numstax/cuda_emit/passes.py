"""One pass of a group of threads over numbered points: chunks in flight, loads first, then bodies and effects.

A group covers `count` chunks of every thread.  Where the last point of the space is not the last of a chunk of some
thread, chunks are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk, Staged, WideStores
from numstax.cuda_emit.points import decode
from numstax.emit.nest import Axis, BodyText, KernelText
from numstax.ir.handlers import operations
from numstax.ir.index import Atom, Var
from numstax.ir.loops import CHECKS, Accumulate, Effect, Loop, Store, access
from numstax.records import record

Handler = Callable[[BodyText, Effect, Chunk], bool]
"""Prints an effect at one point; False when it is a store like any other."""


QUOTIENTS = 2
"""More quotients by one number cost more than its reciprocal."""
FEW, COSTLY = 16, 8
"""Points of a thread and operations of a body, up to and from which on the body is evaluated behind the end, too: more
points take too many registers, and compilers make conditions of branches around short bodies."""
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
            if self._goes_beyond():
                self.staged.clear()
            with self.chunks() as chunk:
                self.staged.load(chunk)
        if self._goes_beyond() and self._is_harmless():
            self._everywhere(handle)
            return
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

    def _goes_beyond(self) -> bool:
        """Has a thread of a row registers for a few points behind the end, one by one, and are bodies long?  (Threads
        beside the last column have nothing to compute with.)"""
        span, tiling = self.span, self.kernel.kernel.tiling
        if tiling is None or tiling.form != "row":
            return False
        alone = len(self.loops) == 1 and len(span.variables) == 1 and not span.inside_loop
        costly = max(operations(loop.body) for loop in self.kernel.kernel.loops) >= COSTLY
        return costly and alone and span.width == 1 < span.count <= FEW and span.limit is not None and span.mask is None

    def _is_harmless(self) -> bool:
        """May the body be evaluated there, of zeros, since it reads nothing but registers?"""
        (loop,) = self.loops
        for instr in loop.body:
            if instr.op == "load":
                if access(instr) not in self.staged.arrays and access(instr)[0] not in self.kernel.places:
                    return False
            elif instr.op in CHECKS or (instr.op == "cast" and _rounds(loop.body[instr.args[0]].dtype, instr.dtype)):
                return False
        return True

    def _everywhere(self, handle: Handler) -> None:
        """The body at all points of the registers, its effects at those that there are: with a branch around each body
        one would wait for the other."""
        span, text = self.span, self.text
        number = text.fresh("c")
        with text.block(f"for {number} in range({span.count})"):
            point = text.assign("p", f"{span.first} + {number}*{span.step}")
            names, _ = decode(self.kernel, span.variables, point)
            chunk = Chunk({**self.kernel.names, **names}, self.lane, 1, point, number, self.element)
            (body,) = self._bodies(chunk)
            self._enter([body], range(body.depth + 1))
            kept = [e for e in body.loop.effects if isinstance(e, Store) and self._is_kept(e.buffer)]
            others = [e for e in body.loop.effects if e not in kept]
            for store in kept:
                body.print_write(store)
            with text.block(f"if {point} < {span.limit}") if others else nullcontext():
                for effect in others:
                    if not handle(body, effect, chunk):
                        assert isinstance(effect, Store | Accumulate)
                        body.print_write(effect)

    def _is_kept(self, name: str) -> bool:
        """Has each point a register of its own?"""
        place = self.kernel.places.get(name)
        return place is not None and bool(place.slot)

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


def _rounds(old: np.dtype, new: np.dtype) -> bool:
    """Is it a cast that not every number can take?"""
    return dtypes.kind(new) in "iu" and dtypes.kind(old) not in "iu"


def stores_only(body: BodyText, effect: Effect, chunk: Chunk) -> bool:
    """The handler of loops whose effects are stores."""
    return False
