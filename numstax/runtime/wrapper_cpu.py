"""Wrappers for this machine's processor: arrays of NumPy, and programs that run serially or by the worker threads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numstax import dtypes
from numstax.program import Allocate, Argument, ArrayExpr, Call, Param, Program
from numstax.records import record
from numstax.runtime.libraries import on_host
from numstax.runtime.memory import SMALL
from numstax.runtime.wrapper import Style, Writer, bind, known, spelled


@record
class CpuStyle(Style):
    """Programs with at least `threshold` work run in parallel."""

    threshold: int

    def begin(self, writer: Writer) -> Iterator[str]:
        if any(p.kind == "status" for program in writer.plan.programs for p in program.params):
            yield f"status = empty(4, {writer.constant(dtypes.INT64)})"

    def memory(self, writer: Writer, arguments: Sequence[Argument]) -> Iterator[str]:
        yield from (f"{a.name}_at = address({a.name})" for a in arguments)
        # complex and half floats: the alignment NumPy asks for
        masks = {a.name: a.dtype.alignment - 1 for a in arguments if a.dtype.alignment > 1}
        if masks:
            joined = " | ".join(f"{name}_at" for name in masks)
            yield f"if {joined if len(masks) == 1 else f'({joined})'} & {max(masks.values())}:"
            yield "    raise CannotRunError('an array is not aligned')"

    def allocate(self, writer: Writer, step: Allocate) -> str:
        nbytes = known(f"{step.dtype.itemsize}*{'*'.join(f'({n})' for n in step.shape) or '1'}")
        make = "empty" if nbytes is not None and nbytes < SMALL else "pooled"
        return f"{make}({spelled(step.shape)}, {writer.constant(step.dtype)})"

    def address(self, writer: Writer, name: str) -> str:
        return f"address({name})"

    def view(self, writer: Writer, view: ArrayExpr) -> str:
        short = writer.layouts.spelled(view, writer.constant(view.dtype))
        return Style.view(self, writer, view) if short is None else short

    def call(self, writer: Writer, step: Call, program: Program) -> Iterator[str]:
        passed = [p for p in program.params if p.kind in ("pointer", "size", "scalar")]
        values = dict(zip((p.name for p in passed), step.args, strict=True))
        sizes = {p.name: values[p.name] for p in passed if p.kind == "size"}
        tasks, work, grain, scratch = (
            bind(e, sizes) for e in (program.tasks or "1", program.work, program.grain, program.scratch)
        )
        has_status = any(p.kind == "status" for p in program.params)

        if has_status:
            yield "status[0] = 0"
        memory = "0" if known(scratch) == 0 else f"scratch_address({scratch})"
        in_team = any(p.kind == "team" for p in program.params)
        special = {"lo": "0", "hi": tasks, "scratch": "scratch" if in_team else memory, "status": "address(status)"}
        special |= {"calls": f"{program.name}_calls", "team": "team"}
        arguments = (special.get(p.kind) or writer.word(p, values[p.name]) for p in program.params)
        alone = f"{program.name}({', '.join(('RET', 'EXC', *arguments))})"
        counts = [known(e) for e in (tasks, work, grain)]
        if not program.tasks or (None not in counts and (counts[1] < self.threshold or counts[0] <= counts[2])):  # type: ignore[operator]
            if in_team:
                yield f"with team_of({scratch}) as (team, scratch):"
            yield "    " * in_team + alone
        else:
            kept = [p for p in program.params if p.kind not in ("lo", "hi", "scratch")]
            words = ", ".join(special.get(p.kind) or writer.word(p, values[p.name]) for p in kept)
            writer.constants[f"{program.name}_words"] = struct.Struct("".join(map(_format, kept))).pack
            shared = f"parallel({program.name}_part, {program.name}_words({words}), {tasks}, {grain}, {scratch})"
            if counts[1] is None:
                yield f"if {work} < {self.threshold}:"
                yield f"    {alone}"
                yield "else:"
                shared = f"    {shared}"
            yield shared
        if has_status:
            yield f"check_status(status, {step.checks!r})"

    def function(self, path: str) -> Callable[..., Any]:
        return on_host(path)


def _format(param: Param) -> str:
    """How `struct` spells an argument among the words of a part (see `load.part_symbol`)."""
    if param.kind != "scalar":
        return "q"
    assert param.dtype is not None
    kind = dtypes.storage(param.dtype).kind
    return {"c": "dd", "f": "d", "i": "q"}.get(kind, "Q")
