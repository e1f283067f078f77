"""`grouped_matmul`: products of matrices of different sizes, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numstax.errors import ShapeError
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin


def grouped_matmul(lefts: Sequence[Any], rights: Sequence[Any]) -> list[Any]:
    """``[a @ b for a, b in zip(lefts, rights)]``, computed together.

    On a GPU one program computes all products whose factors have one dtype and are laid out alike; a block has a tile
    of one of them.  Small products, such as those of experts that have few rows each, so fill the GPU together.

    Parameters
    ----------
    lefts, rights : arrays of shapes (m, k) and (k, n), where each pair has sizes of its own.

    Raises
    ------
    ShapeError : there are not as many of both, or an array is no matrix; shapes of a pair do not chain.
    """
    if len(lefts) != len(rights):
        raise ShapeError(f"grouped_matmul: {len(lefts)} left factors and {len(rights)} right ones", user_origin())
    factors = [*lefts, *rights]
    if any(np.ndim(x) != 2 for x in factors):
        raise ShapeError("grouped_matmul: factors are matrices", user_origin())
    traced = next((x for x in factors if isinstance(x, TracedArray)), None)
    if traced is None:
        return [np.matmul(a, b) for a, b in zip(lefts, rights, strict=True)]
    nodes = traced.recorder.nodes
    outer, nodes.group = nodes.group, nodes.next_group()
    try:
        return [np.matmul(a, b) for a, b in zip(lefts, rights, strict=True)]
    finally:
        nodes.group = outer
