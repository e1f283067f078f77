"""Programs for GPUs compile to cubins without a GPU, where the `cuda` extra is installed."""

from dataclasses import replace

import numpy as np
import pytest

from numstax.emit.scalars import find
from numstax.errors import CompileError
from numstax.program import Instruction, Param, Program

pytest.importorskip("numba_cuda", reason="needs the cuda extra")
compile_together = pytest.importorskip("numstax.runtime.compile_together")
compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda")

FLOAT32 = np.dtype(np.float32)
THREAD = Instruction("thread_x", "llvm.nvvm.read.ptx.sreg.tid.x", ("i32",))
BLOCK = Instruction("block_x", "llvm.nvvm.read.ptx.sreg.ctaid.x", ("i32",))
SHUFFLE = Instruction(
    "shuffle_xor_f32", "shfl.sync.bfly.b32 $0, $1, $2, 0x1f, 0xffffffff;", ("f32",), ("f32", "i32"), True, True
)
TEXT = """\
def per_softmax(in0, out0):
    t = thread_x()
    row = int64(block_x())
    x = registers_f32(32)
    m = float32(-math.inf)
    for c in range(8):
        v = load4_f32(in0, row*1024 + int64(c*128 + t*4))
        for e in range(4):
            x[c*4 + e] = v[e]
            m = maximum_f32(m, x[c*4 + e])
    for k in range(5):
        m = maximum_f32(m, shuffle_xor_f32(m, int32(16) >> k))
    s = float32(0)
    for e in range(32):
        x[e] = exp_f32(x[e] - m)
        s += x[e]
    for k in range(5):
        s += shuffle_xor_f32(s, int32(16) >> k)
    for c in range(8):
        store4_f32(out0, row*1024 + int64(c*128 + t*4), (x[c*4]/s, x[c*4+1]/s, x[c*4+2]/s, x[c*4+3]/s))
"""
SOFTMAX = Program(
    "per_softmax",
    "sm_90a",
    TEXT,
    "per_softmax",
    (Param("in0", "pointer", FLOAT32), Param("out0", "pointer", FLOAT32)),
    intrinsics=(THREAD, BLOCK, SHUFFLE, find("maximum_f32"), find("exp_f32")),
    block=32,
)


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


def test_a_target_that_is_none():
    with pytest.raises(CompileError, match="'cpu' is not the name of a GPU target"):
        compile_cuda.compile_program(replace(SOFTMAX, target="cpu"))
