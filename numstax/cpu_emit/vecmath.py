"""Vectorisable mathematical functions as data: name -> `program.Intrinsic`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numstax.cpu_emit import vecmath_arc, vecmath_erf, vecmath_exp, vecmath_half, vecmath_log, vecmath_pow, vecmath_trig
from numstax.cpu_emit.vecmath_format import FORMATS
from numstax.cpu_emit.vecmath_lanes import evaluate
from numstax.cpu_emit.vecmath_record import Value, record
from numstax.program import Intrinsic

__all__ = ["evaluate", "has", "intrinsic", "names"]

_FUNCTIONS: dict[int, dict[str, Callable[..., Value]]] = {
    1: vecmath_exp.UNARY
    | vecmath_log.UNARY
    | vecmath_erf.UNARY
    | vecmath_trig.UNARY
    | vecmath_arc.UNARY
    | vecmath_pow.UNARY,
    2: vecmath_log.BINARY | vecmath_pow.BINARY | vecmath_arc.BINARY,
}


@cache
def _table() -> dict[str, tuple[tuple[str, ...], Callable[..., Value]]]:
    """The dtypes of the parameters, and the function, for each name."""
    table: dict[str, tuple[tuple[str, ...], Callable[..., Value]]] = {}
    for arity, functions in _FUNCTIONS.items():
        table |= {f"{name}_{d}": ((d,) * arity, f) for name, f in functions.items() for d in FORMATS}
    table |= {name: ((p,), f) for name, (p, f) in vecmath_half.CONVERSIONS.items()}
    return table


def names() -> tuple[str, ...]:
    return tuple(_table())


def has(name: str) -> bool:
    return name in _table()


@cache
def intrinsic(name: str) -> Intrinsic:
    """The function of that name, such as ``exp_f32``; KeyError when there is none (see `has`)."""
    params, function = _table()[name]
    return record(name, params, function)
