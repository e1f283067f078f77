"""Graphs, Kernels and Schedules from the text that `show` prints.

Expressions in the text are evaluated as Python with a fixed set of names: read only text you trust.
`show(parse(text)) == text`; user's lines come back too.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import Origin, VerifyError
from numstax.ir.graph import Arg, Builder, Graph, InputSpec, Literal, Node, Output
from numstax.ir.index import Index, Ref, Var, as_index, contiguous_strides, symbol
from numstax.ir.loops import (
    Accumulate,
    Buffer,
    BufferView,
    Contract,
    Effect,
    Extern,
    Instr,
    Kernel,
    Loop,
    Reduce,
    Refusal,
    Scan,
    Schedule,
    Store,
    Tiling,
)

Names = dict[str, Any]


def _function(module: str, qualname: str) -> object:
    return reduce(getattr, qualname.split("."), importlib.import_module(module))


_NAMES: Names = {
    **{dtypes.name(d): d for d in dtypes.SUPPORTED},
    **{f.__name__: f for f in (Arg, BufferView, Literal, Var, slice, list, dict)},
    "Index": as_index,
    "dtype": np.dtype,
    "function": _function,
    "inf": np.inf,
    "max": lambda divisor, one: divisor,
    "nan": np.nan,
    "__builtins__": {},
}


class _ListsAreSizes(ast.NodeTransformer):
    """``[a, b]`` -> ``sizes(a, b)``"""

    def visit_List(self, node: ast.List) -> ast.Call:
        items = [self.visit(item) for item in node.elts]
        return ast.Call(ast.Name("sizes", ast.Load()), items, [])


def _value(text: str, names: Mapping[str, Any]) -> Any:
    tree = ast.fix_missing_locations(_ListsAreSizes().visit(ast.parse(text.strip(), mode="eval")))
    scope = {**_NAMES, **names, "sizes": lambda *items: tuple(map(as_index, items))}
    return eval(compile(tree, "<ir>", "eval"), scope)


def _index(text: str, names: Mapping[str, Any]) -> Index:
    return as_index(_value(text, names))


def _shape(text: str, names: Mapping[str, Any]) -> tuple[Index, ...]:
    return _value(f"[{text}]", names)  # type: ignore[no-any-return]


def _fields(text: str, names: Mapping[str, Any]) -> Names:
    return _value(f"dict({text})", names)  # type: ignore[no-any-return]


class _Line:
    """One line without its comment, taken apart by regular expressions."""

    def __init__(self, line: str) -> None:
        code, origins = line, ""
        found = re.fullmatch(r"(.*?\S) {2,}# (\S.*:\d+(?: in \S+)?)", line)
        if found:
            code, origins = found.groups()
        self.text = code.strip()
        self.depth = len(code) - len(code.lstrip())
        self.origins = tuple(_origin(part) for part in origins.split("; ") if part)

    @property
    def origin(self) -> Origin | None:
        return self.origins[0] if self.origins else None

    def match(self, pattern: str) -> re.Match[str] | None:
        return re.fullmatch(pattern, self.text)

    def expect(self, pattern: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            raise VerifyError(f"cannot read the line {self.text!r}")
        return found


def _origin(text: str) -> Origin:
    file, line, function = re.fullmatch(r"(.*):(\d+)(?: in (\S+))?", text).groups()  # type: ignore[union-attr]
    return Origin(file, int(line), function or "")


def _lines(text: str) -> Iterator[_Line]:
    return (_Line(line) for line in text.splitlines() if line.strip())


def _define_symbol(line: _Line, names: Names) -> bool:
    found = line.match(r"symbol (\w+)(.*)")
    if found:
        names[found[1]] = symbol(found[1], **_fields(found[2].strip().replace(" ", ", "), {}))
    return found is not None


_TYPE = r"(\w+)\[([^\]]*)\]"
_TITLE = r"(\w+ )?graph"


def parse_graph(text: str) -> Graph:
    """The inverse of `show_graph`; the nodes are new."""
    lines = list(_lines(text))
    lines.reverse()
    return _graph(lines, {})


def _graph(lines: list[_Line], outside: Names) -> Graph:
    """Take the lines of one Graph, its title first, off the end; `outside` : the symbols of the Graph around it."""
    depth = lines.pop().depth
    names = dict(outside)
    builder, nodes = Builder(), dict[str, Node]()
    inputs: list[InputSpec] = []
    outputs: list[Output] = []
    writes: list[tuple[int, Node]] = []
    asserts: list[tuple[str, Index, Index, str]] = []
    passed: tuple[str, ...] = ()
    binders: tuple[Node, ...] = ()
    while lines and lines[-1].depth == depth and not lines[-1].match(_TITLE):
        line = lines.pop()
        if _define_symbol(line, names):
            continue
        if found := line.match(rf"input \d+ (\w+) {_TYPE}(?: strides \[(.*)\])? (['\"].*)"):
            kind, dtype, shape, strides, name = found.groups()
            sizes = _shape(shape, names), _shape(strides or "", names)
            inputs.append(InputSpec(kind, _value(dtype, {}), *sizes, _value(name, {})))
        elif found := line.match(rf"(%\d+) = (\w+) {_TYPE}((?: %\d+)*)(?: \{{(.*)\}})?"):
            name, op, dtype, shape, args, attrs = found.groups()
            nodes[name] = builder.node(
                op,
                tuple(nodes[a] for a in args.split()),
                _shape(shape, names),
                _value(dtype, {}),
                origin=line.origin,
                **_fields(attrs or "", names),
                **_bodies(lines, depth, names),
            )
        elif found := line.match(r"sizes (.*)"):
            passed = tuple(found[1].split(", "))
        elif found := line.match(r"binders (.*)"):
            binders = tuple(nodes[name] for name in found[1].split())
        elif found := line.match(r"assert (\w+) (.*), (.*) : ('.*'|\".*\")"):
            asserts.append((found[1], _index(found[2], names), _index(found[3], names), _value(found[4], {})))
        elif found := line.match(r"write (\d+) = (%\d+)"):
            writes.append((int(found[1]), nodes[found[2]]))
        else:
            found = line.expect(r"return (%\d+)( scalar)?(?: alias (\w+) (\d+) views (.*))?")
            alias = (found[3], int(found[4])) if found[3] else None
            views = _value(found[5], names) if found[5] else ()
            outputs.append(Output(nodes[found[1]], bool(found[2]), alias, views))
    return Graph(tuple(inputs), tuple(outputs), tuple(writes), tuple(asserts), passed, binders)


def _bodies(lines: list[_Line], depth: int, names: Names) -> dict[str, Graph]:
    """The Graphs below the line of a node at this depth, by attribute."""
    found = {}
    while lines and lines[-1].depth > depth:
        name = lines[-1].expect(_TITLE)[1]
        found[name.strip()] = _graph(lines, names)
    return found


def parse_kernel(text: str) -> Kernel:
    """The inverse of `show_kernel`, for kernels without cases."""
    reader = _LoopReader(text)
    return reader.kernel(reader.take().expect(_KERNEL))


def parse_schedule(text: str) -> Schedule:
    """The inverse of `show_schedule`, for kernels without cases."""
    return _LoopReader(text).schedule()


_KERNEL = r"kernel (\S+) \((.*)\)"


class _LoopReader:
    """Reads lines one by one; `names` holds what an expression may name, `buffers` what was defined."""

    def __init__(self, text: str) -> None:
        self.names: Names = {}
        self.buffers: dict[str, Buffer] = {}
        self.lines = [line for line in _lines(text) if not _define_symbol(line, self.names)]
        self.lines.reverse()

    def take(self) -> _Line:
        self.line = self.lines.pop()
        return self.line

    def next(self, pattern: str) -> re.Match[str] | None:
        """Take the next line if it matches."""
        found = self.lines[-1].match(pattern) if self.lines else None
        if found:
            self.take()
        return found

    def schedule(self) -> Schedule:
        private = self.take().expect("schedule( private)?")[1] is not None
        buffers = tuple(self.read_buffers())
        units: list[Kernel | Extern] = []
        while True:
            if found := self.next(_KERNEL):
                units.append(self.kernel(found))
            elif found := self.next(r"extern (.*) \{(args=.*)\}"):
                fields = _fields(found[2], self.names)
                units.append(Extern(_value(found[1], {}), **fields, origin=self.line.origin))
            else:
                break
        outputs = _value(self.take().expect("outputs (.*)")[1], {})
        writes = _value(self.take().expect("writes (.*)")[1], {})
        refusals = []
        while found := self.next(r"refusal (.*) : (.*)"):
            refusals.append(Refusal(_value(found[1], {}), _value(found[2], {})))
        return Schedule(tuple(units), buffers, outputs, writes, tuple(refusals), private)

    def read_buffers(self) -> Iterator[Buffer]:
        while found := self.next(rf"buffer (\w+) (\w+) {_TYPE}(?: strides \[(.*)\])?"):
            name, kind, dtype, sizes, steps = found.groups()
            shape = _shape(sizes, self.names)
            strides = contiguous_strides(shape) if steps is None else _shape(steps, self.names)
            self.buffers[name] = Buffer(name, _value(dtype, {}), shape, strides, kind)
            yield self.buffers[name]

    def variables(self, text: str, names: Names) -> tuple[Var, ...]:
        """``i < 4, j < n``; the names are added to `names`."""
        out = []
        for part in text.split(", ") if text else ():
            name, _, extent = part.partition(" < ")
            out.append(Var(name, _index(extent, names)))
            names[name] = as_index(out[-1])
        return tuple(out)

    def kernel(self, head: re.Match[str]) -> Kernel:
        origins, outside = self.line.origins, dict(self.buffers)
        names = dict(self.names)
        outer = self.variables(head[2], names)
        for buffer in self.read_buffers():
            self.buffers[buffer.name] = buffer
        used = self.take().expect("uses (.*)")[1]
        buffers = tuple(self.buffers[name] for name in used.split(", ") if name)
        self.buffers = outside
        tiling = self.next("tiling (.*)")
        loops = []
        while found := self.next(r"loop \((.*)\)"):
            loops.append(self.loop(found[1], dict(names)))
        while self.next("where .*"):
            pass
        made = Tiling(**_fields(tiling[1], self.names)) if tiling else None
        return Kernel(head[1], outer, tuple(loops), buffers, made, origins)

    def loop(self, variables: str, names: Names) -> Loop:
        inner = self.variables(variables, names)
        body: list[Instr] = []
        while found := self.next(r"v\d+ = (\w+) (\w+) (.*?)(?: below (.*))?"):
            body.append(self.instr(found[1], _value(found[2], {}), found[3], names))
            if found[4]:
                names[f"v{len(body) - 1}"] = as_index(Ref(len(body) - 1, _index(found[4], names)))
        effects: list[Effect] = []
        while effect := self.effect(names):
            effects.append(effect)
        return Loop(inner, tuple(body), tuple(effects))

    def instr(self, op: str, dtype: np.dtype, rest: str, names: Names) -> Instr:
        args, attr = rest, None  # type: str, Any
        if op == "load":
            name, offset, args = re.fullmatch(r"(\w+)\[(.*)\](?: if (v\d+))?", rest).groups("")  # type: ignore[union-attr]
            attr = (name, _index(offset, names))
        elif op == "wrap":
            args, _, size = rest.partition(" of ")
            attr = _index(size, names)
        elif op == "require":
            args, _, attr = rest.partition(" of ")
        elif op in ("const", "index"):
            args, attr = "", _value(rest, {}) if op == "const" else _index(rest, names)
        return Instr(op, tuple(int(a[1:]) for a in args.split(", ") if a), dtype, attr, self.line.origin)

    def effect(self, names: Names) -> Effect | None:
        target = r"(\w+)\[(.*?)\] = v(\d+)"
        if found := self.next(rf"store {target}(?: if v(\d+))?"):
            mask = None if found[4] is None else int(found[4])
            return Store(found[1], _index(found[2], names), int(found[3]), mask)
        if found := self.next(rf"contract (\w+) (\w+) {target} times v(\d+)(?: in (\w+))?(?: by (\w+))?"):
            precision, dtype, buffer, offset, value, other, group, template = found.groups("")
            factors = int(value), int(other)
            return Contract(*factors, buffer, _index(offset, names), _value(dtype, {}), precision, group, template)
        extra = r"(?: at (.*?))?(?: with v(\d+))?(?: also (\w+)\[(.*)\])?"
        found = self.next(rf"(scan|reduce|accumulate) (\w+) (\w+) {target}{extra}")
        if found is None:
            return None
        which, op, dtype, buffer, offset, value, position, second, also, at = found.groups()
        common = (op, int(value), buffer, _index(offset, names), _value(dtype, {}))
        if which != "reduce":
            return Scan(*common) if which == "scan" else Accumulate(*common)
        return Reduce(
            *common,
            position=None if position is None else _index(position, names),
            position_in=None if second is None else int(second),
            value_buffer=also,
            value_offset=None if at is None else _index(at, names),
        )
