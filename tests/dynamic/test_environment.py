"""ShapeEnvironment: what it decides holds for every size that its facts admit."""

import itertools

import numpy as np
import pytest

from numstax.errors import DataDependentError
from numstax.ir.index import ONE, ZERO, as_index, bounds, evaluate
from numstax.trace.environment import ShapeEnvironment
from numstax.trace.indexing import _range

ENDS = (None, 0, 1, 3, 7, -1, -2, -6)


def admitted(shapes, size):
    """The values of the one dimension that pass the guards, with the values of all symbols."""
    resolved = shapes.resolve(size)
    for guess in itertools.product(range(40), repeat=len({*map(str, _symbols(resolved))})):
        values = dict(zip(sorted({*map(str, _symbols(resolved))}), guess, strict=True))
        inside = all(s.lo <= values[s.name] and (s.hi is None or values[s.name] <= s.hi) for s in _symbols(resolved))
        if inside and all(eval(str(fact), dict(values)) for fact in shapes.guards()):
            yield evaluate(resolved, values), values


def _symbols(index):
    return [atom for mono, _ in index.terms for atom in mono]


@pytest.mark.parametrize("step", [None, 1, 2, 3, -1, -2])
@pytest.mark.parametrize("hint", [2, 3, 7, 20])
def test_slices(step, hint):
    for start, stop in itertools.product(ENDS, ENDS):
        shapes = ShapeEnvironment("symbolic")
        size = shapes.dimension(hint)
        first, pace, count, part = _range(shapes, slice(start, stop, step), size)
        sizes = dict(admitted(shapes, size))
        assert hint in sizes
        for n, values in sizes.items():
            wanted = range(n)[start:stop:step]
            number = evaluate(shapes.resolve(count), values)
            assert number == len(wanted), (start, stop, step, n)
            begin, move = (evaluate(shapes.resolve(i), values) for i in (first, pace))
            assert [begin + k * move for k in range(number)] == list(wanted)
            ends = (None if e is None else evaluate(shapes.resolve(as_index(e)), values) for e in _ends(part))
            assert np.arange(n)[slice(*ends)].tolist() == list(wanted)


def _ends(part):
    return part.start, part.stop, part.step


def test_an_equation_replaces_a_symbol():
    shapes = ShapeEnvironment("symbolic")
    n, m = shapes.dimension(5), shapes.dimension(4)
    assert shapes.unify(n - 1, m)
    assert shapes.resolve(m) is shapes.resolve(n) - 1
    assert shapes.known(">=", n - 3)
    assert not shapes.guards()


def test_divisibility_makes_a_multiple():
    shapes = ShapeEnvironment("symbolic")
    n = shapes.dimension(12)
    assert shapes.divides(as_index(4), n)
    assert shapes.resolve(n) // 4 * 4 is shapes.resolve(n)
    assert not shapes.divides(as_index(5), n)
    assert [str(fact) for fact in shapes.guards()] == ["((4*q0) % 5) != 0"]


def test_answers_stay():
    shapes = ShapeEnvironment("symbolic")
    n, m = shapes.dimension(5), shapes.dimension(9)
    assert shapes.at_least(m, n)
    assert shapes.known(">=", m - n + 3)
    assert shapes.known(">=", n - m - 1) is False
    assert not shapes.equal(n * m, 7)
    assert shapes.known("==", n * m - 7) is False
    assert len(shapes.guards()) == 2


def test_sizes_without_hint_are_only_proved():
    shapes = ShapeEnvironment("symbolic")
    n = shapes.dimension(9)
    u = shapes.unbacked(3, n)
    assert shapes.at_least(n, u)
    assert shapes.at_least(u, 0)
    with pytest.raises(DataDependentError, match=r"numstax\.check"):
        shapes.at_least(u, 2)
    with pytest.raises(DataDependentError):
        shapes.number(u)
    shapes.state(">=", u - 2, "at least two")
    assert shapes.at_least(u, 1)
    assert len(shapes.asserts) == 1
    assert not shapes.guards()


def test_bounds_that_leave_one_value_give_a_number():
    shapes = ShapeEnvironment("bucket")
    n = shapes.dimension(3)
    assert shapes.dimension(2) is as_index(2)
    assert shapes.unbacked(1, as_index(1), at_least=1) is ONE
    assert shapes.unbacked(0, ZERO) is ZERO
    assert bounds(shapes.unbacked(2, n)) == (0, 4)
    with shapes.counter(ONE) as counter:
        assert bounds(counter) == (0, 0)
        assert counter is not ZERO
