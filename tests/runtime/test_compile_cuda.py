"""Programs for GPUs compile to cubins without a GPU, where the `cuda` extra is installed."""

import contextlib
import gc
from dataclasses import replace

import numpy as np
import pytest

from numstax.errors import CompileError
from numstax.hardware import GPUS
from numstax.pipeline import build
from tests.simulate.handwritten import SOFTMAX as HANDWRITTEN
from tests.simulate.handwritten import program

pytest.importorskip("numba_cuda", reason="needs the cuda extra")
compile_together = pytest.importorskip("numstax.runtime.compile_together")
compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda")

SOFTMAX = program(HANDWRITTEN, block=32)
TEXT = SOFTMAX.text


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100"])
def test_a_row_stays_in_registers(target):
    cubin = compile_cuda.compile_program(replace(SOFTMAX, target=target))
    assert cubin.code.startswith(b"\x7fELF")
    assert "per_softmax" in cubin.symbol
    assert cubin.stack == 0
    assert 32 <= cubin.registers < 255
    assert not cubin.notices


def test_many_are_compiled_by_several_processes():
    programs = [replace(SOFTMAX, name=f"per_softmax_{k}", text=TEXT.replace("1024", str(1024 + k))) for k in range(10)]
    cubins = compile_together.compile_together(programs)
    assert all(p.name in c.symbol and c.code.startswith(b"\x7fELF") for p, c in zip(programs, cubins, strict=True))
    wrong = replace(SOFTMAX, text=TEXT.replace("s = float32(0)", "s = thread_x(t)"))
    with pytest.raises(CompileError, match="line 13: s = thread_x"):
        compile_together.compile_together([*programs, wrong])


def test_an_error_shows_its_line():
    wrong = replace(SOFTMAX, text=TEXT.replace("s = float32(0)", "s = thread_x(t)"))
    with pytest.raises(CompileError, match=r"per_softmax.*sm_90a\n  line 13: s = thread_x"):
        compile_cuda.compile_program(wrong)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_are_loaded_and_stored_as_words(dtype):
    (made,) = build(lambda x: np.exp(x) * x.conj(), (np.zeros(1 << 14, dtype),), machine=GPUS["H200"]).emitted
    cubin = compile_cuda.compile_program(made.program)
    assert cubin.code.startswith(b"\x7fELF")
    assert cubin.stack == 0


def test_numba_compiles_as_before_afterwards():
    typing = compile_cuda.cuda_target.typing_context
    ordinary = compile_cuda.compiler.CUDACompiler
    wrong = replace(SOFTMAX, text=TEXT.replace("s = float32(0)", "s = thread_x(t)"))
    for made in (SOFTMAX, wrong):
        with contextlib.suppress(CompileError):
            compile_cuda.compile_program(made)
        assert compile_cuda.compiler.CUDACompiler is ordinary
        assert "resolve_function_type" not in vars(typing)
        assert gc.isenabled()


def test_a_target_that_is_none():
    with pytest.raises(CompileError, match="'cpu' is not the name of a GPU target"):
        compile_cuda.compile_program(replace(SOFTMAX, target="cpu"))
