"""Functions whose values end as numbers of 16 bits: cheaper forms of them will do.

A Kernel enters, and leaves with ``tanh_low`` for ``tanh`` (`scalars` has them) where the value is rounded to a half
float at once, or where all that becomes of it is such a number and keeps its relative error: products and quotients,
and the sums with 1 of a logistic function or a gelu.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numstax import dtypes
from numstax.ir.loops import Body, Instr, Kernel, Loop


def _one(op: str, constant: float) -> bool:
    """1 + tanh(x), 1 - erf(x) ...: near 0 the cheap forms are as good as others."""
    return abs(constant) == 1


def _positive(op: str, constant: float) -> bool:
    return op == "add" and constant > 0


FUNCTIONS: dict[str, Callable[[str, float], bool]] = {"exp": _positive, "tanh": _one, "erf": _one}
"""With the sums and differences with constants that keep the relative error."""
_SCALING = ("multiply", "divide", "negative", "positive")


def narrow(kernel: Kernel) -> Kernel:
    return replace(kernel, loops=tuple(map(_narrow, kernel.loops)))


def _narrow(loop: Loop) -> Loop:
    kept = {k for effect in loop.effects for k in (effect.value, getattr(effect, "other", None))}
    body = tuple(
        replace(instr, op=f"{instr.op}_low") if instr.op in FUNCTIONS and _is_narrow(loop.body, k, kept) else instr
        for k, instr in enumerate(loop.body)
    )
    return loop if body == loop.body else replace(loop, body=body)


def _is_narrow(body: Body, entry: int, kept: set[int | None]) -> bool:
    """`kept` : the entries that effects take."""
    instr = body[entry]
    if dtypes.is_low(instr.dtype):
        return True
    if instr.dtype != dtypes.FLOAT32:
        return False
    pending = [entry]
    while pending:
        k = pending.pop()
        if k in kept:
            return False
        for j, user in enumerate(body):
            if k not in user.args or (user.op == "cast" and dtypes.is_low(user.dtype)):
                continue
            if not (user.op in _SCALING or (k == entry and _keeps_error(body, instr, user))):
                return False
            pending.append(j)
    return True


def _keeps_error(body: Body, function: Instr, user: Instr) -> bool:
    """Is it the sum or difference of the function and a constant that keeps the relative error?"""
    if user.op not in ("add", "subtract") or user.dtype != dtypes.FLOAT32:
        return False
    constants = [body[a].attr for a in user.args if body[a].op == "const"]
    return len(constants) == 1 and FUNCTIONS[function.op](user.op, float(constants[0]))  # type: ignore[arg-type]
