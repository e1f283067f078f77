"""What Python does in and around loops and branches, compiled: scopes, types, iterators, draws, early ends."""

from typing import ClassVar

import numpy as np
import pytest

import numstax
from numstax.errors import OutOfBoundsError, TraceError
from tests.control import python_programs, statement_programs
from tests.control.alike import N, check, uniform

PROGRAMS = [*python_programs.PROGRAMS, *statement_programs.PROGRAMS]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=[f"{f.__name__}{k}" for k, (f, _) in enumerate(PROGRAMS)])
def test_as_in_python(program, args, backend):
    check(program, args, backend)


def found(program, *args):
    (artifact,) = check(program, args, "reference").artifacts()
    return [node.op for node in artifact.region.graph.nodes()]


@pytest.mark.parametrize("name", "nested_if const_branch negidx draws ret_tuple fixedpoint enum2 growmax".split())
def test_such_loops_are_captured(name):
    program = getattr(python_programs, name)
    ops = found(program, *next(args for f, args in PROGRAMS if f is program))
    assert {"for", "while"} & set(ops)
    assert len(ops) < 40


def test_a_position_outside_in_a_branch_that_is_not_taken():
    def f(x, at, limit):
        total = x[0] * 0
        if limit > 5:
            total = x[at[0]] + 1
        for i in range(N):
            if limit > 5:
                total += x[at[0]] * i
        return total

    x, at = uniform(5), np.array([77])
    assert "for" in found(f, x, at, -1.0)
    with pytest.raises(OutOfBoundsError, match="index 77 is out of bounds"):
        numstax.jit(f, strict=True)(x, at, 9.0)


def test_a_variable_that_only_one_branch_assigns():
    def f(x):
        if x[0] > 5:
            y = x[1]
        return y

    with pytest.raises(TraceError, match="'y' is assigned in only one branch"):
        numstax.jit(f, strict=True)(uniform(4))


def test_a_variable_of_a_loop_that_may_not_run():
    def f(x):
        for i in range(int(x[0])):
            y = x[i]
        return y

    with pytest.raises(TraceError, match="'y' is assigned in a loop that may not run"):
        numstax.jit(f, strict=True)(uniform(4))


def test_a_state_of_another_shape_in_each_iteration_names_the_line():
    def f(x):
        y = x[:0]
        for i in range(5000):
            y = x[: i % 7]
        return y

    with pytest.raises(TraceError, match=r"the shape of 'y' is another in each iteration(.|\n)*test_python.py"):
        numstax.jit(f, strict=True)(uniform(9))


class Settings:
    """Read through the class, and written."""

    gain = 2.0
    total = np.zeros(3)
    table: ClassVar = [1.0, 2.0]

    def scaled(self, x):
        return x * self.gain * self.table[0]


def test_attributes_of_classes_are_read_anew_and_arrays_in_them_written(monkeypatch):
    def f(x):
        for i in range(N):
            Settings.total[i % 3] += x[i]
        return Settings().scaled(x) + Settings.total[0]

    x = uniform(N)
    compiled = numstax.jit(f, strict=True)
    for gain in (2.0, 3.0):
        monkeypatch.setattr(Settings, "gain", gain)
        monkeypatch.setattr(Settings, "total", np.zeros(3))
        wanted, total = f(x), Settings.total
        monkeypatch.setattr(Settings, "total", np.zeros(3))
        np.testing.assert_allclose(compiled(x), wanted)
        np.testing.assert_allclose(Settings.total, total)
    monkeypatch.setattr(Settings, "total", np.zeros(3))
    monkeypatch.setattr(Settings, "table", [5.0, 2.0])
    np.testing.assert_allclose(compiled(x) - Settings.total[0], x * 15.0)
