"""A loop nest as one program, so that an iteration costs no Python: its text.

Enters: a tiled Control.  Leaves: an `EmittedLoop`.  Kernels of few elements are printed where they run, single
elements live in registers, and larger kernels are programs of their own, called; those with enough work are shared
out among the threads of a team.  The other threads only help: they wait for kernels, and where none comes to help, the
caller does everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from math import lcm

from numstax import dtypes
from numstax.cpu_emit.cells import Body, Called, Inner, Nest, NotNativeError, loop_work, nest
from numstax.cpu_emit.innermost import Innermost, innermost
from numstax.cpu_emit.programs import Printed, finish, least_tasks
from numstax.cpu_emit.row import print_rows
from numstax.emit.naming import Names, heading, joined_name
from numstax.emit.nest import Axis, KernelText, Place
from numstax.emit.text import Text
from numstax.emit.values import loaded, stored
from numstax.ir.index import ONE, ZERO, Index, bounds, product
from numstax.ir.loops import Buffer, Control, EmittedLoop, Kernel, Refusal
from numstax.program import Callee, Emitted, Program
from numstax.schedule.independence import carried

LEAST_TRIPS = 4
"""Iterations that are worth sharing out."""
SHARING_COST = 1 << 4
"""How many times cheaper it is to share out a kernel among threads that wait for it than to wake threads."""


def emit_loop(control: Control, around: Mapping[str, Buffer], threshold: int, used: Names) -> EmittedLoop | Refusal:
    """`around` : the buffers of the schedule that the Control stands in; `threshold` : work that is worth waking
    another thread for."""
    within = threshold // SHARING_COST
    try:
        printed = _shared(control, around, threshold, used)
        if printed is not None:
            return EmittedLoop(control, printed.emitted, printed.calls)
        found = nest(control, around, within, used, partial(_shared, threshold=within, used=used))
    except NotNativeError as error:
        place = f" at {control.origin}" if control.origin else ""
        return Refusal(f"{control.kind}{place}", f"every iteration starts from Python, since {error}")
    return _Driver(found, within, used).emit()


def _shared(control: Control, around: Mapping[str, Buffer], threshold: int, used: Names) -> Printed | None:
    """The program of a loop whose iterations are shared out among threads, where that is possible and pays."""
    if control.kind != "for" or not isinstance(control.head, Index):
        return None
    work = loop_work(control)
    most, trips = bounds(work)[1], bounds(control.head)[1]
    small = (most is not None and most < threshold) or (trips is not None and trips < LEAST_TRIPS)
    if small or carried(control, around):
        return None
    try:
        found = nest(control, around, threshold, used, lambda *_: None)
    except NotNativeError:
        return None
    return _Driver(found, None, used).emit_shared(work)


class _Driver:
    """`threshold` : the work of a kernel that is worth sharing out; None: none is, since threads share the loop."""

    def __init__(self, found: Nest, threshold: int | None, used: Names) -> None:
        self.nest, self.threshold, self.used = found, threshold, used
        written = {*found.root.control.writes(), *(b.name for b in found.made)}
        self.text = Text(frozenset(written), leaves=True)
        self.places: dict[str, Place] = {}
        self.calls: list[Printed] = []

    def emit(self) -> EmittedLoop:
        """All iterations in order."""
        self._load_registers()
        self._control(self.nest.root)
        self._store_registers()
        emitted = self._finish(ZERO)
        made = tuple(b for b in self.nest.made if b.name in emitted.args)
        return EmittedLoop(self.nest.root.control, emitted, self._programs(), made)

    def emit_shared(self, work: Index) -> Printed | None:
        """The iterations lo <= k < hi.  What each has for itself lies in the scratch memory of its thread."""
        root, text = self.nest.root, self.text
        assert isinstance(root.head, Index)
        single = {cell for cell in root.control.writes() if not self.nest.buffers[cell].shape}
        if not single <= self.nest.registers:
            return None
        for buffer in self.nest.made:
            self.places[buffer.name] = Place(text.array("own", buffer.dtype, product(buffer.shape)), array=True)
        self._load_registers()
        lo, hi = text.special("lo"), text.special("hi")
        with text.block(f"for {text.counter(root.counter)} in range({lo}, {hi})"):
            self._body(root.bodies[0])
        if single:
            with text.block(f"if ({lo} < {hi}) & ({hi} == {text.index(root.head)})"):
                self._store_registers()
        grain = least_tasks(work, root.head)
        return Printed(self._finish(work, root.head, grain), work, text.scratch, root.head, grain, self._programs())

    def _finish(self, work: Index, tasks: Index | None = None, grain: Index = ONE) -> Emitted:
        name = "loop_" + joined_name(list(_kernel_names(self.nest.root)))
        calls = tuple(Callee(p.emitted.program.name, p.emitted.program.params) for p in self.calls)
        return finish(self.text, name, self.used, work, tasks, grain, calls=calls)

    def _programs(self) -> tuple[Program, ...]:
        return tuple(dict.fromkeys(p for called in self.calls for p in (*called.calls, called.emitted.program)))

    # --- single elements around the loop

    def _outside(self) -> list[Buffer]:
        root = self.nest.root
        heads = (root.head,) if isinstance(root.head, str) else ()
        return [self.nest.buffers[c] for c in dict.fromkeys((*root.args, *heads)) if c in self.nest.registers]

    def _load_registers(self) -> None:
        for buffer in self._outside():
            text = self.text.buffer(buffer)
            element = text if buffer.kind == "scalar" else f"{text}[0]"
            self.text.line(f"{self._place(buffer.name).name} = {loaded(element, buffer.dtype)}")

    def _store_registers(self) -> None:
        written = self.nest.root.control.writes()
        for buffer in self._outside():
            if buffer.name in written:
                value = stored(self._place(buffer.name).name, buffer.dtype)
                self.text.line(f"{self.text.buffer(buffer)}[0] = {value}")

    # --- places

    def _place(self, cell: str) -> Place:
        if cell not in self.places:
            if cell in self.nest.registers:
                self.places[cell] = Place(self.text.fresh("r"), array=False)
            else:
                self.places[cell] = Place(self.text.buffer(self.nest.buffers[cell]), array=True)
        return self.places[cell]

    def _element(self, cell: str) -> str:
        """The value of a cell of one element."""
        place = self._place(cell)
        return loaded(f"{place.name}[0]", self.nest.buffers[cell].dtype) if place.array else place.name

    def _head(self, head: Index | str | None) -> str:
        if isinstance(head, Index):
            return self.text.index(head)
        assert head is not None
        return self._element(head)

    # --- control flow

    def _control(self, inner: Inner) -> None:
        if inner.control.origin is not None:
            self.text.line(f"# {inner.control.origin}")
        if inner.kind == "cond":
            with self.text.block(f"if {self._head(inner.head)}"):
                self._body(inner.bodies[0])
            if inner.bodies[1].items:
                with self.text.block("else"):
                    self._body(inner.bodies[1])
            return
        with self._rotating(inner) as turn:
            if inner.kind == "for":
                trips = self._head(inner.head)
                if isinstance(inner.head, str):
                    trips = self.text.assign("n", trips)
                    self.text.when_unmet(f"{trips} = 0")
                found = innermost(inner, self.nest.buffers)
                if found is None:
                    with self.text.block(f"for {self.text.counter(inner.counter)} in range({trips})"):
                        self._body(inner.bodies[0])
                        turn()
                else:
                    self._innermost(found, inner.counter, trips)
            else:
                test, body = inner.bodies
                (wanted,) = test.schedule.outputs
                assert wanted is not None
                with self.text.block("while True"):
                    self._body(test)
                    with self.text.block(f"if not {self._element(test.cells[wanted])}"):
                        self.text.line("break")
                    self._body(body)
                    turn()
                    self.text.when_unmet("break")

    def _innermost(self, found: Innermost, counter: str, trips: str) -> None:
        text = self.text
        if found.cut is None:
            self._held(found, counter, "0", trips)
            return
        cut = text.assign("cut", f"min(max({text.index(found.cut)}, 0), {trips})")
        part = text.fresh("part")
        with text.block(f"for {part} in range(rolled(2))"):
            start = text.assign("start", f"{cut} if {part} else 0")
            stop = text.assign("stop", f"{trips} if {part} else {cut}")
            self._held(found, counter, start, stop)

    def _held(self, found: Innermost, counter: str, start: str, stop: str) -> None:
        """The iterations start <= k < stop."""
        text = self.text
        with ExitStack() as stack:
            if found.held:
                stack.enter_context(text.block(f"if {start} < {stop}"))
            for name, (cell, offset) in found.held.items():
                element = f"{self._place(cell).name}[{text.index(offset)}]"
                value = text.assign("h", loaded(element, self.nest.buffers[cell].dtype))
                self.places[name] = Place(value, array=False)
            axis = Axis(None, text.counter(counter), start, stop, part=True)
            stack.enter_context(text.block(axis.header))
            self._body(found.body)

    def _body(self, body: Body) -> None:
        for item in body.items:
            if isinstance(item, Inner):
                self._control(item)
            elif isinstance(item, Called):
                self._call(item, body.cells)
            else:
                self._inline(item, body.cells)

    def _inline(self, kernel: Kernel, cells: Mapping[str, str]) -> None:
        for line in heading(kernel):
            self.text.line(line)
        printer = KernelText(self.text, kernel)
        printer.places = {b.name: self._place(cells[b.name]) for b in kernel.buffers if b.kind != "local"}
        print_rows(printer, parallel=False)

    # --- buffers that change their parts

    @contextmanager
    def _rotating(self, inner: Inner) -> Iterator[Callable[[], None]]:
        """Around a loop: pointers for the buffers that rotate, and afterwards the states where they belong."""
        text, pairs = self.text, inner.rotate
        if not pairs:
            yield lambda: None
            return
        homes = {cell: self._place(cell) for pair in pairs for cell in pair}
        for cell, home in homes.items():
            self.places[cell] = Place(text.assign("p", home.name), array=True)
        turns, period = text.assign("turns", "0"), _period(dict(pairs))

        def turn() -> None:
            targets, sources = zip(*((self.places[a].name, self.places[b].name) for a, b in pairs), strict=True)
            text.line(f"{', '.join(targets)} = {', '.join(sources)}")
            text.line(f"{turns} = {turns} + 1")

        yield turn
        with text.block(f"if {turns} % {period} != 0"):
            self._bring_home(inner, homes)
        self.places |= homes

    def _bring_home(self, inner: Inner, homes: Mapping[str, Place]) -> None:
        """All elements at one position at a time, since the states may lie in each other's buffers."""
        states = [c for c in inner.args[: inner.control.states] if c in homes]
        by_shape: dict[tuple[Index, ...], list[str]] = {}
        for cell in states:
            by_shape.setdefault(self.nest.buffers[cell].shape, []).append(cell)
        for shape, cells in by_shape.items():
            at = self.text.fresh("e")
            with self.text.block(f"for {at} in range({self.text.index(product(shape))})"):
                values = [self.text.assign("v", f"{self.places[c].name}[{at}]") for c in cells]
                for cell, value in zip(cells, values, strict=True):
                    self.text.line(f"{homes[cell].name}[{at}] = {value}")

    # --- programs that are called

    def _call(self, item: Called, cells: Mapping[str, str]) -> None:
        printed, text = item.printed, self.text
        program = printed.emitted.program
        if program not in (known.emitted.program for known in self.calls):
            self.calls.append(printed)
        args = iter(printed.emitted.args)
        words: dict[str, str] = {}
        for param in program.params:
            if param.kind == "pointer":
                words[param.name] = self._place(cells[next(args)]).name
            elif param.kind == "size":
                words[param.name] = text.size(next(args))
            elif param.kind == "status":
                words[param.name] = text.special("status")
        calls = text.special("calls")
        if any(p.kind == "scratch" for p in program.params):
            # also where it is shared out: every thread has as much as the loop itself
            words["scratch"] = text.array("scratch", dtypes.UINT8, printed.scratch)
        least, most = bounds(printed.work)
        if printed.tasks is None or self.threshold is None or (most is not None and most < self.threshold):
            self._run(item, words, calls)
        elif least is not None and least >= self.threshold:
            self._share(item, words, calls)
        else:
            with text.block(f"if {text.index(printed.work)} < {self.threshold}"):
                self._run(item, words, calls)
            with text.block("else"):
                self._share(item, words, calls)
        if "status" in words:
            first = len(text.checks)
            text.checks += printed.emitted.checks
            with text.block("if status[0] != 0"):
                text.line(f"status[2] = status[2] + {first}")
                text.leave()

    def _run(self, item: Called, words: dict[str, str], calls: str) -> None:
        printed = item.printed
        program = printed.emitted.program
        special = {"lo": "0", "hi": "1" if printed.tasks is None else self.text.index(printed.tasks)}
        arguments = [words.get(p.name) or special[p.kind] for p in program.params if p.kind != "calls"]
        self.text.line(f"run_{program.name}({', '.join((calls, *arguments))})")

    def _share(self, item: Called, words: dict[str, str], calls: str) -> None:
        printed = item.printed
        assert printed.tasks is not None
        tasks, grain = self.text.index(printed.tasks), self.text.index(printed.grain)
        program = printed.emitted.program
        arguments = (words[p.name] for p in program.params if p.kind not in ("lo", "hi", "scratch", "calls"))
        self.text.line(
            f"share_{program.name}({', '.join((calls, self.text.special('team'), tasks, grain, *arguments))})"
        )


def _kernel_names(inner: Inner) -> Iterator[str]:
    for body in inner.bodies:
        for item in body.items:
            if isinstance(item, Inner):
                yield from _kernel_names(item)
            elif isinstance(item, Kernel):
                yield item.name
            else:
                yield item.printed.emitted.program.name


def _period(rotation: Mapping[str, str]) -> int:
    """After so many turns every buffer has its part again."""
    lengths = []
    for start in rotation:
        length, at = 1, rotation[start]
        while at != start:
            length, at = length + 1, rotation[at]
        lengths.append(length)
    return lcm(*lengths)
