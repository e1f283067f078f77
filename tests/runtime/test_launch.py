"""launch: hand-written plans become wrappers that allocate, call, release and give results."""

import numpy as np
import pytest

from numstax.dtypes import COMPLEX64, FLOAT16, FLOAT32, FLOAT64, INT64
from numstax.errors import OutOfBoundsError, VerifyError
from numstax.knobs import Knobs
from numstax.program import (
    Allocate,
    Argument,
    ArrayExpr,
    Call,
    ExternCall,
    Name,
    Param,
    Plan,
    Program,
    Release,
    Result,
)
from numstax.runtime.host import Host
from numstax.runtime.launch import CannotRunError, launcher

X, OUT = Param("x", "pointer", FLOAT32), Param("out", "pointer", FLOAT32)
RANGE = (Param("lo", "lo"), Param("hi", "hi"))


def twice(n, **sizes):
    text = "def k(x, out, lo, hi):\n    for i in range(lo, hi):\n        out[i] = x[i] + x[i]\n"
    return Program("poi_add", "cpu", text, "k", (X, OUT, *RANGE), tasks=n, work=n, **sizes)


def argument(name, *shape, dtype=FLOAT32):
    return Argument(name, "array", dtype, tuple(map(str, shape)))


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return Host(Knobs(cache_dir=tmp_path_factory.mktemp("cache"), threads=3, parallel_threshold=30_000))


@pytest.mark.parametrize("n", [0, 1, 100, 50_000])
def test_serial_and_parallel_programs_cover_all_tasks(host, n):
    steps = (Allocate("y", FLOAT32, (str(n),)), Call("poi_add", ("x", "y")))
    run = launcher(Plan("p", (argument("x", n),), (twice(str(n)),), steps, (Result("y"),)), host)
    assert ("parallel(" in run.source) == (n == 50_000)
    x = np.arange(n, dtype=np.float32)
    (y,) = run.call(x)
    np.testing.assert_array_equal(y, x + x)


def test_sizes_bound_at_run_time(host):
    text = "def k(x, out, n, lo, hi):\n    for i in range(lo, hi):\n        out[i] = x[i] + x[n - 1 - i]\n"
    program = Program("poi", "cpu", text, "k", (X, OUT, Param("n", "size"), *RANGE), tasks="n", work="2*n")
    steps = (Allocate("y", FLOAT32, ("s0",)), Call("poi", ("x", "y", "s0")))
    plan = Plan("p", (argument("x", "s0"),), (program,), steps, (Result("y"),), sizes=(("s0", "x.shape[0]"),))
    run = launcher(plan, host)
    for n in (3, 40_000):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(run.call(x)[0], np.full(n, n - 1))


def test_temporaries_are_released_and_results_viewed(host):
    steps = (
        Allocate("t", FLOAT32, ("6",)),
        Call("poi_add", ("x", "t")),
        Allocate("y", FLOAT32, ("6",)),
        Call("poi_add", ("t", "y")),
        Release("t"),
    )
    results = (
        Result("y", (("reshape", (2, 3)), ("transpose", (1, 0)), ("index", (slice(None), -1)))),
        Result("x"),
        Result("y", (("index", 2),), scalar=True),
    )
    run = launcher(Plan("p", (argument("x", 6),), (twice("6"),), steps, results), host)
    x = np.arange(6, dtype=np.float32)
    last, same, item = run.call(x)
    assert last.tolist() == [12, 16, 20]
    assert same is x
    assert type(item) is np.float32
    assert item == 8
    assert "del t" in run.source


def test_scratch_is_private_to_each_thread(host):
    text = """def k(x, out, lo, hi, scratch):
    s = scratch_f32(scratch, 0)
    for i in range(lo, hi):
        for j in range(64):
            s[j] = x[i]
        acc = float32(0)
        for j in range(64):
            acc += s[j]
        out[i] = acc
"""
    program = Program(
        "per",
        "cpu",
        text,
        "k",
        (X, OUT, *RANGE, Param("scratch", "scratch")),
        tasks="20000",
        work="1280000",
        scratch="256",
    )
    steps = (Allocate("y", FLOAT32, ("20000",)), Call("per", ("x", "y")))
    run = launcher(Plan("p", (argument("x", 20000),), (program,), steps, (Result("y"),)), host)
    x = np.arange(20000, dtype=np.float32)
    for _ in range(20):
        np.testing.assert_array_equal(run.call(x)[0], 64 * x)


def test_scalars_of_every_kind(host):
    text = """def k(out, i, h, z, n):
    out[0] = i
    out[1] = h
    out[2] = z.real
    out[3] = z.imag
    out[4] = n
"""
    scalars = (Param("i", "scalar", INT64), Param("h", "scalar", FLOAT16), Param("z", "scalar", COMPLEX64))
    program = Program("poi", "cpu", text, "k", (Param("out", "pointer", FLOAT64), *scalars, Param("n", "size")))
    arguments = tuple(Argument(p.name, "scalar", p.dtype) for p in scalars)
    steps = (Allocate("y", FLOAT64, ("5",)), Call("poi", ("y", "i", "h", "z", "7*6")))
    run = launcher(Plan("p", arguments, (program,), steps, (Result("y"),)), host)
    for i, h, z in ((-3, 0.5, 1 - 2j), (np.int64(4), np.float16(0.5), np.complex64(2j))):
        (y,) = run.call(i, h, z)
        assert y.tolist() == [int(i), 0x3800, z.real, z.imag, 42]


def test_status_word_raises_and_names_the_line(host):
    text = "def k(x, out, status):\n    status[1] = 17\n    status[2] = 0\n    status[3] = 12\n    status[0] = 1\n"
    program = Program("gather", "cpu", text, "k", (X, OUT, Param("status", "status")))
    steps = (Allocate("y", FLOAT32, ("2",)), Call("gather", ("x", "y"), (("index", "model.py:3, in f"),)))
    run = launcher(Plan("p", (argument("x", 2),), (program,), steps, (Result("y"),)), host)
    with pytest.raises(OutOfBoundsError, match=r"index 17 is out of bounds for axis with size 12\n  at model.py:3"):
        run.call(np.zeros(2, np.float32))


def test_extern_calls_take_views_scalars_and_constants(host):
    def x(shape, strides, offset="0"):
        return ArrayExpr("x", FLOAT32, shape, strides, offset)

    calls = (
        ExternCall(
            "numpy.matmul",
            (x(("3", "2"), ("1", "-3"), "3"), x(("2", "3"), ("3", "1"))),
            results=("m",),
            expected=((FLOAT32, ("3", "3")),),
        ),
        ExternCall(
            "numpy.linalg.norm",
            (ArrayExpr("m", FLOAT32, ("9",), ("1",)), Name("p")),
            (("axis", None),),
            results=("r",),
            expected=((FLOAT32, ()),),
        ),
        ExternCall("numpy.negative", (x(("6",), ("1",)),), out=ArrayExpr("y", FLOAT32, ("6",), ("1",))),
    )
    arguments = (argument("x", 2, 3), Argument("p", "scalar", FLOAT64))
    steps = (Allocate("y", FLOAT32, ("6",)), *calls)
    run = launcher(Plan("p", arguments, (), steps, (Result("m"), Result("r"), Result("y"))), host)
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    m, r, y = run.call(given, 2.0)
    np.testing.assert_array_equal(m, given[::-1].T @ given)
    np.testing.assert_allclose(r, np.linalg.norm(m.ravel()), rtol=1e-6)
    np.testing.assert_array_equal(y, -given.ravel())


def test_extern_result_of_another_shape_stops_the_call(host):
    step = ExternCall("numpy.unique", (ArrayExpr("x", INT64, ("4",), ("1",)),), (), None, ("u",), ((INT64, ("4",)),))
    run = launcher(Plan("p", (argument("x", 4, dtype=INT64),), (), (step,), (Result("u"),)), host)
    assert run.call(np.array([3, 1, 2, 0]))[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(CannotRunError):
        run.call(np.array([3, 1, 1, 0]))


@pytest.mark.parametrize("function", ["numpy.real", "numpy.ravel", "numpy.transpose"])
def test_a_result_is_never_memory_of_an_argument(host, function):
    step = ExternCall(function, (ArrayExpr("x", FLOAT32, ("4",), ("1",)),), (), None, ("u",), ((FLOAT32, ("4",)),))
    run = launcher(Plan("p", (argument("x", 4),), (), (step,), (Result("u"),)), host)
    given = np.arange(4, dtype=np.float32)
    (found,) = run.call(given)
    found[...] = 9
    np.testing.assert_array_equal(given, np.arange(4))


def test_unaligned_arrays_stop_the_call(host):
    steps = (Allocate("y", FLOAT32, ("3",)), Call("poi_add", ("x", "y")))
    run = launcher(Plan("p", (argument("x", 3),), (twice("3"),), steps, (Result("y"),)), host)
    with pytest.raises(CannotRunError):
        run.call(np.zeros(13, np.uint8)[1:].view(np.float32))


def test_a_name_that_is_no_identifier_is_refused(host):
    with pytest.raises(VerifyError, match="lambda"):
        launcher(Plan("p", (argument("lambda", 3),), (), (), ()), host)
