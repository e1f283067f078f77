"""Every ufunc against NumPy, over dtypes and special values."""

from __future__ import annotations

import platform
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special

from tests.support import ALL, FLOATS, check, normal, pairs, specials

UFUNCS = {n: f for n, f in vars(np).items() if isinstance(f, np.ufunc) and f.__name__ == n and f.signature is None}
NAMES = sorted(UFUNCS)
APPROXIMATE = frozenset(
    "exp exp2 expm1 log log2 log10 log1p power float_power sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh "
    "arccosh arctanh arctan2 cbrt hypot logaddexp logaddexp2 divide reciprocal sqrt square multiply absolute "
    "deg2rad rad2deg degrees radians floor_divide".split()
)
"""NumPy's own result is rounded differently between machines, or (complex arithmetic) evaluated in another order."""


def _loops(function: np.ufunc, operand: np.dtype) -> bool:
    try:
        function.resolve_dtypes((*[operand] * function.nin, *[None] * function.nout))
    except TypeError:
        return False
    return True


LOOPS = [(n, d) for n in NAMES for d in ALL if _loops(UFUNCS[n], d)]


def _operands(name: str, dtype: np.dtype) -> list[np.ndarray]:
    function = UFUNCS[name]
    if function.nin == 1:
        return [specials(dtype)]
    x, y = pairs(dtype, np.dtype(np.int32) if name == "ldexp" else None)
    if name == "power" and dtype.kind in "iu":  # NumPy refuses negative integer exponents
        return [x, np.abs(y) % 9]
    if name == "ldexp":
        return [x, y % 20]
    return [x, y]


def _ulps(name: str, dtype: np.dtype) -> float:
    if name not in APPROXIMATE or (dtype.kind in "biu" and name == "floor_divide"):
        return 0
    if name in ("logaddexp", "logaddexp2"):  # the terms cancel
        return 16
    return 16 if dtype.kind == "c" else 5


@pytest.mark.parametrize(("name", "dtype"), LOOPS, ids=lambda part: str(part))
def test_ufunc(name: str, dtype: np.dtype) -> None:
    function = UFUNCS[name]
    operands = _operands(name, dtype)
    if dtype.kind == "c" and name in APPROXIMATE:  # zeros and signs of complex functions are the C library's
        operands = [normal((40,), dtype, seed) for seed in range(function.nin)]
    if function.nin == 1:
        check(lambda x: function(x), *operands, ulps=_ulps(name, dtype))
    else:
        check(lambda x, y: function(x, y), *operands, ulps=_ulps(name, dtype))


EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 745.0, 1e150, -1e200, 1.79e308, -1.79e308, 1e-310, np.inf, -np.inf, np.nan)
ANALYTIC = "sqrt exp log sinh cosh tanh sin cos tan arcsinh arccosh arctanh arcsin arccos arctan sign absolute".split()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="results are the C library's")
@pytest.mark.parametrize("name", ANALYTIC)
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_functions_at_the_edges(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        z = np.array([complex(a, b) for a in EDGES for b in EDGES]).astype(dtype)
    check(lambda z: UFUNCS[name](z), z, ulps=32)


@pytest.mark.parametrize("exponent", [1, 2, 3, -1])
def test_small_powers_of_infinite_complex_numbers(exponent: int) -> None:
    z = np.array([complex(10, np.inf), complex(np.inf, 1), complex(1, 2)])
    check(lambda z: z ** np.int32(exponent), z, ulps=4)


@pytest.mark.parametrize("name", ["erf", "erfc", "expit", "logit", "xlogy"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_scipy_special(name: str, dtype: str) -> None:
    function = getattr(scipy.special, name)
    values = specials(np.dtype(dtype))
    if name == "logit":
        values = np.concatenate([np.linspace(0, 1, 33, dtype=dtype), values])
    if function.nin == 1:
        check(lambda x: function(x), values, ulps=5)
    else:
        check(lambda x, y: function(x, y), *pairs(np.dtype(dtype)), ulps=5)


@pytest.mark.parametrize("exponent", [3, 4.0, -3])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_whole_powers(dtype: np.dtype, exponent: float) -> None:
    check(lambda x: x**exponent, specials(dtype), ulps=1)


OPERATORS: dict[str, Callable[..., object]] = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, -x, +x),
    "comparison": lambda x, y: (x < y, x <= y, x == y, x != y, x >= y, x > y),
    "abs": lambda x, y: (abs(x), x.conj(), x.real, x.imag),
    "reflected": lambda x, y: (2 + x, 2 - x, 2 * x, 3 - y),
    "where": lambda x, y: (np.where(x > y, x, y), np.where(True, x, y), np.where(x < y, 1, x)),
    "select": lambda x, y: np.select([x > y, x == y], [x, y], default=x),
    "clip": lambda x, y: (np.clip(x, 1, 3), x.clip(min=1), np.clip(x, None, 2)),
    "nan_to_num": lambda x, y: np.nan_to_num(x),
    "isclose": lambda x, y: np.isclose(x, y, equal_nan=True),
    "maximum": lambda x, y: (np.maximum(x, y), np.fmax(x, y), np.minimum(y, x), np.fmin(y, x)),
}


@pytest.mark.parametrize("dtype", [np.dtype("i4"), np.dtype("u1"), *FLOATS], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str, dtype: np.dtype) -> None:
    check(OPERATORS[name], *pairs(dtype), ulps=2 if name == "isclose" else 0)


@pytest.mark.parametrize("to", ALL, ids=str)
def test_casts_of_values_in_range(to: np.dtype) -> None:
    def casts(*arrays: np.ndarray) -> list[np.ndarray]:
        return [a.astype(to) for a in arrays]

    sources = [np.array([0, 1, 2, 3, 100], d) for d in ALL if d.kind != "c" or to.kind == "c"]
    check(casts, *sources)


@pytest.mark.parametrize("source", [np.dtype("i8"), np.dtype("u8"), np.dtype("i2"), np.dtype("?")], ids=str)
def test_integer_casts_wrap(source: np.dtype) -> None:
    targets = [d for d in ALL if d.kind in "biu"]
    check(lambda x: [x.astype(t) for t in targets], specials(source))


def test_float_casts_round_to_nearest_even() -> None:
    halves = np.array([2048.5, 2049.0, 2051.0, 65504.0, 65520.0, 1e-8, 6e-8, -2049.0, np.inf, np.nan])
    check(lambda x: [x.astype(d) for d in (*FLOATS, np.dtype("c8"))], halves)


@pytest.mark.parametrize("left", ALL, ids=str)
def test_promotion_with_every_dtype(left: np.dtype) -> None:
    def sums(x: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
        return [x + y for y in others]

    x = np.array([1, 0, 1], left)
    others = []
    for dtype in ALL:
        try:
            np.result_type(left, dtype)
        except TypeError:
            continue
        others.append(np.array([1, 1, 0], dtype))
    check(sums, x, *others)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_python_scalars_are_weak(dtype: np.dtype) -> None:
    check(lambda x: [x + 1, x * 2.5, x + True, x / 2, 1.5 + x, x * 1j], np.array([1, 0, 1], dtype), ulps=2)


@pytest.mark.parametrize("dtype", ["f4", "i2", "c8"])
def test_run_time_scalars(dtype: str) -> None:
    x = normal((5,), dtype)
    check(lambda x, a, b: x * a + b, x, 2.5, np.float32(3))
    check(lambda x, a: x + a, x, 3)
    check(lambda x, a: (x + a, a + 1), x, np.int8(7))
    check(lambda x, a: x + a, x, np.float64(0.1))


def test_no_contraction_and_no_reassociation() -> None:
    x, y = normal((1000,)), normal((1000,), seed=1)
    check(lambda x, y: (x * y - x * y, x * y + 1.0, (x + 1e8) - 1e8, x / y * y), x, y)


WRAPPED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "double": lambda x: (x * 2) != 0,
    "successor": lambda x: (x + 1) > x,
    "predecessor": lambda x: (x - 1) < x,
    "magnitude": lambda x: abs(x) >= 0,
    "negative": lambda x: (-x) < 0,
    "square": lambda x: np.square(x) >= 0,
    "cube": lambda x: np.power(x, x & 3) // 3,
    "divided back": lambda x: (x * 3) // 3,
    "shifted back": lambda x: (x << 1) >> 1,
    "sum": lambda x: (x + x[::-1]).sum() > x[0],
}


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u8"])
@pytest.mark.parametrize("name", WRAPPED)
def test_what_follows_from_integers_that_wrap(name: str, dtype: str) -> None:
    """A compiler that takes overflow for impossible concludes otherwise."""
    check(WRAPPED[name], specials(np.dtype(dtype)))
