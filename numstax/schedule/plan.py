"""Schedule and its printed kernels -> Plan: what the runtime does, step by step.

Enters: the Graph (arguments and how results are seen by the user), the tiled Schedule, and for each of its
units the `Emitted` program or the Extern.  Leaves: a Plan in which every array is allocated just before it is
first written and released right after its last use, and a temporary takes over the memory of one of the same
size and dtype that is not needed any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numstax.errors import VerifyError
from numstax.ir.graph import Graph, Literal, Output
from numstax.ir.index import Index, Symbol, as_index, atoms
from numstax.ir.loops import Buffer, BufferView, Extern, Schedule
from numstax.program import (
    Argument,
    ArrayExpr,
    Call,
    Emitted,
    ExternCall,
    Name,
    Plan,
    Program,
    Result,
    Step,
)
from numstax.schedule.memory import lifetimes


def plan(graph: Graph, schedule: Schedule, emitted: Sequence[Emitted | Extern], name: str = "region") -> Plan:
    return _Planner(graph, schedule, name).plan(emitted)


class _Planner:
    def __init__(self, graph: Graph, schedule: Schedule, name: str) -> None:
        self.graph, self.schedule, self.name = graph, schedule, name
        self.buffers = {b.name: b for b in schedule.buffers}
        self.array: dict[str, str] = {}
        self.constants: list[object] = []
        self.programs: dict[str, Program] = {}

    def plan(self, emitted: Sequence[Emitted | Extern]) -> Plan:
        live = lifetimes(self.schedule, [item.units if isinstance(item, Emitted) else 1 for item in emitted])
        self.array = live.array
        steps: list[Step] = []
        for item, allocations, releases in zip(emitted, live.allocations, live.releases, strict=True):
            steps += allocations
            steps.append(self._extern(item) if isinstance(item, Extern) else self._call(item))
            steps += releases
        steps += live.untouched
        return Plan(
            self.name,
            tuple(self._argument(b) for b in self.schedule.buffers if b.kind in ("input", "scalar")),
            tuple(self.programs.values()),
            tuple(steps),
            self._results(),
            tuple(self._sizes()),
            tuple(self.constants),
        )

    def _call(self, item: Emitted) -> Call:
        program = self.programs.setdefault(item.program.name, item.program)
        if program != item.program:
            raise VerifyError(f"two different programs are called {program.name}")
        return Call(program.name, tuple(self.array.get(a, a) for a in item.args))

    def _argument(self, buffer: Buffer) -> Argument:
        kind = "scalar" if buffer.kind == "scalar" else "array"
        return Argument(buffer.name, kind, buffer.dtype, texts(buffer.shape), texts(buffer.strides))

    # --- results ----------------------------------------------------------------------------------

    def _results(self) -> tuple[Result, ...]:
        results: list[Result] = []
        for out, source in zip(self.graph.outputs, self.schedule.outputs, strict=True):
            results.append(self._result(out, source, results))
        return tuple(results)

    def _result(self, out: Output, source: str | None, earlier: list[Result]) -> Result:
        views = tuple((kind, _plain(detail)) for kind, detail in out.views)
        if out.alias is None:
            assert source is not None
            return Result(source, views, out.scalar)
        origin, k = out.alias
        if origin == "input":
            return Result(f"x{k}", views, out.scalar)
        return Result(earlier[k].source, earlier[k].views + views, out.scalar)

    # --- library calls ----------------------------------------------------------------------------

    def _extern(self, extern: Extern) -> ExternCall:
        function = extern.function
        if not isinstance(function, str):
            function = f"constant:{len(self.constants)}"
            self.constants.append(extern.function)
        expected = tuple((self.buffers[r].dtype, texts(self.buffers[r].shape)) for r in extern.results)
        return ExternCall(
            function,
            tuple(self._value(a) for a in extern.args),
            tuple((key, self._value(v)) for key, v in extern.kwargs),
            None if extern.out is None else self._view(extern.out),
            tuple(self.array.get(r, r) for r in extern.results),
            () if extern.out is not None else expected,
            "" if extern.origin is None else str(extern.origin),
        )

    def _value(self, tree: Any) -> Any:
        if isinstance(tree, BufferView):
            if self.buffers[tree.buffer].kind == "scalar":
                return Name(tree.buffer)
            return self._view(tree)
        if isinstance(tree, Index):
            return tree.value if tree.value is not None else Name(str(tree))
        if isinstance(tree, Literal):
            return tree.value
        if isinstance(tree, tuple | list):
            items = [self._value(item) for item in tree]
            return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
        return tree

    def _view(self, view: BufferView) -> ArrayExpr:
        name = self.array.get(view.buffer, view.buffer)
        dtype = self.buffers[view.buffer].dtype
        return ArrayExpr(name, dtype, texts(view.shape), texts(view.strides), str(view.offset))

    # --- sizes ------------------------------------------------------------------------------------

    def _sizes(self) -> list[tuple[str, str]]:
        """Each size symbol, from an argument that has it as a size or a stride."""
        found: dict[str, str] = {}
        for p, spec in enumerate(self.graph.inputs):
            for axis, size in enumerate(spec.shape):
                _bind(found, size, f"x{p}.shape[{axis}]")
            for axis, stride in enumerate(spec.strides):
                _bind(found, stride, f"x{p}.strides[{axis}] // {spec.dtype.itemsize}")
        return list(found.items())


def _bind(found: dict[str, str], index: Index, expression: str) -> None:
    symbols = [atom for atom in atoms(index) if isinstance(atom, Symbol)]
    if len(symbols) == 1 and index is as_index(symbols[0]):
        found.setdefault(symbols[0].name, expression)


def _plain(detail: object) -> object:
    """A view's detail without Index values: numbers, or size expressions by name."""
    if isinstance(detail, Index):
        return detail.value if detail.value is not None else Name(str(detail))
    if isinstance(detail, tuple | list):
        items = map(_plain, detail)
        return list(items) if isinstance(detail, list) else tuple(items)
    return detail


def texts(values: Sequence[Index]) -> tuple[str, ...]:
    return tuple(map(str, values))
