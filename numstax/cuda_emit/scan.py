"""Scans: running combinations along the last inner variable.

`Carry` meets the points one after another.  `TeamScan` is for teams of warps along rows: each thread combines along
its chunks, each warp through shuffles along its part of the group, the team through shared memory; what came before
is then put in front of every element.  Points are grouped differently than one after another, so that sums of floats
are, if anything, more exact.
"""

from __future__ import annotations

from dataclasses import replace

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk
from numstax.cuda_emit.passes import Pass
from numstax.cuda_emit.team import WARP, Team, exchange
from numstax.emit.combine import combine, nothing, result
from numstax.emit.nest import BodyText, KernelText
from numstax.emit.values import cast, loaded, stored
from numstax.ir.index import Atom
from numstax.ir.loops import Loop, Scan
from numstax.tiles.cuda_points import is_wide


class Carry:
    """The combination so far in `register`; it starts anew where the last variable does."""

    def __init__(self, kernel: KernelText, loop: Loop, effect: Scan, register: str) -> None:
        self.kernel, self.text, self.loop, self.effect, self.register = kernel, kernel.text, loop, effect, register

    def begin(self) -> None:
        self.text.line(f"{self.register} = {nothing(self.effect.op, self.effect.dtype)}")

    def begin_group(self, masked: bool) -> None:
        """Before a group of chunks."""

    def update(self, body: BodyText, chunk: Chunk) -> None:
        effect = self.effect
        if len(self.loop.inner) > 1:
            with self.text.block(f"if {chunk.names[self.loop.inner[-1]]} == 0"):
                self.begin()
        value = cast(body.value(effect.value), body.dtype(effect.value), effect.dtype)
        self.text.line(f"{self.register} = {combine(effect.op, effect.dtype, self.register, value)}")
        self.kernel.store(effect.buffer, body.offset(effect.offset), self.register)

    def end_group(self, made: Pass) -> None:
        """After a group of chunks."""


class TeamScan:
    """One scan of a loop whose only inner variable the threads of a team share."""

    def __init__(self, kernel: KernelText, effect: Scan, team: Team, width: int, chunks: int) -> None:
        self.kernel, self.text, self.effect, self.team = kernel, kernel.text, effect, team
        self.width, self.chunks, self.dtype = width, chunks, effect.dtype
        self.compute = dtypes.compute(effect.dtype)
        kind = dtypes.name(self.compute)
        self.values = self.text.assign("z", f"registers_{kind}({width * chunks})")
        self.before = self.text.assign("b", f"registers_{kind}({chunks})")
        self.running, self.own = self.text.fresh("c"), self.text.fresh("a")
        self.slots = self.text.array("s", self.compute, team.warps) if team.warps > 1 else ""
        self.nothing = nothing(effect.op, self.compute)

    def _op(self, a: str, b: str) -> str:
        return combine(self.effect.op, self.compute, a, b)

    def begin(self) -> None:
        self.text.line(f"{self.running} = {self.nothing}")

    def begin_group(self, masked: bool) -> None:
        self.text.line(f"{self.own} = {self.nothing}")
        if masked:
            f = self.text.fresh("f")
            with self.text.block(f"for {f} in range({self.width * self.chunks})"):
                self.text.line(f"{self.values}[{f}] = {self.nothing}")

    def update(self, body: BodyText, chunk: Chunk) -> None:
        """Along one chunk of this thread."""
        value = cast(body.value(self.effect.value), body.dtype(self.effect.value), self.dtype)
        if self.width > 1:
            value = self.text.assign("v", value)
            value = f"{value} if {chunk.element} == 0 else {self._op(self.own, value)}"
        self.text.line(f"{self.own} = {value}")
        self.text.line(f"{self.values}[{chunk.slot}] = {self.own}")

    def end_group(self, made: Pass) -> None:
        text, own = self.text, self.own
        text.line(f"{own} = {self.nothing}")
        c = text.fresh("c")
        with text.block(f"for {c} in range({self.chunks})"):
            last = text.assign("o", f"{self.values}[{c}*{self.width} + {self.width - 1}]")
            self._along_warp(last, WARP)
            left = self._from("up", last, "1")
            text.line(f"{self.before}[{c}] = {own} if {self._lane} == 0 else {self._op(own, left)}")
            text.line(f"{own} = {self._op(own, self._from('at', last, str(WARP - 1)))}")
        front = self._in_front(made.span.inside_loop)
        f = text.fresh("f")
        with text.block(f"for {f} in range({self.chunks})"):
            text.line(f"{self.before}[{f}] = {self._op(front, f'{self.before}[{f}]')}")
        self._store(made)

    @property
    def _lane(self) -> str:
        return f"{self.team.lane} % {WARP}" if self.team.warps > 1 else self.team.lane

    def _from(self, way: str, value: str, lane: str) -> str:
        """The value of another lane, under a name."""
        return self.text.assign("o", exchange(way, value, lane, self.compute))

    def _along_warp(self, value: str, lanes: int) -> None:
        """Each lane gets the combination of all lanes up to it."""
        distance = 1
        while distance < lanes:
            other = self._from("up", value, str(distance))
            self.text.line(f"{value} = {self._op(other, value)} if {self._lane} >= {distance} else {value}")
            distance *= 2

    def _in_front(self, again: bool) -> str:
        """The combination of all that comes before this warp in the row."""
        text, warps = self.text, self.team.warps
        if warps == 1:
            front = text.assign("o", self.running)
            text.line(f"{self.running} = {self._op(self.running, self.own)}")
            return front
        with text.block(f"if {self._lane} == 0"):
            text.line(f"{self.slots}[{self.team.lane} // {WARP}] = {stored(self.own, self.compute)}")
        text.line("barrier()")
        total = text.assign("o", loaded(f"{self.slots}[{self.team.lane} % {warps}]", self.compute))
        self._along_warp(total, warps)
        warp = text.assign("o", f"{self.team.lane} // {WARP}")
        left = self._from("at", total, f"max({warp} - 1, 0)")
        front = text.assign("o", f"{self.running} if {warp} == 0 else {self._op(self.running, left)}")
        all_warps = self._from("at", total, str(warps - 1))
        text.line(f"{self.running} = {self._op(self.running, all_warps)}")
        if again:
            text.line("barrier()")
        return front

    def _store(self, made: Pass) -> None:
        """What came before each chunk in front of its elements."""
        effect, buffer = self.effect, self.kernel.buffer(self.effect.buffer)
        with made.chunks() as chunk:
            parts = [self._element(chunk, str(e)) for e in range(self.width)]
            place = self.kernel.places.get(buffer.name)
            if place is None and self.width > 1 and is_wide(buffer, effect.offset, chunk.lane, self.width):
                offset = self.text.index(effect.offset, chunk.names)
                values = ", ".join(stored(part, buffer.dtype) for part in parts)
                name = f"store{self.width}_{dtypes.name(buffer.dtype)}"
                self.text.line(f"{name}({self.text.buffer(buffer)}, {offset}, ({values}))")
                return
            for e, part in enumerate(parts):
                names: dict[Atom, str] = {**chunk.names, chunk.lane: chunk.at(str(e))}
                if place is not None and place.slot:
                    self.kernel.places[buffer.name] = replace(place, slot=self._slot(chunk, str(e)))
                self.kernel.store(effect.buffer, self.text.index(effect.offset, names), part)

    def _element(self, chunk: Chunk, e: str) -> str:
        value = self._op(f"{self.before}[{chunk.number}]", f"{self.values}[{self._slot(chunk, e)}]")
        return self.text.assign("v", result(value, self.dtype))

    def _slot(self, chunk: Chunk, e: str) -> str:
        return chunk.number if self.width == 1 else f"{chunk.number}*{self.width} + {e}"
