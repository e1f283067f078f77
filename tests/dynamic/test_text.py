"""Printed kernels over size symbols: what the compiler has to see to make them as fast as with known sizes."""

from __future__ import annotations

import re

import pytest

from numstax.cpu_emit import ahead
from numstax.ir.index import Index, as_index, symbol
from numstax.program import Emitted
from tests.dynamic.symbolic import Symbolic, compiled

S, T = symbol("s0", hint=64), symbol("s1", hint=48)


def text(costly: bool) -> str:
    g = Symbolic()
    x, row = g.input(S, T), g.input(T)
    y = g("multiply", x, row)
    region, _ = compiled(g.graph(g("exp", g("tanh", y)) if costly else g("add", y, 1)))
    (item,) = region.emitted
    assert isinstance(item, Emitted)
    return item.program.text


def test_costly_bodies_run_over_a_known_number_of_lanes() -> None:
    found = re.search(r"for (k\d) in range\(0, end\d, (\d+)\):\n +for i\d in range\(\1, \1 \+ \2\):", text(costly=True))
    assert found is not None
    assert int(found[2]) > 1


def test_cheap_bodies_are_printed_once() -> None:
    assert text(costly=False).count("for ") == 2


def softmax_text(columns: Index) -> str:
    g = Symbolic()
    x = g.input(S, columns)
    e = g("exp", g("subtract", x, g.reduce("maximum", x, 1, keepdims=True)))
    region, _ = compiled(g.graph(g("divide", e, g.reduce("add", e, 1, keepdims=True))))
    (item,) = region.emitted
    assert isinstance(item, Emitted)
    return item.program.text


def test_short_rows_are_printed_as_rows_of_known_length_are() -> None:
    short, long = re.split(r"\n    else:\n", softmax_text(T).partition("<= 127:")[2])
    assert short.count("for ") == 5  # the rows, three loops, and what is left over of the exponentials
    assert "float64" not in short
    assert "prefetch" not in short
    assert "prefetch" in long


@pytest.mark.parametrize("hint", [48, 1 << 16])
def test_memory_is_asked_ahead_in_rows_that_turn_out_short_enough(hint: int) -> None:
    longest = ahead.LONGEST_BYTES // 4
    assert re.search(rf"if n0 <= {longest}:\n +prefetch_f32\(", softmax_text(symbol("s1", hint=hint)))
    assert "prefetch" in softmax_text(as_index(longest))
    assert "prefetch" not in softmax_text(as_index(longest + 1))
