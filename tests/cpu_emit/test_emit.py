"""The programs themselves: what is printed, how it is grouped, and that the compiler makes vectors of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from numstax.cpu_emit.emit import emit
from numstax.errors import Origin
from numstax.hardware import host
from numstax.ir.index import Index, as_index, symbol
from numstax.ir.loops import Extern, Kernel, Reduce, Schedule, Store
from numstax.program import Emitted, Program
from numstax.runtime.compile_cpu import disassemble
from numstax.tiles.cpu import tile
from tests.cpu_emit.running import BodyBuilder, buffer, call, check, emitted_text, kernel, loop, schedule, var
from tests.support import normal

F4 = np.dtype("f4")


def square_of(name: str, source: str, target: str, n: int, op: str = "square") -> Kernel:
    i = var(f"i_{name}", n)
    x, out = buffer(source, F4, (n,), "input"), buffer(target, F4, (n,), "output")
    b = BodyBuilder()
    return kernel(f"poi_{op}", [i], [loop([], b, Store(target, as_index(i), b(op, b.load(x, i), dtype=F4)))], [x, out])


def programs(sched: Schedule, threshold: int = 0) -> list[Program]:
    return [e.program for e in emit(tile(sched), threshold) if isinstance(e, Emitted)]


def test_equal_kernels_print_equal_text() -> None:
    first, second = programs(schedule(square_of("a", "x", "y", 9000), square_of("b", "p", "q", 9000)))
    assert first == second
    assert first.name == "poi_square"


def test_unequal_kernels_of_one_name_are_numbered() -> None:
    first, second = programs(schedule(square_of("a", "x", "y", 9000), square_of("b", "p", "q", 9001)))
    assert (first.name, second.name) == ("poi_square", "poi_square_1")
    assert first.entry == second.entry


def test_small_neighbours_are_one_program() -> None:
    kernels = [square_of("a", "x", "y", 50), square_of("b", "p", "q", 60, "negative")]
    (emitted,) = emit(tile(schedule(*kernels)))
    assert isinstance(emitted, Emitted)
    assert emitted.units == 2
    assert emitted.program.name == "poi_square_and_poi_negative"
    assert emitted.program.tasks == ""
    assert emitted.args == ("x", "y", "p", "q")


def test_library_calls_stay_between_programs() -> None:
    kernels = [square_of("a", "x", "y", 50), square_of("b", "p", "q", 60)]
    extern = Extern("numpy.sort", (), results=("z",))
    sched = schedule(*kernels)
    items = emit(tile(replace(sched, units=(kernels[0], extern, kernels[1]))))
    assert [isinstance(i, Emitted) for i in items] == [True, False, True]
    assert items[1] is extern


def test_user_lines_are_comments_only() -> None:
    plain = square_of("a", "x", "y", 50)
    (only,) = plain.loops
    body = tuple(replace(i, origin=Origin("/home/someone/model.py", 12, "f")) for i in only.body)
    marked = replace(plain, loops=(replace(only, body=body),), origins=(Origin("/home/someone/model.py", 12, "f"),))
    text, bare = emitted_text(schedule(marked)), emitted_text(schedule(plain))
    assert "# square: model.py:12" in text
    assert "/home" not in text

    def code(source: str) -> list[str]:
        return [line for line in source.splitlines() if not line.strip().startswith("#")]

    assert code(text) == code(bare)


def test_sizes_known_at_run_time() -> None:
    """One program for every size of the symbol; launch formulas are over its own parameters."""
    n = symbol("s0", hint=5000)

    def scale_rows(rows: Index, columns: int) -> Schedule:
        i, j = var("i", 1), var("j", columns)
        i = replace(i, extent=rows)
        x, s = buffer("x", F4, (1, columns), "input"), buffer("s", F4, (1,), "output")
        x, s = replace(x, shape=(rows, as_index(columns))), replace(s, shape=(rows,))
        b = BodyBuilder()
        effect = Reduce("add", b.load(x, as_index(i) * columns + j), "s", as_index(i), F4)
        return schedule(kernel("red_add", [i], [loop([j], b, effect)], [x, s]))

    (emitted,) = emit(tile(scale_rows(n, 300)), 0)
    assert isinstance(emitted, Emitted)
    program = emitted.program
    assert emitted.args[-1] == "s0"
    size = program.params[[p.kind for p in program.params].index("size")].name
    assert program.tasks == size
    bound = replace(
        program,
        tasks=program.tasks.replace(size, "77"),
        work=program.work.replace(size, "77"),
    )
    x, s = normal((77, 300)), np.zeros(77, F4)
    call(replace(emitted, program=bound), {"x": x, "s": s, "s0": np.int64(77)}, 2)
    np.testing.assert_allclose(s, x.sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(host().vector < 32, reason="no wide registers to look for")
@pytest.mark.parametrize("op", ["square", "exp", "tanh"])
def test_pointwise_code_is_vectorised(op: str) -> None:
    (program,) = programs(schedule(square_of("a", "x", "y", 1 << 16, op)))
    wide = "%zmm" if host().vector == 64 else "%ymm"
    assert disassemble(program).count(wide) > 4


@pytest.mark.skipif(host().vector < 32, reason="no wide registers to look for")
@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("column", [False, True])
def test_reductions_are_vectorised(op: str, column: bool) -> None:
    i, j = var("i", 512), var("j", 4096)
    offset = as_index(j) * 512 + i if column else as_index(i) * 4096 + j
    x, out = buffer("x", F4, (512 * 4096,), "input"), buffer("out", F4, (512,), "output")
    b = BodyBuilder()
    sched = schedule(
        kernel("red", [i], [loop([j], b, Reduce(op, b.load(x, offset), "out", as_index(i), F4))], [x, out])
    )
    (program,) = programs(sched)
    wide = "%zmm" if host().vector == 64 else "%ymm"
    assert disassemble(program).count(wide) > 8


def test_no_contraction_of_user_arithmetic() -> None:
    """x*y - x*y is zero: a product is rounded before it is used."""
    n = 64
    i = var("i", n)
    x, y, out = buffer("x", F4, (n,), "input"), buffer("y", F4, (n,), "input"), buffer("out", F4, (n,), "output")
    b = BodyBuilder()
    first = b("multiply", b.load(x, i), b.load(y, i), dtype=F4)
    second = b("multiply", b.load(y, i), b.load(x, i), dtype=F4)
    value = b("subtract", first, second, dtype=F4)
    sched = schedule(kernel("poi", [i], [loop([], b, Store("out", as_index(i), value))], [x, y, out]))
    check(sched, normal((n,)), normal((n,), seed=1))
