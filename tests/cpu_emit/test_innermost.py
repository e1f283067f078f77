"""Innermost loops: elements held in registers while the loop writes others, and sums in any order."""

import numpy as np
import pytest

import numstax


def ran(function, *args):
    """The source printed for a function, whose effect on its arguments is that of NumPy, to the last bit."""
    ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    compiled = numstax.jit(function, strict=True)
    compiled(*ours)
    function(*theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)
    return compiled.inspect()


def table(n=30):
    return np.cos(np.arange(float(n * n))).reshape(n, n)


# --- elements in registers ------------------------------------------------------------------------


def every_column(a):
    """a[i, k] is read for each j and written for j == k."""
    for k in range(len(a)):
        for i in range(len(a)):
            for j in range(len(a)):
                a[i, j] = 0.5 * a[i, j] - 0.1 * a[i, k] * a[k, j]


def later_columns(a):
    for k in range(len(a)):
        for i in range(k + 1, len(a)):
            for j in range(k + 1, len(a)):
                a[i, j] = 0.5 * a[i, j] - 0.1 * a[i, k] * a[k, j]


def backwards(a):
    for k in range(len(a)):
        for i in range(len(a)):
            for j in range(len(a) - 1, -1, -1):
                a[j, i] = 0.5 * a[j, i] - 0.1 * a[k, i]


def where_smaller(a):
    for k in range(len(a)):
        for i in range(len(a)):
            for j in range(len(a)):
                through = a[i, k] + a[k, j]
                if through < a[i, j]:
                    a[i, j] = through


@pytest.mark.parametrize("program", [every_column, backwards, where_smaller])
def test_an_element_that_one_iteration_writes_is_read_before_and_after(program):
    assert "for part0 in range(rolled(2))" in ran(program, table())


def test_an_element_that_no_iteration_writes_is_read_once():
    text = ran(later_columns, table())
    assert "h0 = " in text
    assert "part0" not in text


def read_after_written(a):
    for k in range(len(a)):
        for j in range(len(a)):
            a[0, j] = a[0, j] + 1.0
            a[1, j] = a[0, k]


def two_places(a):
    for k in range(len(a) - 1):
        for j in range(len(a)):
            a[0, j] = 0.5 * a[0, k] + 0.25 * a[0, k + 1]


def in_a_branch(a, limit):
    for k in range(len(a)):
        for j in range(len(a)):
            if j < limit:
                a[0, j] = 0.5 * a[0, j] + 0.1 * a[1 + k - limit, 0]


@pytest.mark.parametrize(
    ("program", "args"), [(read_after_written, ()), (two_places, ()), (in_a_branch, (0,)), (in_a_branch, (1,))]
)
def test_values_are_those_of_the_program_where_elements_cannot_be_held(program, args):
    ran(program, table(), *args)


def test_nothing_is_read_where_there_are_no_iterations():
    def none(a, k, n):
        for j in range(n):
            a[0, j] = a[0, j] * a[0, k]

    compiled = numstax.jit(none, strict=True)
    a = table()
    compiled(a, 3, 20)
    compiled(a, 29, 0)
    expected = table()
    none(expected, 3, 20)
    np.testing.assert_array_equal(a, expected)


# --- sums -----------------------------------------------------------------------------------------


def dots(a, out):
    for i in range(len(a)):
        total = a[i, i]
        for k in range(len(a)):
            total -= a[i, k] * a[k, i]
        out[i] = total


def into_elements(a, out):
    for i in range(len(a)):
        for k in range(len(a)):
            out[i] += a[i, k] * a[k, i]


def products(a, out):
    for i in range(len(a)):
        for k in range(len(a)):
            out[i] *= 1.0 + 0.1 * a[i, k]


@pytest.mark.parametrize(
    ("program", "accumulates"), [(dots, "add_reassoc"), (into_elements, "add_reassoc"), (products, "mul_reassoc")]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_only_added_to_may_be_added_in_any_order(program, accumulates, dtype):
    a, out = table(50).astype(dtype), np.ones(50, dtype)
    compiled, expected = numstax.jit(program, strict=True), out.copy()
    compiled(a, out)
    program(a, expected)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-13)
    assert f"{accumulates}_{'f32' if dtype == np.float32 else 'f64'}(" in compiled.inspect()


def running(a, out):
    total = 0.0
    for i in range(len(out)):
        total = total + a[0, i]
        out[i] = total


def with_errors_carried(a, out):
    total, lost = 1e16, 0.0
    for i in range(len(out)):
        term = a[0, i] - lost
        new = total + term
        lost = (new - total) - term
        total = new
    out[0] = total


def both_ways(a, out):
    total = 0.0
    for i in range(len(out)):
        total = a[0, i] - total
    out[0] = total


@pytest.mark.parametrize("program", [running, with_errors_carried, both_ways])
def test_the_order_is_kept_where_the_sum_is_more_than_added_to(program):
    assert "reassoc" not in ran(program, table(), np.zeros(30))


def test_halves_are_rounded_at_every_step():
    assert "reassoc" not in ran(dots, table().astype(np.float16), np.zeros(30, np.float16))
