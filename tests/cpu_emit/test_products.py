"""Products of matrices as kernels on the CPU: values beside float64, what is fused with them, and the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np
import pytest

import numstax
from numstax import pipeline
from numstax.hardware import CPUS, Hardware, host
from numstax.ir.graph import Node
from numstax.ir.loops import Extern
from numstax.pipeline import build
from numstax.program import Emitted
from numstax.tiles import cpu, cpu_products
from numstax.tiles.candidates import LIBRARY, cheapest
from numstax.tiles.cpu_products import FAMILY, candidates

Function = Callable[..., np.ndarray]
ZEN4, MILAN = CPUS["EPYC 9654"], CPUS["EPYC 7763"]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product that can be a kernel is one, however small."""
    monkeypatch.setattr(cpu_products, "LEAST", 1)
    monkeypatch.setattr(cpu_products, "LIBRARY_SHARE", 1e-9)


def matrix(*shape: int, dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)  # type: ignore[call-overload, no-any-return]


def relu(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.maximum(a @ b + bias, 0)  # type: ignore[no-any-return]


def check(function: Function, *args: np.ndarray, count: int = 1) -> None:
    """The product becomes `count` kernels, and their values are right."""
    names = [e.program.name for e in build(function, args).emitted if isinstance(e, Emitted)]
    assert sum("matmul" in name for name in names) == count
    got = numstax.jit(function, strict=True)(*args)
    want = function(*(a.astype(np.float64) for a in args))
    for g, w in zip(
        got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
    ):
        np.testing.assert_allclose(g, w, rtol=0, atol=20 * np.finfo(g.dtype).eps * np.abs(w).max())


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        ((14, 32, 512), "f4"),
        ((29, 33, 513), "f4"),
        ((100, 65, 1030), "f8"),
        ((512, 31, 16), "f4"),
        ((16, 130, 17), "f8"),
    ],
)
def test_sizes_that_are_multiples_and_others(sizes: tuple[int, int, int], dtype: str) -> None:
    m, n, k = sizes
    check(relu, matrix(m, k, dtype=dtype), matrix(k, n, dtype=dtype, seed=1), matrix(n, dtype=dtype, seed=2))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("turned", "dtype"), [((True, False), "f4"), ((False, True), "f4"), ((True, True), "f4"), ((False, True), "f8")]
)
def test_factors_of_any_strides(turned: tuple[bool, bool], dtype: str) -> None:
    a, b, bias = matrix(70, 150, dtype=dtype), matrix(150, 90, dtype=dtype, seed=1), matrix(90, dtype=dtype, seed=2)
    a, b = (np.asfortranarray(x) if t else x for x, t in zip((a, b), turned, strict=True))
    check(relu, a, b, bias)


@pytest.mark.usefixtures("kernels")
def test_factors_with_gaps() -> None:
    a, b = np.repeat(matrix(70, 150), 2, axis=0)[::-2], np.repeat(matrix(150, 90, seed=1), 3, axis=1)[:, ::3]
    check(relu, a, b, matrix(90, seed=2))


EPILOGUES: dict[str, Function] = {
    "two results": lambda a, b, c: (a @ b, np.tanh(a @ b) + c),  # type: ignore[dict-item, return-value]
    "rows and columns": lambda a, b, c: (a @ b) * a[:, :1] - c[::-1],
    "cast": lambda a, b, c: (a @ b + c).astype(np.float32),
    "shifted": lambda a, b, c: np.roll(c, 3) + a @ b,
    "product of views": lambda a, b, c: np.exp(-((np.roll(a, 1, 0) @ np.flip(b, 1) + c) ** 2)),
    "square": lambda a, b, c: np.abs(a[:60] @ a[:60].T),
}


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", EPILOGUES)
def test_what_follows_is_in_the_kernel(name: str) -> None:
    check(EPILOGUES[name], matrix(75, 80), matrix(80, 70, seed=1), matrix(70, seed=2))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shapes", [((3, 70, 40), (3, 40, 66)), ((2, 3, 65, 20), (3, 20, 90)), ((70, 20), (5, 20, 64))])
def test_batches(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (matrix(*shape, seed=k) for k, shape in enumerate(shapes))
    check(lambda a, b: np.maximum(a @ b, 0), a, b)


@pytest.mark.usefixtures("kernels")
def test_a_factor_that_is_the_same_in_all_rows() -> None:
    check(lambda a, b: np.maximum(np.broadcast_to(a, (70, 40)) @ b, 0), matrix(40), matrix(40, 66, seed=1))
    check(lambda a, b: np.maximum(a @ np.broadcast_to(b[:, None], (40, 70)), 0), matrix(66, 40), matrix(40, seed=1))


@pytest.mark.usefixtures("kernels")
def test_constants_are_left_to_the_library() -> None:
    check(lambda a: np.maximum(a @ np.ones((40, 70), np.float32), 0), matrix(66, 40), count=0)


@pytest.mark.usefixtures("kernels")
def test_narrow_factors_are_widened_as_they_are_copied() -> None:
    a, b = matrix(70, 40, dtype=ml_dtypes.bfloat16), matrix(40, 66, dtype=ml_dtypes.bfloat16, seed=1)
    check(lambda a, b: np.maximum(a.astype(np.float32) @ b.astype(np.float32), np.float32(0)), a, b)


@pytest.mark.usefixtures("kernels")
def test_sizes_that_are_not_known() -> None:
    compiled = numstax.jit(relu, dynamic=True, strict=True)
    for m, n, k in ((70, 64, 600), (15, 33, 5), (128, 96, 512), (3, 40, 0), (0, 40, 3)):
        args = matrix(m, k), matrix(k, n, seed=1), matrix(n, seed=2)
        np.testing.assert_allclose(compiled(*args), relu(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("kernels")
def test_in_a_loop() -> None:
    def power(a: np.ndarray, x: np.ndarray) -> np.ndarray:
        for _ in range(20):
            x = np.tanh(a @ x)
        return x

    a, x = matrix(80, 80) / 9, matrix(80, 70, seed=1)
    np.testing.assert_allclose(numstax.jit(power, strict=True)(a, x), power(a, x), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("machine", [MILAN, CPUS["Graviton3"]])
def test_tiles_for_registers_of_other_sizes(machine: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "host", lambda: machine)
    monkeypatch.setattr(cpu_products, "host", lambda: machine)
    for dtype in ("f4", "f8"):
        check(relu, matrix(75, 130, dtype=dtype), matrix(130, 70, dtype=dtype, seed=1), matrix(70, dtype=dtype, seed=2))


def test_not_numbers_and_infinities_stay_where_they_are() -> None:
    a, b, bias = matrix(300, 600), matrix(600, 330, seed=1), matrix(330, seed=2)
    a[17, 5], b[3, 329], bias[4] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        got, want = (f(a, b, bias) for f in (numstax.jit(relu, strict=True), relu))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


# --- the choice


def chosen(m: int, n: int, k: int, machine: Hardware = ZEN4) -> str:
    return cheapest(candidates(m, n, k, 4, [], machine)).template


def test_large_products_with_something_behind_are_kernels() -> None:
    few = Hardware("few", 2, 64, 32, 32 << 10, 1 << 20, 32 << 20, 64)
    assert chosen(1024, 1024, 1024, few) == FAMILY
    assert chosen(64, 64, 64, few) == LIBRARY  # copies take as long
    assert chosen(64, 4096, 4096, few) == LIBRARY  # five tiles down for two cores
    assert chosen(4096, 4096, 8192, few) == LIBRARY
    assert chosen(1024, 1024, 1024, ZEN4) == LIBRARY  # fewer tiles down than cores


def test_a_reason_says_why_there_is_no_kernel() -> None:
    old = Hardware("old", 2, 16, 16, 32 << 10, 256 << 10, 8 << 20, 64)
    library, panels = candidates(1024, 1024, 1024, 4, [], old)
    assert library.template == LIBRARY
    assert not library.reason
    assert "in one instruction" in panels.reason
    assert "fewer than 64" in candidates(63, 64, 64, 4, [], MILAN)[1].reason


def test_all_products_of_a_graph_are_kernels_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows the first is computed with it, though a reduction reads it."""
    two = Hardware("two cores", cores=2, vector=64, registers=32, l1=32 << 10, l2=1 << 20, l3=32 << 20, line=64)
    monkeypatch.setattr(cpu_products, "host", lambda: two)

    def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        s = (q @ k.T) * np.float32(0.125)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    def names(columns: int) -> list[str]:
        shapes = (1024, 64), (1024, 64), (1024, columns)
        emitted = build(attention, tuple(np.zeros(shape, np.float32) for shape in shapes)).emitted
        return [e.function if isinstance(e, Extern) else e.program.name for e in emitted]

    assert [name for name in names(64) if "matmul" in name] == ["tem_matmul_multiply", "tem_matmul"]
    # too few columns for a kernel
    assert [name for name in names(8) if "matmul" in name] == ["numpy.matmul"] * 2


def test_products_alone_are_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def always(products: Mapping[Node, bool]) -> list[Node]:
        asked.extend(products.values())
        return [node for node, followed in products.items() if followed]

    monkeypatch.setattr(pipeline, "chosen_products", always)
    a, b = matrix(70, 40), matrix(40, 66)
    assert any(isinstance(e, Extern) for e in build(lambda a, b: a @ b, (a, b)).emitted)
    assert not any(isinstance(e, Extern) for e in build(lambda a, b: np.abs(a @ b), (a, b)).emitted)
    assert asked == [False, True]
    assert math.isfinite(candidates(1024, 1024, 1024, 4, [], host())[0].cost)
