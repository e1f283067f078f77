"""Plan -> the source of the Python function that runs it.

The source has addresses, allocations, kernel calls, extern calls, releases, views, and loops and branches.  Decisions
that depend on known sizes are taken here, once; with symbols they become expressions.  What differs between kinds of
devices is printed by a `Style`, which the host of the device provides.  Free names of the source are those that
`launch` and the host provide, the programs' names, and the `constants` returned beside it.
"""

from __future__ import annotations

import keyword
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    runs,
)
from numstax.runtime.layouts import Layouts


class Style(ABC):
    """How wrappers for one kind of device are spelled.  Every method is given the writer."""

    def begin(self, writer: Writer) -> Iterator[str]:
        """Lines before the sizes of the arguments are read."""
        return iter(())

    def steps(self, writer: Writer) -> Iterator[str]:
        """Lines that do what the plan says, between the arguments and the results."""
        return writer.run_steps()

    @abstractmethod
    def memory(self, writer: Writer, arguments: Sequence[Argument]) -> Iterator[str]:
        """Lines that give ``<name>_at``, the addresses of array arguments."""

    @abstractmethod
    def allocate(self, writer: Writer, step: Allocate) -> str:
        """An expression for a new array."""

    @abstractmethod
    def address(self, writer: Writer, name: str) -> str:
        """An expression for the address of an array."""

    def view(self, writer: Writer, view: ArrayExpr) -> str:
        """An expression for a view that a library function is given."""
        words = view.array, writer.constant(view.dtype), spelled(view.shape), spelled(view.strides), view.offset
        return f"strided({', '.join(words)})"

    @abstractmethod
    def call(self, writer: Writer, step: Call, program: Program) -> Iterator[str]:
        """Lines that run a program."""

    def after(self, writer: Writer) -> Iterator[str]:
        """Lines after a call, or loop or branch with all that is in it."""
        return iter(())

    @abstractmethod
    def function(self, path: str) -> Callable[..., Any]:
        """The library function of a dotted path.  Raises UnsupportedOperationError."""

    def copy(self, target: str, source: str) -> str:
        return f"copyto({target}, {source})"

    def library_call(self, function: str, words: str) -> str:
        return f"{function}({words})"

    def test(self, writer: Writer, head: str) -> str:
        """The truth of an array of one element, a scalar, or an expression."""
        return head

    def repeat(self, writer: Writer, step: ControlStep, test: list[str], body: list[str]) -> Iterator[str]:
        """Lines of a 'while', from those of its two bodies, which stand inside of it."""
        yield "while True:"
        yield from test
        yield f"    if not {self.test(writer, step.head)}:"
        yield "        break"
        yield from body
        yield from writer.rotation(step)

    def observe(self, name: str) -> Iterator[str]:
        """Lines that tell the observer that a step is done."""
        yield f"observe({name!r})"

    def end(self, writer: Writer) -> Iterator[str]:
        """Lines after the last step."""
        return iter(())

    def result(self, writer: Writer, result: Result) -> str:
        text = writer.viewed(result.source, result)
        return text + "[()]" if result.scalar else text


def write(plan: Plan, style: Style, observed: bool = False) -> tuple[str, dict[str, object]]:
    """The source, and objects it names.  An `observed` wrapper calls ``observe(name)`` after each kernel and extern
    call."""
    writer = Writer(plan, style, observed)
    return writer.text(), writer.constants


@dataclass
class Writer:
    """passed : arrays that programs take, which therefore have an address.  turning : arrays that change places in
    loops; moving : those that are arguments.  layouts : what is known of the
    arrays."""

    plan: Plan
    style: Style
    observed: bool
    constants: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.programs = {p.name: p for p in self.plan.programs}
        self.scalars = {a.name: a for a in self.plan.arguments if a.kind == "scalar"}
        self.steps = list(all_steps(self.plan.steps))
        self.passed = {name for step in self.steps if isinstance(step, Call) for name in step.args}
        arrays = {a.name for a in self.plan.arguments if a.kind == "array"}
        turning = dict.fromkeys(a for s in self.steps if isinstance(s, ControlStep) for pair in s.rotate for a in pair)
        self.turning = set(turning)
        self.moving = [name for name in turning if name in arrays]
        if self.passed & turning.keys():
            self.passed |= turning.keys()
        self.layouts = Layouts(self.plan)

    def text(self) -> str:
        arguments = [a.name for a in self.plan.arguments]
        for name in (*arguments, *(s.name for s in self.steps if isinstance(s, Allocate))):
            if not name.isidentifier() or keyword.iskeyword(name) or name in self.programs:
                raise VerifyError(f"the plan uses the name {name!r}")
        lines = [f"def call({', '.join(arguments)}):"]
        lines += [f"    {line}" for line in self._body()]
        return "\n".join(lines) + "\n"

    def _body(self) -> Iterator[str]:
        yield from self.style.begin(self)
        for symbol, expression in self.plan.sizes:
            yield f"{symbol} = {expression}"
        yield from self._arguments()
        yield from self.style.steps(self)
        yield from self.style.end(self)
        results = "".join(f"{self.style.result(self, r)}, " for r in self.plan.results)
        yield f"return ({results.rstrip() if len(self.plan.results) == 1 else results.rstrip(', ')})"

    def run_steps(self) -> Iterator[str]:
        yield from (f"{name}_home = {name}" for name in self.moving)
        for step in self.plan.steps:
            yield from self._step(step)
            if isinstance(step, Call | ControlStep):
                yield from self.style.after(self)
            if self.observed and isinstance(step, Call | ExternCall | ControlStep):
                yield from self.style.observe(_name(step))
        for name in self.moving:
            yield f"if {name} is not {name}_home:"
            yield f"    {self.style.copy(f'{name}_home', name)}"
            yield f"    {name} = {name}_home"

    def _step(self, step: Step) -> Iterator[str]:
        match step:
            case Allocate():
                yield from self.allocate(step)
            case Call():
                yield from self.style.call(self, step, self.programs[step.program])
            case ExternCall():
                yield from self._extern(step)
            case ControlStep():
                yield from self._control(step)
            case Release():
                yield f"del {step.name}"
            case Check():
                yield f"if not {step.a} {_RELATIONS[step.kind]} {step.b}:"
                yield f"    raise SizeError({step.message!r})"

    def _control(self, step: ControlStep) -> Iterator[str]:
        if step.kind == "choice":
            yield from self._choice(step)
            return
        bodies = [[f"    {line}" for inner in body for line in self._step(inner)] for body in step.bodies]
        if step.kind == "cond":
            yield f"if {self.style.test(self, step.head)}:"
            yield from bodies[0] or ["    pass"]
            if bodies[1]:
                yield "else:"
                yield from bodies[1]
            return
        if step.kind == "while":
            yield from self.style.repeat(self, step, bodies[0], bodies[1])
            return
        yield f"for {step.var} in range({step.head}):"
        yield from [*bodies[0], *self.rotation(step)] or ["    pass"]

    def rotation(self, step: ControlStep) -> Iterator[str]:
        """Lines of a loop, for arrays that change places."""
        if step.rotate:
            at = [(f"{a}_at", f"{b}_at") for a, b in step.rotate if a in self.passed]
            targets, sources = zip(*step.rotate, *at, strict=True)
            yield f"    {', '.join(targets)} = {', '.join(sources)}"

    def _choice(self, step: ControlStep, word: str = "if") -> Iterator[str]:
        then, (other,) = step.bodies
        yield f"{word} {step.head}:"
        yield from [f"    {line}" for inner in then for line in self._step(inner)] or ["    pass"]
        if isinstance(other, ControlStep) and other.kind == "choice":
            yield from self._choice(other, "elif")
        else:
            yield "else:"
            yield from [f"    {line}" for line in self._step(other)] or ["    pass"]

    def _arguments(self) -> Iterator[str]:
        """Addresses of the arrays that kernels take, and scalars as the numbers that entries take."""
        passed = [a for a in self.plan.arguments if a.name in self.passed]
        yield from self.style.memory(self, [a for a in passed if a.kind == "array"])
        for argument in passed:
            if argument.kind == "scalar":
                yield from self._scalar(argument)

    def _scalar(self, scalar: Argument) -> Iterator[str]:
        kind, name = dtypes.kind(scalar.dtype), scalar.name
        if kind == "c":
            yield f"{name}_re, {name}_im = float({name}.real), float({name}.imag)"
        elif dtypes.is_low(scalar.dtype):
            bits = self.constant(dtypes.storage(scalar.dtype))
            yield f"{name}_v = int({self._type(scalar)}({name}).view({bits}))"
        else:
            yield f"{name}_v = {'float' if kind == 'f' else 'int'}({name})"

    def _type(self, scalar: Argument) -> str:
        return self.constant(dtypes.canonical(scalar.dtype).type)

    def allocate(self, step: Allocate) -> Iterator[str]:
        yield f"{step.name} = {self.style.allocate(self, step)}"
        if step.name in self.passed:
            yield f"{step.name}_at = {self.style.address(self, step.name)}"

    def word(self, param: Param, value: str) -> str:
        """The spelling of one argument of an entry."""
        if param.is_array:
            return f"{value}_at"
        if param.kind == "scalar" and value in self.scalars:
            return f"{value}_re, {value}_im" if dtypes.kind(self.scalars[value].dtype) == "c" else f"{value}_v"
        return value

    def _extern(self, step: ExternCall) -> Iterator[str]:
        if step.function.startswith("constant:"):
            function = self.constant(self.plan.constants[int(step.function.partition(":")[2])])
        else:
            function = self.constant(self.style.function(step.function), step.function.rpartition(".")[2])
        words = [self.value(a) for a in step.args]
        words += [f"{key}={self.value(v)}" for key, v in step.kwargs]
        if step.out is not None:
            words.append(f"out={self.value(step.out)}")
        call = self.style.library_call(function, ", ".join(words))
        if step.origin:
            yield f"# {step.origin}"
        if not step.results:
            yield call
            return
        yield f"{', '.join(step.results)}, = results_of({call})"
        for symbol, expression in step.sizes:
            yield f"{symbol} = {expression}"
        for name, (dtype, shape) in zip(step.results, step.expected, strict=True):
            words = [name, self.constant(dtype), spelled(shape)]
            if any(result.source == name for result in self.plan.results):
                words.append(spelled(tuple(dict.fromkeys(_arrays((step.args, step.kwargs))))))
            yield f"{name} = check_shape({', '.join(words)})"
            if name in self.passed:
                yield f"{name}_at = {self.style.address(self, name)}"

    def value(self, tree: object) -> str:
        """An argument of an extern call, spelled."""
        if isinstance(tree, ArrayExpr):
            return self.style.view(self, tree)
        if isinstance(tree, Name):
            scalar = self.scalars.get(tree.text)
            return tree.text if scalar is None else f"{self._type(scalar)}({tree.text})"
        if type(tree) is tuple:
            return f"({''.join(f'{self.value(item)}, ' for item in tree)})"
        if type(tree) is list:
            return f"[{', '.join(map(self.value, tree))}]"
        if isinstance(tree, slice):
            return f"slice({', '.join(self.value(end) for end in (tree.start, tree.stop, tree.step))})"
        if tree is None or type(tree) in (bool, int, str):
            return repr(tree)
        return self.constant(tree)

    def viewed(self, text: str, result: Result) -> str:
        """The views of a result on the array that is spelled `text`."""
        for kind, value in result.views:
            if kind == "index":
                text += f"[{self.value(value)}]"
            elif kind == "dtype":
                text += f".view({self.constant(np.dtype(value))})"  # type: ignore[call-overload]
            elif kind in ("reshape", "transpose"):
                text += f".{kind}({self.value(value)})"
            else:
                text = f"{self.constant(VIEWS[kind], kind)}({text}, {self.value(value)})"
        return text

    def constant(self, value: object, name: str = "") -> str:
        """A name in the wrapper's namespace for an object that has no literal.  The text is that of a plan which was
        read from disk too: equal dtypes count as one, and objects without a name never do."""
        if isinstance(value, np.dtype) and dtypes.is_supported(value):
            name, value = dtypes.name(value), dtypes.canonical(value)
        elif isinstance(value, type):
            name = value.__name__
        if not name:
            name = f"c_{len(self.constants)}"
            self.constants[name] = value
            return name
        for k in range(len(self.constants) + 1):
            chosen = f"{name}_{k}" if k else name
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
    if isinstance(step, ExternCall):
        return step.function
    if isinstance(step, ControlStep) and step.kind != "choice":
        return step.kind
    return next(runs((step,)))[-1].program


_RELATIONS = {"eq": "==", "le": "<="}


def spelled(items: tuple[str, ...]) -> str:
    """A tuple of expressions."""
    return f"({''.join(f'{item}, ' for item in items)})" if len(items) < 2 else f"({', '.join(items)})"


def bind(expression: str, sizes: dict[str, str]) -> str:
    """A program's own size expression, over the names of the wrapper."""
    plain = {name: text if re.fullmatch(r"\w+", text) else f"({text})" for name, text in sizes.items()}
    return re.sub(r"[A-Za-z_]\w*", lambda m: plain.get(m[0], m[0]), expression)


def known(expression: str) -> int | None:
    """The value of a size expression without symbols."""
    try:
        return int(eval(expression, {"__builtins__": {}}))
    except NameError:
        return None
