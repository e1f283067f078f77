"""Products of matrices on GPUs: values, and what is computed together with them."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from numstax.ir.loops import Kernel
from numstax.ir.parse import parse_schedule
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.show import show
from numstax.pipeline import build
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.schedule.split import split
from numstax.tiles.cuda_products import chosen_products
from numstax.trace.tracer import trace
from tests.cuda_emit.running import H200, check, programs, simulated

BF16 = ml_dtypes.bfloat16


def matrix(*shape: int, dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":  # type: ignore[call-overload]
        return draw.integers(0, 100, shape).astype(dtype)  # type: ignore[call-overload, no-any-return]
    return draw.standard_normal(shape).astype(dtype)  # type: ignore[call-overload, no-any-return]


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u2", "i4", "i8"])
def test_dtypes(dtype: str) -> None:
    check(product, matrix(70, 33, dtype=dtype), matrix(33, 50, dtype=dtype))


def test_bfloat16_is_added_up_in_float32_and_rounded_once() -> None:
    a, b = matrix(40, 300, dtype=BF16), matrix(300, 24, dtype=BF16, seed=1)
    (got,), _, _ = simulated(product, a, b)
    want = (a.astype("f8") @ b.astype("f8")).astype("f4").astype(BF16)
    assert got.dtype == BF16
    assert (got != want).mean() < 0.01
    np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), rtol=2**-7, atol=2**-7)


LAYOUTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "NN": lambda a, b: a[:40, :68] @ b[:68, :36],
    "TN": lambda a, b: a[:68, :40].T @ b[:68, :36],
    "NT": lambda a, b: a[:40, :68] @ b[:36, :68].T,
    "TT": lambda a, b: a[:68, :40].T @ b[:36, :68].T,
    "strides": lambda a, b: a[::2, ::-1][:30] @ b[::-1, 1::3][:72],
    "one row of a stack": lambda a, b: a.reshape(8, 9, 72)[3] @ b,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    check(LAYOUTS[name], matrix(72, 72), matrix(72, 72, seed=1))


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 20, 17), (17, 30)), ((2, 1, 20, 16), (3, 16, 30)), ((20, 16), (5, 16, 30)), ((130, 9), (9, 200))],
)
def test_batches(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check(product, matrix(*left), matrix(*right, seed=1))


def test_a_stack_times_one_matrix_is_one_product() -> None:
    (kernel,) = build(product, (matrix(8, 64, 32), matrix(32, 48))).schedule.units[:1] or [None]  # type: ignore[union-attr]
    assert not isinstance(kernel, Kernel), "on the CPU products are library calls"
    (unit,) = build(product, (matrix(8, 64, 32), matrix(32, 48)), machine=H200).schedule.units  # type: ignore[union-attr]
    assert isinstance(unit, Kernel)
    assert [v.extent.value for v in unit.outer] == [512, 48]


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_no_terms_give_zeros(dtype: str) -> None:
    check(product, matrix(20, 0, dtype=dtype), matrix(0, 30, dtype=dtype))
    check(product, matrix(100, 0, dtype=dtype), matrix(0, 100, dtype=dtype))


def test_one_term_is_an_outer_product() -> None:
    check(product, matrix(100, 1), matrix(1, 100, seed=1))


EPILOGUES: dict[str, Callable[..., object]] = {
    "bias and relu": lambda a, b, c: np.maximum(a @ b + c[0], 0),
    "residual": lambda a, b, c: a @ b + c,
    "rows": lambda a, b, c: (a @ b) * c[:, :1],
    "cast": lambda a, b, c: (a @ b).astype(np.float16),
    "several": lambda a, b, c: (a @ b, (a @ b) * 2 + c),
    "flat": lambda a, b, c: np.tanh((a @ b).reshape(-1) * 0.1),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_what_follows_element_by_element_is_in_the_same_program(name: str) -> None:
    function = EPILOGUES[name]
    arguments = matrix(70, 30), matrix(30, 44, seed=1), matrix(70, 44, seed=2)
    assert len(programs(function, *arguments)) == 1
    check(function, *arguments, ulps=64)


def test_refusals_say_why() -> None:
    arguments = matrix(70, 70), matrix(70, 70)
    schedule = build(lambda a, b: ((a @ b).sum(-1), (a @ b) @ b), arguments, machine=H200).schedule
    assert schedule is not None
    reasons = {r.reason for r in schedule.refusals}
    assert "different iteration spaces" in reasons
    assert "a product of matrices begins a kernel" in reasons


PROLOGUES: dict[str, Callable[..., object]] = {
    "an activation": lambda a, b, s: np.maximum(a, 0) @ b,
    "scales of both": lambda a, b, s: np.abs((a * s + 1) @ (b * s[:, None]) - 1),
    "of a view": lambda a, b, s: np.where(a > 0, a, 1).T[::-1] @ np.roll(a - s, 1, 0),
    "another dtype": lambda a, b, s: (a.astype(np.float64) * 2) @ b.astype(np.float64),
}


@pytest.mark.parametrize("name", PROLOGUES)
def test_cheap_factors_are_computed_where_they_are_loaded(name: str) -> None:
    args = matrix(130, 70), matrix(70, 90, seed=1), matrix(70, seed=2)
    assert len(programs(PROLOGUES[name], *args)) == 1
    check(PROLOGUES[name], *args)


def test_other_factors_are_computed_before() -> None:
    a, b = matrix(64, 64), matrix(64, 64, seed=1)
    names = [p.name for p in programs(lambda a, b: np.exp(a) @ b, a, b)]
    assert names == ["poi_exp", "tem_matmul"]  # for each tile anew would take longer
    names = [p.name for p in programs(lambda a, b: (2 * a) @ b, a.astype(BF16), b.astype(BF16))]
    assert names == ["poi_multiply", "tem_matmul"]  # factors are copied past the registers


def test_small_products_of_float32_add_up_in_parts() -> None:
    """512 additions in a row would be off by 2.8e-7, parts of 256 by 2e-7."""
    a, b = matrix(64, 512), matrix(512, 64, seed=1)
    (got,), _, _ = simulated(product, a, b)
    want = a.astype(np.float64) @ b
    assert np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)) < 1.7e-7


def test_names_of_products_begin_with_tem() -> None:
    (program,) = programs(EPILOGUES["bias and relu"], matrix(70, 30), matrix(30, 44), matrix(70, 44))
    assert program.name == "tem_matmul_add_maximum"


def test_the_loops_are_printed_read_back_and_evaluated() -> None:
    a, b, c = matrix(20, 30), matrix(30, 24, seed=1), matrix(24, seed=2)
    graph = trace(EPILOGUES["bias and relu"], (a, b, c[None]), {}).graph
    schedule = split(fuse(lower(graph, True, chosen_products), H200), H200)
    assert parse_schedule(show(schedule)) == schedule
    (got,), _ = evaluate_schedule(schedule, [a, b, c[None]], {})
    assert got is not None
    np.testing.assert_allclose(got, np.maximum(a @ b + c, 0), rtol=1e-5, atol=1e-5)
