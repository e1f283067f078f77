"""Sizes that depend on data: for each library function whose result has one, what it counts and where it stands.

A call with example values has been made; enter its arguments and results.  Leaves the shape of each result, with a
symbol without hint for what the values decide.  What holds: the places of one mask have one symbol, whoever asks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.ir.index import Index
from numstax.trace import host
from numstax.trace.array import TracedArray
from numstax.trace.sizes import Shape, normalize_axis, size_of, total

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

Arguments = Mapping[str, Any]
Rule = Callable[["Recorder", Arguments, Sequence[Any]], tuple[Shape, ...]]


def counted_shapes(
    rec: Recorder, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]
) -> tuple[Shape, ...]:
    """The shapes of what a function in `COUNTING` gives."""
    given = inspect.signature(function).bind(*args, **kwargs)
    given.apply_defaults()
    return COUNTING[function](rec, given.arguments, results)


def _places(rec: Recorder, mask: TracedArray, value: int) -> Index:
    """How many elements are not 0; `value` in this call."""
    node = mask.node
    while node.op == "reshape":
        node = node.args[0]
    if node not in rec.counts:
        rec.counts[node] = rec.shapes.unbacked(value, total(mask.sizes), origin=node.origin)
    return rec.shapes.resolve(rec.counts[node])


def _nonzero(rec: Recorder, given: Arguments, results: Sequence[Any]) -> tuple[Shape, ...]:
    (mask,) = given.values()
    count = _places(rec, rec.lift(mask), results[0].shape[0])
    return tuple((count, *map(size_of, r.shape[1:])) for r in results)


def _select(rec: Recorder, given: Arguments, results: Sequence[Any]) -> tuple[Shape, ...]:
    base, mask, at = rec.lift(given["base"]), rec.lift(given["mask"]), given["at"]
    count = _places(rec, mask, results[0].shape[at])
    return ((*base.sizes[:at], count, *base.sizes[at + mask.ndim :]),)


def _unique(rec: Recorder, given: Arguments, results: Sequence[Any]) -> tuple[Shape, ...]:
    """Values, then what was asked for: positions and counts of each, and for each element its value."""
    x = rec.lift(next(iter(given.values())))
    asked = [name for name in ("return_index", "return_inverse", "return_counts") if given.get(name)]
    axis = given.get("axis")
    sizes = (total(x.sizes),) if axis is None else x.sizes
    at = 0 if axis is None else normalize_axis(axis, x.ndim)
    of = sizes[at]
    count = rec.shapes.unbacked(results[0].shape[at], of, at_least=1 if rec.shapes.known(">=", of - 1) else 0)
    shapes: list[Shape] = [(*sizes[:at], count, *sizes[at + 1 :])]
    for name, result in zip(asked, results[1:], strict=True):
        inverse = x.sizes if result.ndim == x.ndim and axis is None else (of,)
        shapes.append(inverse if name == "return_inverse" else (count,))
    return tuple(shapes)


def _unique_parts(*parts: str) -> Rule:
    """The functions of the array API, each with some results of `np.unique`."""
    return lambda rec, given, results: _unique(rec, {"x": given["x"], **dict.fromkeys(parts, True)}, results)


def _bincount(rec: Recorder, given: Arguments, results: Sequence[Any]) -> tuple[Shape, ...]:
    least, dtype = given["minlength"], rec.lift(given["x"]).dtype
    if type(least) is int and least > (1 if dtype == dtypes.BOOL else np.iinfo(dtype).max):
        return ((size_of(least),),)  # no element of this dtype needs more
    return ((rec.shapes.unbacked(results[0].shape[0], None, at_least=least if type(least) is int else 0),),)


def _of_sets(first: bool, second: bool) -> Rule:
    """At most the elements of these arguments, each once."""

    def shapes(rec: Recorder, given: Arguments, results: Sequence[Any]) -> tuple[Shape, ...]:
        sizes = [total(rec.lift(x).sizes) for x, counts in zip(given.values(), (first, second), strict=False) if counts]
        count = rec.shapes.unbacked(results[0].shape[0], sum(sizes[1:], sizes[0]))
        return ((count,),) * len(results)

    return shapes


PLACES = frozenset((np.nonzero, np.flatnonzero, np.argwhere, host.count))
"""Where a mask holds: these cannot fail."""
COUNTING: dict[Callable[..., Any], Rule] = {
    **dict.fromkeys(PLACES, _nonzero),
    host.select: _select,
    np.unique: _unique,
    np.unique_all: _unique_parts("return_index", "return_inverse", "return_counts"),
    np.unique_counts: _unique_parts("return_counts"),
    np.unique_inverse: _unique_parts("return_inverse"),
    np.unique_values: _unique_parts(),
    np.bincount: _bincount,
    np.setdiff1d: _of_sets(True, False),
    np.intersect1d: _of_sets(True, False),
    np.union1d: _of_sets(True, True),
    np.setxor1d: _of_sets(True, True),
}
