"""Index against brute force over every value of its atoms, and against sympy."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from numstax.ir.index import (
    ONE,
    ZERO,
    Index,
    Ref,
    Symbol,
    Var,
    as_index,
    atoms,
    bounds,
    contiguous_strides,
    divides,
    evaluate,
    hint,
    less,
    mergeable,
    product,
    same,
    stride_of,
    substitute,
    symbol,
)

I, J, K = (Var(name, as_index(n)) for name, n in (("i", 3), ("j", 4), ("k", 5)))
N = Symbol("n", lo=1, hi=4)
M = Symbol("m", lo=4, hi=8, multiple_of=4)
P = Var("p", as_index(N))  # its range depends on the symbol
FREE = Symbol("s", lo=2)  # unbounded


@dataclass(frozen=True)
class Case:
    """An Index and the same expression in Python."""

    index: Index
    python: Callable[[dict[str, int]], int]


def environments() -> Iterator[dict[str, int]]:
    for i, j, k, n, m in itertools.product(range(3), range(4), range(0, 5, 2), range(1, 5), (4, 8)):
        for p in range(n):
            yield {"i": i, "j": j, "k": k, "n": n, "m": m, "p": p, "s": 2 + (5 * i + 3 * j + k) % 11}


ENVIRONMENTS = list(environments())[::7]
SIZES = st.sampled_from([N, M, FREE, 1, 2, 3, 4, 6, 12])


def leaf(x: int | Var | Symbol) -> Case:
    return Case(as_index(x), (lambda env: env[str(x)]) if not isinstance(x, int) else (lambda env: x))


@st.composite
def cases(draw: st.DrawFn, depth: int = 4) -> Case:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return leaf(draw(st.sampled_from([I, J, K, P, N, M, FREE, 0, 1, -1, 2, 3, -4, 12])))
    a = draw(cases(depth=depth - 1))
    op = draw(st.sampled_from("++-*/%%/"))
    if op in "/%":
        b = leaf(draw(SIZES))
        if draw(st.booleans()):
            c = leaf(draw(SIZES))
            b = Case(b.index * c.index, lambda env, x=b.python, y=c.python: x(env) * y(env))
        if op == "/":
            return Case(a.index // b.index, lambda env: a.python(env) // b.python(env))
        return Case(a.index % b.index, lambda env: a.python(env) % b.python(env))
    b = draw(cases(depth=depth - 1))
    if op == "+":
        return Case(a.index + b.index, lambda env: a.python(env) + b.python(env))
    if op == "-":
        return Case(a.index - b.index, lambda env: a.python(env) - b.python(env))
    return Case(a.index * b.index, lambda env: a.python(env) * b.python(env))


def unravelled(flat: Index, sizes: list[Index]) -> list[Index]:
    out = []
    for k, n in enumerate(sizes):
        out.append((flat // product(sizes[k + 1 :])) % n if k else flat // product(sizes[1:]))
    return out


@settings(max_examples=150)
@given(cases())
def test_value_is_kept_and_bounds_hold(case: Case) -> None:
    lo, hi = bounds(case.index)
    for env in ENVIRONMENTS:
        value = case.python(env)
        assert evaluate(case.index, env) == value
        assert lo is None or lo <= value
        assert hi is None or value <= hi


@settings(max_examples=100)
@given(cases(depth=3), cases(depth=3))
def test_answers_are_never_wrong(a: Case, b: Case) -> None:
    pairs = [(a.python(env), b.python(env)) for env in ENVIRONMENTS]
    for answer, truths in (
        (less(a.index, b.index), [x < y for x, y in pairs]),
        (same(a.index, b.index), [x == y for x, y in pairs]),
        *((divides(k, a.index), [x % k == 0 for x, _ in pairs]) for k in (1, 2, 3, 4, 8)),
    ):
        if answer is not None:
            assert all(truth is answer for truth in truths)
    symbolic = divides(as_index(N) * 2, a.index)
    if symbolic is not None:
        assert all((a.python(env) % (2 * env["n"]) == 0) is symbolic for env in ENVIRONMENTS)


@settings(max_examples=80)
@given(cases(), st.sampled_from([I, J, K]))
def test_stride_is_the_difference(case: Case, var: Var) -> None:
    stride = stride_of(case.index, var)
    if stride is not None:
        assert var not in atoms(stride)
        for env in ENVIRONMENTS:
            here = env[str(var)]
            if here + 1 < evaluate(var.extent, env):
                step = case.python({**env, str(var): here + 1}) - case.python(env)
                assert evaluate(stride, env) == step


@settings(max_examples=80)
@given(cases(), cases(depth=2))
def test_substitution_is_evaluation_in_a_changed_environment(case: Case, new: Case) -> None:
    """Only with the values of j that the new expression stays within."""
    got = substitute(case.index, {J: new.index % 4})
    for env in ENVIRONMENTS:
        assert evaluate(got, env) == case.python({**env, "j": new.python(env) % 4})


@settings(max_examples=150)
@given(cases(depth=3), cases(depth=3), cases(depth=2))
def test_equal_expressions_are_one_object(a: Case, b: Case, c: Case) -> None:
    x, y, z = a.index, b.index, c.index
    assert x + y is y + x
    assert x * y is y * x
    assert x - x is ZERO
    assert x * ONE is x
    assert x * ZERO is ZERO
    assert -(-x) is x
    assert 2 * x - x is x
    for each in (x, x * y, x // 3 + z):
        assert pickle.loads(pickle.dumps(each)) is each
        assert copy.deepcopy(each) is each


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 2), st.integers(0, 2)), max_size=4))
def test_polynomials_agree_with_sympy(rows: list[tuple[int, int, int]]) -> None:
    n, s = sympy.symbols("n s", integer=True, positive=True)
    ours, theirs = ZERO, sympy.Integer(0)
    for coef, a, b in rows:
        ours = (ours + coef * product([N] * a + [FREE] * b)) * (ours - FREE)
        theirs = sympy.expand((theirs + coef * n**a * s**b) * (theirs - s))
        if len(ours.terms) > 40:
            break
    assert sympy.expand(sympy.sympify(str(ours), {"n": n, "s": s}) - theirs) == 0


@settings(max_examples=100)
@given(st.permutations([2, 3, 4]), st.permutations([2, 3, 4]))
def test_reshape_of_a_reshape_folds_away(first: list[int], second: list[int]) -> None:
    flat = as_index(Var("f", as_index(24)))
    there = unravelled(flat, list(map(as_index, first)))
    offset = sum((a * b for a, b in zip(there, contiguous_strides(map(as_index, first)), strict=True)), ZERO)
    assert offset is flat
    again = unravelled(offset, list(map(as_index, second)))
    assert sum((a * b for a, b in zip(again, contiguous_strides(map(as_index, second)), strict=True)), ZERO) is flat


def test_reshapes_with_symbolic_sizes_fold_away() -> None:
    n, m = symbol("n"), symbol("m")
    flat = as_index(Var("f", n * m * 4))
    row, col = flat // (m * 4), flat % (m * 4)
    assert row * m * 4 + col is flat
    assert row * m * 4 + (col // 4) * 4 + col % 4 is flat
    assert (col // 4) is (flat // 4) % m
    i, j = as_index(Var("i", n)), as_index(Var("j", m))
    assert (i * m + j) // m is i
    assert (i * m + j) % m is j
    assert less(i * m + j, n * m) is True
    assert less(n * m - 1, i * m + j) is False
    assert less(n * m - 2, i * m + j) is None
    assert ((i * m + j) * 2 + 1) // (2 * m) is i
    assert (i * (m + 1) + j) // (m + 1) is i
    assert (i * (m + 1) + j) % (m + 1) is j


def test_parts_within_a_common_factor_are_split_off() -> None:
    i, p = as_index(Var("i", as_index(6))), as_index(Var("p", as_index(2)))
    assert (i * 2 + p) // 4 is i // 2
    assert (i * 2 + p) % 4 is i % 2 * 2 + p
    assert (i * 6 + p * 3 + 2) // 3 is i * 2 + p
    assert str((i * 2 + p) % 4) == "p + 2*(i % 2)"
    assert (i // 3) // 2 is i // 6
    assert i % 6 is i
    assert i // 6 is ZERO


def test_answers_that_fusion_relies_on() -> None:
    n, m = symbol("n"), symbol("m", multiple_of=8)
    i = as_index(Var("i", n))
    assert same(n * 4, 4 * n) is True
    assert same(n, n + 1) is False
    assert same(n * 2, n) is False
    assert same(n, m) is None
    assert same(n * 2, m * 2 + 1) is False
    assert divides(8, m * n) is True
    assert divides(16, m) is None
    assert divides(4, m + 2) is False
    assert divides(m, m * n + m) is True
    assert divides(n + 1, i * (n + 1)) is True
    assert less(i, n) is True
    assert less(n, i) is False
    assert bounds(i) == (0, None)
    assert mergeable(m * 4, m, as_index(4)) is True
    assert mergeable(as_index(-12), as_index(4), as_index(-3)) is True
    assert mergeable(as_index(12), n, as_index(3)) is False


def test_negative_strides_and_offsets() -> None:
    j = Var("j", as_index(10))
    offset = 9 - as_index(j)
    assert bounds(offset) == (0, 9)
    assert stride_of(offset, j) is as_index(-1)
    assert stride_of(offset * 3 + as_index(I) * as_index(N), I) is as_index(N)
    assert stride_of(as_index(j) // 2, j) is None
    assert stride_of(as_index(j) * j, j) is None
    assert evaluate((offset - 20) // 4, {"j": 0}) == -3
    assert evaluate((offset - 20) % 4, {"j": 0}) == 1


def test_variables_of_one_name_stay_apart() -> None:
    a, b = Var("i", as_index(4)), Var("i", as_index(8))
    assert as_index(a) + b is as_index(b) + a
    assert stride_of(as_index(a) * 3 + b, a) is as_index(3)


def test_refs_are_atoms() -> None:
    ref = as_index(Ref(3, as_index(7)))
    assert str(ref * 5 + 1) == "5*v3 + 1"
    assert bounds(ref * 5 + 1) == (1, 31)
    assert evaluate(ref * 5 + 1, {"v3": 2}) == 11


def test_hint_uses_the_captured_size() -> None:
    assert hint(symbol("n", hint=100) * 4 + Var("i", as_index(9))) == 400
    assert hint(symbol("n", hi=50)) == 50


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError):
        _ = as_index(I) // 0
    with pytest.raises(ZeroDivisionError):
        _ = as_index(I) % -2


U = Symbol("u", lo=0)


@pytest.mark.parametrize("a", [as_index(7), as_index(N) * 5 + 3, as_index(N) * (as_index(U) + 1) + 1])
@pytest.mark.parametrize("b", [as_index(U), as_index(U) * N, as_index(M) - N, as_index(U) + 2])
def test_text_divides_by_sizes_that_may_be_zero(a: Index, b: Index) -> None:
    for index in (a // b, a % b, (a // b) // (as_index(U) * 3)):
        for env in ({"u": u, "n": n, "m": m} for u in range(3) for n in (1, 4) for m in (4, 8)):
            got = eval(str(index), {"__builtins__": {"max": max}}, env)
            assert got == evaluate(index, env)
            if evaluate(b, env) > 0 and index is a // b:
                assert got == evaluate(a, env) // evaluate(b, env)


def test_a_multiple_of_a_quotient_is_no_more_than_the_dividend() -> None:
    n = symbol("n", 0)
    for k in (2, 3):
        assert less(n, n // k * k) is False
        assert less(n + 1, (n + 1) // k * k) is False
        assert less(n // k * k + k, n + 1) is False
        assert less(n, n // k * k + 1) is None
    assert less(n, 2 * (n // 3)) is not True
