"""Readable text of Graphs, Kernels and Schedules, which `parse` turns back into equal values.

One line for each node, instruction, effect and buffer, with the user's line as a comment::

    graph
    input 0 array f32[n, 4] strides [4, 1] 'x'
    %0 = input f32[n, 4] {position=0}            # model.py:3 in f
    %1 = reduce_add f32[n] %0 {axes=(1,)}        # model.py:4 in f
    return %1

The bodies of control flow stand indented below their node, each with node names of its own, and with the symbols that
the Graph around it does not show.  A tuple of Index values is written as a list, ``[1, n + 1]``.  Two values print
alike only if they are equal; of the cases of a kernel only limits and tilings are shown, which `parse` passes over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np

from numstax import dtypes
from numstax.errors import Origin
from numstax.ir.graph import Arg, Graph, Literal, Node
from numstax.ir.index import Index, Ref, Symbol, Var, atoms
from numstax.ir.limits import condition
from numstax.ir.loops import (
    CHECKS,
    Buffer,
    BufferView,
    Contract,
    Control,
    Effect,
    Extern,
    Instr,
    Kernel,
    Loop,
    Reduce,
    Schedule,
    Store,
    Tiling,
    Unit,
)

Line = tuple[str, str]
"""Text and comment."""


def show(value: Graph | Schedule | Unit) -> str:
    """Any of them as text."""
    if isinstance(value, Graph):
        return show_graph(value)
    if isinstance(value, Schedule):
        return show_schedule(value)
    return show_kernel(value) if isinstance(value, Kernel) else _joined(_unit_lines(value, {}))


# a class of the IR cannot import what prints it
Graph.__str__ = Schedule.__str__ = Kernel.__str__ = show  # type: ignore[method-assign, assignment]


def show_graph(graph: Graph) -> str:
    return _joined(list(_graph_lines(graph)))


def show_node(graph: Graph, node: Node) -> str:
    """The line that `show_graph` prints for `node`."""
    names = {n: f"%{k}" for k, n in enumerate(graph.named())}
    return _joined([_node_line(node, names)])


def show_kernel(kernel: Kernel) -> str:
    return _joined([*_symbol_lines(kernel_sizes(kernel)), *_kernel_lines(kernel, {})])


def show_schedule(schedule: Schedule) -> str:
    return _joined(list(_schedule_lines(schedule, _symbol_lines(_schedule_sizes(schedule)))))


def text(value: object) -> str:
    """An attribute as an expression that `parse` evaluates."""
    if isinstance(value, tuple):
        if value and all(isinstance(item, Index) for item in value):
            return f"[{_sizes(value)}]"
        return f"({', '.join(map(text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"list({text(tuple(value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(k)}: {text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
    if isinstance(value, np.dtype):
        return dtypes.name(value) if dtypes.is_supported(value) else f"dtype({value.str!r})"
    if isinstance(value, Literal):
        return _literal(value)
    if isinstance(value, Arg):
        return f"Arg({value.k})"
    if isinstance(value, Var):
        return f"Var({value.name!r}, Index({value.extent}))"
    if isinstance(value, BufferView):
        return f"BufferView({value.buffer!r}, Index({value.offset}), {text(value.shape)}, {text(value.strides)})"
    if isinstance(value, np.generic):
        return str(value)
    if value is Ellipsis:
        return "..."
    if callable(value):
        return f"function({getattr(value, '__module__', '')!r}, {getattr(value, '__qualname__', repr(value))!r})"
    return repr(value)


def _literal(literal: Literal) -> str:
    dtype, kind, plain = literal.dtype, dtypes.kind(literal.dtype), str(literal.value)
    if kind == "f":
        plain = repr(float(plain))
    # the bits say more than the number where NaNs differ, and signed zeros of complex numbers
    if kind in "biu" or (kind == "f" and Literal.of(float(plain), dtype) == literal):
        return f"Literal.of({plain}, {text(dtype)})"
    return f"Literal({text(dtype)}, {literal.bits!r})"


# --- lines ----------------------------------------------------------------------------------------


def _graph_lines(graph: Graph, title: str = "graph", known: frozenset[str] = frozenset()) -> Iterator[Line]:
    """`known` : the symbols that a Graph around this one shows.  Bodies of control flow follow their node, indented."""
    nodes = graph.named()
    names = {node: f"%{k}" for k, node in enumerate(nodes)}
    symbols = _symbol_table(_graph_sizes(graph, nodes))
    yield title, ""
    yield from (symbols[name] for name in sorted(symbols.keys() - known))
    for position, spec in enumerate(graph.inputs):
        strides = f" strides [{_sizes(spec.strides)}]" if spec.strides else ""
        yield f"input {position} {spec.kind} {_type(spec.dtype, spec.shape)}{strides} {spec.name!r}", ""
    if graph.sizes:
        yield f"sizes {', '.join(graph.sizes)}", ""
    for node in nodes:
        yield _node_line(node, names)
        for name, body in node.attrs:
            if isinstance(body, Graph):
                inner = _graph_lines(body, f"{name} graph", known | symbols.keys())
                yield from ((f"  {line}", comment) for line, comment in inner)
    for kind, a, b, message in graph.asserts:
        yield f"assert {kind} {a}, {b} : {message!r}", ""
    if graph.binders:
        yield f"binders {' '.join(names[node] for node in graph.binders)}", ""
    for position, node in graph.writes:
        yield f"write {position} = {names[node]}", ""
    for out in graph.outputs:
        scalar = " scalar" if out.scalar else ""
        alias = f" alias {out.alias[0]} {out.alias[1]} views {text(out.views)}" if out.alias else ""
        yield f"return {names[out.node]}{scalar}{alias}", ""


def _node_line(node: Node, names: dict[Node, str]) -> Line:
    args = "".join(f" {names[a]}" for a in node.args)
    told = ", ".join(f"{key}={text(value)}" for key, value in node.attrs if not isinstance(value, Graph))
    attrs = f" {{{told}}}" if told else ""
    return f"{names[node]} = {node.op} {_type(node.dtype, node.shape)}{args}{attrs}", _origin(node.origin)


def _buffer_text(buffer: Buffer) -> str:
    strides = f" strides [{_sizes(buffer.strides)}]" if buffer.kind == "input" else ""
    return f"buffer {buffer.name} {buffer.kind} {_type(buffer.dtype, buffer.shape)}{strides}"


def _kernel_lines(kernel: Kernel, known: dict[str, Buffer]) -> list[Line]:
    lines: list[Line] = [(f"kernel {kernel.name} ({_vars(kernel.outer)})", "; ".join(map(_origin, kernel.origins)))]
    lines += [(f"  {_buffer_text(b)}", "") for b in kernel.buffers if known.get(b.name) != b]
    lines.append((f"  uses {', '.join(b.name for b in kernel.buffers)}", ""))
    if kernel.tiling is not None:
        lines.append((f"  tiling {_tiling_text(kernel.tiling)}", ""))
    for loop in kernel.loops:
        lines.append((f"  loop ({_vars(loop.inner)})", ""))
        lines += [(f"    {line}", comment) for line, comment in loop_lines(loop)]
    for case in kernel.cases:
        tiling = "" if case.kernel.tiling is None else f": {_tiling_text(case.kernel.tiling)}"
        lines.append((f"  where {condition(case.limits)}{tiling}", ""))
    return lines


def _tiling_text(t: Tiling) -> str:
    rest = f"block={t.block}, tile={text(t.tile)}, unroll={t.unroll}"
    if t.threads:
        rest += f", threads={t.threads}, team={t.team}, width={t.width}, cache={t.cache!r}, resident={t.resident}"
        rest += f", blocks={t.blocks}, ahead={t.ahead}, narrow={t.narrow}"
    return f"form={t.form!r}, vector={text(t.vector)}, {rest}"


def loop_lines(loop: Loop) -> list[Line]:
    """Text and comment of each instruction and effect."""
    below = {a.position: a.extent for index in _loop_indices(loop) for a in atoms(index) if isinstance(a, Ref)}
    lines = []
    for k, instr in enumerate(loop.body):
        limit = f" below {below[k]}" if k in below else ""
        lines.append((f"v{k} = {_instr_text(instr)}{limit}", _origin(instr.origin)))
    return lines + [(_effect_text(effect), "") for effect in loop.effects]


def _schedule_lines(schedule: Schedule, symbols: Sequence[Line] = ()) -> Iterator[Line]:
    yield f"schedule{' private' if schedule.private else ''}", ""
    yield from symbols
    yield from ((_buffer_text(b), "") for b in schedule.buffers)
    known = {b.name: b for b in schedule.buffers}
    for unit in schedule.units:
        yield from _unit_lines(unit, known)
    yield f"outputs {text(schedule.outputs)}", ""
    yield f"writes {text(schedule.writes)}", ""
    yield from ((f"refusal {r.what!r} : {r.reason!r}", "") for r in schedule.refusals)


def _unit_lines(unit: Unit, known: dict[str, Buffer]) -> list[Line]:
    if isinstance(unit, Kernel):
        return _kernel_lines(unit, known)
    return [_extern_line(unit)] if isinstance(unit, Extern) else list(_control_lines(unit))


def _control_lines(unit: Control) -> Iterator[Line]:
    """The bodies follow, indented; their Graphs are not printed."""
    fields = {"var": unit.var, "head": unit.head, "rotate": unit.rotate}
    told = "".join(f", {key}={text(value)}" for key, value in fields.items() if value)
    yield f"{unit.kind} {{args={text(unit.args)}, states={unit.states}{told}}}", _origin(unit.origin)
    for body in unit.bodies:
        yield from ((f"  {line}", comment) for line, comment in _schedule_lines(body.schedule))


def _instr_text(instr: Instr) -> str:
    args = [f"v{k}" for k in instr.args]
    head = f"{instr.op} {dtypes.name(instr.dtype)}"
    if instr.op == "load":
        buffer, offset = cast(tuple[str, Index], instr.attr)
        return f"{head} {buffer}[{offset}]" + "".join(f" if {a}" for a in args)
    if instr.op in CHECKS:
        return f"{head} {', '.join(args)} of {instr.attr}"
    if instr.op in ("const", "index"):
        return f"{head} {text(instr.attr) if instr.op == 'const' else instr.attr}"
    return f"{head} {', '.join(args)}"


def _effect_text(effect: Effect) -> str:
    target = f"{effect.buffer}[{effect.offset}]"
    if isinstance(effect, Store):
        return f"store {target} = v{effect.value}" + (f" if v{effect.mask}" if effect.mask is not None else "")
    if isinstance(effect, Contract):
        head = f"contract {effect.precision} {dtypes.name(effect.dtype)} {target}"
        group = f" in {effect.group}" if effect.group else ""
        group += f" by {effect.template}" if effect.template else ""
        return f"{head} = v{effect.value} times v{effect.other}{group}"
    head = f"{type(effect).__name__.lower()} {effect.op} {dtypes.name(effect.dtype)}"
    line = f"{head} {target} = v{effect.value}"
    if isinstance(effect, Reduce):
        if effect.position is not None:
            line += f" at {effect.position}"
        if effect.position_in is not None:
            line += f" with v{effect.position_in}"
        if effect.value_buffer is not None:
            line += f" also {effect.value_buffer}[{effect.value_offset}]"
    return line


def _extern_line(unit: Extern) -> Line:
    fields = {"args": unit.args, "kwargs": unit.kwargs, "results": unit.results, "out": unit.out, "draws": unit.draws}
    told = ", ".join(f"{key}={text(value)}" for key, value in fields.items() if key == "args" or value)
    return f"extern {text(unit.function)} {{{told}}}", _origin(unit.origin)


def _symbol_lines(sizes: Iterable[Index]) -> list[Line]:
    return [line for _, line in sorted(_symbol_table(sizes).items())]


def _symbol_table(sizes: Iterable[Index]) -> dict[str, Line]:
    """The line of each symbol, by name."""
    lines: dict[str, Line] = {}
    for size in sizes:
        for symbol in _symbols(size):
            given = {"lo": symbol.lo, "hi": symbol.hi, "multiple_of": symbol.multiple_of, "hint": symbol.hint}
            plain = Symbol("")
            told = "".join(f" {k}={v}" for k, v in given.items() if v != getattr(plain, k))
            lines[symbol.name] = (f"symbol {symbol.name}{told}", "")
    return lines


def _joined(lines: Sequence[Line]) -> str:
    width = min(max((len(line) for line, comment in lines if comment), default=0), 72)
    return "\n".join(f"{line:<{width}}  # {comment}" if comment else line for line, comment in lines)


# --- pieces ---------------------------------------------------------------------------------------


def _type(dtype: np.dtype, shape: Sequence[Index]) -> str:
    return f"{text(dtype)}[{_sizes(shape)}]"


def _sizes(sizes: Iterable[Index]) -> str:
    return ", ".join(map(str, sizes))


def _vars(variables: Sequence[Var]) -> str:
    return ", ".join(f"{v} < {v.extent}" for v in variables)


def _origin(origin: Origin | None) -> str:
    if origin is None:
        return ""
    return f"{origin} in {origin.function}" if origin.function else str(origin)


def _symbols(size: Index) -> Iterator[Symbol]:
    for atom in atoms(size):
        if isinstance(atom, Symbol):
            yield atom
        elif isinstance(atom, Var | Ref):
            yield from _symbols(atom.extent)


def index_leaves(tree: object) -> Iterator[Index]:
    """Every Index in nested tuples, lists, dicts, slices and views."""
    if isinstance(tree, Index):
        yield tree
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from index_leaves(item)
    elif isinstance(tree, dict):
        yield from index_leaves(list(tree.values()))
    elif isinstance(tree, slice):
        yield from index_leaves((tree.start, tree.stop, tree.step))
    elif isinstance(tree, BufferView):
        yield from (tree.offset, *tree.shape, *tree.strides)


def _graph_sizes(graph: Graph, nodes: Iterable[Node]) -> Iterator[Index]:
    for spec in graph.inputs:
        yield from (*spec.shape, *spec.strides)
    for node in nodes:
        yield from node.shape
        yield from index_leaves(node.attrs)
    yield from index_leaves((graph.asserts, [out.views for out in graph.outputs]))


def _loop_indices(loop: Loop) -> Iterator[Index]:
    for instr in loop.body:
        yield from index_leaves(instr.attr)
    for effect in loop.effects:
        yield effect.offset
        if isinstance(effect, Reduce):
            yield from index_leaves((effect.position, effect.value_offset))


def unit_sizes(unit: Unit) -> Iterator[Index]:
    """Every Index in a unit."""
    if isinstance(unit, Kernel):
        yield from kernel_sizes(unit)
    elif isinstance(unit, Extern):
        yield from index_leaves((unit.args, unit.kwargs, unit.out))
    else:
        yield from index_leaves(unit.head)
        for body in unit.bodies:
            yield from _schedule_sizes(body.schedule)


def _schedule_sizes(schedule: Schedule) -> Iterator[Index]:
    for buffer in schedule.buffers:
        yield from (*buffer.shape, *buffer.strides)
    for unit in schedule.units:
        yield from unit_sizes(unit)


def kernel_sizes(kernel: Kernel) -> Iterator[Index]:
    """Every Index in a kernel."""
    for buffer in kernel.buffers:
        yield from (*buffer.shape, *buffer.strides)
    yield from (v.extent for v in kernel.outer)
    for loop in kernel.loops:
        yield from (v.extent for v in loop.inner)
        yield from _loop_indices(loop)
