"""Reductions and scans against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numstax
from numstax import dtypes
from tests.support import ALL, check, layouts, normal

REDUCTIONS: dict[str, Callable[..., object]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "any": np.any,
    "all": np.all,
    "count_nonzero": np.count_nonzero,
    "nansum": np.nansum,
    "nanmax": np.nanmax,
    "nanmean": np.nanmean,
    "nanstd": np.nanstd,
    "ptp": np.ptp,
}
AXES = (None, 0, -1, (0, 2))
DTYPES = [np.dtype(d) for d in ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16")]


def _tolerance(dtype: np.dtype) -> float:
    return 64 if dtype.kind in "fc" else 4


def _defined(name: str, dtype: np.dtype) -> bool:
    unordered = name in ("max", "min", "ptp", "nanmax")
    return not (dtype.kind == "c" and unordered) and not (dtype.kind == "b" and name in ("ptp", "nanmax"))


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in REDUCTIONS for d in DTYPES if _defined(n, d)], ids=lambda part: str(part)
)
def test_axes(name: str, dtype: np.dtype) -> None:
    function = REDUCTIONS[name]
    x = np.abs(normal((3, 5, 4), dtype)) if dtype.kind in "iuf" else normal((3, 5, 4), dtype)
    if name == "prod" and dtype.kind in "iuf":
        x = (x % 3 + 1).astype(dtype)
    check(lambda x: [function(x, axis=a) for a in AXES], x, ulps=_tolerance(dtype))
    check(lambda x: function(x, axis=1, keepdims=True), x, ulps=_tolerance(dtype))


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1023, 1025, 70000])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_lengths(size: int, dtype: str) -> None:
    x = np.abs(normal((size,), dtype))
    check(lambda x: (x.sum(), x.max(), x.min(), x.mean(), (x * x).sum()), x, ulps=32)


@pytest.mark.parametrize("shape", [(2, 3000), (3000, 2), (1, 100000), (100000, 1), (64, 64), (7, 1, 900)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = np.abs(normal(shape))
    check(lambda x: [x.sum(a) for a in range(x.ndim)] + [x.max(a) for a in range(x.ndim)], x, ulps=32)


def test_float32_sums_are_as_accurate_as_numpys() -> None:
    x = np.random.default_rng(0).random(1 << 20, np.float32) + np.float32(1e-3)
    exact = x.astype(np.float64).sum()
    ours = abs(float(numstax.jit(lambda x: x.sum())(x)) - exact)
    assert ours <= max(abs(float(x.sum()) - exact), np.spacing(np.float32(exact)))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_arg_reductions(dtype: np.dtype) -> None:
    x = normal((6, 7), dtype)
    x[3] = x[1]
    check(lambda x: (x.argmax(), x.argmin(), x.argmax(0), x.argmin(1), np.argmax(x, axis=1, keepdims=True)), x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nan_wins(dtype: str) -> None:
    x = normal((5, 40), dtype)
    x[1, 7] = x[1, 30] = x[3, 39] = np.nan
    x[4] = np.nan
    check(lambda x: (x.max(1), x.min(1), x.argmax(1), x.argmin(1), x.max(), x.argmax()), x)
    check(lambda x: (np.nanmax(x[:4], 1), np.nanmin(x[:4], 1), np.nanargmax(x[:4], 1), np.nanargmin(x[:4], 1)), x)
    check(lambda x: (np.fmax.reduce(x, 1), np.fmin.reduce(x, 1), np.maximum.reduce(x, 0)), x)


def test_infinities_and_signed_zeros() -> None:
    x = np.array([[0.0, -0.0], [-0.0, 0.0], [np.inf, -np.inf], [-np.inf, -np.inf]], np.float32)
    check(lambda x: (x.sum(1), np.sum(x[:1]), x.max(1) + 1, x.min(1) + 1, x.argmax(1)), x)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_factors_stay_inside_of_sums(dtype: str) -> None:
    """``2*x + 2*y`` overflows where ``2*(x + y)`` does not."""
    large = np.finfo(dtype).max
    for columns in (2, 3, 6, 8, 11, 12, 20, 33, 100):
        x = np.ones((5, columns), dtype)
        x[:, 0], x[:, 1] = large, -large
        for function in (lambda x: (x * 2).sum(1), lambda x: (x * 2 - x * 4).sum(1)):
            with np.errstate(all="ignore"):
                assert np.isnan(function(x)).all()
            assert np.isnan(numstax.jit(function, strict=True)(x)).all(), columns


def test_options() -> None:
    x, keep = normal((6, 50)), normal((6, 50), "?", 1)
    check(lambda x, k: np.sum(x, axis=1, where=k), x, keep, ulps=32)
    check(lambda x, k: np.max(x, axis=1, where=k, initial=-9.0), x, keep)
    check(lambda x, k: (np.sum(x, initial=10.0), np.prod(x, axis=0, initial=2.0)), x, keep, ulps=64)
    check(lambda x, k: np.mean(x, axis=1, where=k, dtype=np.float64), x, keep, ulps=1 << 20)
    check(lambda x, k: (np.any(k, axis=0), np.all(k, axis=1, keepdims=True), np.any(x > 2, where=k)), x, keep)
    check(lambda x, k: np.var(x, axis=1, ddof=1), x, keep, ulps=32)
    check(
        lambda x, k: (x.sum(dtype=np.float64), x.astype(np.int8).sum(), x.astype(np.int8).sum(dtype=np.int8)),
        x,
        keep,
        ulps=8,
    )
    check(lambda x, k: np.add.reduce(x, axis=(0, 1)), x, keep, ulps=64)


@pytest.mark.parametrize("order", [None, 1, 2, np.inf, -np.inf])
def test_norms(order: float | None) -> None:
    x = normal((6, 50))
    check(lambda x: (np.linalg.norm(x[0], order), np.linalg.norm(x, order, axis=1, keepdims=True)), x, ulps=32)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c8"])
def test_scans(dtype: str) -> None:
    x = normal((4, 33), dtype)
    terms = np.abs(x) if x.dtype.kind == "f" else x  # a sum near 0 of large terms depends on their order
    check(lambda x: (np.cumsum(x), np.cumsum(x, axis=0), x.cumsum(-1)), terms, ulps=64)
    small = np.abs(x[:, :5]) if dtype not in ("?", "u8") else x[:, :5]
    check(lambda x: (np.cumprod(x), x.cumprod(1)), small, ulps=64)


def test_scans_of_other_ufuncs() -> None:
    x = normal((4, 33))
    check(lambda x: (np.maximum.accumulate(x, axis=1), np.minimum.accumulate(x, axis=0), np.diff(x, axis=1)), x)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    check(lambda x: (x.sum(), x.prod(), x.any(), x.all(), x.sum(-1), x.sum(0), np.cumsum(x)), x)


def test_zero_dimensional() -> None:
    x = np.array(2.5, np.float32)
    check(lambda x: (x.sum(), x.max(), x + 1, x.mean(), x.argmax(), np.cumsum(x), x.reshape(1)), x)


SEVERAL: dict[str, Callable[..., object]] = {
    "softmax": lambda x: (
        np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)
    ),
    "layernorm": lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
    "column softmax": lambda x: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0),
    "row then column": lambda x: (x / (1 + np.abs(x).sum(1, keepdims=True))).max(0),
    "logsumexp": lambda x: x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)),
    "total in every element": lambda x: x * x.sum() - x.max(),
    "two outputs": lambda x: (x.sum(1), np.maximum(x, 0), x.max(1)),
    "cumsum then max": lambda x: np.cumsum(x, 1).max(1),
    "argmax of rows": lambda x: (x.argmax(1), x.max(1)),
    "copy": lambda x: (x.copy(), x + 0),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_layouts(name: str) -> None:
    for layout, x in layouts(np.abs(normal((9, 65)))):
        if x.size == 0 or (name == "layernorm" and layout == "columns repeated"):
            continue  # x - mean is rounding alone where all of a row is equal
        try:
            check(SEVERAL[name], x, ulps=4096 if name == "layernorm" else 128)  # x - mean cancels
        except AssertionError as error:
            raise AssertionError(f"layout {layout}: {error}") from error


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (5, 1000), (3, 70000), (70000, 3)])
def test_softmax_shapes(shape: tuple[int, ...]) -> None:
    check(SEVERAL["softmax"], normal(shape) * 3, ulps=32)


CONSTANT_DOWN_COLUMNS: dict[str, Callable[..., object]] = {
    "constant": lambda x, s: np.full(x.shape, 2.5, "f4").mean(0),
    "number": lambda x, s: (x * 2).sum(0),
    "scalar": lambda x, s: (x * s).sum(0),
    "row": lambda x, s: (x * 0 + x[0]).sum(0),
    "element": lambda x, s: (x * x[0, 0]).sum(0),
    "two axes": lambda x, s: (x.reshape(len(x), 2, -1) * s).sum((0, 1)),
    "outer axis": lambda x, s: (x.reshape(len(x), 2, -1) * x[:, 0][:, None, None]).sum((0, 1)),
}


@pytest.mark.parametrize("rows", [128, 129, 300, 511])
@pytest.mark.parametrize("name", CONSTANT_DOWN_COLUMNS)
def test_sums_down_columns_of_what_does_not_vary(name: str, rows: int) -> None:
    x = np.random.default_rng(rows).integers(-8, 9, (rows, 66)).astype("f4")
    check(CONSTANT_DOWN_COLUMNS[name], x, np.float32(3))


SPREADS: dict[str, Callable[..., object]] = {
    "complex as float": lambda a: (np.var(a * 1j, dtype="f4"), np.std(a * (1 + 1j), dtype="f4")),
    "complex as integer": lambda a: np.std(a * 1j, dtype="u8"),
    "half as complex": lambda a: np.std(a.astype("f2"), dtype="c8"),
    "half as single": lambda a: np.var(a.astype("f2"), dtype="f4"),
    "far from zero": lambda a: np.var(a + 1e6, axis=1, dtype="f4"),
    "wider": lambda a: np.std(a.astype("f4"), axis=1, dtype="f8", keepdims=True),
    "over no axis": lambda a: np.var(a - 3.7, dtype="u8", axis=()),
    "integers": lambda a: np.var(a.astype("u8"), axis=1, dtype="i4", ddof=1),
    "integers as single": lambda a: np.std(a.astype("i8"), dtype="f4"),
    "booleans": lambda a: np.std(a > 5, dtype="f4"),
    "some": lambda a: (np.var(a, dtype="f4", where=a > 3), np.var(a, dtype="i4", where=a > 3)),
    "nan": lambda a: np.nanvar(np.where(a > 3, a, np.nan), axis=1, dtype="f4"),
    "nan, complex": lambda a: np.nanvar(a * 1j, dtype="c8"),
}


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:Degrees of freedom")
def test_variance_in_a_given_dtype(name: str) -> None:
    check(SPREADS[name], np.arange(20.0).reshape(4, 5), ulps=8)


ZEROS: dict[str, Callable[..., object]] = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdims=True), np.sum(x, axis=())),
    "mean": lambda x: (x.mean(), x.mean(0), np.mean(x, axis=())),
    "computed": lambda x: ((x * 1).sum(-1), np.nansum(x), np.sum(x, where=x != 1)),
    "trace": lambda x: (np.trace(x), np.einsum("ij->i", x), np.average(x, 0)),
    "median": lambda x: np.median(x, axis=()),
    "cumsum": lambda x: (np.cumsum(x), np.cumsum(x, 0), np.cumsum(x, 1), np.nancumsum(x, 1)),
}


@pytest.mark.parametrize("name", ZEROS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (4, 5), (3, 3000), (3000, 3)])
def test_sums_of_negative_zeros_are_positive(name: str, shape: tuple[int, int]) -> None:
    for dtype in ("f8", "f4", "f2", "c16"):
        if name != "median" or dtype != "c16":
            x = np.full(shape, complex(-0.0, -0.0) if dtype == "c16" else -0.0, dtype)
            check(ZEROS[name], x)


def test_numpy_finds_no_nan_in_other_floats() -> None:
    x = np.array([1, np.nan, 3]).astype(dtypes.BFLOAT16)
    check(lambda x: (np.nansum(x), np.nancumsum(x), np.nanmax(x), np.nanmean(x)), x)
