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


def programs(function: Callable[[np.ndarray], np.ndarray], gpu: str = "H200") -> list[Program]:
    graph = numstax.make_graph(function, (normal((40, 50)),), tracing_mode="symbolic")
    emitted = compile_graph(graph, Knobs(), GPUS[gpu]).emitted
    return [e.program for e in emitted if isinstance(e, Emitted)]


def test_sizes_that_are_multiples_have_wide_accesses() -> None:
    (made,) = programs(FUNCTIONS[0])
    assert "% 4 == 0" in made.text
    assert made.text.count("load4_f32(") == 1


@pytest.mark.parametrize("target", ["A100", "H200", "B200"])
def test_programs_compile(target: str) -> None:
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    for function in FUNCTIONS[:5]:
        for made in programs(function, target):
            cubin = compile_cuda.compile_program(made)
            assert cubin.stack == 0
            assert not cubin.notices
