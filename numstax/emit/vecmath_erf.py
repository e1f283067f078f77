"""erf and erfc.

erf(x) = sign(x) * (1 - e**-g) with g = -log(erfc |x|), and g / |x| is a polynomial: 1 - e**-g keeps the
relative accuracy of g near 0 and forgets its errors for large |x|.

erfc(|x|) = e**(-x**2) * E / (1 + 2|x|), where E = e**(x**2) * erfc(|x|) * (1 + 2|x|) is close to 1 for
all x and a polynomial in (|x| - 3) / (|x| + 3); the rounding error of x**2 is made good.
"""

from __future__ import annotations

from numstax.emit.vecmath_exp import exp_times, quarter_expm1
from numstax.emit.vecmath_format import divide
from numstax.emit.vecmath_record import Value, absolute, at_most, copysign, fma, polynomial, where

# -log(erfc t) / t: the first coefficient 2/sqrt(pi), and the rest with what that lost in rounding
_TWO_OVER_ROOT_PI = {"f32": 1.128379225730896, "f64": 1.1283791670955126}
_LOG_ERFC = {
    "f32": (
        -5.9103733e-08,
        0.6366198,
        0.10277167,
        -0.019119648,
        -0.00024829892,
        0.0017929507,
        -0.000735723,
        0.00016528292,
        -2.084016e-05,
        1.1441482e-06,
    ),
    "f64": (
        9.624323241827067e-18,
        0.6366197723675836,
        0.10277260330178943,
        -0.01912844700508658,
        -0.00020919469465144208,
        0.0016962063844148335,
        -0.0005901255468341939,
        2.5878585078620672e-05,
        6.449190493464767e-05,
        -2.972412159259999e-05,
        3.407363528460336e-06,
        2.835042429484891e-06,
        -1.7414723958820045e-06,
        3.3632062131474893e-07,
        1.3720137206639268e-07,
        -1.4176785704279937e-07,
        6.573450809657498e-08,
        -2.0962593389072894e-08,
        4.997603956010918e-09,
        -9.081884100785968e-10,
        1.248339994866186e-10,
        -1.2610062813522186e-11,
        8.844760093342363e-13,
        -3.850107371255239e-14,
        7.833215075539579e-16,
    ),
}
# erf is 1 beyond
_ERF_LIMIT = {"f32": 4.0, "f64": 6.0}
# erfc underflows to 0 beyond
_ERFC_LIMIT = {"f32": 10.2, "f64": 27.5}
# E at |x| = 3, where the variable is 0: rounded to the format, and the rest
_ERFCX_AT_3 = {"f32": (1.253008, 5.12098914384751e-08), "f64": (1.2530080582697296, 3.982325888316032e-17)}
# the other coefficients
_ERFCX = {
    "f32": (
        -0.13562115,
        -0.0475624,
        0.12964655,
        -0.119270965,
        0.06829483,
        -0.023797821,
        0.002569688,
        0.0020031843,
        -0.00077920174,
        -0.00026932376,
    ),
    "f64": (
        -0.13562110612458056,
        -0.047562294353449344,
        0.12964515870269158,
        -0.1192736634153835,
        0.06830802734626491,
        -0.02377051491695233,
        0.002529391781209475,
        0.0018886903375088147,
        -0.0007798319778084016,
        -0.00010515962470977581,
        0.00012509784144493013,
        4.948561860987895e-06,
        -2.0095622891160695e-05,
        -7.283112403540732e-07,
        3.4619247450646203e-06,
        3.4957706542469187e-07,
        -6.023888174679875e-07,
        -1.3102972351783661e-07,
        9.001452478962219e-08,
        3.2424319250014757e-08,
        -7.941048813077117e-09,
        -3.963290980311007e-09,
    ),
}


def erf(x: Value) -> Value:
    t = at_most(absolute(x), _ERF_LIMIT[x.dtype])
    g = fma(t, _TWO_OVER_ROOT_PI[x.dtype], t * polynomial(t, _LOG_ERFC[x.dtype]))
    q, _ = quarter_expm1(-g)
    return copysign(q * 4, x)


def erfc(x: Value) -> Value:
    """The quotient E / (1 + 2t) is carried with a correction, and so is the square in the exponential."""
    t = at_most(absolute(x), _ERFC_LIMIT[x.dtype])
    constant, constant_low = _ERFCX_AT_3[x.dtype]
    u = 2 * (t / (t + 3)) - 1
    variable = u * polynomial(u, _ERFCX[x.dtype])
    n, d = variable + constant, t + t + 1
    quotient, correction = divide(n, d, (1 - d) + (t + t), (variable - (n - constant)) + constant_low)
    square = t * t
    tail = exp_times(quotient, correction, -square, -fma(t, t, -square))
    return where(x < 0, 2 - tail, tail)


UNARY = {"erf": erf, "erfc": erfc}
