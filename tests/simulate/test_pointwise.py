"""Pointwise programs: layouts, sizes and dtypes; contiguous ones use whole sectors."""

from __future__ import annotations

import numpy as np
import pytest

from numstax import dtypes
from tests.simulate.running import check
from tests.support import ALL, layouts, normal

FULL = 0.9


@pytest.mark.parametrize("dtype", [*ALL, dtypes.FLOAT8_E4M3], ids=dtypes.name)
@pytest.mark.parametrize("size", [1, 31, 1000, 4099])
def test_sizes(dtype: np.dtype, size: int) -> None:
    (report,) = check(lambda x, y: np.where(x > y, x, y), normal((size,), dtype), normal((size,), dtype, 1))
    if size == 4099:
        assert report.sector_use() > FULL


@pytest.mark.parametrize("dtype", [np.float32, dtypes.BFLOAT16, np.float64, np.uint8], ids=lambda d: np.dtype(d).name)
def test_contiguous_accesses_use_whole_sectors(dtype: np.dtype) -> None:
    for shape in ((1 << 16,), (64, 1024), (300, 512), (8, 96, 64)):
        (report,) = check(lambda x, y: x + y, normal(shape, dtype), normal(shape, dtype, 1))
        assert all(site.sector_use == 1.0 for site in report.sites.values())


@pytest.mark.parametrize("name", [name for name, _ in layouts(np.zeros((2, 2)))])
def test_layouts(name: str) -> None:
    x = dict(layouts(normal((37, 65))))[name]
    check(lambda x: x * 2 + 1, x)
    check(lambda x, y: x - y.T, x, np.ascontiguousarray(normal(x.shape, seed=1).T))


def test_no_dimensions_and_no_elements() -> None:
    check(lambda x: x + 1, np.array(3.0))
    assert check(lambda x: x + 1, np.zeros((0, 5))) == []


def test_special_values_pass() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38] * 40, np.float32)
    check(lambda x: (np.maximum(x, 1), -x, np.sqrt(x), x * x), x)


def test_costs_of_stencils_and_broadcasts() -> None:
    u = normal((130, 257))
    c = slice(1, -1)
    (report,) = check(lambda u: u[c, c] + 0.25 * (u[:-2, c] + u[2:, c] + u[c, :-2] + u[c, 2:]), u)
    assert report.sector_use() > 0.8
    check(lambda x, a, b: np.tanh(x * a + b), normal((60, 130)), normal((60, 1)), normal((1, 130)), ulps=4)


def test_parts_of_arrays() -> None:
    x = normal((40, 50))
    check(lambda x: np.pad(x, 3), x)
    check(lambda x: np.concatenate([x, x[:, ::-1]], axis=1), x)
    check(lambda x: x[3:, ::2] * 2, x)
    check(lambda x, i: x[i], x, np.array([3, -1, 0, 17]))
