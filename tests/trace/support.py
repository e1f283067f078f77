"""Tracing a function and evaluating its graph with NumPy, beside NumPy itself."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from numstax.ir.reference import evaluate_graph
from numstax.ir.verify import verify_graph
from numstax.trace.tracer import Traced, trace


def leaves(value: Any) -> list[Any]:
    """Arrays and run-time numbers in the order the tracer takes them."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value] if isinstance(value, np.ndarray | np.generic) or type(value) in (float, complex) else []


def run(traced: Traced, args: tuple[Any, ...]) -> Any:
    """The result of the traced function; arguments are written to as the graph says."""
    given = iter(leaves(args))
    inputs = []
    for k in range(len(traced.graph.inputs)):
        if k in traced.constants:
            inputs.append(traced.constants[k])
        elif k in traced.captured:
            inputs.append(traced.captured[k]())
        else:
            inputs.append(next(given))
    outputs, writes = evaluate_graph(traced.graph, inputs, {})
    for position, value in writes:
        inputs[position][...] = value
    return traced.unflatten(outputs)


def same_value(got: Any, want: Any, rtol: float = 0) -> None:
    """Equal type, dtype, shape and value, NaN included."""
    assert type(got) is type(want), (got, want)
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same_value(g, w, rtol)
    elif isinstance(want, dict):
        same_value([*got.items()], [*want.items()], rtol)
    elif isinstance(want, np.ndarray | np.generic):
        assert got.dtype == want.dtype, (got.dtype, want.dtype)
        assert got.shape == want.shape, (got.shape, want.shape)
        tolerance = rtol or {2: 2e-3, 4: 2e-6, 8: 1e-12, 16: 1e-12, 1: 0}[want.dtype.itemsize]
        wide = np.complex128 if want.dtype.kind == "c" else np.float64 if want.dtype.kind in "fV" else want.dtype
        np.testing.assert_allclose(
            np.asarray(got).astype(wide), np.asarray(want).astype(wide), rtol=tolerance, atol=tolerance
        )
    else:
        assert got == want or (got != got and want != want)


def check(function: Callable[..., Any], *args: Any, rtol: float = 0) -> Traced:
    """Tracing `function` gives NumPy's result and leaves the arguments as NumPy does."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's own: mean of an empty slice
        want = function(*theirs)
    traced = trace(function, ours, {})
    verify_graph(traced.graph)
    same_value(run(traced, ours), want, rtol)
    same_value(ours, theirs)
    return traced
