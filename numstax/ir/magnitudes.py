"""Comparisons of the magnitude of complex numbers with a number, by squares: ``abs(z) > 2`` needs no root.

A comparison with its new operands enters; what to compute instead, or None, leaves.  Near the number both ways are as
inexact as the magnitude itself.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.ir.graph import Builder, Literal, Node

COMPARISONS = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
"""Each with what it is when its operands change places."""


def by_squares(builder: Builder, node: Node, magnitude: Node, limit: np.generic, op: str) -> Node | None:
    """``magnitude op limit`` of a real limit."""
    if magnitude.op != "absolute" or dtypes.kind(magnitude.args[0].dtype) != "c":
        return None
    square = _exact_square(limit)
    if square is None:
        return None
    (z,) = magnitude.args

    def make(name: str, *args: Node, dtype: np.dtype = magnitude.dtype) -> Node:
        return builder.node(name, args, node.shape, dtype, node.origin)

    parts = make("real", z), make("imag", z)
    constant = builder.node("constant", (), (), magnitude.dtype, node.origin, value=Literal.of(square, magnitude.dtype))
    if node.shape:
        constant = make("broadcast_to", constant)
    compared = make(op, make("add", *(make("square", p) for p in parts)), constant, dtype=node.dtype)
    if op.startswith("less"):
        return compared
    # beside a NaN, an infinite part still makes the magnitude infinite
    return make("logical_or", compared, make("isinf", z, dtype=node.dtype), dtype=node.dtype)


def _exact_square(limit: Any) -> np.generic | None:
    """The square of a positive number, where it is exact and the squares of parts stay in the range."""
    largest = 2.0 ** (np.finfo(limit.dtype).maxexp // 4)
    if not 1 / largest < limit < largest:
        return None
    square = limit * limit
    return square if Fraction(float(limit)) ** 2 == Fraction(float(square)) else None
