"""vecmath: error of at most 2 units in the last place, and NumPy's special values.

The reference is computed in float64 for float32 and in 80-bit or arbitrary precision for float64.
"""

import math

import mpmath
import numpy as np
import pytest
import scipy.special

from numstax.dtypes import by_name
from numstax.emit import vecmath
from numstax.emit.spelling import POWERS

WIDE = np.longdouble
ALL, POSITIVE = "all", "positive"  # random bit patterns
UNIT = (-1, 1)
RANGES = {
    "exp": (UNIT, (-760, 720), (-110, 95)),
    "exp2": (UNIT, (-1080, 1026), (-151, 129)),
    "expm1": (UNIT, (-1e-3, 1e-3), (-110, 720)),
    "expit": (UNIT, (-760, 720), (-110, 95)),
    "sinh": (UNIT, (-720, 720), (-92, 92)),
    "cosh": (UNIT, (-720, 720), (-92, 92)),
    "tanh": (UNIT, (-25, 25), (-1e-3, 1e-3)),
    "log": ((0, 3), (0.9, 1.1), POSITIVE),
    "log2": ((0, 3), (0.9, 1.1), POSITIVE),
    "log10": ((0, 3), (0.9, 1.1), POSITIVE),
    "log1p": ((-1, 3), (-0.1, 0.1), POSITIVE),
    "logit": ((0, 1), (0.4, 0.6), (0, 1e-3)),
    "arcsinh": ((-3, 3), (-0.1, 0.1), ALL),
    "arccosh": ((1, 3), (1, 1.01), POSITIVE),
    "arctanh": (UNIT, (-0.1, 0.1)),
    "erf": ((-4, 4), (-0.5, 0.5), (-7, 7)),
    "erfc": ((-4, 4), (-0.5, 0.5), (-7, 28)),
    "sin": ((-4, 4), (-1e5, 1e5), ALL),
    "cos": ((-4, 4), (-1e5, 1e5), ALL),
    "tan": ((-4, 4), (-1e5, 1e5), ALL),
    "arcsin": (UNIT, (-0.1, 0.1)),
    "arccos": (UNIT, (-0.1, 0.1), (0.99, 1)),
    "arctan": ((-3, 3), ALL),
    "cbrt": ((-3, 3), ALL),
    "cube": ((-3, 3), ALL),
    "fourth_power": ((-3, 3), ALL),
    "rsqrt": ((-1, 3), ALL),
    "sqrt_cubed": ((-1, 3), ALL),
    "rsqrt_cubed": ((-1, 3), (0, 1e-3), ALL),
    "power": (((0, 3), (-30, 30)), (POSITIVE, (-3, 3)), ((0.99, 1.01), (-70000, 70000))),
    "arctan2": (((-3, 3), (-3, 3)), (ALL, ALL)),
    "hypot": (((-3, 3), (-3, 3)), (ALL, ALL)),
    "logaddexp": (((-3, 3), (-3, 3)), ((-90, 90), (-90, 90))),
    "logaddexp2": (((-3, 3), (-3, 3)), ((-90, 90), (-90, 90))),
    "xlogy": (((-3, 3), (0, 3)),),
}
FUNCTIONS = [name for name in vecmath.names() if name.rpartition("_")[0] in RANGES]
SPECIAL = [0.0, 0.5, 1, 2, 3, math.inf, 1e-45, 1e-40, 1e-310, 1e-38, 1e30, 1e300, 88.8, 89.5, 104, 709.5, 720, 745, 0.1]


def split_double(value):
    """An arbitrary-precision number as 80-bit, out of two float64."""
    high = float(value)
    return WIDE(high) + WIDE(float(value - high)) if math.isfinite(high) else WIDE(high)


def in_precision(function):
    def reference(x):
        with mpmath.workprec(140):
            return np.array([split_double(function(mpmath.mpf(float(v)))) for v in x], WIDE)

    return reference


def expit(x):
    return 1 / (1 + np.exp(-x))


def logit(x):
    return np.where(x < 0.25, np.log(x) - np.log1p(-x), np.log1p((2 * x - 1) / (1 - x)))


REFERENCES = {
    "expit": (expit, expit),
    "logit": (logit, logit),
    "cube": (lambda x: x * x * x,) * 2,
    "fourth_power": (lambda x: (x * x) * (x * x),) * 2,
    "rsqrt": (lambda x: x**-0.5,) * 2,
    "sqrt_cubed": (lambda x: x**1.5,) * 2,
    "rsqrt_cubed": (lambda x: x**-1.5,) * 2,
    "xlogy": (scipy.special.xlogy, lambda x, y: x * np.log(y)),
    "erf": (scipy.special.erf, in_precision(mpmath.erf)),
    "erfc": (scipy.special.erfc, in_precision(mpmath.erfc)),
}


def draw(rng, where, n, dtype):
    if where in (ALL, POSITIVE):
        bits = rng.integers(0, np.iinfo(f"i{dtype.itemsize}").max, 2 * n, dtype=f"i{dtype.itemsize}")
        x = bits.view(dtype)
        x = x[np.isfinite(x)][:n]
        return np.where(rng.random(n) < 0.5, -x, x) if where == ALL else x
    return rng.uniform(*where, n).astype(dtype)


def reference(op, dtype, xs):
    numpy = getattr(np, op, None)
    narrow, wide = REFERENCES.get(op) or (numpy, numpy)
    with np.errstate(all="ignore"):
        if dtype == np.float32:
            return narrow(*(x.astype(np.float64) for x in xs)).astype(WIDE)
        return np.asarray(wide(*(x.astype(WIDE) for x in xs)), WIDE)


def scale_of(op, want, xs):
    """The magnitude that errors are relative to: where the terms of logaddexp cancel, so do NumPy's."""
    if not op.startswith("logaddexp"):
        return want
    return np.maximum.reduce([abs(v) for v in (want, *(np.where(np.isfinite(x), x, 0) for x in xs))])


def ulps(got, want, scale):
    """Distance in units in the last place of `scale`; 0 where both are the same infinity or NaN."""
    with np.errstate(all="ignore"):
        nearest = want.astype(got.dtype)
        unit = np.spacing(np.abs(scale.astype(got.dtype))).astype(WIDE)
        distance = np.abs(got.astype(WIDE) - want) / unit
    same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    return np.where(np.isfinite(nearest) & np.isfinite(got), distance, np.where(same, 0, np.inf))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_at_most_two_ulps(name, compiled):
    op, _, short = name.rpartition("_")
    dtype, rng = by_name(short), np.random.default_rng(len(name))
    intrinsic = vecmath.intrinsic(name)
    n = 300 if op.startswith("erf") and short == "f64" else 20_000
    for ranges in RANGES[op]:
        xs = [draw(rng, r, n, dtype) for r in (ranges if len(intrinsic.params) == 2 else (ranges,))]
        got, want = compiled(intrinsic, *xs), reference(op, dtype, xs)
        error = ulps(got, want, scale_of(op, want, xs))
        worst = int(np.argmax(error))
        assert error[worst] <= 2, f"{name}{tuple(x[worst] for x in xs)} = {got[worst]!r}, not {want[worst]!r}"


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if hasattr(np, n.rpartition("_")[0])])
def test_special_values_are_those_of_numpy(name, compiled):
    op, _, short = name.rpartition("_")
    dtype, intrinsic = by_name(short), vecmath.intrinsic(name)
    with np.errstate(all="ignore"):
        values = np.array([*SPECIAL, *(-v for v in SPECIAL), np.nan], dtype)
    xs = [values]
    if len(intrinsic.params) == 2:
        xs = [grid.ravel().copy() for grid in np.meshgrid(values, values)]
    with np.errstate(all="ignore"):
        want = getattr(np, op)(*xs)
    got = compiled(intrinsic, *xs)
    exact = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[exact], want[exact])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    assert ulps(got[~exact], want[~exact].astype(WIDE), scale_of(op, want, xs)[~exact]).max() <= 3


@pytest.mark.parametrize(("exponent", "op"), POWERS.items())
@pytest.mark.parametrize("short", ["f32", "f64"])
def test_special_values_of_powers_with_a_constant_exponent(exponent, op, short, compiled):
    with np.errstate(all="ignore"):
        x = np.array([*SPECIAL, *(-v for v in SPECIAL), np.nan], by_name(short))
        want = np.power(x, x.dtype.type(exponent))
    got = compiled(vecmath.intrinsic(f"{op}_{short}"), x)
    exact = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[exact], want[exact])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lane_model_agrees_with_machine_code(name, compiled):
    intrinsic = vecmath.intrinsic(name)
    rng = np.random.default_rng(0)
    xs = [rng.uniform(0.05, 0.95, 200).astype(by_name(p)) for p in intrinsic.params]
    got, model = compiled(intrinsic, *xs), vecmath.evaluate(intrinsic, *xs)
    assert model.dtype == got.dtype
    # an fma of the model may round twice
    assert ulps(got, model.astype(WIDE), model).max() <= 1


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("log10_f64", 10.0 ** np.arange(23), np.arange(23)),
        ("cbrt_f64", np.arange(-99.0, 99) ** 3, np.arange(-99, 99)),
        ("exp2_f64", np.arange(-1074.0, 1024), np.ldexp(1.0, np.arange(-1074, 1024))),
    ],
)
def test_exact_results_are_exact(name, arguments, result, compiled):
    np.testing.assert_array_equal(compiled(vecmath.intrinsic(name), arguments), result)


@pytest.mark.parametrize("short", ["f32", "f64"])
def test_trigonometry_next_to_multiples_of_half_pi(short, compiled):
    """Numbers nearest to a multiple of pi/2, where the reduced argument has lost the most digits."""
    dtype, rng = by_name(short), np.random.default_rng(3)
    multiples = np.concatenate([np.arange(1, 20), np.rint(rng.uniform(1, 2.0 ** rng.integers(3, 40, 300)))])
    with mpmath.workprec(1300):
        x = np.array([float(mpmath.mpf(int(k)) * mpmath.pi / 2) for k in multiples], dtype)
        if short == "f64":
            x = np.append(x, 6381956970095103.0 * 2.0**797)  # the nearest of all
        for name in ("sin", "cos", "tan"):
            want = np.array([split_double(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x], WIDE)
            error = ulps(compiled(vecmath.intrinsic(f"{name}_{short}"), x), want, want)
            assert error.max() <= 2, f"{name}({x[np.argmax(error)]!r})"


def test_unknown_names():
    assert vecmath.has("exp_f32")
    assert not vecmath.has("sinc_f32")
    with pytest.raises(KeyError):
        vecmath.intrinsic("sinc_f32")
