"""exp, exp2, expm1 and what follows from them: expit, sinh, cosh, tanh.

e**x = 2**n * e**r with n = rint(x / ln 2) and |r| <= ln 2 / 2; r is exact to a second-order term because
ln 2 is subtracted in two pieces with fused multiply-adds.  (e**r - 1 - r) / r**2 is a polynomial, so that
e**r - 1 keeps its relative accuracy near 0 and the hyperbolic functions can be built on it.
"""

from __future__ import annotations

from numstax.emit.vecmath_format import divide, exponent_field, format_of, round_scaled, scale_twice
from numstax.emit.vecmath_record import Value, absolute, at_least, at_most, copysign, fma, polynomial, where

LOG2_E = 1.4426950408889634
LN_2 = {"f32": (0.6931472, -1.9046542e-09), "f64": (0.6931471805599453, 2.3190468138462996e-17)}
"""ln 2 rounded to the format, and the rest."""

# (e**r - 1 - r) / r**2 on |r| <= 0.35; relative error of e**r: 2**-28 (f32), 2**-57.8 (f64)
_EXP = {
    "f32": (0.5, 0.16666512, 0.041666448, 0.008369662, 0.0013936638),
    "f64": (
        0.5000000000000014,
        0.16666666666666685,
        0.041666666666500624,
        0.008333333333315068,
        0.001388888895107113,
        0.0001984126990196888,
        2.4801485572080664e-05,
        2.7557228954465078e-06,
        2.7632895491311285e-07,
        2.5114142371027438e-08,
    ),
}
# the same with a small relative error of e**r - 1: 2**-31, 2**-55.4
_EXPM1 = {
    "f32": (0.5, 0.16666667, 0.041666474, 0.00833319, 0.0013934234, 0.00019959867),
    "f64": (
        0.5000000000000007,
        0.16666666666666677,
        0.04166666666656174,
        0.008333333333320507,
        0.0013888888936075714,
        0.00019841269890311246,
        2.4801500096111832e-05,
        2.7557239133074373e-06,
        2.762804179187803e-07,
        2.511101079799488e-08,
    ),
}
# (2**r - 1) / r on |r| <= 1/2; relative error of 2**r - 1: 2**-28 (f32), 2**-58 (f64)
EXP2 = {
    "f32": (0.6931472, 0.2402265, 0.05550359, 0.009618077, 0.0013391313, 0.00015456227),
    "f64": (
        0.6931471805599453,
        0.24022650695910122,
        0.05550410866482276,
        0.009618129107596877,
        0.001333355814621366,
        0.0001540353045430106,
        1.5252733988576556e-05,
        1.3215436465052258e-06,
        1.0178005373728998e-07,
        7.073606695221336e-09,
        4.462651829571999e-10,
    ),
}
# beyond these the result is 0 and infinity
_EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
_EXP2_RANGE = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
# sinh and cosh are infinite beyond
_SINH_LIMIT = {"f32": 89.6, "f64": 710.6}
# beyond this e**-x cannot be seen next to 1
_TANH_LIMIT = {"f32": 20.0, "f64": 44.0}


def _reduce(x: Value, offset: int) -> tuple[Value, Value, Value]:
    """r in two terms with x = n*ln 2 + r, the first of them exact, and an integer whose low half is n + offset."""
    high, low = LN_2[x.dtype]
    whole, n = round_scaled(x, LOG2_E, offset)
    return fma(whole, -high, x), whole * -low, n


def _beyond_first_order(exact: Value, rest: Value) -> Value:
    """e**r - 1 - exact for r = exact + rest."""
    r = exact + rest
    return fma(r * r, polynomial(r, _EXPM1[r.dtype]), rest)


def exp(x: Value) -> Value:
    smallest, largest = _EXP_RANGE[x.dtype]
    exact, rest, n = _reduce(at_least(at_most(x, largest), smallest), 2 * format_of(x).bias)
    return scale_twice(polynomial(exact + rest, (1.0, 1.0, *_EXP[x.dtype])), n)


def exp2(x: Value) -> Value:
    smallest, largest = _EXP2_RANGE[x.dtype]
    x = at_least(at_most(x, largest), smallest)
    whole, n = round_scaled(x, 1.0, 2 * format_of(x).bias)
    return scale_twice(polynomial(x - whole, (1.0, *EXP2[x.dtype])), n)


def exp_times(factor: Value, factor_low: Value, x: Value, x_low: Value) -> Value:
    """(factor + factor_low) * e**(x + x_low), where the second terms are below the last place of the first."""
    exact, rest, n = _reduce(x, 2 * format_of(x).bias)
    second = fma(factor, _beyond_first_order(exact, rest + x_low), factor_low)
    return scale_twice(fma(factor, exact, factor) + second, n)


def quarter_expm1(x: Value) -> tuple[Value, Value]:
    """(e**x - 1) / 4 for x >= -44 and a correction; it does not overflow before sinh does.

    What the reduction rounds off is added with the second-order terms, so that cancellation in e**x - 1
    does not enlarge it.
    """
    exact, rest, n = _reduce(at_most(x, _SINH_LIMIT[x.dtype]), format_of(x).bias - 2)
    quarter = exponent_field(n, x.dtype)
    first, second = fma(quarter, exact, quarter - 0.25), _beyond_first_order(exact, rest)
    result = fma(quarter, second, first)
    return result, fma(quarter, second, first - result)


def expm1(x: Value) -> Value:
    q, _ = quarter_expm1(at_least(x, -_TANH_LIMIT[x.dtype]))
    return copysign(q * 4, x)


def expit(x: Value) -> Value:
    """1 / (1 + e**-x), with e**x above the fraction line for negative x so that nothing overflows."""
    e = exp(-absolute(x))
    d = e + 1
    quotient, correction = divide(where(x < 0, e, 1.0), d, (1 - d) + e)
    return quotient + correction


def sinh(x: Value) -> Value:
    """t/2 + t / (2*(t + 1)) with t = e**|x| - 1."""
    q, low = quarter_expm1(absolute(x))
    return copysign((q + q) + (q / (q + q + 0.5) + low * 4), x)


def cosh(x: Value) -> Value:
    q, _ = quarter_expm1(absolute(x))
    half = q * 2 + 0.5
    return half + half.like(0.25) / half


def tanh(x: Value) -> Value:
    """t / (t + 2) with t = e**(2|x|) - 1."""
    q, _ = quarter_expm1(at_most(absolute(x) * 2, _TANH_LIMIT[x.dtype]))
    d = q + 0.5
    quotient, correction = divide(q, d, q - (d - 0.5))
    return copysign(quotient + correction, x)


UNARY = {"exp": exp, "exp2": exp2, "expm1": expm1, "expit": expit, "sinh": sinh, "cosh": cosh, "tanh": tanh}
