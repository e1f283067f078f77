"""`apart` never errs, and sees what triangular programs need."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numstax.ir.index import ONE, Index, Symbol, Var, as_index, evaluate
from numstax.ir.loops import Buffer
from numstax.ir.overlap import apart

ROWS, COLUMNS = 6, 5
BUFFER = Buffer("x", np.dtype("f8"), (as_index(ROWS), as_index(COLUMNS)), (as_index(COLUMNS), ONE), "input")
STEP = Symbol("i", 0, 3)
I = as_index(STEP)


def at(row: Index, column: Index) -> Index:
    return row * COLUMNS + column


def touched(offset: Index, variables: list[Var], step: int) -> set[int]:
    sizes = [range(max(evaluate(v.extent, {"i": step}), 0)) for v in variables]
    values = itertools.product(*sizes)
    return {evaluate(offset, {"i": step, **{v.name: k for v, k in zip(variables, ks, strict=True)}}) for ks in values}


@settings(max_examples=300)
@given(data=st.data())
def test_apart_means_apart(data: st.DataObject) -> None:
    r, c = Var("r", data.draw(st.sampled_from([ONE, 4 - I, as_index(3)]))), Var("c", as_index(3))
    pieces = st.sampled_from([as_index(0), ONE, as_index(2), I, I + 1, as_index(r), as_index(c), r + I + 1, 4 - I - r])
    a, b = (at(data.draw(pieces), data.draw(pieces)) for _ in range(2))
    if apart(a, b, BUFFER):
        for step in range(4):
            assert touched(a, [r, c], step).isdisjoint(touched(b, [r, c], step))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (at(I + 1, COLUMN := as_index(Var("c", as_index(5)))), at(I, COLUMN), True),
        (at(as_index(Var("r", 4 - I)) + I + 1, I), at(as_index(Var("r", 4 - I)), I + 1), True),
        (at(COLUMN, as_index(0)), at(COLUMN, ONE), True),
        (at(I, COLUMN), at(I, COLUMN), False),
        (at(I, COLUMN), at(I, COLUMN + 1), False),
    ],
)
def test_rows_columns_and_triangles(a: Index, b: Index, expected: bool) -> None:
    assert apart(a, b, BUFFER) is expected
