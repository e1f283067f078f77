"""Sites: the buffers, places and kernels of a schedule under construction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from numstax.ir.graph import Node
from numstax.ir.index import ONE, ZERO, Index, Var, as_index, contiguous_strides
from numstax.ir.loops import Buffer, Effect, Kernel, Loop, Store, Unit
from numstax.ir.overlap import apart
from numstax.schedule.dimensions import simplify
from numstax.schedule.kernels import make_kernel
from numstax.schedule.record import Recorder, prune
from numstax.schedule.rewrite import Fresh
from numstax.schedule.values import Place, Values
from numstax.schedule.views import Position


class Sites:
    """buffers by name; the place of each stored node; the units that compute each root.

    detours : for each argument, how many elements reach it through a temporary.
    """

    def __init__(self) -> None:
        self.detours: Counter[str] = Counter()
        self.buffers: dict[str, Buffer] = {}
        self.places: dict[Node, Place] = {}
        self.units: dict[Node, list[Unit]] = {}
        self.fresh = Fresh("k")
        self._temps = Fresh("t")

    def declare(
        self, name: str, dtype: np.dtype, shape: tuple[Index, ...], kind: str, strides: tuple[Index, ...]
    ) -> None:
        self.buffers[name] = Buffer(name, dtype, shape, strides, kind)

    def buffer(self, dtype: np.dtype, shape: tuple[Index, ...], output: str | None = None) -> str:
        """A new contiguous buffer: the output of that name, or a temporary."""
        name = output or self._temps.name()
        self.declare(name, dtype, shape, "output" if output else "temp", contiguous_strides(shape))
        return name

    def publish(self, name: str) -> None:
        """A temporary turns out to hold an output."""
        self.buffers[name] = replace(self.buffers[name], kind="output")

    def new(self, node: Node, output: str | None = None) -> Place:
        return Place(self.buffer(node.dtype, node.shape, output), contiguous_strides(node.shape))

    def space(self, shape: tuple[Index, ...]) -> tuple[Position, dict[int, Var]]:
        """An index over `shape`, and its variable for each axis longer than one."""
        variables = {axis: self.fresh.var(n) for axis, n in enumerate(shape) if n is not ONE}
        return tuple(as_index(variables[a]) if a in variables else ZERO for a in range(len(shape))), variables

    def values(self) -> tuple[Values, Recorder]:
        recorder = Recorder()
        return Values(recorder, self.places), recorder

    def assign(
        self, node: Node, place: Place, shape: tuple[Index, ...] | None = None, starts: Position | None = None
    ) -> Kernel:
        """The pointwise kernel that stores ``node[starts + k]`` at k of `place`, for every k of `shape` (the
        node's)."""
        index, variables = self.space(node.shape if shape is None else shape)
        values, recorder = self.values()
        at = index if starts is None else tuple(i + s for i, s in zip(index, starts, strict=True))
        value = values.value(node, at)
        return self.kernel(tuple(variables.values()), (), recorder, Store(place.buffer, place.at(index), value))

    def kernel(self, outer: tuple[Var, ...], inner: tuple[Var, ...], recorder: Recorder, effect: Effect) -> Kernel:
        loop = Loop(inner, *prune(recorder.body(), (effect,)))
        sizes = {name: b.dtype.itemsize for name, b in self.buffers.items()}
        return make_kernel(*simplify(outer, (loop,), sizes, self.fresh), self.buffers)

    def current(self, unit: Unit) -> Unit:
        """The unit with its buffers as they are now."""
        if not isinstance(unit, Kernel):
            return unit
        return replace(unit, buffers=tuple(self.buffers[b.name] for b in unit.buffers))

    def reads_only_own(self, unit: Unit, buffer: str) -> bool:
        """Does no iteration read an element of `buffer` that another one writes?"""
        if not isinstance(unit, Kernel):
            return buffer not in unit.reads()
        if not unit.outer and not any(loop.inner for loop in unit.loops):
            return True
        for loop in unit.loops:
            written = {e.offset for e in loop.effects if e.buffer == buffer}
            own = {e.offset for e in loop.effects if isinstance(e, Store)}
            for name, offset in loop.loads():
                if name == buffer and not self.apart(offset, written - (own & {offset}), buffer):
                    return False
        return True

    def apart(self, offset: Index, others: Iterable[Index], buffer: str) -> bool:
        """Does an access never meet any of the others?"""
        return all(apart(offset, other, self.buffers[buffer]) for other in others)
