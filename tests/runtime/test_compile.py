"""compile_cpu: calling convention, pointer helpers, intrinsics, errors, threads and forks."""

import ctypes
import os
import threading

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target

from numstax.dtypes import BOOL, COMPLEX64, FLOAT16, FLOAT32, FLOAT64
from numstax.errors import CompileError
from numstax.program import Intrinsic, Param, Program
from numstax.runtime.compile_cpu import compile_program, disassemble

X = Param("x", "pointer", FLOAT32)
OUT = Param("out", "pointer", FLOAT32)
DOUBLE = Program(
    "double",
    "cpu",
    "def k(x, out, n):\n    for i in range(n):\n        out[i] = x[i] + x[i]\n",
    "k",
    (X, OUT, Param("n", "size")),
)


def call(program, *args):
    """Compile, load and call; arrays are passed as pointers, the rest as ctypes values."""
    compiled = compile_program(program)
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(compiled.code))
    engine.finalize_object()
    word = np.zeros(8, np.int64)
    values = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in (word, word, *args)]
    function = ctypes.CFUNCTYPE(ctypes.c_int, *map(type, values))(engine.get_function_address(compiled.symbol))
    assert function(*values) == 0


def test_every_parameter_kind_reaches_the_kernel():
    text = """def k(x, out, n, lo, hi, scratch, status, a, flag, half, z):
    s = scratch_f64(scratch, 16)
    for i in range(lo, hi):
        s[i] = x[i] * a
    moved = offset_f32(out, 1)
    for i in range(lo, hi):
        moved[i] = float32(s[i])
    out[0] = z.imag
    status[0] = n + flag + half
"""
    kinds = ("size", "lo", "hi", "scratch", "status")
    params = (
        X,
        OUT,
        *(Param(k, k) for k in kinds),
        Param("a", "scalar", FLOAT64),
        Param("flag", "scalar", BOOL),
        Param("half", "scalar", FLOAT16),
        Param("z", "scalar", COMPLEX64),
    )
    x, out = np.arange(8, dtype=np.float32), np.full(9, -1, np.float32)
    scratch, status = np.zeros(80, np.uint8), np.zeros(1, np.int64)
    i64 = ctypes.c_int64
    scalars = (ctypes.c_double(0.5), ctypes.c_uint8(1), ctypes.c_uint16(0x3C00), ctypes.c_float(3), ctypes.c_float(7))
    call(Program("kinds", "cpu", text, "k", params), x, out, i64(100), i64(2), i64(5), scratch, status, *scalars)
    assert out.tolist() == [7, -1, -1, 1, 1.5, 2, -1, -1, -1]
    assert scratch.view(np.float64)[2:].tolist() == [0, 0, 1, 1.5, 2, 0, 0, 0]
    assert status[0] == 101 + 0x3C00


def test_intrinsic_rows_become_vector_instructions():
    rows = (("param", "f32", 0), ("param", "f32", 1), ("const", "f32", 1.5), ("fma", "f32", 0, 1, 2))
    fused = Intrinsic("fused_f32", ("f32", "f32"), "f32", rows)
    text = "def k(x, out, n):\n    for i in range(n):\n        out[i] = fused_f32(x[i], 2.0)\n"
    program = Program("fused", "cpu", text, "k", DOUBLE.params, intrinsics=(fused,))
    x, out = np.linspace(-1, 1, 100, dtype=np.float32), np.empty(100, np.float32)
    call(program, x, out, ctypes.c_int64(100))
    np.testing.assert_array_equal(out, 2 * x + np.float32(1.5))
    assert "call" not in disassemble(program)


@pytest.mark.parametrize(
    ("line", "reason"),
    [("y = x[0] +", "invalid syntax"), ("y = x[0] + 'a'", "add"), ("y = nowhere(x[0])", "nowhere")],
)
def test_error_shows_the_program_and_its_line(line, reason):
    program = Program("broken", "cpu", f"def k(x):\n    {line}\n", "k", (X,))
    with pytest.raises(CompileError, match=rf"'broken'[\s\S]*line 2: [\s\S]*{reason}") as caught:
        compile_program(program)
    assert line in str(caught.value)


def test_the_numba_run_time_is_refused():
    program = Program("helper", "cpu", "def k(x):\n    z = complex64(x[0])\n    x[0] = (z**z).real\n", "k", (X,))
    with pytest.raises(CompileError, match=r"'helper'[^.]* numba_"):
        compile_program(program)


def test_symbol_tells_programs_apart_and_is_stable():
    other = Program("double", "cpu", DOUBLE.text, "k", (X, Param("out", "pointer", FLOAT64), Param("n", "size")))
    assert compile_program(DOUBLE).symbol == compile_program(DOUBLE).symbol != compile_program(other).symbol


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_threads_and_a_fork_during_compilation():
    results = []
    threads = [threading.Thread(target=lambda: results.append(compile_program(DOUBLE))) for _ in range(4)]
    for t in threads:
        t.start()
    child = os.fork()
    if child == 0:
        os._exit(0 if compile_program(DOUBLE).code else 1)
    for t in threads:
        t.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [r.symbol for r in results] == [compile_program(DOUBLE).symbol] * 4


def test_the_users_own_numba_functions_are_complete():
    compile_program(DOUBLE)

    @numba.njit
    def f(x):
        return {"sum": x.sum()}["s" + "um"], np.linalg.norm(x)

    assert f(np.full(4, 2.0)) == (8.0, 4.0)
    compile_program(DOUBLE)


def test_numba_looks_up_the_types_of_a_call_once_and_is_left_as_it_was(monkeypatch):
    typing, asked = cpu_target.typing_context, []
    look_up = type(typing).resolve_function_type

    def counted(self, function, args, kws):
        asked.append((function, args))
        return look_up(self, function, args, kws)

    monkeypatch.setattr(type(typing), "resolve_function_type", counted)
    text = "def k(x):\n    x[0] = x[1] + x[2]\n    x[3] = x[4] + x[5] + x[6]\n"
    compile_program(Program("sums", "cpu", text, "k", (X,)))
    assert asked
    assert len(asked) == len(set(asked))
    assert "resolve_function_type" not in vars(typing)


def test_a_name_may_hold_values_of_several_types():
    text = """def k(x, out):
    n = uint64(1 << 63)
    n = int64(n >> uint64(1)) + 1
    for i in range(2):
        n = n + i
    out[0] = n
    m = 5
    while m & 1:
        m = m >> 1
    m = x[0] / 3
    out[1] = int64(m)
"""
    out = np.zeros(2, np.int64)
    program = Program("names", "cpu", text, "k", (X, Param("out", "pointer", np.dtype(np.int64))))
    call(program, np.full(1, 9, np.float32), out)
    assert out.tolist() == [(1 << 62) + 2, 3]
