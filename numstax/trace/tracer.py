"""trace: a Python function and example arguments in, a `Traced` graph out.

The function runs once on handles.  What it returns becomes the outputs of the graph: results that share memory
with an argument or with each other are described as views, so that the caller's results alias as NumPy's do.
What it wrote into arguments becomes the writes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numstax.errors import SideEffectError, UnsupportedOperationError
from numstax.ir.graph import Graph, Output
from numstax.records import record
from numstax.trace import functions  # noqa: F401  (fills the registry)
from numstax.trace.arguments import Arguments, Leaf, Tree, builder, flatten, parameter_names
from numstax.trace.array import Storage, TracedArray
from numstax.trace.bodies import escaped
from numstax.trace.captures import Getter, Outside
from numstax.trace.environment import ShapeEnvironment
from numstax.trace.rebind import Rebinder
from numstax.trace.recorder import Recorder
from numstax.trace.resolve import resolved
from numstax.trace.selection import Selection
from numstax.trace.sizes import Size
from numstax.trace.unassigned import Unassigned
from numstax.trace.views import PickView


@record
class Traced:
    """A traced function.

    graph : inputs are the leaves of the arguments in order, `constants` and `captured` between and after them.
    tree, first : the user's structure of the result; its leaves are the outputs from number `first` on.
    constants : position -> array, the same in every call.
    captured : position -> function that reads a global or closure array again, for each call.
    draws : random numbers are drawn from generators of the caller.
    outside : what must hold of everything else that was read from outside.
    """

    graph: Graph
    tree: Tree
    first: int
    constants: Mapping[int, np.ndarray]
    captured: Mapping[int, Getter]
    draws: bool
    outside: Outside

    @property
    def unflatten(self) -> Callable[[Sequence[Any]], Any]:
        """Makes the result, in the user's structure, from the outputs."""
        return builder(self.tree, self.first)


def trace(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    static_argnames: Iterable[str] = (),
    shapes: ShapeEnvironment | None = None,
    fill: Callable[[np.ndarray], None] = lambda array: None,
) -> Traced:
    """Trace `function` on these arguments.

    Arrays must be in native byte order and aligned.  The values of arguments named in `static_argnames` are known.
    Sizes of arrays and integers are numbers, or, where `shapes` says so, symbols.  Before the values of an array are
    looked at, `fill` may put them there.

    Raises
    ------
    ArgumentCountError, UnsupportedDtypeError, UnsupportedArrayError : for the arguments.
    TraceError : something in the function cannot be captured.
    ShapeError, CastError, ... : the user's mistake, with the line it is in.
    """
    rec = Recorder(shapes, fill)
    rebinder = Rebinder(rec)
    arguments = Arguments(rebinder)
    static = frozenset(static_argnames)
    names = parameter_names(function, args, kwargs)
    take = dict.fromkeys(static, arguments.fixed)
    handles = [take.get(n, arguments.take)(a, n) for a, n in zip(args, names, strict=True)]
    words = {k: take.get(k, arguments.take)(v, k) for k, v in kwargs.items()}
    result = rebinder.called(function)(*handles, **words)
    if isinstance(result, types.GeneratorType | types.CoroutineType | types.AsyncGeneratorType):
        if isinstance(result, types.CoroutineType):
            result.close()
        kind = type(result).__name__.replace("_", " ")
        raise UnsupportedOperationError(
            f"a function that returns a {kind} cannot be compiled", None, "compile the functions it calls"
        )
    rebinder.check_unchanged()
    rec.check_constants()
    outputs = Outputs(rec)
    tree = flatten(result, outputs.leaf, rebinder.originals())
    bases, made = outputs.finish()
    writes = tuple((position, s.node) for position, s in rec.arguments if _is_written(s))
    asserts, binders = tuple(rec.shapes.asserts), tuple(rec.binders)
    roots = [o.node for o in (*bases, *made)] + [node for _, node in writes]
    leaked = escaped(roots)
    if leaked is not None:
        raise SideEffectError(
            "a value made in a loop or branch is used outside of it", leaked.origin, "assign it to a variable"
        )
    graph = resolved(Graph(tuple(rec.inputs), (*bases, *made), writes, asserts, binders=binders), rec.shapes)
    captures = rebinder.captures
    return Traced(graph, tree, len(bases), rec.constant_inputs, captures.getters, rec.draws, captures.outside())


def _is_written(storage: Storage) -> bool:
    node = storage.node
    return node.op != "input" or node.attr("position") != storage.position


class Outputs:
    """Collects the outputs of a graph and what each shares memory with."""

    def __init__(self, rec: Recorder) -> None:
        self._rec = rec
        self._handles: list[TracedArray] = []

    def leaf(self, value: Any) -> Leaf | None:
        """An output for a traced value or an array made while tracing."""
        if type(value) is Selection:
            value = value.packed()
        if isinstance(value, Size | Unassigned):
            value = self._rec.lift(value)
        if isinstance(value, np.ndarray) and not isinstance(value, TracedArray):
            value = self._rec.constant_array(value)
        if not isinstance(value, TracedArray):
            return None
        picks = [view for view in value.views if isinstance(view, PickView)]
        written = picks and any(_is_written(storage) for _, storage in self._rec.arguments)
        if written or not all(view.is_given for view in picks):
            value = self._rec.fresh(value.node)  # the caller could not make the view, or too late
        self._handles.append(value)
        return Leaf(len(self._handles) - 1, value.weak)

    def finish(self) -> tuple[list[Output], list[Output]]:
        """What the user is not given (the number of draws, memory that several returned views share), and the
        outputs."""
        groups: dict[int, list[TracedArray]] = {}
        for handle in self._handles:
            if not handle.is_scalar and handle.storage.position is None:
                groups.setdefault(id(handle.storage), []).append(handle)
        bases = [Output(self._rec.turn.node, scalar=True)] if self._rec.draws else []
        shared: dict[int, int] = {}
        for key, handles in groups.items():
            if any(h.views[: len(handles[0].views)] != handles[0].views for h in handles):
                shared[key] = len(bases)
                bases.append(Output(handles[0].storage.node))
        first: dict[int, tuple[int, int]] = {}
        outputs = []
        for k, handle in enumerate(self._handles, len(bases)):
            key, position = id(handle.storage), handle.storage.position
            alias: tuple[str, int] | None = None
            skip = 0
            if handle.is_scalar:
                pass
            elif position is not None:
                alias = ("input", position)
            elif key in shared:
                alias = ("output", shared[key])
            elif key in first:
                at, skip = first[key]
                alias = ("output", at)
            else:
                first[key] = (k, len(handle.views))
            views = () if alias is None else tuple(v.host() for v in handle.views[skip:])
            outputs.append(Output(handle.node, handle.is_scalar, alias, views))
        return bases, outputs
