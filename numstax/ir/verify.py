"""Verification of Graphs: is every node what the docstring of `graph` says it is?

A value enters; nothing leaves, or a VerifyError that names the offending line of the printed IR and the
user's line.  Sizes that may or may not fit are accepted: only what is provably wrong is an error.
`verify_loops` does the same for Schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from numstax import dtypes
from numstax.errors import VerifyError
from numstax.ir.graph import CONTROL, Arg, Graph, Literal, Node, control_args, control_bodies, is_state
from numstax.ir.index import (
    ONE,
    ZERO,
    Index,
    IndexLike,
    Symbol,
    as_index,
    atoms,
    contiguous_strides,
    less,
    product,
    same,
)
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS, SCANS, resolve
from numstax.ir.show import show_node
from numstax.ir.verify_loops import verify_schedule
from numstax.requirements import REQUIREMENTS

__all__ = ["verify_graph", "verify_schedule"]

Shape = tuple[Index, ...]
Complaints = Iterator[str]
Rule = Callable[..., Complaints]
_SEVERAL = ("extern", *CONTROL)
"""Nodes with several results."""


def verify_graph(graph: Graph) -> None:
    """Raise VerifyError at the first node, output or write that is inconsistent."""
    interned: dict[object, Node] = {}
    for node in graph.named():
        key = (node.op, node.args, node.attrs, node.shape, node.dtype)
        complaint = next(_complaints(graph, node), None)
        if interned.setdefault(key, node) is not node:
            complaint = "equal nodes must be one object"
        if complaint:
            raise VerifyError(f"{complaint}\n    {show_node(graph, node)}", node.origin)
    for k, out in enumerate(graph.outputs):
        if out.alias is not None:
            source, position = out.alias
            if position >= {"input": len(graph.inputs), "output": k}.get(source, 0):
                raise VerifyError(f"output {k} is an alias of {source} {position}, which is not there", out.node.origin)
        elif out.node.op in _SEVERAL:
            raise VerifyError(f"output {k} is {out.node.op}, not one of its results", out.node.origin)
        elif out.scalar and out.node.shape:
            raise VerifyError(f"output {k} is a scalar of shape {_text(out.node.shape)}", out.node.origin)
    written = [position for position, _ in graph.writes]
    if len(set(written)) < len(written):
        raise VerifyError(f"an argument is written twice: {written}")
    for position, node in graph.writes:
        spec = graph.inputs[position]
        if node.dtype != spec.dtype or not _fit(node.shape, spec.shape):
            was, new = f"{spec.dtype}{_text(spec.shape)}", f"{node.dtype}{_text(node.shape)}"
            raise VerifyError(f"argument {position} is {was}, what is written to it {new}", node.origin)


def _fit(a: Sequence[IndexLike], b: Sequence[IndexLike]) -> bool:
    """Not provably different."""
    return len(a) == len(b) and all(same(x, y) is not False for x, y in zip(a, b, strict=True))


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _complaints(graph: Graph, node: Node) -> Complaints:
    family, _, op = node.op.partition("_")
    rule: Rule
    if node.op in ELEMENTWISE:
        attrs, arity, rule = "", ELEMENTWISE[node.op].arity, _elementwise
    elif (family == "reduce" and op in (*REDUCTIONS, "argmax", "argmin")) or (family == "scan" and op in SCANS):
        attrs, arity, rule = ("axes", 1, _reduce) if family == "reduce" else ("axis", 1, _scan)
    elif node.op in _RULES:
        attrs, arity, rule = _RULES[node.op]
    else:
        yield f"there is no node operation {node.op!r}"
        return
    if [key for key, _ in node.attrs] != attrs.split():
        yield f"attributes must be: {attrs or 'none'}"
    elif arity >= 0 and len(node.args) != arity:
        yield f"{node.op} takes {arity} arguments"
    elif node.op != "result" and any(a.op in _SEVERAL for a in node.args):
        yield "an extern or control flow is used without choosing a result"
    elif node.op == "input":
        yield from _input(graph, node)
    else:
        yield from rule(node, *node.args)


def _must(node: Node, shape: Sequence[IndexLike], dtype: np.dtype | None = None) -> Complaints:
    if not _fit(node.shape, shape):
        yield f"the shape must be {_text(tuple(map(as_index, shape)))}"
    if dtype is not None and node.dtype != dtype:
        yield f"the dtype must be {dtype}"


def _axes_of(x: Node, axes: Sequence[int]) -> Complaints:
    if list(axes) != sorted(set(axes)) or not all(0 <= axis < x.ndim for axis in axes):
        yield f"axes {axes} are not different axes, in order, of an array of {x.ndim} dimensions"


# --- rules: node and arguments -> complaints ------------------------------------------------------


def _input(graph: Graph, node: Node) -> Complaints:
    position = node.attr("position")
    if not 0 <= position < len(graph.inputs):
        yield f"there is no argument {position}"
    else:
        yield from _must(node, graph.inputs[position].shape, graph.inputs[position].dtype)


def _elementwise(node: Node, *args: Node) -> Complaints:
    for arg in args:
        if not _fit(arg.shape, node.shape):
            yield f"operands must have the shape of the result, not {_text(arg.shape)}"
    given = tuple(arg.dtype for arg in args)
    try:
        wanted, result = resolve(node.op, given)
    except TypeError as error:
        yield str(error)
        return
    if (wanted, result) != (given, node.dtype):
        names = [d.name for d in (*wanted, result)]
        yield f"dtypes must be {', '.join(names[:-1])} -> {names[-1]}"


def _reduce(node: Node, x: Node) -> Complaints:
    axes = node.attr("axes")
    yield from _axes_of(x, axes)
    kept = [n for axis, n in enumerate(x.shape) if axis not in axes]
    if node.op in ("reduce_argmax", "reduce_argmin"):
        yield from _must(node, kept, dtypes.INT64)
        if len(axes) != 1:
            yield "argmax and argmin take one axis"
    else:
        yield from _must(node, kept, dtypes.BOOL if node.op.startswith("reduce_logical") else x.dtype)


def _scan(node: Node, x: Node) -> Complaints:
    yield from _axes_of(x, (node.attr("axis"),))
    yield from _must(node, x.shape, dtypes.BOOL if node.op.startswith("scan_logical") else x.dtype)


def _constant(node: Node) -> Complaints:
    literal = node.attr("value")
    if not isinstance(literal, Literal):
        yield "the value of a constant is a Literal"
    else:
        yield from _must(node, (), literal.dtype)


def _iota(node: Node) -> Complaints:
    yield from _axes_of(node, (node.attr("axis"),))
    yield from _must(node, node.shape, dtypes.INT64)


def _bitcast(node: Node, x: Node) -> Complaints:
    yield from _must(node, x.shape)
    if node.dtype.itemsize != x.dtype.itemsize:
        yield f"a bitcast keeps the item size, which is {x.dtype.itemsize}"


def _reshape(node: Node, x: Node) -> Complaints:
    yield from _must(node, node.shape, x.dtype)
    if same(product(node.shape), product(x.shape)) is False:
        yield f"a reshape keeps the number of elements: {_text(x.shape)}"


def _transpose(node: Node, x: Node) -> Complaints:
    axes = node.attr("axes")
    if sorted(axes) != list(range(x.ndim)):
        yield f"axes {axes} are not a permutation"
    else:
        yield from _must(node, [x.shape[axis] for axis in axes], x.dtype)


def _broadcast_to(node: Node, x: Node) -> Complaints:
    yield from _must(node, node.shape, x.dtype)
    tail = node.shape[node.ndim - x.ndim :] if x.ndim <= node.ndim else ()
    if len(tail) < x.ndim or not all(n is ONE or same(n, m) is not False for n, m in zip(x.shape, tail, strict=True)):
        yield f"{_text(x.shape)} does not broadcast to the shape"


def _region(node: Node, x: Node, part: Shape) -> Complaints:
    """Elements ``starts + k*steps``, k < part, of x."""
    starts, steps = node.attr("starts"), node.attr("steps")
    if not len(starts) == len(steps) == len(part) == x.ndim:
        yield "starts, steps and the region must have one entry for each axis"
        return
    for start, step, size, whole in zip(map(as_index, starts), steps, part, x.shape, strict=True):
        if less(ZERO, size) is False:
            continue
        last = start + (size - 1) * step
        if size.value is not None and any(less(at, as_index(0)) or less(whole - 1, at) for at in (start, last)):
            yield f"elements {start}..{last} leave an axis of {whole}"


def _slice(node: Node, x: Node) -> Complaints:
    yield from _must(node, node.shape, x.dtype)
    yield from _region(node, x, node.shape)


def _roll(node: Node, x: Node) -> Complaints:
    yield from _must(node, x.shape, x.dtype)
    for axis, (start, size) in enumerate(zip(map(as_index, node.attr("starts")), x.shape, strict=True)):
        if less(start, ZERO) or less(size, start):
            yield f"axis {axis} of {size} elements cannot start at {start}"


def _update(node: Node, base: Node, value: Node) -> Complaints:
    yield from _must(node, base.shape, base.dtype)
    if value.dtype != base.dtype:
        yield f"{value.dtype} is assigned to {base.dtype}"
    yield from _region(node, base, value.shape)


def _diagonal(node: Node, x: Node) -> Complaints:
    pair = node.attr("axis1"), node.attr("axis2")
    yield from _axes_of(x, sorted(pair))
    yield from _must(node, [n for k, n in enumerate(x.shape) if k not in pair] + [node.shape[-1]], x.dtype)


def _window(node: Node, x: Node) -> Complaints:
    axes = node.attr("axes")
    outer, sizes = list(x.shape), node.shape[x.ndim :]
    if len(axes) != len(sizes):
        yield "there must be one window axis for each of `axes`"
        return
    for axis, size in zip(axes, sizes, strict=True):
        outer[axis] = outer[axis] - size + 1
    yield from _must(node, [*outer, *sizes], x.dtype)


def _gather(node: Node, x: Node, *indices: Node) -> Complaints:
    yield from _axes_of(x, sorted(node.attr("axes")))
    yield from _indexed(x, node.attr("axes"), indices, node)


def _require(node: Node, value: Node, holds: Node) -> Complaints:
    yield from _must(node, value.shape, value.dtype)
    if holds.dtype != dtypes.BOOL or not _fit(holds.shape, value.shape):
        yield f"what must hold is {holds.dtype}{_text(holds.shape)}"
    if node.attr("requirement") not in REQUIREMENTS:
        yield f"there is no requirement {node.attr('requirement')!r}"


def _matmul(node: Node, a: Node, b: Node) -> Complaints:
    if a.ndim < 2 or a.ndim != b.ndim:
        yield "operands have equal ranks of at least 2"
    elif not _fit((*a.shape[:-2], a.shape[-1]), (*b.shape[:-2], b.shape[-2])):
        yield f"{_text(a.shape)} and {_text(b.shape)} cannot be multiplied"
    else:
        yield from _must(node, (*a.shape[:-1], b.shape[-1]))
        if not a.dtype == b.dtype == node.dtype:
            yield "operands and result have one dtype"


def _extern(node: Node, *args: Node) -> Complaints:
    used = [item.k for item in _leaves((node.attr("args"), node.attr("kwargs"))) if isinstance(item, Arg)]
    if not set(used) <= set(range(len(args))):
        yield f"the argument tree names arguments {sorted(set(used))} of {len(args)}"
    if not node.attr("results"):
        yield "an extern has at least one result"


def _result(node: Node, source: Node) -> Complaints:
    k, results = node.attr("k"), source.attr("results") if source.op == "extern" else ()
    if is_state(node):
        results = tuple((state.shape, state.dtype) for state in control_args(source)[1])
    if not 0 <= k < len(results):
        yield f"there is no result {k}"
    else:
        yield from _must(node, *results[k])


def _scatter(node: Node, base: Node, value: Node, *indices: Node) -> Complaints:
    op = node.attr("op")
    if op != "set" and (op not in ELEMENTWISE or ELEMENTWISE[op].arity != 2):
        yield f"there is no binary operation {op!r}"
    yield from _must(node, base.shape, base.dtype)
    yield from _axes_of(base, sorted(node.attr("axes")))
    yield from _indexed(base, node.attr("axes"), indices, value)


def _indexed(x: Node, axes: Sequence[int], indices: Sequence[Node], part: Node) -> Complaints:
    """`part` is, or replaces, ``x[i0, i1, ..]`` on these axes."""
    if len(indices) != len(axes) or not indices:
        yield "there must be one index array for each of `axes`"
        return
    for index in indices:
        if dtypes.kind(index.dtype) not in "iu" or not _fit(index.shape, indices[0].shape):
            yield "index arrays are integers of one shape"
    shape = (*indices[0].shape, *(n for axis, n in enumerate(x.shape) if axis not in axes))
    if not _fit(part.shape, shape):
        yield f"the shape must be {_text(shape)}"
    if part.dtype != x.dtype:
        yield f"the dtype must be {x.dtype}"


# --- control flow: bodies are Graphs of their own ---------------------------------------------------


def _control(node: Node, *args: Node) -> Complaints:
    head, states, captured = control_args(node)
    if not 0 < node.attr("states") <= len(args) - (head is not None):
        yield f"there are no {node.attr('states')} states"
        return
    yield from _must(node, (), dtypes.BOOL)
    if head is not None:
        kind, what = (dtypes.INT64, "number of trips") if node.op == "for" else (dtypes.BOOL, "predicate")
        if head.shape or head.dtype != kind:
            yield f"the {what} must be {kind}[], not {head.dtype}{_text(head.shape)}"
    if node.op == "for" and any(_names(node.attr("var"), n) for state in states for n in state.shape):
        yield f"the shape of a state depends on {node.attr('var')}"
    for body in control_bodies(node):
        yield from _body(body, (*states, *captured), len(states))
    if node.op == "while":
        yield from _test(node.attr("test"))


def _body(body: Graph, args: Sequence[Node], states: int) -> Complaints:
    verify_graph(body)
    if len(body.inputs) != len(args):
        yield f"a body takes {len(body.inputs)} arguments and is given {len(args)}"
        return
    for k, (spec, arg) in enumerate(zip(body.inputs, args, strict=True)):
        if spec.dtype != arg.dtype or not _fit(spec.shape, arg.shape):
            given = f"{arg.dtype}{_text(arg.shape)}"
            yield f"argument {k} of a body is {spec.dtype}{_text(spec.shape)} and is given {given}"
        if spec.kind != "array" or not _fit(spec.strides, contiguous_strides(spec.shape)):
            yield f"argument {k} of a body must be a C-contiguous array"
    if any(position >= states for position, _ in body.writes):
        yield "a body writes what is not a state"


def _test(test: Graph) -> Complaints:
    if test.writes:
        yield "the test writes a state"
    if len(test.outputs) != 1 or test.outputs[0].alias is not None:
        yield "the test has one output, its own"
    elif test.outputs[0].node.shape or test.outputs[0].node.dtype != dtypes.BOOL:
        yield "the output of the test must be bool[]"


def _names(var: str, size: Index) -> bool:
    return any(isinstance(atom, Symbol) and atom.name == var for atom in atoms(size))


def _leaves(tree: object) -> Iterator[object]:
    if isinstance(tree, tuple | list):
        for item in tree:
            yield from _leaves(item)
    else:
        yield tree


_RULES: dict[str, tuple[str, int, Rule]] = {
    "input": ("position", 0, _input),
    "constant": ("value", 0, _constant),
    "size": ("index", 0, lambda node: _must(node, (), dtypes.INT64)),
    "iota": ("axis", 0, _iota),
    "empty": ("", 0, lambda node: iter(())),
    "cast": ("", 1, lambda node, x: _must(node, x.shape)),
    "bitcast": ("", 1, _bitcast),
    "reshape": ("", 1, _reshape),
    "transpose": ("axes", 1, _transpose),
    "broadcast_to": ("", 1, _broadcast_to),
    "slice": ("starts steps", 1, _slice),
    "roll": ("starts", 1, _roll),
    "diagonal": ("axis1 axis2 offset", 1, _diagonal),
    "window": ("axes", 1, _window),
    "gather": ("axes", -1, _gather),
    "update": ("starts steps", 2, _update),
    "matmul": ("group precision template", 2, _matmul),
    "require": ("requirement", 2, _require),
    "extern": ("args function kwargs results", -1, _extern),
    "result": ("k", 1, _result),
    "scatter": ("axes op", -1, _scatter),
    "for": ("body states var", -1, _control),
    "while": ("body states test", -1, _control),
    "cond": ("orelse states then", -1, _control),
}
