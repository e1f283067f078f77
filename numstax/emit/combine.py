"""How two values of a reduction or scan combine, as expression text.

`combine` is the operation itself, exact in NumPy's order of evaluation; `accumulate` is the form for lane
accumulators, which the compiler may regroup: float sums and products by reassociation, float maxima without
regard to the sign of zero.
"""

from __future__ import annotations

import numpy as np

from numstax import dtypes
from numstax.emit.spelling import spell
from numstax.emit.values import literal, rounded
from numstax.ir.ops import identity

_LANES = {
    "add": "add_reassoc",
    "multiply": "mul_reassoc",
    "maximum": "maximum_nsz",
    "minimum": "minimum_nsz",
}


def combine(op: str, dtype: np.dtype, a: str, b: str) -> str:
    """a op b; a half float is rounded, as NumPy's loops do at every step."""
    return spell(op, (dtype, dtype), dtype, (a, b), "").expression


def accumulate(op: str, dtype: np.dtype, a: str, b: str) -> str:
    """a op b in the register type of `dtype`, in any grouping."""
    compute = dtypes.compute(dtype)
    if dtypes.kind(compute) == "f" and op in _LANES:
        return f"{_LANES[op]}_{dtypes.name(compute)}({a}, {b})"
    return combine(op, compute, a, b)


def start(op: str, dtype: np.dtype) -> str:
    """The value that changes nothing."""
    return literal(identity(op, dtype), dtype)


def result(text: str, dtype: np.dtype) -> str:
    """An accumulator as a value of `dtype`."""
    return rounded(text, dtype)
