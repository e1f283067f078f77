"""Programs for GPUs whose sizes are known at run time only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numstax
from numstax.hardware import GPUS
from numstax.knobs import Knobs
from numstax.pipeline import compile_graph
from numstax.program import Emitted, Program
from numstax.tiles.cuda_cases import LENGTHS
from tests.support import normal


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


FUNCTIONS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda x: np.tanh(x) + 1,
    softmax,
    lambda x: x.mean(0),
    lambda x: x.T * 2.0 + 1,
    lambda x: np.cumsum(np.round(x), 1),
    lambda x: x.argmax(),
    lambda x: x * x.sum(1, keepdims=True) + x.max(0),
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_program_for_all_sizes(function: Callable[[np.ndarray], np.ndarray]) -> None:
    jitted = numstax.jit(function, strict=True, dynamic=True, device="cuda", backend="simulate")
    for shape in ((40, 50), (64, 128), (7, 3), (129, 260), (2, 4000)):
        x = normal(shape)
        np.testing.assert_allclose(jitted(x), function(x), rtol=2e-5, atol=2e-5)


def programs(function: Callable[[np.ndarray], np.ndarray], gpu: str = "H200") -> list[Emitted]:
    graph = numstax.make_graph(function, (normal((40, 50)),), tracing_mode="symbolic")
    return [e for e in compile_graph(graph, Knobs(), GPUS[gpu]).emitted if isinstance(e, Emitted)]


def test_sizes_that_are_multiples_have_wide_accesses() -> None:
    (made,) = programs(FUNCTIONS[0])
    ((test, case),) = made.cases
    assert test == "s1 % 4 == 0"
    assert case.program.text.count("load4_f32(") == 1
    assert "load4_f32(" not in made.program.text


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    for function in FUNCTIONS[:5]:
        for made in programs(function, target):
            chosen = {of_sizes(made, s0=4096, s1=n) for n in (40, 1000, 1001, 65536, 1 << 20)}
            for program in sorted(chosen, key=lambda p: p.name):
                cubin = compile_cuda.compile_program(program)
                assert cubin.stack == 0
                assert not cubin.notices


# --- cases --------------------------------------------------------------------------------------------


def layernorm(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g


ROWS: dict[str, Callable[..., np.ndarray]] = {
    "softmax": lambda x, g: softmax(x) * g,
    "layernorm": layernorm,
    "relu sum": lambda x, g: (np.maximum(x + g, 0) * 2).sum(1),
    "cumsum": lambda x, g: np.cumsum(np.round(x), 1),
    "argmax": lambda x, g: x.argmax(1),
}
AROUND = sorted({2, 31, 499, 1009, *(n + k for n in LENGTHS if n <= 8192 for k in (-1, 0, 1))})


@pytest.mark.parametrize("name", ROWS)
def test_rows_around_the_lengths_of_cases(name: str) -> None:
    """Masks are right for rows that fill the registers of their threads, and for those that just do not."""
    function = ROWS[name]
    jitted = numstax.jit(function, strict=True, dynamic=True, device="cuda", backend="simulate")
    for n in AROUND:
        x, g = normal((5, n), seed=n), normal((n,), seed=1)
        want = function(x.astype(np.float64), g)
        np.testing.assert_allclose(jitted(x, g), want, rtol=1e-4, atol=1e-4, err_msg=f"rows of {n}")
    assert jitted.compile_count == 1


@pytest.mark.parametrize("n", [16384, 32768 + 1, 65536, 65536 + 3, 131072, 131072 + 4])
def test_long_rows(n: int) -> None:
    """Clusters of blocks hold them, up to what they can hold; longer ones are read anew."""
    x, g = normal((2, n)), normal((n,), seed=1)
    for function in (ROWS["softmax"], layernorm):
        jitted = numstax.jit(function, strict=True, dynamic=True, device="cuda", backend="simulate")
        np.testing.assert_allclose(jitted(x, g), function(x, g), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3), (7, 5), (8, 8), (37, 64), (64, 37), (130, 132), (2, 1021), (1021, 2)])
def test_points_of_all_sizes(shape: tuple[int, ...]) -> None:
    """Numbers of points are divided in 32 bits, rows that are multiples of an access have wide ones."""

    def chain(x: np.ndarray, column: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, ...]:
        near = x[1:-1, 1:-1] + 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        return np.maximum(x * column + row, column), near, x.T + 1

    jitted = numstax.jit(chain, strict=True, dynamic=True, device="cuda", backend="simulate")
    jitted(normal((11, 13)), normal((11, 1)), normal((1, 13)))
    args = normal(shape), normal((shape[0], 1), seed=1), normal((1, shape[1]), seed=2)
    for got, want in zip(jitted(*args), chain(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_rows_of_several_dimensions() -> None:
    jitted = numstax.jit(softmax, strict=True, dynamic=True, device="cuda", backend="simulate")
    for shape in ((3, 5, 20), (2, 2, 1000), (5, 7, 33), (2, 3, 2049)):
        np.testing.assert_allclose(jitted(normal(shape)), softmax(normal(shape)), rtol=2e-5, atol=2e-5)
    assert jitted.compile_count == 1


def of_sizes(made: Emitted, **sizes: int) -> Program:
    """What is run for such sizes."""
    return next((case.program for test, case in made.cases if eval(test, {}, sizes)), made.program)


def test_rows_are_read_once_where_they_stay_on_the_chip() -> None:
    graph = numstax.make_graph(softmax, (normal((40, 50)),), tracing_mode="symbolic")
    (made,) = compile_graph(graph, Knobs(check=2), GPUS["H200"]).emitted
    assert isinstance(made, Emitted)
    for n in (50, 1000, 1001, 4096, 30000, 65536, 131072):
        chosen = of_sizes(made, s0=40, s1=n)
        wide = n % 4 == 0
        assert chosen.text.count("load4_f32(" if wide else "= in0[") == 1
        assert ("load4_f32(" in chosen.text) == wide
        assert (chosen.cluster > 1) == (n > 8192)
    assert of_sizes(made, s0=40, s1=131073).text.count("= in0[") > 1


def test_a_bucket_has_no_other_cases_than_multiples() -> None:
    jitted = numstax.jit(softmax, strict=True, dynamic="bucket", device="cuda", backend="simulate")
    jitted(normal((400, 600)))
    region = jitted.artifacts()[0].region
    assert region is not None
    (made,) = region.emitted
    assert isinstance(made, Emitted)
    assert [test for test, _ in made.cases] == ["s1 % 4 == 0"]


def test_numbers_of_more_than_32_bits() -> None:
    def scaled(x: np.ndarray, column: np.ndarray) -> np.ndarray:
        return x * column

    graph = numstax.make_graph(scaled, (normal((40, 50)), normal((40, 1))), tracing_mode="symbolic")
    (made,) = compile_graph(graph, Knobs(), GPUS["H200"]).emitted
    assert isinstance(made, Emitted)
    assert "quotient_u32(" in of_sizes(made, s0=1 << 16, s1=(1 << 16) - 1).text
    assert "quotient_u64(" in of_sizes(made, s0=1 << 16, s1=1 << 16).text


def test_parts_of_one_long_row_begin_at_multiples_of_an_access() -> None:
    graph = numstax.make_graph(lambda x: x.sum(), (normal((70000,)),), tracing_mode="symbolic")
    parts, _ = compile_graph(graph, Knobs(check=2), GPUS["H200"]).emitted
    assert isinstance(parts, Emitted)
    assert not parts.cases
    assert "load4_f32(" in parts.program.text
    jitted = numstax.jit(lambda x: (x.sum(), x.argmax()), strict=True, dynamic=True, device="cuda", backend="simulate")
    for n in (70000, 2, 4223, 4224, 4225, 140001):
        x = np.round(normal((n,), seed=n) * 8)
        assert jitted(x) == (x.sum(), x.argmax())
    assert jitted.compile_count == 1
