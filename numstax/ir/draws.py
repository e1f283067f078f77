"""Draws of random numbers that programs make, where otherwise a library function is called.

Such a node is an extern node that calls one of the functions below, with a form that is not empty: how the state of
the generator is kept (see `trace/draws.py`).
"""

from __future__ import annotations

import numpy as np

from numstax import dtypes
from numstax.ir.graph import Node

FROM_TICKET, FROM_STATE = "numstax.trace.draws.draw", "numstax.trace.draws.draw_seeded"
"""The functions.  Their arguments are (ticket, turn, method, form) or (state, method, form)."""
METHODS = ("random", "standard_normal", "standard_exponential")


def drawn(node: Node) -> str:
    """The method that a program can do instead of this extern node, and the dtype that it draws, as in
    ``standard_normal_f64``; '' when none can.  (A single float32 is a Python number, and the result is of dtype
    float64.)"""
    if node.attr("function") not in (FROM_TICKET, FROM_STATE):
        return ""
    *_, method, form = node.attr("args")
    words = dict(node.attr("kwargs"))
    if not form or method not in METHODS or not words.keys() <= {"size", "dtype"}:
        return ""
    return f"{method}_{dtypes.name(np.dtype(words.get('dtype', dtypes.FLOAT64)))}"
