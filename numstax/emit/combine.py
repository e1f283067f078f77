"""How two values of a reduction or scan combine, as expression text.

`combine` is the operation itself, exact in NumPy's order of evaluation; `accumulate` is the form for lane
accumulators, which the compiler may regroup: float sums and products by reassociation, float maxima without
regard to the sign of zero.
"""

from __future__ import annotations

import numpy as np

from numstax import dtypes
from numstax.emit.spelling import spell
from numstax.emit.text import Text
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
    """The value that reductions start from."""
    return literal(identity(op, dtype), dtype)


def nothing(op: str, dtype: np.dtype) -> str:
    """The value that scans start from.  It changes nothing, where the 0 of sums makes 0.0 of -0.0."""
    if op == "add" and dtypes.kind(dtype) in "fc":
        return literal(complex(-0.0, -0.0) if dtypes.kind(dtype) == "c" else -0.0, dtype)
    return start(op, dtype)


def result(text: str, dtype: np.dtype) -> str:
    """An accumulator as a value of `dtype`."""
    return rounded(text, dtype)


def add_compensated(text: Text, total: str, carry: str, value: str) -> None:
    """total += value, with what rounding loses added to `carry` (when there is one)."""
    if not carry:
        text.line(f"{total} = {total} + {value}")
        return
    t, z = text.fresh("u"), text.fresh("u")
    text.line(f"{t} = {total} + {value}")
    text.line(f"{z} = {t} - {total}")
    text.line(f"{carry} = {carry} + (({total} - ({t} - {z})) + ({value} - {z}))")
    text.line(f"{total} = {t}")


def better(op: str, dtype: np.dtype, a: str, b: str) -> str:
    """Does a win over b, which came first?  NaN wins over all but NaN."""
    sign = ">" if op == "argmax" else "<"
    if dtypes.kind(dtype) == "b":
        return f"{a} & (not {b})" if op == "argmax" else f"(not {a}) & {b}"
    wins = f"{a} {sign} {b}"
    return f"({wins}) | ({a} != {a}) & ({b} == {b})" if dtypes.kind(dtype) == "f" else wins


def takes(op: str, dtype: np.dtype, value: str, best: str, at: str, best_at: str) -> str:
    """Does a value at `at` win over the best at `best_at`?"""
    same = f"{value} == {best}"
    if dtypes.kind(dtype) == "f":
        same = f"({same}) | ({value} != {value}) & ({best} != {best})"
    return f"({better(op, dtype, value, best)}) | ({same}) & ({at} < {best_at})"
