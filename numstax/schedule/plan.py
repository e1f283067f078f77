"""Schedule and its printed kernels -> Plan: what the runtime does, step by step.

Enters: the Graph (arguments and how results are seen by the user), the tiled Schedule, and for each of its
units the `Emitted` program or the Extern.  Leaves: a Plan in which every array is allocated just before it is
first written and released right after its last use, and a temporary takes over the memory of one of the same
size and dtype that is not needed any more.  Conditions on sizes are checked as soon as the sizes are known, and
before an argument is written: library calls, whose results may have sizes of their own, all stand before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from numstax import dtypes
from numstax.errors import VerifyError
from numstax.ir.graph import Arg, Graph, Literal, Output
from numstax.ir.index import ONE, ZERO, Index, Symbol, atoms, divisor_text, less, stride_of
from numstax.ir.loops import Buffer, BufferView, EmittedControl, EmittedLoop, EmittedUnit, Extern, Schedule
from numstax.program import (
    Allocate,
    Argument,
    ArrayExpr,
    Call,
    Check,
    ControlStep,
    Emitted,
    ExternCall,
    Name,
    Plan,
    Program,
    Release,
    Result,
    Step,
)
from numstax.records import record
from numstax.schedule.memory import lifetimes


def plan(graph: Graph, schedule: Schedule, emitted: Sequence[EmittedUnit], name: str = "region") -> Plan:
    shared = _Shared({}, [], count())
    region = _Steps(graph, schedule, shared, known=set(graph.sizes))
    arguments = tuple(region.sizes.items())
    steps = tuple(region.steps(emitted))
    return Plan(
        name,
        region.arguments(),
        tuple(shared.programs.values()),
        steps,
        region.results(),
        arguments,
        tuple(shared.constants),
    )


@record
class _Shared:
    """What a plan and the bodies in it have in common; `bodies` numbers those."""

    programs: dict[str, Program]
    constants: list[object]
    bodies: Iterator[int]


class _Steps:
    """The steps of one Schedule.

    known : the size symbols that have a value where it begins.
    array : the array that stands for each buffer; those of a body that are not arguments have a prefix.
    needs : the symbols in the shape of each array that is allocated.
    """

    def __init__(
        self,
        graph: Graph,
        schedule: Schedule,
        shared: _Shared,
        known: set[str],
        arguments: Sequence[str] | None = None,
    ) -> None:
        self.graph, self.schedule, self.shared, self.known = graph, schedule, shared, known
        self.buffers = {b.name: b for b in schedule.buffers}
        given = [b.name for b in schedule.buffers if b.kind in ("input", "scalar")]
        self.array = dict(zip(given, given if arguments is None else arguments, strict=True))
        self.prefix = "" if arguments is None else f"b{next(shared.bodies)}_"
        self.needs: dict[str, set[str]] = {}
        self.sizes = bindings(self._visible(), known) if arguments is None else {}
        self.unchecked = list(graph.asserts)

    def steps(self, emitted: Sequence[EmittedUnit]) -> list[Step]:
        live = lifetimes(self.schedule, [item.units if isinstance(item, Emitted) else 1 for item in emitted])
        self.array |= {buffer: self.prefix + array for buffer, array in live.array.items()}
        steps: list[Step] = [*self._checks()]
        for item, allocations, releases in zip(emitted, live.allocations, live.releases, strict=True):
            steps += map(self._allocate, allocations)
            if isinstance(item, Extern):
                steps += [self._extern(item), *self._checks()]
            elif isinstance(item, EmittedControl):
                steps += self._control(item)
            elif isinstance(item, EmittedLoop):
                steps += self._loop(item)
            else:
                steps.append(self._call(item))
            steps += (Release(self.prefix + step.name) for step in releases)
        if self.unchecked:
            raise VerifyError(f"no argument or result shows the sizes of {self.unchecked[0]}")
        return [*steps, *map(self._allocate, live.untouched)]

    def _allocate(self, step: Allocate) -> Allocate:
        name = self.prefix + step.name
        self.array.setdefault(step.name, name)
        self.needs[name] = set().union(*map(symbols, self.buffers[step.name].shape))
        return Allocate(name, step.dtype, step.shape)

    def _call(self, item: Emitted) -> Call | ControlStep:
        self._add(item.program)
        step: Call | ControlStep = Call(item.program.name, tuple(self.array.get(a, a) for a in item.args), item.checks)
        for condition, case in reversed(item.cases):
            step = ControlStep("choice", ((self._call(case),), (step,)), condition)
        return step

    def _add(self, program: Program) -> None:
        if self.shared.programs.setdefault(program.name, program) != program:
            raise VerifyError(f"two different programs are called {program.name}")

    def _loop(self, item: EmittedLoop) -> Iterator[Step]:
        for program in item.calls:
            self._add(program)
        prefix = f"w{next(self.shared.bodies)}_"
        for buffer in item.memory:
            self.array[buffer.name] = prefix + buffer.name
            self.needs[prefix + buffer.name] = set().union(*map(symbols, buffer.shape))
            yield Allocate(prefix + buffer.name, buffer.dtype, texts(buffer.shape))
        yield self._call(item.emitted)
        yield from (Release(self.array[buffer.name]) for buffer in item.memory)

    def _control(self, item: EmittedControl) -> Iterator[Step]:
        """Memory whose size is the same in every iteration is allocated once, in front."""
        control, outside = item.control, {*self.known, *self.sizes}
        args = [self.array[name] for name in control.args]
        bodies: list[tuple[Step, ...]] = []
        before: list[Allocate] = []
        head = self.array.get(control.head, control.head) if isinstance(control.head, str) else str(control.head)
        for body, emitted in zip(control.bodies, item.bodies, strict=True):
            known = {*outside, control.var} if control.var else outside
            inner = _Steps(body.graph, body.schedule, self.shared, known, args)
            steps = inner.steps(emitted)
            early = [s for s in steps if isinstance(s, Allocate) and inner.needs[s.name] <= outside]
            self.needs |= {step.name: inner.needs[step.name] for step in early}
            before += early
            moved = {step.name for step in early}
            bodies.append(tuple(s for s in steps if not (isinstance(s, Allocate | Release) and s.name in moved)))
            if control.kind == "while" and len(bodies) == 1:
                (test,) = body.schedule.outputs
                assert test is not None
                head = inner.array[test]
        yield from before
        pairs = tuple((args[k], args[j]) for k, j in control.rotate)
        spare = tuple(args[k] for k, _ in control.rotate if k >= control.states)
        yield ControlStep(control.kind, tuple(bodies), head, control.var, pairs, spare)
        yield from (Release(step.name) for step in before)

    def arguments(self) -> tuple[Argument, ...]:
        buffers = [self._argument(b) for b in self.schedule.buffers if b.kind in ("input", "scalar")]
        return (*buffers, *(Argument(name, "size", dtypes.INT64) for name in self.graph.sizes))

    def _argument(self, buffer: Buffer) -> Argument:
        kind = "scalar" if buffer.kind == "scalar" else "array"
        return Argument(buffer.name, kind, buffer.dtype, texts(buffer.shape), texts(buffer.strides))

    # --- results ----------------------------------------------------------------------------------

    def results(self) -> tuple[Result, ...]:
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
            function = f"constant:{len(self.shared.constants)}"
            self.shared.constants.append(extern.function)
        results = [self.buffers[r] for r in extern.results]
        expected = tuple((b.dtype, texts(b.shape)) for b in results)
        fresh = bindings(
            ((n, f"{self.array.get(b.name, b.name)}.shape[{k}]") for b in results for k, n in enumerate(b.shape)),
            (*self.sizes, *self.known),
        )
        self.sizes |= fresh
        return ExternCall(
            function,
            tuple(self._value(a) for a in extern.args),
            tuple((key, self._value(v)) for key, v in extern.kwargs),
            None if extern.out is None else self._view(extern.out),
            tuple(self.array.get(r, r) for r in extern.results),
            () if extern.out is not None else expected,
            tuple(fresh.items()),
            "" if extern.origin is None else str(extern.origin),
        )

    def _value(self, tree: Any) -> Any:
        if isinstance(tree, BufferView):
            if self.buffers[tree.buffer].kind == "scalar":
                return Name(self.array[tree.buffer])
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

    def _visible(self) -> Iterator[tuple[Index, str]]:
        """Every size and stride of an argument, and where it is found."""
        for p, spec in enumerate(self.graph.inputs):
            for axis, size in enumerate(spec.shape):
                yield size, f"x{p}.shape[{axis}]"
        for p, spec in enumerate(self.graph.inputs):
            for axis, stride in enumerate(spec.strides):
                yield stride, f"x{p}.strides[{axis}] // {spec.dtype.itemsize}"

    def _checks(self) -> Iterator[Check]:
        """The conditions that can be checked now and have not been."""
        ready = [row for row in self.unchecked if symbols(row[1]) | symbols(row[2]) <= {*self.sizes, *self.known}]
        self.unchecked = [row for row in self.unchecked if row not in ready]
        for kind, a, b, message in ready:
            yield Check(kind, str(a), str(b), message)


def symbols(index: Index) -> set[str]:
    return {atom.name for atom in atoms(index) if isinstance(atom, Symbol)}


def bindings(visible: Iterable[tuple[Index, str]], known: Iterable[str] = ()) -> dict[str, str]:
    """Expressions for the symbols that are not known: each from a visible value that is linear in it."""
    found: dict[str, str] = {}
    known, waiting = set(known), list(visible)
    while True:
        left = []
        for index, expression in waiting:
            new = {a for a in atoms(index) if isinstance(a, Symbol) and a.name not in known}
            if len(new) > 1:
                left.append((index, expression))
            elif new:
                (symbol,) = new
                factor = stride_of(index, symbol)
                if factor is not None:
                    rest = index - factor * symbol
                    found[symbol.name] = _solved(expression, factor, rest)
                    known.add(symbol.name)
        if len(left) == len(waiting):
            return found
        waiting = left


def _solved(expression: str, factor: Index, rest: Index) -> str:
    """The symbol in ``expression == factor*symbol + rest``."""
    if rest is not ZERO:
        expression = f"({expression} - ({rest}))"
    if factor is ONE:
        return expression
    by = f"({factor})"
    return f"{expression} // {by if less(factor, ZERO) else divisor_text(factor, by)}"


def _plain(detail: object) -> object:
    """A view's detail without Index values: numbers, or size expressions and arguments by name."""
    if isinstance(detail, Arg):
        return Name(f"x{detail.k}")
    if isinstance(detail, Index):
        return detail.value if detail.value is not None else Name(str(detail))
    if isinstance(detail, slice):
        return slice(_plain(detail.start), _plain(detail.stop), _plain(detail.step))
    if isinstance(detail, tuple | list):
        items = map(_plain, detail)
        return list(items) if isinstance(detail, list) else tuple(items)
    return detail


def texts(values: Sequence[Index]) -> tuple[str, ...]:
    return tuple(map(str, values))
