"""Loops cut where positions turn over: the pieces do together what the loop does, without divisions or selections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numstax.emit.pieces import MOST, pieces
from numstax.ir.index import ONE, ZERO, Index, Quotient, Remainder, Symbol, Var, as_index, atoms, evaluate
from numstax.ir.loops import Buffer, Loop, Reduce, Scan, Store
from tests.cpu_emit.running import BodyBuilder, buffer, check, emitted_text, kernel, loop, schedule, var

F8 = np.dtype("f8")


def rolled(n: int, starts: list[int], reverse: bool) -> tuple[Loop, Var, Buffer]:
    """The product of x rolled, at positions that grow or fall."""
    j, x, out = var("j", n), buffer("x", F8, (n,), "input"), buffer("out", F8, (n,), "output")
    b = BodyBuilder()
    at = n - 1 - as_index(j) if reverse else as_index(j)
    value = b.load(x, at)
    for start in starts:
        value = b("multiply", value, b.load(x, (at + start) % n), dtype=F8)
    return loop((), b, Store("out", as_index(j), value)), j, out


@given(n=st.integers(2, 12), starts=st.lists(st.integers(0, 12), max_size=3), reverse=st.booleans())
def test_pieces_read_what_the_loop_reads(n: int, starts: list[int], reverse: bool) -> None:
    whole, j, _ = rolled(n, [s % n for s in starts], reverse)
    found = pieces([whole], j)
    assert [p.hi for p in found[:-1]] == [p.lo for p in found[1:]]
    assert (found[0].lo, found[-1].hi) == (ZERO, as_index(n))
    for piece in found:
        (part,) = piece.loops
        assert not any(isinstance(a, Quotient | Remainder) for _, at in part.loads() for a in atoms(at))
        for k in range(piece.lo.value or 0, piece.hi.value or 0):
            env = {"j": k}
            assert {evaluate(at, env) for _, at in part.loads()} == {evaluate(at, env) for _, at in whole.loads()}


def test_sizes_that_are_symbols_are_cut_too() -> None:
    n = as_index(Symbol("n", 2))
    var = Var("j", n)
    j, b = as_index(var), BodyBuilder()
    loads = [b("load", dtype=F8, attr=("x", (j + start) % n)) for start in (n - 1, ONE)]
    whole = loop((), b, Store("out", j, b("add", *loads, dtype=F8)))
    found = pieces([whole], var)
    assert [(p.lo, p.hi) for p in found] == [(ZERO, ONE), (ONE, n - 1), (n - 1, n)]
    assert {at for _, at in found[1].loops[0].loads()} == {j - 1, j + 1}


def test_too_many_pieces_are_one() -> None:
    whole, j, _ = rolled(100, list(range(1, MOST + 2)), False)
    assert len(pieces([whole], j)) == 1


def padded(n: int, margin: int) -> Loop:
    """x in the middle of ones."""
    j, x = as_index(var("j", n)), buffer("x", F8, (n - 2 * margin,), "input")
    b = BodyBuilder()
    tests = [
        b("less", *(b("index", dtype="i8", attr=as_index(e)) for e in pair), dtype="?")
        for pair in ((margin - 1, j), (j, n - margin))
    ]
    inside = b("logical_and", *tests, dtype="?")
    value = b("where", inside, b.load(x, j - margin, inside), b.const(1.0, F8), dtype=F8)
    return loop((), b, Store("out", j, value))


def test_choices_by_position_are_made_once() -> None:
    left, middle, right = (p.loops[0].body for p in pieces([padded(10, 2)], var("j", 10)))
    assert [i.op for i in left] == [i.op for i in right] == ["const"]
    assert [(i.op, i.args) for i in middle] == [("load", ())]


@pytest.mark.parametrize("n", [2, 130, 5000])
@pytest.mark.parametrize("threshold", [0, 1 << 40])
def test_rows_of_pieces(n: int, threshold: int) -> None:
    """Pointwise over rows and over blocks of one row; sums, positions and running sums along rows."""
    i, j = var("i", 3), var("j", n)
    x = buffer("x", F8, (3, n), "input")
    values = np.random.default_rng(n).integers(-9, 9, (3, n)).astype(F8)

    def value(b: BodyBuilder, row: Index) -> int:
        loads = (b.load(x, row * n + (as_index(j) + start) % n) for start in (1, n - 1))
        return b("subtract", *loads, dtype=F8)

    one, many = buffer("one", F8, (n,), "output"), buffer("many", F8, (3, n), "output")
    for row, out, outer in ((ZERO, one, (j,)), (as_index(i), many, (i, j))):
        b = BodyBuilder()
        store = Store(out.name, row * n + j, value(b, row))
        check(schedule(kernel("pointwise", outer, [loop((), b, store)], (x, out))), values, threshold=threshold)
    total, best = buffer("total", F8, (3,), "output"), buffer("best", "i8", (3,), "output")
    for effect, out in (
        (lambda v: Reduce("add", v, "total", as_index(i), F8), total),
        (lambda v: Reduce("argmax", v, "best", as_index(i), F8, as_index(j)), best),
        (lambda v: Scan("add", v, "many", as_index(i) * n + j, F8), many),
    ):
        b = BodyBuilder()
        v = value(b, as_index(i))
        sched = schedule(kernel("rows", [i], [loop([j], b, effect(v))], (x, out)))
        check(sched, values, threshold=threshold)


def test_rows_inside_choose_nothing() -> None:
    """Rows of a padded array: loops without choices where the row is inside, one test for each row."""
    i, j = var("i", 300), var("j", 800)
    x, out = buffer("x", F8, (298, 800), "input"), buffer("out", F8, (300, 800), "output")
    b = BodyBuilder()
    tests = [
        b("less", *(b("index", dtype="i8", attr=as_index(e)) for e in pair), dtype="?") for pair in ((0, i), (i, 299))
    ]
    inside = b("logical_and", *tests, dtype="?")
    value = b("where", inside, b.load(x, (as_index(i) - 1) * 800 + j, inside), b.const(1.0, F8), dtype=F8)
    total = buffer("total", F8, (300,), "output")
    for effect, inner, target in (
        (Store("out", as_index(i) * 800 + j, value), (), out),
        (Reduce("add", value, "total", as_index(i), F8), (j,), total),
    ):
        outer = (i,) if inner else (i, j)
        sched = schedule(kernel("padded", outer, [loop(inner, b, effect)], (x, target)))
        for threshold in (0, 1 << 40):
            check(sched, np.arange(298.0 * 800).reshape(298, 800), threshold=threshold)
        text = emitted_text(sched)
        assert "if (1 <= i0) & (i0 < 299):" in text
        assert text.count(" if ") == 3  # the test, and two choices of the rows outside


def test_the_vector_loop_is_plain() -> None:
    whole, j, out = rolled(1000, [1, 999], False)
    x = buffer("x", F8, (1000,), "input")
    text = emitted_text(schedule(kernel("stencil", [j], [whole], (x, out))), 1 << 40)
    assert text.count("for i0 in range") == 3
    assert "%" not in text
    assert "if" not in text
