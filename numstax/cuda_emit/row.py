"""Kernels whose loops run along rows: a team of threads for each outer point, and its loops one after another.

In each loop a warp takes `unroll` chunks of 32 threads that lie side by side, and a team one group of such chunks after
another.  With one group for all loops, what is loaded stays in registers from one loop to the next, and so do local
rows; otherwise they may stay in shared memory (`Tiling.cache`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from numstax import dtypes
from numstax.cuda_emit.accesses import Access, Shelf, Staged, early_loads, storage_name
from numstax.cuda_emit.ahead import ask
from numstax.cuda_emit.effects import Combining
from numstax.cuda_emit.passes import FEW, Pass, Span
from numstax.cuda_emit.points import count, decode
from numstax.cuda_emit.reduce import Cells, Reduction
from numstax.cuda_emit.scan import TeamScan
from numstax.cuda_emit.team import WARP, Team
from numstax.cuda_emit.text import DeviceText
from numstax.emit.combine import result
from numstax.emit.nest import BodyText, KernelText, Place
from numstax.emit.values import zero
from numstax.ir.index import ONE, Index, as_index, atoms, bounds, divides, product, same
from numstax.ir.loops import NARROW, Accumulate, Loop, Reduce, Scan, Store, access
from numstax.tiles.cuda_rows import Key, canonical, exchanges, is_own, is_reused


def print_rows(kernel: KernelText) -> tuple[Index, ...]:
    """Print a kernel in row form; the number of blocks."""
    return _Rows(kernel).run()


class _Rows:
    def __init__(self, kernel: KernelText) -> None:
        tiling = kernel.kernel.tiling
        assert tiling is not None
        assert isinstance(kernel.text, DeviceText)
        self.kernel, self.text, self.tiling = kernel, kernel.text, tiling
        self.loops = kernel.kernel.loops
        self.group = tiling.team * tiling.width * tiling.unroll
        exchanges = sum(isinstance(e, Reduce) for loop in self.loops for e in loop.effects)
        self.team = Team(self.text, tiling.threads, tiling.team, exchanges)
        self.kept: dict[tuple[str, Key], str] = {}
        self.shelves: dict[tuple[str, Key], Shelf] = {}

    def run(self) -> tuple[Index, ...]:
        outer, team = self.kernel.kernel.outer, self.team
        rows = count(outer)
        block = "int64(block_x())" if team.cluster == 1 else f"int64(block_x() >> {team.cluster.bit_length() - 1})"
        number = f"{block}*{team.count} + int64({team.number})" if team.count > 1 else block
        with ExitStack() as stack:
            if outer:
                row = self.text.assign("p", number)
                if team.count > 1 and divides(team.count, rows) is not True:
                    stack.enter_context(self.text.block(f"if {row} < {self.kernel.index(rows)}"))
                few = team.count == 1 or self.tiling.narrow
                names, lines = decode(self.kernel, outer, row, most=NARROW if few else None)
                self.kernel.names.update(names)
                for name, value in lines:
                    self.text.line(f"{name} = {value}")
            elif team.count > 1:
                stack.enter_context(self.text.block(f"if {team.number} == 0"))
            self._loops()
        return ((rows + (team.count - 1)) // team.count * team.cluster,)

    def _loops(self) -> None:
        self._place_locals()
        waits = exchanges(self.kernel.kernel)
        self.first = self._first()
        if self.tiling.ahead:
            self._ask()
        for k, loop in enumerate(self.loops):
            if k in waits:
                self.team.sync()
            if loop.inner:
                _RowPass(self, k).run()
            else:
                self._once(loop)

    def _first(self) -> str:
        """The number of this thread's first point in a group."""
        team, width = self.team, self.tiling.width
        if team.size == 1:
            return "0"
        lane = team.lane
        if team.warps > 1 and self.tiling.unroll > 1:
            warp = f"int64({lane} // {WARP})*{WARP * width * self.tiling.unroll}"
            return self.text.assign("q", f"{warp} + int64({lane} % {WARP})*{width}")
        return self.text.assign("q", f"int64({lane})*{width}" if width > 1 else f"int64({lane})")

    def _ask(self) -> None:
        """Ask for the part of a later row that takes the place of this one."""
        (moving,) = (v for v in self.kernel.kernel.outer if v.extent is not ONE)
        loop = next(loop for loop in self.loops if loop.inner)
        loads = early_loads((loop,), {b.name: b for b in self.kernel.kernel.buffers})
        loads = [(name, offset) for name, offset in loads if moving in atoms(offset)]
        team, length = self.team, count(loop.inner)
        later = f"{self.kernel.names[moving]} + {self.tiling.ahead * team.count // team.cluster}"
        part = as_index(self.group // team.cluster) if team.cluster > 1 else length
        tests = [f"({team.leads})", f"({later} < {self.kernel.index(moving.extent)})"]
        if team.cluster > 1 and same(length, self.group) is not True:
            tests.append(f"({self.first} + {self.kernel.index(part)} <= {self.kernel.index(length)})")
        names, first = {**self.kernel.names, moving: f"({later})"}, self.first if team.cluster > 1 else "0"
        with self.text.block(f"if {' & '.join(tests)}"):
            ask(self.kernel, loads, loop.inner, names, first, part)

    def groups(self, loop: Loop) -> int | None:
        """Groups of a loop; None where the number is not known."""
        most = bounds(count(loop.inner))[1]
        return None if most is None else -(-most // self.group)

    def _place_locals(self) -> None:
        for buffer in self.kernel.kernel.buffers:
            if buffer.kind == "local":
                if not buffer.shape:
                    self.kernel.places[buffer.name] = Place(self.text.fresh("r"), array=False)
                else:
                    self._place_row(buffer.name)

    def _place_row(self, name: str) -> None:
        buffer = self.kernel.buffer(name)
        if self.tiling.cache == "registers" and is_own(self.kernel.kernel, name):
            size = self.tiling.width * self.tiling.unroll
            array = self.text.assign("row", f"registers_{storage_name(buffer.dtype)}({size})")
            if self.tiling.width == 1 < size <= FEW:  # they are read behind the end of the row, too
                e = self.text.fresh("e")
                with self.text.block(f"for {e} in range({size})"):
                    self.text.line(f"{array}[{e}] = {zero(dtypes.storage(buffer.dtype))}")
            self.kernel.places[name] = Place(array, array=True, slot="?")
            return
        array = self.text.array("row", buffer.dtype, product(buffer.shape) * self.team.count)
        if self.team.count > 1:
            at = f"int64({self.team.number})*{self.kernel.index(product(buffer.shape))}"
            moved = f"offset_{dtypes.name(buffer.dtype)}({array}, {at})"
            array = self.text.assign("row", moved)
        self.kernel.places[name] = Place(array, array=True)

    def _once(self, loop: Loop) -> None:
        """A loop that runs once: every thread keeps its locals, the first one writes to memory."""
        if not any(self._is_private(e.buffer) for e in loop.effects):
            with self.alone(loop.effects[0].buffer):
                body = BodyText(self.kernel.copy({}), loop, ())
                body.enter(0)
                for effect in loop.effects:
                    assert isinstance(effect, Store | Accumulate)
                    body.print_write(effect)
            return
        body = BodyText(self.kernel, loop, ())
        body.enter(0)
        for effect in loop.effects:
            assert isinstance(effect, Store | Accumulate)
            with self.alone(effect.buffer):
                body.print_write(effect)

    @contextmanager
    def alone(self, buffer: str) -> Iterator[None]:
        """Inside of what only the first thread does, when the buffer is not private to each."""
        if self.team.size == 1 or self._is_private(buffer):
            yield
            return
        with self.text.block(f"if {self.team.first}"):
            yield

    def _is_private(self, buffer: str) -> bool:
        place = self.kernel.places.get(buffer)
        return place is not None and not place.array


class _RowPass:
    """One loop with inner variables."""

    def __init__(self, rows: _Rows, number: int) -> None:
        self.rows, self.number = rows, number
        self.kernel, self.text, self.team = rows.kernel, rows.text, rows.team
        self.loop = rows.loops[number]
        self.groups = rows.groups(self.loop)
        cells = Cells(0, "", rows.tiling.width)
        in_team = None if self.team.size == 1 else self._scan
        self.combining = Combining(self.kernel, self.loop, cells, self.groups == 1, in_team)

    def _scan(self, effect: Scan) -> TeamScan:
        tiling = self.rows.tiling
        return TeamScan(self.kernel, effect, self.team, tiling.width, tiling.unroll)

    def run(self) -> None:
        rows, tiling = self.rows, self.rows.tiling
        self.saved, self.shelved = self._shelves() if tiling.cache == "shared" else ({}, {})
        resident = tiling.cache == "shared" and tiling.resident > 0
        self._note_divisors()
        self.combining.run(count(self.loop.inner), rows.group, "", self._pass_at, resident)
        rows.shelves.update({self._key(x): shelf for x, shelf in self.saved.items()})
        for r in self.combining.reductions.values():
            self._finish(r)

    def _note_divisors(self) -> None:
        """Numbers of the row that all its points are divided by."""
        for instr in self.loop.body:
            if instr.op == "divide" and dtypes.kind(instr.dtype) == "f":
                divisor = self.loop.body[instr.args[1]]
                place = self.kernel.places.get(access(divisor)[0]) if divisor.op == "load" else None
                if place is not None and not place.array and place.name not in self.kernel.divisors:
                    self.kernel.divisors[place.name] = self.kernel.divisor(place.name, divisor.dtype)

    def _key(self, load: Access) -> tuple[str, Key]:
        return load[0], canonical(self.loop, load[1])

    def _shelves(self) -> tuple[dict[Access, Shelf], dict[Access, Shelf]]:
        """Rows in shared memory: those that this loop keeps for later ones, and those that it finds."""
        rows, first = self.rows, self.rows.group * self.rows.tiling.resident
        loads = self._early()
        found = {x: rows.shelves[self._key(x)] for x in loads if self._key(x) in rows.shelves}
        length = count(self.loop.inner) - first
        made = {
            x: Shelf(self.text.array("row", self.kernel.buffer(x[0]).dtype, length), first)
            for x in self._used_later(loads)
            if x not in found
        }
        return made, found

    def _early(self) -> list[Access]:
        loads = early_loads((self.loop,), {b.name: b for b in self.kernel.kernel.buffers})
        if self.rows.tiling.unroll == 1 and self.team.size == 1:
            written = self.kernel.kernel.writes()
            loads = [x for x in loads if x[0] not in written]
        return loads

    def _used_later(self, loads: Sequence[Access]) -> list[Access]:
        return [x for x in loads if is_reused(self.rows.kernel.kernel, self.number, *x)]

    def _pass_at(self, start: str, limit: str | None, inside_loop: bool) -> Pass:
        tiling, mine, loop = self.rows.tiling, self.rows.first, self.loop
        first = mine if start == "0" else start if mine == "0" else self.text.assign("q", f"{start} + {mine}")
        step = WARP * tiling.width if self.team.size > 1 else tiling.width
        span = Span(loop.inner, loop.inner[-1], tiling.width, tiling.unroll, first, step, limit, inside_loop)
        in_registers = tiling.cache == "registers" or (tiling.resident > 0 and start == "0" and not inside_loop)
        return Pass(self.kernel, (loop,), span, self._staged(span, in_registers))

    def _staged(self, span: Span, in_registers: bool) -> Staged:
        """What can be loaded early; what later loops load again is kept."""
        loads, kept = self._early(), self.rows.kept
        keep = self._used_later(loads) if in_registers else []
        known = {x: kept[self._key(x)] for x in loads if self._key(x) in kept} if in_registers else {}
        outer = self.kernel.kernel.outer
        late = {x for x in loads if outer and not any(a in outer for a in atoms(x[1]))}
        nested = not span.inside_loop
        staged = Staged(self.kernel, loads, span.count, span.lane, span.width, keep, known, late, nested)
        if in_registers:
            staged.declare()
            kept.update({self._key(x): array for x, array in staged.arrays.items()})
        else:
            staged.saved, staged.shelved = self.saved, self.shelved
        return staged

    def _finish(self, r: Reduction) -> None:
        """The result of all threads, to where it goes."""
        self.team.combine(r.states, r.merge)
        effect = r.effect
        targets = ((effect.buffer, effect.offset), (effect.value_buffer, effect.value_offset))
        for (name, offset), value in zip(targets, r.results(), strict=False):
            if name is not None and offset is not None:
                with self.rows.alone(name):
                    self.kernel.store(name, self.kernel.index(offset), result(value, self.kernel.buffer(name).dtype))
