"""Plan -> the source of the Python function that runs it.

The source has addresses, allocations, kernel calls, extern calls, releases, views, and loops and branches.  Decisions
that depend on known sizes (serial or parallel, pooled or plain memory) are taken here, once; with symbols they
become expressions.  Free names of the source are those that `launch` provides, the programs' names, and the
`constants` returned beside it.
"""

from __future__ import annotations

import importlib
import keyword
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from numstax import dtypes
from numstax.errors import VerifyError
from numstax.program import (
    VIEWS,
    Allocate,
    Argument,
    ArrayExpr,
    Call,
    Check,
    ControlStep,
    ExternCall,
    Name,
    Param,
    Plan,
    Program,
    Release,
    Result,
    Step,
    all_steps,
)
from numstax.runtime.memory import SMALL


def write(plan: Plan, threshold: int, observed: bool = False) -> tuple[str, dict[str, object]]:
    """The source, and objects it names.  Programs with at least `threshold` work run in parallel; an `observed`
    wrapper calls ``observe(name)`` after each kernel and extern call."""
    writer = _Writer(plan, threshold, observed)
    return writer.text(), writer.constants


@dataclass
class _Writer:
    plan: Plan
    threshold: int
    observed: bool
    constants: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.programs = {p.name: p for p in self.plan.programs}
        self.scalars = {a.name: a for a in self.plan.arguments if a.kind == "scalar"}
        self.steps = list(all_steps(self.plan.steps))
        self.passed = {name for step in self.steps if isinstance(step, Call) for name in step.args}
        arrays = {a.name for a in self.plan.arguments if a.kind == "array"}
        turning = dict.fromkeys(a for s in self.steps if isinstance(s, ControlStep) for pair in s.rotate for a in pair)
        self.moving = [name for name in turning if name in arrays]
        """Arguments whose part other arrays take over for a while."""
        if self.passed & turning.keys():
            self.passed |= turning.keys()

    def text(self) -> str:
        arguments = [a.name for a in self.plan.arguments]
        for name in (*arguments, *(s.name for s in self.steps if isinstance(s, Allocate))):
            if not name.isidentifier() or keyword.iskeyword(name) or name in self.programs:
                raise VerifyError(f"the plan uses the name {name!r}")
        lines = [f"def call({', '.join(arguments)}):"]
        lines += [f"    {line}" for line in self._body()]
        return "\n".join(lines) + "\n"

    def _body(self) -> Iterator[str]:
        for symbol, expression in self.plan.sizes:
            yield f"{symbol} = {expression}"
        yield from self._arguments()
        if any(p.kind == "status" for program in self.plan.programs for p in program.params):
            yield f"status = empty(4, {self._constant(dtypes.INT64)})"
        yield from (f"{name}_home = {name}" for name in self.moving)
        for step in self.plan.steps:
            yield from self._step(step)
            if self.observed and isinstance(step, Call | ExternCall | ControlStep):
                yield f"observe({_name(step)!r})"
        for name in self.moving:
            yield f"if {name} is not {name}_home:"
            yield f"    copyto({name}_home, {name})"
            yield f"    {name} = {name}_home"
        results = "".join(f"{self._result(r)}, " for r in self.plan.results)
        yield f"return ({results.rstrip() if len(self.plan.results) == 1 else results.rstrip(', ')})"

    def _step(self, step: Step) -> Iterator[str]:
        match step:
            case Allocate():
                yield from self._allocate(step)
            case Call():
                yield from self._call(step, self.programs[step.program])
            case ExternCall():
                yield from self._extern(step)
            case ControlStep():
                yield from self._control(step)
            case Release():
                yield f"del {step.name}"
            case Check():
                yield f"if not {step.a} {_RELATIONS[step.kind]} {step.b}:"
                yield f"    raise size_error({step.message!r}, {step.a!r}, {step.a}, {step.b!r}, {step.b})"

    def _control(self, step: ControlStep) -> Iterator[str]:
        bodies = [[f"    {line}" for inner in body for line in self._step(inner)] for body in step.bodies]
        if step.kind == "cond":
            yield f"if {step.head}:"
            yield from bodies[0] or ["    pass"]
            if bodies[1]:
                yield "else:"
                yield from bodies[1]
            return
        if step.kind == "for":
            yield f"for {step.var} in range({step.head}):"
        else:
            yield "while True:"
            yield from bodies[0]
            yield f"    if not {step.head}:"
            yield "        break"
        yield from bodies[-1]
        if step.rotate:
            at = [(f"{a}_at", f"{b}_at") for a, b in step.rotate if a in self.passed]
            targets, sources = zip(*step.rotate, *at, strict=True)
            yield f"    {', '.join(targets)} = {', '.join(sources)}"
        elif step.kind == "for" and not bodies[0]:
            yield "    pass"

    def _arguments(self) -> Iterator[str]:
        """Addresses of the arrays that kernels take, and scalars as the numbers that entries take."""
        at = []
        for argument in self.plan.arguments:
            if argument.name not in self.passed or argument.kind == "size":
                continue
            if argument.kind == "array":
                at.append(argument)
                yield f"{argument.name}_at = address({argument.name})"
            else:
                yield from self._scalar(argument)
        # complex and half floats: the alignment NumPy asks for
        masks = {a.name: a.dtype.alignment - 1 for a in at if a.dtype.alignment > 1}
        if masks:
            mask = max(masks.values())
            joined = " | ".join(f"{name}_at" for name in masks)
            yield f"if {joined if len(masks) == 1 else f'({joined})'} & {mask}:"
            yield "    raise CannotRunError('an array is not aligned')"

    def _scalar(self, scalar: Argument) -> Iterator[str]:
        kind, name = dtypes.kind(scalar.dtype), scalar.name
        if kind == "c":
            yield f"{name}_re, {name}_im = float({name}.real), float({name}.imag)"
        elif dtypes.is_low(scalar.dtype):
            bits = self._constant(dtypes.storage(scalar.dtype))
            yield f"{name}_v = int({self._constant(scalar.dtype.type)}({name}).view({bits}))"
        else:
            yield f"{name}_v = {'float' if kind == 'f' else 'int'}({name})"

    def _allocate(self, step: Allocate) -> Iterator[str]:
        shape = _tuple(step.shape)
        nbytes = constant(f"{step.dtype.itemsize}*{'*'.join(f'({n})' for n in step.shape) or '1'}")
        make = "empty" if nbytes is not None and nbytes < SMALL else "pooled"
        yield f"{step.name} = {make}({shape}, {self._constant(step.dtype)})"
        if step.name in self.passed:
            yield f"{step.name}_at = address({step.name})"

    def _call(self, step: Call, program: Program) -> Iterator[str]:
        passed = [p for p in program.params if p.kind in ("pointer", "size", "scalar")]
        values = dict(zip((p.name for p in passed), step.args, strict=True))
        sizes = {p.name: values[p.name] for p in passed if p.kind == "size"}
        tasks, work, grain, scratch = (
            _bind(e, sizes) for e in (program.tasks or "1", program.work, program.grain, program.scratch)
        )
        has_status = any(p.kind == "status" for p in program.params)

        if has_status:
            yield "status[0] = 0"
        memory = "0" if constant(scratch) == 0 else f"scratch_address({scratch})"
        in_team = any(p.kind == "team" for p in program.params)
        special = {"lo": "0", "hi": tasks, "scratch": "scratch" if in_team else memory, "status": "address(status)"}
        special |= {"calls": f"{program.name}_calls", "team": "team"}
        arguments = (special.get(p.kind) or self._word(p, values[p.name]) for p in program.params)
        alone = f"{program.name}({', '.join(('RET', 'EXC', *arguments))})"
        known = [constant(e) for e in (tasks, work, grain)]
        if not program.tasks or (None not in known and (known[1] < self.threshold or known[0] <= known[2])):  # type: ignore[operator]
            if in_team:
                yield f"with team_of({scratch}) as (team, scratch):"
            yield "    " * in_team + alone
        else:
            kept = [p for p in program.params if p.kind not in ("lo", "hi", "scratch")]
            words = ", ".join(special.get(p.kind) or self._word(p, values[p.name]) for p in kept)
            self.constants[f"{program.name}_words"] = struct.Struct("".join(map(_format, kept))).pack
            shared = f"parallel({program.name}_part, {program.name}_words({words}), {tasks}, {grain}, {scratch})"
            if known[1] is None:
                yield f"if {work} < {self.threshold}:"
                yield f"    {alone}"
                yield "else:"
                shared = f"    {shared}"
            yield shared
        if has_status:
            yield f"check_status(status, {step.checks!r})"

    def _word(self, param: Param, value: str) -> str:
        """The spelling of one argument of an entry."""
        if param.kind == "pointer":
            return f"{value}_at"
        if param.kind == "scalar" and value in self.scalars:
            return f"{value}_re, {value}_im" if dtypes.kind(self.scalars[value].dtype) == "c" else f"{value}_v"
        return value

    def _extern(self, step: ExternCall) -> Iterator[str]:
        if step.function.startswith("constant:"):
            function = self._constant(self.plan.constants[int(step.function.partition(":")[2])])
        else:
            module, _, name = step.function.rpartition(".")
            function = self._constant(getattr(importlib.import_module(module), name), name)
        words = [self._value(a) for a in step.args]
        words += [f"{key}={self._value(v)}" for key, v in step.kwargs]
        if step.out is not None:
            words.append(f"out={self._value(step.out)}")
        call = f"{function}({', '.join(words)})"
        if step.origin:
            yield f"# {step.origin}"
        if not step.results:
            yield call
            return
        yield f"{', '.join(step.results)}, = results_of({call})"
        for symbol, expression in step.sizes:
            yield f"{symbol} = {expression}"
        for name, (dtype, shape) in zip(step.results, step.expected, strict=True):
            words = [name, self._constant(dtype), _tuple(shape)]
            if any(result.source == name for result in self.plan.results):
                words.append(_tuple(tuple(dict.fromkeys(_arrays((step.args, step.kwargs))))))
            yield f"{name} = check_shape({', '.join(words)})"
            if name in self.passed:
                yield f"{name}_at = address({name})"

    def _value(self, tree: object) -> str:
        """An argument of an extern call, spelled."""
        if isinstance(tree, ArrayExpr):
            dtype = self._constant(tree.dtype)
            return f"strided({tree.array}, {dtype}, {_tuple(tree.shape)}, {_tuple(tree.strides)}, {tree.offset})"
        if isinstance(tree, Name):
            scalar = self.scalars.get(tree.text)
            return tree.text if scalar is None else f"{self._constant(scalar.dtype.type)}({tree.text})"
        if type(tree) is tuple:
            return f"({''.join(f'{self._value(item)}, ' for item in tree)})"
        if type(tree) is list:
            return f"[{', '.join(map(self._value, tree))}]"
        if isinstance(tree, slice):
            return f"slice({', '.join(self._value(end) for end in (tree.start, tree.stop, tree.step))})"
        if tree is None or type(tree) in (bool, int, str):
            return repr(tree)
        return self._constant(tree)

    def _result(self, result: Result) -> str:
        text = result.source
        for kind, value in result.views:
            if kind == "index":
                text += f"[{self._value(value)}]"
            elif kind == "dtype":
                text += f".view({self._constant(np.dtype(value))})"  # type: ignore[call-overload]
            elif kind in ("reshape", "transpose"):
                text += f".{kind}({self._value(value)})"
            else:
                text = f"{self._constant(VIEWS[kind], kind)}({text}, {self._value(value)})"
        return text + "[()]" if result.scalar else text

    def _constant(self, value: object, name: str = "") -> str:
        """A name in the wrapper's namespace for an object that has no literal."""
        if isinstance(value, np.dtype):
            name = dtypes.name(value) if dtypes.is_supported(value) else ""
        elif isinstance(value, type):
            name = value.__name__
        for k in range(len(self.constants) + 1):
            chosen = f"{name or 'c'}_{k}" if k or not name else name
            if self.constants.setdefault(chosen, value) is value:
                return chosen
        raise AssertionError


def _arrays(tree: object) -> Iterator[str]:
    """The arrays in the arguments of an extern call."""
    if isinstance(tree, ArrayExpr):
        yield tree.array
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from _arrays(item)


def _name(step: Call | ExternCall | ControlStep) -> str:
    if isinstance(step, ControlStep):
        return step.kind
    return step.program if isinstance(step, Call) else step.function


def _format(param: Param) -> str:
    """How `struct` spells an argument among the words of a part (see `load.part_symbol`)."""
    if param.kind != "scalar":
        return "q"
    assert param.dtype is not None
    kind = dtypes.storage(param.dtype).kind
    return {"c": "dd", "f": "d", "i": "q"}.get(kind, "Q")


_RELATIONS = {"eq": "==", "le": "<="}


def _tuple(items: tuple[str, ...]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})" if len(items) < 2 else f"({', '.join(items)})"


def _bind(expression: str, sizes: dict[str, str]) -> str:
    """A program's own size expression, over the names of the wrapper."""
    return re.sub(r"[A-Za-z_]\w*", lambda m: f"({sizes[m[0]]})" if m[0] in sizes else m[0], expression)


def constant(expression: str) -> int | None:
    """The value of a size expression without symbols."""
    try:
        return int(eval(expression, {"__builtins__": {}}))
    except NameError:
        return None
