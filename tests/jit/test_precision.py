"""`numstax.matmul_precision`: what it changes, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import numstax
from numstax.errors import KnobError, TemplateError
from numstax.hardware import GPUS
from numstax.ir.contraction import product_of
from numstax.ir.loops import Kernel
from numstax.precision import settings
from numstax.schedule.lower import lower
from numstax.tiles.cuda_products import candidates, chosen_products
from numstax.trace.tracer import trace


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b  # type: ignore[no-any-return]


@pytest.fixture
def factors() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal(shape).astype("f4") for shape in ((72, 136), (136, 64)))
    with numstax.matmul_precision("highest"):
        yield a, b


def error(function: Callable[..., np.ndarray], *arguments: np.ndarray) -> float:
    want = function(*(x.astype("f8") for x in arguments))
    got = numstax.jit(function, backend="simulate", strict=True)(*arguments)
    return float(np.abs(got - want).max() / np.abs(want).max())


def test_errors_are_those_of_the_factors(factors: tuple[np.ndarray, np.ndarray]) -> None:
    limits = {"highest": (0, 1e-6), "high": (0, 2e-6), "medium": (1e-5, 2e-3)}
    for precision, (low, high) in limits.items():
        with numstax.matmul_precision(precision):
            assert low <= error(product, *factors) <= high
            assert low <= error(lambda a, b: a @ b.T, factors[0], np.ascontiguousarray(factors[1].T)) <= high


def test_functions_are_compiled_anew_where_it_changes(factors: tuple[np.ndarray, np.ndarray]) -> None:
    jitted = numstax.jit(product, backend="simulate", strict=True)
    exact = jitted(*factors)
    with numstax.matmul_precision("medium"):
        assert not np.array_equal(jitted(*factors), exact)
    assert np.array_equal(jitted(*factors), exact)
    assert jitted.compile_count == 2


def test_it_holds_for_products_in_the_statement(factors: tuple[np.ndarray, np.ndarray]) -> None:
    def both(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with numstax.matmul_precision("medium"):
            rounded = a @ b
        return rounded, a @ b

    rounded, exact = numstax.jit(both, backend="simulate", strict=True)(*factors)
    assert np.array_equal(exact, numstax.jit(product, backend="simulate", strict=True)(*factors))
    assert not np.array_equal(rounded, exact)


def test_without_a_statement_it_stays(factors: tuple[np.ndarray, np.ndarray]) -> None:
    numstax.matmul_precision("high")
    assert settings()[0] == "high"


def test_the_cpu_and_other_dtypes_are_not_concerned(factors: tuple[np.ndarray, np.ndarray]) -> None:
    wide = [x.astype("f8") for x in factors]
    jitted = numstax.jit(product, strict=True)
    for _ in range(2):
        jitted(*factors)
        with numstax.matmul_precision("medium"):
            np.testing.assert_allclose(jitted(*factors), product(*wide), rtol=1e-3, atol=1e-5)
    assert jitted.compile_count == 1


def test_there_is_no_other_precision() -> None:
    with pytest.raises(KnobError, match=r"no matmul precision 'low'"):
        numstax.matmul_precision("low")
    assert settings() == ("highest", "")


def test_a_named_template_computes_or_says_what_prevents_it(factors: tuple[np.ndarray, np.ndarray]) -> None:
    jitted = numstax.jit(product, backend="simulate")
    with numstax.matmul_template("fma"):
        exact = jitted(*factors)
    with numstax.matmul_template("library"):
        np.testing.assert_allclose(jitted(*factors), exact, rtol=1e-4, atol=1e-4)
        assert "matmul" in jitted.inspect()
    with numstax.matmul_template("wgmma"), pytest.raises(TemplateError, match="it does not multiply f32"):
        jitted(*factors)
    halves = [x.astype("f2") for x in factors]
    for name in ("wgmma", "mma", "fma"):
        with numstax.matmul_template(name):
            np.testing.assert_allclose(jitted(*halves), product(*factors), rtol=1e-2, atol=0.1)
    with numstax.matmul_template("wgmma"):  # it reads a copy of the factor
        turned = numstax.jit(lambda a, b: np.roll(a, 1, 0) @ b, backend="simulate")(*halves)
    np.testing.assert_allclose(turned, np.roll(product(*factors), 1, 0), rtol=1e-2, atol=0.1)
    with pytest.raises(KnobError, match="no matmul template 'wmma'"):
        numstax.matmul_template("wmma")


def test_candidates_have_predicted_costs() -> None:
    a, b = (np.zeros((2048, 2048), "f2") for _ in range(2))
    (kernel,) = lower(trace(product, (a, b), {}).graph, True, chosen_products).units
    assert isinstance(kernel, Kernel)
    found = product_of(kernel)
    assert found is not None
    every = {c.template: c for c in candidates(kernel, found, GPUS["H200"])}
    assert every["wgmma"].cost < every["mma"].cost < every["fma"].cost
    assert every["library"].cost == every["wgmma"].cost  # and more where something follows
    older = {c.template: c for c in candidates(kernel, found, GPUS["A100"])}
    assert older["wgmma"].cost == float("inf")
    assert "wgmma instructions" in older["wgmma"].reason
