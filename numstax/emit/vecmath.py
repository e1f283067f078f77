"""Mathematical functions and conversions that vectorise: a name such as ``exp_f32`` to an `Intrinsic`.

A name enters; straight-line rows leave, without branches, library calls or (but for float64 sin, cos, tan)
table look-ups, so that a loop calling the function is vectorised whole.  Names are those of NumPy's ufuncs
and erf, erfc, expit, logit, xlogy, and those in `vecmath_pow` of powers with a constant exponent, with ``_f32`` or
``_f64``; conversions are in `vecmath_half`.  Special values (NaN, infinities, signed zeros, overflow, subnormals,
domain errors) are those of NumPy.

Largest error found, in units in the last place (random arguments over the whole range and its edges)::

              f32   f64               f32   f64               f32   f64
    exp       0.9   0.9    log        0.9   1.2    sin        1.5   1.0
    exp2      0.9   0.8    log2       1.6   1.6    cos        1.5   1.0
    expm1     1.1   1.2    log10      1.8   1.8    tan        0.6   1.3
    expit     1.4   1.4    log1p      1.3   1.2    arcsin     1.1   1.1
    sinh      1.6   1.7    logit      1.4   1.4    arccos     1.1   1.2
    cosh      1.6   1.6    arcsinh    1.4   1.4    arctan     1.4   1.5
    tanh      1.5   1.6    arccosh    1.6   1.8    arctan2    1.5   1.5
    erf       1.6   1.6    arctanh    1.3   1.4    hypot      0.5   1.0
    erfc      2.0   1.8    power      0.6   0.9    cbrt       0.5   0.7
    cube and fourth_power: 0.5 and 0.5; rsqrt_cubed: 1.9 and 1.9; rsqrt and sqrt_cubed: 1.5 and 1.5
    xlogy     1.7   1.9    logaddexp and logaddexp2: 1 unit of the largest of result and arguments

Opcodes of the rows (`vecmath_lanes.OPCODES` is their NumPy model, `vecmath_record` writes them); a dtype
is that of the result, operands are row numbers::

    param i, const value            the i-th parameter; a number
    fadd fsub fmul fdiv fneg fabs   floats, rounded to nearest even; never contracted
    frem                            C's fmod
    fma sqrt rint floor ceil trunc copysign
    fadd_reassoc fmul_reassoc       the compiler may regroup, and nothing else: accumulators of sums and products
                                    only; a loop of them runs in vector lanes with several accumulators
    fmaximum fminimum               NaN if either is; fmaximum_nsz, fminimum_nsz leave the sign of zero open and
                                    are the form for accumulators (vectorises without further flags)
    fcmp predicate, icmp predicate  LLVM's predicates (oeq olt ole ogt oge une uno; eq ne slt ult ...), dtype b1
    select                          condition, then, else
    add sub mul and or xor not      integers, wrapping
    umulh                           the upper half of a product of unsigned integers
    shl lshr ashr ctpop ctlz
    sadd_fits ssub_fits smul_fits   is the exact result an int64?  dtype b1
    bitcast fpext fptrunc sitofp uitofp fptosi fptoui zext sext itrunc
    lookup table                    table[index], a constant table
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numstax.emit import vecmath_arc, vecmath_erf, vecmath_exp, vecmath_half, vecmath_log, vecmath_pow, vecmath_trig
from numstax.emit.vecmath_format import FORMATS
from numstax.emit.vecmath_lanes import evaluate
from numstax.emit.vecmath_record import Value, record
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
