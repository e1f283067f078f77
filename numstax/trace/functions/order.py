"""Order statistics of few values: a sorting network, whose comparisons are minima and maxima of whole arrays.

A median of many values, or of an unknown number, is a library call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.trace import extern
from numstax.trace.array import TracedArray
from numstax.trace.functions.statistics import mean
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import normalize_axes
from numstax.trace.ufuncs import deliver

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

FEW = 25
"""Values that a network sorts."""


@implements(np.median)
def median(
    rec: Recorder, a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> TracedArray:
    """NaN where one of the values is NaN: a minimum or maximum of every value is part of the result."""
    x = rec.lift(a)
    axes = normalize_axes(axis, x.ndim)
    lengths = [n for k in axes if (n := x.sizes[k].value) is not None]
    count = math.prod(lengths) if len(lengths) == len(axes) else 0
    if not x.ndim or not 0 < count <= FEW or dtypes.kind(x.dtype) == "c":
        return deliver(rec, extern.call(rec, np.median, (x,), {"axis": axis, "keepdims": keepdims}), out)
    front = xp.moveaxis(x, axes, tuple(range(len(axes))))
    values = [front[at] for at in itertools.product(*map(range, lengths))]
    for low, high in network(count):
        values[low], values[high] = xp.minimum(values[low], values[high]), xp.maximum(values[low], values[high])
    middle = mean(rec, values[(count - 1) // 2 : count // 2 + 1], axis=0)
    if keepdims:
        middle = xp.expand_dims(middle, axes)
    return deliver(rec, middle, out)


def network(count: int) -> Iterator[tuple[int, int]]:
    """Pairs of places whose values are put in order, one pair after the other, so that all are sorted.  Method:
    Knuth, "The Art of Computer Programming", volume 3, algorithm 5.2.2M (merge exchange)."""
    top = 1 << max((count - 1).bit_length() - 1, 0)
    p = top
    while p:
        q, rest, distance = top, 0, p
        while True:
            yield from ((k, k + distance) for k in range(count - distance) if k & p == rest)
            if q == p:
                break
            distance, q, rest = q - p, q >> 1, p
        p >>= 1
