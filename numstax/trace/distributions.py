"""Distributions with parameters that are computed from draws without any, with NumPy's arithmetic.

Enters: a method of a generator and its arguments.  Leaves: the sample, or None where NumPy itself has to draw.  What
NumPy asks of the parameters is a requirement: where it does not hold, NumPy does the call, and raises what it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from numstax import dtypes
from numstax.trace.array import TracedArray

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

Draw = Callable[[str, dict[str, Any]], TracedArray]
"""From the name of a method without parameters, and its words."""


def computed(rec: Recorder, method: str, words: Mapping[str, Any], draw: Draw) -> TracedArray | None:
    if method not in _DISTRIBUTIONS:
        return None
    simple, defaults, compute = _DISTRIBUTIONS[method]
    given = {**defaults, **words}
    size = given.pop("size", None)
    parameters = [rec.lift(value) for value in given.values()]
    if any(p.dtype.kind not in "biuf" for p in parameters):
        return None
    if any(p.ndim for p in parameters):
        if size is not None:
            return None
        size = reduce(lambda a, b: rec.elementwise("add", a, b), parameters).shape
    exact = [rec.fresh(rec.nodes.cast(p.node, dtypes.FLOAT64)) for p in parameters]
    sample = draw(simple, {} if size is None else {"size": size})
    return rec.fresh(compute(rec, sample, *exact).node, sample.is_scalar, sample.weak)


def _normal(rec: Recorder, sample: TracedArray, loc: TracedArray, scale: TracedArray) -> TracedArray:
    return rec.elementwise("add", loc, _scaled(rec, sample, scale))


def _uniform(rec: Recorder, sample: TracedArray, low: TracedArray, high: TracedArray) -> TracedArray:
    return rec.elementwise("add", low, _scaled(rec, sample, rec.elementwise("subtract", high, low), finite=True))


def _scaled(rec: Recorder, sample: TracedArray, scale: TracedArray, finite: bool = False) -> TracedArray:
    """Times a scale that has no minus sign (nor has a zero)."""
    holds = rec.elementwise("logical_not", rec.elementwise("signbit", scale))
    if finite:
        holds = rec.elementwise("logical_and", holds, rec.elementwise("isfinite", scale))
    return rec.elementwise("multiply", rec.fresh(rec.nodes.require(scale.node, holds.node, "scale")), sample)


_DISTRIBUTIONS: dict[str, tuple[str, dict[str, float], Callable[..., TracedArray]]] = {
    "normal": ("standard_normal", {"loc": 0.0, "scale": 1.0}, _normal),
    "uniform": ("random", {"low": 0.0, "high": 1.0}, _uniform),
    "exponential": ("standard_exponential", {"scale": 1.0}, _scaled),
}
"""The method without parameters, the parameters, and what is computed."""
