"""Extern nodes: NumPy and SciPy functions that are called as they are.

The shapes and dtypes of the results are those that the function gives for the values of this call.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import DataDependentError, TraceError, UnsupportedOperationError
from numstax.ir.graph import Arg, Literal
from numstax.ir.index import Index, evaluate
from numstax.ir.values import map_tree
from numstax.trace import host
from numstax.trace.array import TracedArray
from numstax.trace.counts import PLACES
from numstax.trace.extern_shapes import ShapeRule, result_shapes
from numstax.trace.origin import user_origin
from numstax.trace.scopes import before_bodies, outside_bodies
from numstax.trace.sizes import Size, size_of

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


_NUMBERS = (bool, int, float, complex)


def refusal(function: Callable[..., Any], reason: str | None) -> TraceError:
    """Why this function is not traced; reason None: its result depends on values in a way that no array shows."""
    name = name_of(function)
    if reason is None:
        return DataDependentError(
            f"what {name} gives, or its size, depends on the values of an array", user_origin(),
            "call it outside the compiled function and pass the result",
        )  # fmt: skip
    return UnsupportedOperationError(f"{name} {reason}", user_origin(), "call it outside the compiled function")


def name_of(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__name__", None) or f"function of type {type(function).__name__}"
    return f"{module}.{name}" if module else name


def call(
    rec: Recorder,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    path: str = "",
    shapes: ShapeRule | None = None,
) -> Any:
    """Call `function` on example values now, and record the call.  `path` is its dotted name, if it has one;
    `shapes` says what shapes the results have where those of this call would not do."""
    name = path or name_of(function)
    handles: list[TracedArray] = []
    args_tree = tuple(_freeze(rec, a, handles) for a in args)
    kwargs_tree = tuple((k, _freeze(rec, v, handles)) for k, v in sorted(kwargs.items()))
    arrays = [x.node for x in handles]

    def run(exact: bool) -> tuple[Any, list[Any]]:
        """The result, and the arrays that the function was given."""
        examples = [rec.example(n, exact) for n in arrays]
        copies = [x.copy() if x.ndim else x[()] for x in examples]
        with np.errstate(all="ignore"):
            given, words = (_thaw(tree, copies, rec.shapes.values) for tree in (args_tree, kwargs_tree))
            result = function(*given, **dict(words))
        if any(x.tobytes() != copy.tobytes() for x, copy in zip(examples, copies, strict=True)):
            raise UnsupportedOperationError(
                f"{name} changes an array that it is given", user_origin(), "call it outside the compiled function"
            )
        return result, copies

    try:
        try:
            result, copies = run(exact=False)
        except UnsupportedOperationError:
            raise
        except Exception:
            result, copies = run(exact=True)  # what a loop starts from may be wrong for the function
    except Exception as error:
        error.add_note(f"  at {user_origin()}, in {name}")
        rec.library_error = error
        raise
    found: list[Any] = []
    try:
        map_tree(result, found.append)
    except TypeError:  # a tuple of a kind that cannot be made of its items
        found = [result]
    for part in found:
        is_plain = type(part) is np.ndarray or isinstance(part, (np.generic, *_NUMBERS))
        if not is_plain or not dtypes.is_supported(np.asarray(part).dtype):
            raise UnsupportedOperationError(
                f"{name} gives a {type(part).__name__}, not arrays and numbers", user_origin(), "call it outside"
            )
    parts = [np.asarray(part) for part in found]
    reference = _dotted(function, name)
    if len(parts) != 1 and any(isinstance(p, tuple | list) for p in result):
        reference, args_tree = _dotted(host.flattened, name_of(host.flattened)), (function, *args_tree)
    with before_bodies(rec, arrays) if function in PLACES or function is host.as_many else nullcontext():
        symbols = len(rec.shapes.values)
        sizes = shapes(parts) if shapes else result_shapes(rec, function, args, kwargs, arrays, parts)
        counts = len(rec.shapes.values) > symbols
        if counts:
            outside_bodies(rec)
        results = tuple((shape, p.dtype) for shape, p in zip(sizes, parts, strict=True))
        node = rec.nodes.make(
            "extern", arrays, results[0][0], results[0][1],
            function=reference, args=args_tree, kwargs=kwargs_tree, results=results,
        )  # fmt: skip
        rec.remember(node, parts)
        made = [rec.nodes.make("result", (node,), shape, dtype, k=k) for k, (shape, dtype) in enumerate(results)]
        if counts:
            rec.binders.append(made[0])
        taken = [
            rec.fresh(n, not isinstance(part, np.ndarray), type(part) if type(part) in _NUMBERS else None)
            for n, part in zip(made, found, strict=True)
        ]
    for x, part in zip(taken, parts, strict=True):
        given = zip(handles, copies, strict=True)
        shared = [h.storage for h, copy in given if not h.is_scalar and np.may_share_memory(copy, part)]
        if not x.is_scalar:
            x.storage.stand_for(shared, f"a part of an array that {name} gives")
    remaining = iter(taken)
    return map_tree(result, lambda part: next(remaining))


def _dotted(function: Callable[..., Any], name: str) -> Hashable:
    """The dotted path when it leads to the function in a module, else the function itself."""
    module, _, attribute = name.rpartition(".")
    found = getattr(sys.modules.get(module), attribute, None)
    return name if found is function else function


def _freeze(rec: Recorder, value: object, arrays: list[TracedArray]) -> Hashable:
    """The argument as hashable data, `Arg(k)` in place of arrays."""
    if isinstance(value, np.ndarray | TracedArray):
        arrays.append(rec.lift(value))
        return Arg(len(arrays) - 1)
    if isinstance(value, list | tuple):
        return tuple(_freeze(rec, item, arrays) for item in value)
    if isinstance(value, np.generic):
        return Literal.of(value)
    if isinstance(value, Size | Index):
        size = rec.shapes.resolve(size_of(value))
        return size if size.value is None else size.value
    if isinstance(value, types.FunctionType) and type(value.__globals__) is not dict:
        raise UnsupportedOperationError(
            f"a library function that calls {value.__name__}() back cannot be compiled", user_origin(),
            "call it outside, with compiled functions if you like",
        )  # fmt: skip
    try:
        hash(value)
    except TypeError:
        raise UnsupportedOperationError(
            f"an argument of type {type(value).__name__} to a library function cannot be compiled", user_origin()
        ) from None
    return value


def _thaw(tree: object, examples: Sequence[Any], sizes: Mapping[str, int]) -> Any:
    if isinstance(tree, Arg):
        return examples[tree.k]
    if isinstance(tree, tuple):
        return tuple(_thaw(item, examples, sizes) for item in tree)
    if isinstance(tree, Index):
        return evaluate(tree, sizes)
    return tree.value if isinstance(tree, Literal) else tree
