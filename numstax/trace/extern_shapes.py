"""Shapes of what library functions give, where sizes are symbols.

A call with example values has been made; enter its arguments and results.  Leaves the shape of each result: that
of an argument for functions known to keep it, sizes of their own for functions that count (`counts`); for all other
functions the sizes of the arguments become numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.ir.graph import Node
from numstax.trace import host
from numstax.trace.counts import COUNTING, counted_shapes
from numstax.trace.sizes import Shape, as_shape, size_of

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_KEEPING: dict[Any, int] = {
    **dict.fromkeys((np.sort, np.argsort, np.partition, np.argpartition, np.linalg.inv, np.linalg.cholesky), 0),
    **dict.fromkeys((np.fft.fft, np.fft.ifft, np.fft.fftshift, np.fft.ifftshift, np.gradient, np.unwrap), 0),
    **dict.fromkeys((np.interp, np.digitize, np.isin, np.choose), 0),
    **dict.fromkeys((host.setitem, host.ufunc_at, host.put, host.put_along_axis, host.fill_diagonal), 0),
    host.where_assign: 0,
    np.searchsorted: 1,
    np.linalg.solve: 1,
}
"""Function -> number of the array argument whose shape the results have."""


ShapeRule = Callable[[Sequence[np.ndarray]], Sequence[Shape]]
"""What the results gave, as shapes."""


def drawn_shapes(size: Any) -> ShapeRule | None:
    """The shapes of a draw and what it leaves, where the size is given; None where the arguments decide."""
    if size is None:
        return None
    lead = as_shape(size)

    def rule(results: Sequence[np.ndarray]) -> Sequence[Shape]:
        sample, rest = results
        return (*lead, *map(size_of, sample.shape[len(lead) :])), tuple(map(size_of, rest.shape))

    return rule


def result_shapes(
    rec: Recorder,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    arrays: Sequence[Node],
    results: Sequence[Any],
) -> tuple[Shape, ...]:
    if function in COUNTING:
        return counted_shapes(rec, function, args, kwargs, results)
    sizes = tuple(tuple(map(size_of, r.shape)) for r in results)
    if all(n.value is not None for node in arrays for n in node.shape):
        return sizes
    place = _KEEPING.get(function)
    if place is not None and place < len(arrays):
        kept = arrays[place].shape
        if all(r.shape == rec.example(arrays[place]).shape for r in results):
            return (kept,) * len(results)
    for node in arrays:
        rec.shapes.numbers(node.shape)
    return sizes
