"""Arithmetic on shapes: tuples of Index in, tuples of Index out.

Sizes stay Index values; `number` is the one place where a size becomes a Python integer.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import cache
from typing import SupportsIndex

from numstax.errors import AxisError, ShapeError
from numstax.ir.index import ONE, Index, as_index, product, same
from numstax.trace.origin import user_origin

Shape = tuple[Index, ...]

size_of = cache(as_index)
"""An int as an Index."""


def number(size: Index) -> int:
    """The size as a Python integer."""
    value = size.value
    if value is None:
        raise ShapeError(f"the size {size} is not known while tracing", user_origin())
    return value


def numbers(shape: Iterable[Index]) -> tuple[int, ...]:
    return tuple(number(s) for s in shape)


def as_shape(shape: SupportsIndex | Sequence[SupportsIndex]) -> Shape:
    """A size or a sequence of sizes, as a shape."""
    if isinstance(shape, tuple | list):
        return tuple(s if isinstance(s, Index) else size_of(operator.index(s)) for s in shape)
    return (size_of(operator.index(shape)),)  # type: ignore[arg-type]


def total(shape: Shape) -> Index:
    return product(shape)


def text(shape: Sequence[object]) -> str:
    """A shape as NumPy prints it in broadcasting errors: ``(3,)``, ``(2,3)``."""
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def broadcast(*shapes: Shape) -> Shape:
    """The common shape, by NumPy's rules."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max(len(s) for s in shapes)
    out = [ONE] * rank
    for shape in shapes:
        for k, n in enumerate(shape, rank - len(shape)):
            if out[k] is ONE:
                out[k] = n
            elif n is not ONE and not same(out[k], n):
                shown = " ".join(text(s) for s in shapes)
                raise ShapeError(f"operands could not be broadcast together with shapes {shown} ", user_origin())
    return tuple(out)


def fits(shape: Shape, target: Shape) -> bool:
    """Does an array of `shape` broadcast to `target`?"""
    lead = len(target) - len(shape)
    return lead >= 0 and all(n is ONE or same(n, m) for n, m in zip(shape, target[lead:], strict=True))


def normalize_axis(axis: SupportsIndex, ndim: int, name: str = "") -> int:
    k = operator.index(axis)
    if not -ndim <= k < ndim:
        prefix = f"{name}: " if name else ""
        raise AxisError(f"{prefix}axis {k} is out of bounds for array of dimension {ndim}", user_origin())
    return k % ndim


def normalize_axes(axis: object, ndim: int) -> tuple[int, ...]:
    """None (all axes), an axis or a tuple of axes, as non-negative numbers in the order given."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    out = tuple(normalize_axis(a, ndim) for a in axes)
    if len(set(out)) != len(out):
        raise ShapeError("duplicate value in 'axis'", user_origin())
    return out
