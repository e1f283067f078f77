"""Draws of random numbers that programs make, where otherwise a library function is called.

Such a node is an extern node that calls one of the functions below, with a form that is not empty: how the state of
the generator is kept (see `trace/draws.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.ir.graph import Node
from numstax.ir.index import Index, as_index, bounds

FROM_TICKET, FROM_STATE = "numstax.trace.draws.draw", "numstax.trace.draws.draw_seeded"
"""The functions.  Their arguments are (ticket, turn, method, form) or (state, method, form)."""
FLOATS = ("random", "standard_normal", "standard_exponential")
INTEGERS = ("i64", "u64", "i32", "u32")
"""Of which those in a range of at most 2**32 are made of words of 32 bits."""


def drawn(node: Node) -> str:
    """The method that a program can do instead of this extern node, and the dtype that it draws, as in
    ``standard_normal_f64``; '' when none can.  (A single float32 is a Python number, and the result is of dtype
    float64.)"""
    if node.attr("function") not in (FROM_TICKET, FROM_STATE):
        return ""
    *_, method, form = node.attr("args")
    words, ((_, dtype), _) = dict(node.attr("kwargs")), node.attr("results")
    if not form:
        return ""
    if method == "integers":
        known = dtypes.name(dtype) in INTEGERS and integer_range(words, dtype) is not None
        return f"{method}_{dtypes.name(dtype)}" if known else ""
    if method not in FLOATS or not words.keys() <= {"size", "dtype"}:
        return ""
    return f"{method}_{dtypes.name(np.dtype(words.get('dtype', dtypes.FLOAT64)))}"


def integer_range(words: Mapping[str, Any], dtype: np.dtype) -> tuple[Index, Index] | None:
    """The smallest integer that a call of ``integers`` can draw, and how many there are; None where these are not known
    to be proper and of this dtype, or the range is a large one."""
    low, high, closed = words["low"], words.get("high"), words.get("endpoint", False)
    if high is None:
        low, high = 0, low
    if not isinstance(closed, bool) or not all(type(end) is int or isinstance(end, Index) for end in (low, high)):
        return None
    first, count = as_index(low), as_index(high) - as_index(low) + int(closed)
    (least, most), lowest, highest = bounds(count), bounds(first)[0], bounds(first + count - 1)[1]
    if least is None or most is None or least < 1 or most > 1 << 32:
        return None
    # positions are computed in int64
    bottom, top = max(np.iinfo(dtype).min, -(1 << 63)), min(np.iinfo(dtype).max, (1 << 63) - 1)
    if lowest is None or highest is None or lowest < bottom or highest > top:
        return None
    return first, count
