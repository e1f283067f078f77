"""Wrappers for a GPU: launches on one stream, arguments that are copied there or are there already.

Arrays of a library stay as they are where programs alone use them (`natural`): their addresses are all that is asked
of them.  Other arrays are descriptions of device memory (see `memory`).  Nothing waits for the GPU but what needs a
value of it: copies to the host, predicates of branches, and reports of indices out of bounds, which are read at the end
of the outermost loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numstax import dtypes
from numstax.program import Allocate, Argument, Call, Checked, ControlStep, ExternCall, Plan, Program, Result, all_steps
from numstax.runtime.device import ALIGNED
from numstax.runtime.exchange import Exchange
from numstax.runtime.interop import OWN
from numstax.runtime.wrapper import Style, Writer, bind, known, spelled

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class DeviceStyle(Style):
    plan: Plan
    exchange: Exchange
    library: Callable[[str], Callable[..., Any]]
    number: int = 0
    """Of the device."""
    reports: list[tuple[int, tuple[Checked, ...]]] = field(default_factory=list)
    """Programs that may report an index out of bounds, with the row of the status where they do, not checked yet."""
    rows: int = 0

    @cached_property
    def arrays(self) -> dict[str, Argument]:
        return {a.name: a for a in self.plan.arguments if a.kind == "array"}

    @cached_property
    def natural(self) -> set[str]:
        """Arrays of a library of which only the address is asked."""
        steps = list(all_steps(self.plan.steps))
        asked = [str(s) for s in steps if isinstance(s, ExternCall)] + [text for _, text in self.plan.sizes]
        asked += [f"{s.head} {s.rotate}" for s in steps if isinstance(s, ControlStep)]
        asked += [r.source for r in self.plan.results if r.views]
        others = {name for text in asked for name in _NAME.findall(text)}
        found = {name for name, family in self.exchange.arguments if family is not None and family.address}
        results = self.exchange.results
        if results is not None and results.empty is not None:
            found |= {r.source for r in self.plan.results} - self.arrays.keys()
        return found - others

    def begin(self, writer: Writer) -> Iterator[str]:
        there = [n for n in self.arrays if self.exchange.family(n) is not None and n not in self.exchange.constants]
        yield "if thread() not in active:"
        yield "    activate()"
        first = self.exchange.family(there[0]) if there else None
        spelled_stream = "0" if first is None else first.stream.format(there[0], number=self.number)
        yield f"stream = {spelled_stream}"
        yield "pooled = pools[stream]"
        for name in there[1:]:
            if self.exchange.family(name) is OWN:
                yield f"if {name}.stream != stream:"
                yield f"    order({name}.stream, stream)"
        for name, argument in self.arrays.items():
            family = self.exchange.family(name)
            if family is None:
                order = axis_order(argument)
                yield f"{name}_given, {name} = {name}, upload({name}, stream, pooled{f', {order}' if order else ''})"
            elif name not in self.natural:
                yield f"{name}_given, {name} = {name}, seen({name})"
        rows = sum(self._reports(writer, s) for s in writer.steps if isinstance(s, Call))
        if rows:
            yield f"status = cleared(pooled(({rows}, 4), {writer.constant(dtypes.INT64)}), stream)"

    def _reports(self, writer: Writer, step: Call) -> bool:
        return any(p.kind == "status" for p in writer.programs[step.program].params)

    def memory(self, writer: Writer, arguments: Sequence[Argument]) -> Iterator[str]:
        yield from (f"{a.name}_at = {self.address(writer, a.name)}" for a in arguments)
        others = [a for a in arguments if self.exchange.family(a.name) is not None]
        if others:
            joined = " | ".join(f"{a.name}_at" for a in others)
            written = [a.name for a in others if a.name in self.exchange.written]
            yield from (f"{name}_moved = None" for name in written)
            yield f"if ({joined}) & {ALIGNED - 1}:"
            for a in others:
                moved = f"{a.name}_moved"
                yield f"    {a.name}_at, {moved} = aligned({a.name}_at, {_extent(a)}, stream, pooled)"

    def allocate(self, writer: Writer, step: Allocate) -> str:
        make = "fresh" if step.name in self.natural else "pooled"
        return f"{make}({spelled(step.shape)}, {writer.constant(step.dtype)})"

    def address(self, writer: Writer, name: str) -> str:
        family = self.exchange.family(name) if name in self.arrays else self.exchange.results
        if name in self.natural:
            assert family is not None
            return family.address.format(name)
        return f"address({name})"

    def call(self, writer: Writer, step: Call, program: Program) -> Iterator[str]:
        sizes = _sizes(program, step)
        special = {"counters": f"counting(stream, {bind(program.counters, sizes)})"}
        if self._reports(writer, step):
            self.reports.append((self.rows, step.checks))
            special["status"] = f"address(status[{self.rows}])"
            self.rows += 1
        values = iter(step.args)
        words = [special.get(p.kind) or writer.word(p, next(values)) for p in program.params]
        grid = [bind(e, sizes) for e in (*program.grid, "1", "1")[:3]]
        counts = [known(e) for e in grid]
        if 0 in counts:
            return
        places = [str(n) if n is not None else e for n, e in zip(counts, grid, strict=True)]
        shared = bind(program.shared, sizes)
        launch = f"{program.name}({', '.join(('stream', *places, shared, *words))})"
        unknown = [f"({e})" for n, e in zip(counts, grid, strict=True) if n is None]
        if unknown:
            yield f"if {' and '.join(unknown)}:"
            launch = f"    {launch}"
        yield launch

    def after(self, writer: Writer) -> Iterator[str]:
        if self.reports:
            yield "reported = fetched(status, stream)"
            yield from (f"check_status(reported[{row}], {checks!r})" for row, checks in self.reports)
            self.reports.clear()

    def function(self, path: str) -> Callable[..., Any]:
        return self.library(path)

    def copy(self, target: str, source: str) -> str:
        return f"copyto({target}, {source}, stream)"

    def library_call(self, function: str, words: str) -> str:
        return f"library_call(stream, {function}, {words})"

    def test(self, writer: Writer, head: str) -> str:
        return f"fetched({head}, stream)" if head.isidentifier() and head not in writer.scalars else head

    def observe(self, name: str) -> Iterator[str]:
        yield "synchronize(stream)"
        yield from super().observe(name)

    def end(self, writer: Writer) -> Iterator[str]:
        for name in self.arrays:
            if name in self.exchange.written:
                if self.exchange.family(name) is None:
                    yield f"download({name}, {name}_given, stream)"
                elif name in writer.passed:
                    yield f"if {name}_moved is not None:"
                    yield f"    restore({name}_moved, stream)"

    def given(self, name: str) -> str:
        """What the caller gave for an argument."""
        return f"{name}_given" if name in self.arrays and name not in self.natural else name

    def result(self, writer: Writer, result: Result) -> str:
        """An argument itself, a view of one of NumPy's, or what `give` makes of memory."""
        name, given = result.source, result.source
        if name in self.arrays:
            given = self.given(name)
            if self.exchange.family(name) is None:
                text = writer.viewed(given, result)
                return f"{text}[()]" if result.scalar else text
        if not result.views and (name in self.natural or name in self.arrays):
            return given
        text = f"give({writer.viewed(name, result)}, stream)"
        return f"{text}[()]" if result.scalar and self.exchange.results is None else text


def _sizes(program: Program, step: Call) -> dict[str, str]:
    """What a call gives for the sizes of a program."""
    passed = [p for p in program.params if p.kind not in ("status", "counters")]
    return {p.name: a for p, a in zip(passed, step.args, strict=True) if p.kind in ("size", "size32")}


def axis_order(argument: Argument) -> tuple[int, ...]:
    """The axes from the outermost in memory, () where they are in order."""
    strides = [known(s) for s in argument.strides]
    if None in strides:
        return ()
    order = sorted(range(len(strides)), key=lambda k: -abs(strides[k]))  # type: ignore[arg-type]
    return () if order == sorted(order) else tuple(order)


def _extent(argument: Argument) -> str:
    """Bytes from the first element to the lowest one, and all bytes that the elements span, as expressions."""
    size = argument.dtype.itemsize
    ends = [f"({n} - 1)*({s})" for n, s in zip(argument.shape, argument.strides, strict=True)]
    values = [known(e) for e in ends]
    if None not in values:
        low = size * sum(v for v in values if v is not None and v < 0)
        return f"{low}, {size * (1 + sum(abs(v) for v in values if v is not None))}"
    return f"*extent({size}, {spelled(tuple(ends))})"


def extent(itemsize: int, ends: Sequence[int]) -> tuple[int, int]:
    """What `_extent` spells, for sizes that are not known."""
    return itemsize * sum(e for e in ends if e < 0), itemsize * (1 + sum(map(abs, ends)))
