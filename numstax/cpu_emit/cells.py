"""The memory of a loop nest that becomes one program, and what runs where in it.

Enters: a Control and the buffers around it.  Leaves: a `Nest`.  A *cell* is one buffer under one name throughout the
nest: a buffer handed to a body is the same cell inside and outside, and temporaries of a body share cells as its
arrays would share memory.  A cell that holds one element and that no called program touches is a register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from numstax.cpu_emit.programs import Printed, grouped, print_program
from numstax.cpu_emit.random_draws import print_draws
from numstax.emit.naming import Names
from numstax.ir.handlers import work
from numstax.ir.index import ZERO, Atom, Index, Quotient, Symbol, atoms, bounds, less, product, stride_of, substitute
from numstax.ir.loops import Buffer, Control, Extern, Kernel, Nested, Schedule, Unit, unit_name
from numstax.records import record
from numstax.schedule.memory import lifetimes
from numstax.tiles.cpu import vector_work

MOST_INLINE = 64
"""Elements of a kernel that is printed where it runs, not called."""
USUAL_TRIPS = 16
"""Of a loop whose end only the run shows."""


class NotNativeError(Exception):
    """The loop has to run on the host; says why."""


@record
class Called:
    """A program of kernels, called."""

    printed: Printed


@record
class Body:
    """One body: `items` in order; `cells` by the names of its schedule's buffers."""

    items: tuple[Kernel | Called | Inner, ...]
    cells: Mapping[str, str]
    schedule: Schedule


@record
class Inner:
    """Control flow; `args` and `head` are cells, the head of a 'for' may be an Index; `counter` names its Symbol."""

    kind: str
    bodies: tuple[Body, ...]
    args: tuple[str, ...]
    head: Index | str | None
    counter: str
    rotate: tuple[tuple[str, str], ...]
    control: Control


@record
class Nest:
    """made : the cells that are not buffers around the nest, with the largest shape they take.
    registers : the cells that are no memory.
    """

    root: Inner
    buffers: Mapping[str, Buffer]
    made: tuple[Buffer, ...]
    registers: frozenset[str]


Share = Callable[[Control, Mapping[str, Buffer]], Printed | None]
"""The program of a loop, given the buffers around it, whose iterations are shared out among threads, if that pays."""


def nest(control: Control, around: Mapping[str, Buffer], threshold: int, used: Names, share: Share) -> Nest:
    """Kernels of less work than the threshold are not shared out.  Raises NotNativeError."""
    return _Flattening(around, threshold, used, share).nest(control)


class _Flattening:
    def __init__(self, around: Mapping[str, Buffer], threshold: int, used: Names, share: Share) -> None:
        self.buffers, self.threshold, self.used, self.share = dict(around), threshold, used, share
        self.around = frozenset(around)
        self.made: list[Buffer] = []
        self.touched: set[str] = set()
        self.limits: dict[str, Index] = {}

    def nest(self, control: Control) -> Nest:
        root = self._control(control, {name: name for name in self.buffers})
        registers = {name for name, b in self.buffers.items() if not b.shape and name not in self.touched}
        made = tuple(b for b in self.made if b.name not in registers)
        return Nest(root, self.buffers, made, frozenset(registers))

    def _control(self, control: Control, cells: Mapping[str, str]) -> Inner:
        args = tuple(cells[a] for a in control.args)
        head = cells[control.head] if isinstance(control.head, str) else control.head
        if control.kind == "for" and isinstance(head, Index):
            self.limits[control.var] = head - 1
        bodies = tuple(self._body(body, args) for body in control.bodies)
        rotate = tuple((args[k], args[j]) for k, j in control.rotate)
        return Inner(control.kind, bodies, args, head, control.var, rotate, control)

    def _body(self, nested: Nested, args: Sequence[str]) -> Body:
        schedule = nested.schedule
        groups = list(_groups(schedule.units, self.threshold))
        cells = dict(zip((b.name for b in schedule.buffers if b.kind == "input"), args, strict=True))
        shared = lifetimes(schedule, [len(units) for units, _ in groups]).array
        by_array: dict[str, str] = {}
        for buffer in schedule.buffers:
            if buffer.name in cells:
                continue
            array = shared.get(buffer.name, buffer.name) if buffer.shape else buffer.name
            if array not in by_array:
                by_array[array] = self._make(buffer)
            cells[buffer.name] = by_array[array]
        buffers = {b.name: b for b in schedule.buffers}
        items = tuple(self._item(units, small, cells, buffers) for units, small in groups)
        return Body(items, cells, schedule)

    def _make(self, buffer: Buffer) -> str:
        cell = replace(buffer, name=f"work{len(self.made)}", kind="temp")
        self.buffers[cell.name] = cell
        self.made.append(replace(cell, shape=tuple(self._largest(n) for n in cell.shape)))
        return cell.name

    def _item(
        self, units: Sequence[Unit], small: bool, cells: Mapping[str, str], buffers: Mapping[str, Buffer]
    ) -> Kernel | Called | Inner:
        first = units[0]
        if isinstance(first, Control):
            shared = self.share(first, buffers)
            return self._control(first, cells) if shared is None else self._called(shared, cells)
        if isinstance(first, Extern) and first.draws:
            return self._called(print_draws(first, buffers, self.used), cells)
        if is_inline(first):
            assert isinstance(first, Kernel)
            return first
        kernels = [k for k in units if isinstance(k, Kernel)]
        if not kernels:
            raise NotNativeError(f"{unit_name(first)} is a library function")
        return self._called(print_program(kernels, not small, self.used), cells)

    def _called(self, printed: Printed, cells: Mapping[str, str]) -> Called:
        self.touched.update(cells[a] for a in printed.emitted.args if a in cells)
        return Called(replace(printed, scratch=self._largest(printed.scratch)))

    def _largest(self, size: Index) -> Index:
        """An upper bound that holds in every iteration."""
        if not self._counters(size):
            return size
        out = ZERO
        for monomial, coefficient in size.terms:
            (*others, atom) = monomial or (None,)
            if isinstance(atom, Quotient) and not others and coefficient > 0 and atom.divisor.value is not None:
                # sizes rounded up
                out = out + coefficient * (self._largest(atom.value) // atom.divisor)
            else:
                out = out + product((coefficient, *monomial))
        for counter in self._counters(out):
            step = stride_of(out, counter)
            if step is None or (less(step, ZERO) is None and less(ZERO, step) is None):
                raise NotNativeError(f"the size {size} of a temporary depends on the iteration")
            out = substitute(out, {counter: self.limits[counter.name] if less(ZERO, step) else ZERO})
        # limits of inner loops may depend on outer counters
        return self._largest(out)

    def _counters(self, size: Index) -> list[Symbol]:
        return [a for a in atoms(size) if isinstance(a, Symbol) and a.name in self.limits]


def _groups(units: Sequence[Unit], threshold: int) -> Iterator[tuple[Sequence[Unit], bool]]:
    """Kernels that are printed in place stand alone."""
    run: list[Unit] = []
    for unit in units:
        if is_inline(unit):
            yield from grouped(run, threshold)
            run = []
            yield [unit], True
        else:
            run.append(unit)
    yield from grouped(run, threshold)


def loop_work(control: Control) -> Index:
    """The operations of control flow, roughly: those of called kernels on one vector counted once, counters at their
    middle."""
    total = sum((_unit_work(unit) for body in control.bodies for unit in body.schedule.units), ZERO)
    if control.kind == "cond":
        return total
    if not isinstance(control.head, Index):
        return total * USUAL_TRIPS
    middle = control.head // 2
    counters: dict[Atom, Index] = {a: middle for a in atoms(total) if isinstance(a, Symbol) and a.name == control.var}
    return substitute(total, counters) * control.head


def _unit_work(unit: Unit) -> Index:
    if isinstance(unit, Control):
        return loop_work(unit)
    if not isinstance(unit, Kernel):
        return ZERO
    return work(unit) if is_inline(unit) else vector_work(unit)


def is_inline(unit: Unit) -> bool:
    """Is this a kernel of few elements that needs no memory of its own?"""
    if not isinstance(unit, Kernel) or unit.outer or any(b.kind == "local" and b.shape for b in unit.buffers):
        return False
    sizes = (bounds(product(v.extent for v in loop.inner))[1] for loop in unit.loops)
    return all(n is not None and n <= MOST_INLINE for n in sizes)
