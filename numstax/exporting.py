"""`export`: a function and declared size ranges -> an `Exported` that answers for every declared size.

Enters: a function, example arguments, and the dimensions that vary.  The function is traced once, with a symbol for
each Dim; the decisions it takes on sizes are adjudicated against the declared ranges; arrays that it reads from
outside become part of the program.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numstax.errors import ArgumentCountError, DimensionError, TraceError
from numstax.exported import Baked, Contents, Exported
from numstax.interface import ArrayInput, Assertion, FixedInput, Input, Interface, ScalarInput, describe, parts
from numstax.ir.index import Index, Symbol, as_index, atoms, substitute
from numstax.ir.show import show_graph
from numstax.ir.values import shape_value
from numstax.jit import Jitted, process
from numstax.pipeline import compile_graph
from numstax.trace.arguments import parameter_names
from numstax.trace.declared import Decision, Declared, DeclaredShapes, Dim
from numstax.trace.draws import is_generator
from numstax.trace.environment import Fact
from numstax.trace.resolve import map_sizes
from numstax.trace.tracer import Traced, trace
from numstax.trace.trees import members

DynamicShapes = Mapping[str, Mapping[int, Dim | None] | Dim]


def export(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: DynamicShapes | None = None,
) -> Exported:
    """Compile a NumPy function once, for all sizes that are declared.

    Parameters
    ----------
    function, args, kwargs : what to trace, and example arguments; their values do not matter.
    dynamic_shapes : name of an array argument -> axis -> Dim, or name of an integer argument -> Dim; ``x[0]`` names
        the first item of ``x``.  All other dimensions, and arguments that are neither arrays nor floats, are fixed.

    Raises
    ------
    DimensionError : `dynamic_shapes` does not fit the arguments.
    SizeError : the example is not within the declared ranges.
    ConstraintError : the function does other things for some of the declared sizes; the text suggests a range.
    TraceError : something in the function cannot be captured.
    ArgumentCountError : the arguments are no tuple or list, or are others than the function takes.
    """
    plain = function.__wrapped__ if isinstance(function, Jitted) else function
    if not isinstance(args, tuple | list):
        raise ArgumentCountError(
            f"the example arguments are given as {type(args).__name__}, not as a tuple",
            remedy=f"numstax.export({getattr(plain, '__name__', 'function')}, (x,))",
        )
    args, kwargs = tuple(args), dict(kwargs or {})
    names = (*parameter_names(plain, args, kwargs), *kwargs)
    found = [part for name, value in zip(names, (*args, *kwargs.values()), strict=True) for part in parts(value, name)]
    declared = _declared(dynamic_shapes or {}, dict(found))
    given = [dim for axes in declared.values() for dim in ([axes] if isinstance(axes, Dim) else axes.values())]
    dims = {dim.name: dim for dim in given}
    inputs = tuple(describe(value, name, declared.get(name, {})) for name, value in found)
    interface = Interface(getattr(plain, "__name__", "function"), names, inputs, tuple(dims.values()))
    interface.take(args, kwargs)

    layouts = {spec.name: spec for spec in interface.arrays}
    laid_out = [_laid_out(v, n, layouts) for n, v in zip(names, (*args, *kwargs.values()), strict=True)]
    shapes = DeclaredShapes(declared)
    traced = trace(plain, laid_out[: len(args)], dict(zip(kwargs, laid_out[len(args) :], strict=True)), shapes=shapes)
    interface = dataclasses.replace(
        interface,
        inputs=_marked_written(inputs, traced),
        assertions=tuple(_assertion(fact, interface) for fact in _kept(shapes.decisions, dims, shapes.values)),
    )
    return _compiled(traced, interface)


def _declared(shapes: DynamicShapes, values: Mapping[str, object]) -> Declared:
    """`dynamic_shapes` with non-negative axes.  Raises DimensionError."""
    declared: Declared = {}
    ranges: dict[str, Dim] = {}

    def known(dim: object, where: str) -> Dim:
        if not isinstance(dim, Dim):
            raise DimensionError(f"{where} is declared as {dim!r}, which is no numstax.Dim")
        if ranges.setdefault(dim.name, dim) != dim:
            raise DimensionError(f"{dim.name!r} is declared as {ranges[dim.name]} and as {dim}")
        return dim

    for name, axes in shapes.items():
        value = values.get(name)
        if type(value) is int:
            declared[name] = known(axes, f"the integer {name!r}")
        elif isinstance(value, np.ndarray) and isinstance(axes, Mapping):
            rank, places = value.ndim, dict[int, Dim]()
            for axis, dim in axes.items():
                if not -rank <= axis < rank:
                    raise DimensionError(f"dynamic_shapes names axis {axis} of {name!r}, which has {rank} dimensions")
                if dim is not None:
                    places[axis % rank] = known(dim, f"axis {axis} of {name!r}")
            declared[name] = places
        elif isinstance(value, np.ndarray):
            raise DimensionError(f"{name!r} is an array; its Dims are given by axis: {{0: {axes!r}}}")
        else:
            arrays = ", ".join(n for n, v in values.items() if isinstance(v, np.ndarray)) or "none"
            raise DimensionError(f"dynamic_shapes names {name!r}; the array arguments are {arrays}")
    return declared


def _laid_out(value: Any, name: str, layouts: Mapping[str, ArrayInput]) -> Any:
    """The argument with its arrays in the layout that calls will have."""
    if isinstance(value, np.ndarray):
        return layouts[name].laid_out(value)
    if isinstance(value, tuple | list):
        items = [_laid_out(item, f"{name}[{k}]", layouts) for k, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if type(value) is dict:
        return {key: _laid_out(item, f"{name}[{key!r}]", layouts) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for member in members(value):
            item = _laid_out(getattr(value, member), f"{name}.{member}", layouts)
            object.__setattr__(made, member, item)
        return made
    return value


# --- guards -----------------------------------------------------------------------------------------


def _kept(decisions: Sequence[Decision], dims: Mapping[str, Dim], hints: Mapping[str, int]) -> Sequence[Fact]:
    """The decisions that become assertions.  Raises ConstraintError."""
    if not decisions:
        return ()
    # importing sympy takes 0.3 s: only when there is something to solve
    from numstax.adjudicate import adjudicate

    return adjudicate(decisions, dims, hints)


def _assertion(fact: Fact, interface: Interface) -> Assertion:
    places = {name: interface.shown(first) for name, (first, *_) in interface.places.items()}
    text = re.sub(r"[^\W\d]\w*", lambda found: places.get(found[0], found[0]), str(fact))
    return Assertion(f"{fact.index} {fact.relation} 0", text)


# --- compilation --------------------------------------------------------------------------------------


def _own_positions(traced: Traced) -> list[int]:
    """The inputs of the graph that are arguments."""
    return [k for k in range(len(traced.graph.inputs)) if k not in traced.constants and k not in traced.captured]


def _marked_written(inputs: Sequence[Input], traced: Traced) -> tuple[Input, ...]:
    if traced.draws:
        names = [spec.name for spec in inputs if isinstance(spec, FixedInput) and is_generator(spec.value)]
        if names:
            raise TraceError(
                f"the argument {names[0]!r} is a random generator; exported functions take arrays and numbers",
                remedy="draw before the call and pass the numbers, or seed a generator inside: "
                "numpy.random.default_rng(seed)",
            )
        raise TraceError(
            "the function draws from a random generator of this process",
            remedy="seed one inside it: numpy.random.default_rng(seed)",
        )
    own = _own_positions(traced)
    written = {position for position, _ in traced.graph.writes}
    if not written <= set(own):
        raise TraceError("the function writes to an array from outside", remedy="make it an argument")
    positions = iter(own)
    marked = []
    for spec in inputs:
        is_written = isinstance(spec, ArrayInput | ScalarInput) and next(positions) in written
        marked.append(dataclasses.replace(spec, written=True) if is_written and isinstance(spec, ArrayInput) else spec)
    return tuple(marked)


def _compiled(traced: Traced, interface: Interface) -> Exported:
    graph = traced.graph
    outside = {**traced.constants, **{k: read() for k, read in traced.captured.items()}}
    baked = [Baked.of(k, np.asarray(a), shape_value(graph.inputs[k].strides, {})) for k, a in outside.items()]
    # in the code a symbol is s0, s1, ..: any name that the user gave it is free there
    names = {dim.name: f"s{k}" for k, dim in enumerate(interface.dims)}

    def renamed(size: Index) -> Index:
        symbols = {atom for atom in atoms(size) if isinstance(atom, Symbol) and atom.name in names}
        return substitute(size, {s: as_index(dataclasses.replace(s, name=names[s.name])) for s in symbols})

    to_compile = dataclasses.replace(map_sizes(graph, renamed), sizes=tuple(names.values()))
    plan = compile_graph(to_compile, process()[0]).plan
    assert plan is not None
    return Exported(Contents(interface, show_graph(graph), plan, traced.tree, traced.first, tuple(baked)))
