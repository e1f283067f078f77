"""What machine instructions do to all threads of a block at once, with NumPy; `runtime/simulate.py` calls them.

Operands are arrays of shape (warps, 32); what inactive lanes hold means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Lanes = Any
"""The interpreter's view of the running lanes."""
Model = Callable[..., Any]
WARP = 32
LANE = np.arange(WARP)


def shuffle(source: Callable[[np.ndarray], np.ndarray]) -> Model:
    """Each lane takes the value of lane ``source(operand)``, or keeps its own where that is outside of the warp."""

    def model(lanes: Lanes, value: np.ndarray, operand: np.ndarray) -> np.ndarray:
        at = source(np.asarray(operand).astype(np.int64))
        at = np.broadcast_to(np.where((at >= 0) & (at < WARP), at, LANE), value.shape)
        return np.take_along_axis(value, at, axis=1)

    return model


def ballot(lanes: Lanes, predicate: np.ndarray) -> np.ndarray:
    """The truth values of a warp as the bits of a number."""
    bits = np.where(predicate & lanes.active, np.uint32(1) << LANE.astype(np.uint32), np.uint32(0))
    return np.broadcast_to(bits.sum(axis=1, keepdims=True, dtype=np.uint32), predicate.shape)


def fma(lanes: Lanes, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a*b + c; the product of two float32 is exact in float64."""
    exact: np.ndarray = a.astype(np.float64) * b + c
    return exact


def send(
    lanes: Lanes, pointer: Any, offset: np.ndarray, value: np.ndarray, rank: np.ndarray, box: Any, number: np.ndarray
) -> None:
    """``pointer[offset] = value`` in the shared memory of the block of that rank in the cluster."""
    lanes.store(pointer, offset, (value,), rank=rank)


def atomic(function: Callable[[Any, Any], Any]) -> Model:
    """``pointer[offset] = function(old, value)``, one lane after another; the old value."""

    def model(lanes: Lanes, pointer: Any, offset: np.ndarray, value: np.ndarray) -> Any:
        return lanes.atomic(pointer, offset, function, value)

    return model
