"""Python numbers in compiled code: results, types and exceptions are Python's, whatever 64 bits hold."""

import math

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning, PythonNumberError
from tests.control.alike import N
from tests.control.numbers import check

BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu"])


def left(compiled):
    """How many requirements are checked while the code runs."""
    return str(compiled.artifacts()[0].region.graph).count("require ")


# --- programs -------------------------------------------------------------------------------------------


def factorial(x):
    product = 1
    for i in range(len(x)):
        product = product * int(x[i])
    return product


def congruence(x):
    state = 1
    for _ in range(N):
        state = (int(x[0]) * state + 12345) & 0xFFFFFFFF
    return state


def shifted(x):
    bits = 1
    for i in range(len(x)):
        bits = bits << int(x[i])
    return bits


def powers(x, exponent):
    total = 0
    for i in range(len(x)):
        total += int(x[i]) ** int(exponent[0])
    return total


def minus(x):
    least = 0
    for i in range(len(x)):
        least = min(least, -int(x[i]))
    return least


def sizes(x):
    least = 0
    for i in range(len(x)):
        least = abs(int(x[i])) + 1
    return least


def reciprocals(x, out):
    total = 0.0
    for i in range(len(x)):
        out[i] = i
        total += 1.0 / float(x[i])
    return total


def quotients(x, out):
    for i in range(len(x)):
        out[i] = 100 // int(x[i]) + 7 % int(x[i])
    return out


def float_quotients(x):
    total = 0.0
    for i in range(len(x)):
        total += 7.5 // float(x[i]) + 7.5 % float(x[i])
    return total


def roots(x):
    total = 0.0
    for i in range(len(x)):
        total += math.sqrt(x[i])
    return total


def exponentials(x):
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i])
    return total


def float_powers(x, exponent):
    total = 0.0
    for i in range(len(x)):
        total = float(x[i]) ** float(exponent[0])
    return total


def wholes(x):
    total = 0
    for i in range(len(x)):
        total += int(x[i])
    return total


def ratios(x):
    total = 0.0
    for i in range(len(x)):
        total += int(x[i]) / 3
    return total


def beyond_floats(x):
    count = 0
    for i in range(len(x)):
        if int(x[i]) == float(x[0]):
            count += 1
    return count


def kept(x, out):
    for i in range(len(x)):
        out[i] = int(x[i]) * 3
    return out


def truths(x):
    total = 0
    for i in range(len(x)):
        total += (float(x[i]) > 0.5) + (float(x[i]) > 0.25) - (-(float(x[i]) < 0.5))
    return total


def chosen(x):
    best = -1
    for i in range(len(x)):
        if x[i] > 200:
            best = x[i]
    return best


ONES = np.ones(N)
LARGE = np.full(N, 3 << 61)

AGAIN = [
    (factorial, np.arange(1, N)),
    (congruence, np.array([1103515245 << 31])),
    (shifted, ONES * 2),
    (shifted, -ONES),
    (powers, np.arange(N), np.array([20])),
    (powers, np.arange(1, N), np.array([-2])),
    (minus, np.full(N, -(1 << 63))),
    (sizes, np.full(N, -(1 << 63))),
    (reciprocals, np.arange(N) - 30.0, np.zeros(N)),
    (quotients, np.arange(N) - 30, np.zeros(N, int)),
    (float_quotients, np.arange(N) - 30.0),
    (roots, 30.0 - np.arange(N)),
    (exponentials, 30.0 * np.arange(N)),
    (float_powers, ONES * 1e300, np.array([2.0])),
    (float_powers, ONES * 0.0, np.array([-2.0])),
    (wholes, np.full(N, np.nan)),
    (wholes, np.full(N, np.inf)),
    (wholes, np.full(N, 1e30)),
    (wholes, np.full(N, 1 << 63, np.uint64)),
    (ratios, LARGE + 1),
    (beyond_floats, LARGE + 1),
    (kept, np.arange(N) * 10, np.zeros(N, np.uint8)),
    (kept, np.arange(N) - 5, np.zeros(N, np.uint64)),
]
COMPILED = [
    (factorial, np.arange(1, 20)),
    (congruence, np.array([1103515245])),
    (shifted, np.arange(11)),
    (powers, np.arange(N), np.array([5])),
    (minus, np.arange(N)),
    (sizes, np.arange(N)),
    (reciprocals, 1.0 + np.arange(N), np.zeros(N)),
    (quotients, 1 + np.arange(N), np.zeros(N, int)),
    (float_quotients, 1.0 + np.arange(N)),
    (roots, 1.0 * np.arange(N)),
    (exponentials, 1.0 * np.arange(N)),
    (exponentials, np.array([*range(N), np.inf, -np.inf])),
    (float_powers, -ONES, np.array([3.0])),
    (wholes, np.linspace(-5, 5, N)),
    (ratios, np.arange(N)),
    (beyond_floats, np.arange(N)),
    (kept, np.arange(N), np.zeros(N, np.uint8)),
    (truths, np.linspace(0, 1, N)),
]


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=[f"{f.__name__}{k}" for k, (f, *_) in enumerate(cases)])


@BACKENDS
@named(AGAIN)
def test_what_64_bits_do_not_hold_python_does(case, backend):
    check(*case, backend=backend)


@BACKENDS
@named(COMPILED)
def test_what_they_hold_is_compiled(case, backend):
    check(*case, backend=backend, again=False)


def test_strictly_integers_that_do_not_fit_are_an_error_with_line_and_remedy():
    x = np.arange(1, N)
    with pytest.raises(PythonNumberError, match=r"beyond 64 bits\n  at .*test_numbers.py:\d+.*\n  remedy: .*np\.int64"):
        numstax.jit(factorial, strict=True)(x)


def test_strictly_a_division_by_zero_is_python_s():
    out = np.zeros(N)
    with pytest.raises(ZeroDivisionError, match=r"^float division by zero$"):
        numstax.jit(reciprocals, strict=True)(np.arange(N) - 30.0, out)
    assert out[30] == 30


def test_the_warning_comes_once():
    compiled = numstax.jit(factorial)
    x = np.arange(1, N)
    with pytest.warns(NumstaxWarning, match="beyond 64 bits"):
        first = compiled(x)
    assert compiled(x) == first == math.factorial(N - 1)


def test_arguments_that_scalars_decide_about_are_updated_in_place():
    def f(u, dt, dx):
        u += np.sin(u) * (dt / dx)

    u = np.arange(10.0)
    compiled = numstax.jit(f, strict=True)
    compiled(u, 1.0, 2.0)
    assert "copy" not in compiled.artifacts()[0].source.partition("call(x0")[2]
    before = u.copy()
    with pytest.raises(ZeroDivisionError):
        compiled(u, 1.0, 0.0)
    np.testing.assert_array_equal(u, before)


def test_a_division_that_is_caught():
    def f(x, n):
        try:
            return x * (10 // n[0].item())
        except ZeroDivisionError:
            return x

    check(f, np.arange(3), np.array([5]), again=False)
    check(f, np.arange(3), np.array([0]))


def test_what_is_not_computed_is_not_required():
    def f(x, y):
        total = 0.0
        for i in range(len(x)):
            a, b = float(x[i]), float(y[i])
            total += a / b if b != 0.0 else 1.0
            if a > 3.0 and 1.0 / (a - 3.0) > 0.1:
                total += 1.0
        return total

    check(f, np.arange(N) % 7, np.arange(N) % 3, again=False)


def test_numbers_of_arrays_and_python_share_a_variable_only_where_both_fit():
    check(chosen, np.full(N, 7, np.uint8))


def test_a_comparison_with_an_array_is_by_value():
    def f(x, n):
        k = int(n[0])
        total = 0
        for i in range(len(x)):
            if x[i] < k:
                total += 1
        return total, x < k, k == x

    check(f, np.arange(N, dtype=np.uint8), np.array([-1]), again=False)
    check(f, np.arange(N, dtype=np.uint64), np.array([-1]), again=False)
    check(f, np.arange(N, dtype=np.int8), np.array([300]), again=False)


# --- what certainly holds is not checked ------------------------------------------------------------------


def hashed(x):
    state = 2166136261
    for i in range(len(x)):
        state = ((state ^ int(x[i])) * 16777619) & 0xFFFFFFFF
    return state


def bits(x):
    state = 0xFFFFFFFF
    for i in range(len(x)):
        state = state ^ int(x[i])
        for _ in range(8):
            state = (state >> 1) ^ (0xEDB88320 & -(state & 1))
    return state


def pairs(x):
    count = 0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            if x[i] > x[j]:
                count += 1
    return count


def walk(x, out):
    i = len(x)
    while i > 0:
        if x[i - 1] > 100:
            i -= 1
            out[i] = 1
        else:
            i -= 1
    return out


def random_numbers(out):
    state = 1
    for i in range(len(out)):
        state = (1103515245 * state + 12345) % 2147483648
        out[i] = state / 2147483648
    return out


CERTAIN = [
    (hashed, np.arange(N, dtype=np.uint8)),
    (bits, np.arange(N, dtype=np.uint8)),
    (pairs, np.sin(np.arange(N))),
    (walk, np.arange(N, dtype=np.uint8), np.zeros(N)),
    (random_numbers, np.zeros(N)),
]


@named(CERTAIN)
def test_what_certainly_holds_is_not_checked(case):
    assert left(check(*case, again=False)) == 0


def test_checks_leave_a_loop_vectorised():
    def f(x):
        out = np.empty_like(x)
        for i in range(len(x)):
            out[i] = math.exp(x[i])
        return out

    compiled = check(f, np.linspace(0, 1, 1 << 16), again=False)
    text = "".join(p.text for p in compiled.artifacts()[0].region.plan.programs)
    assert left(compiled) == 1
    assert "unmet" in text
    assert "return" not in text


def test_sums_that_start_as_python_integers():
    def f(x):
        total, k = 0, 0
        while k < len(x) and x[k] < 30:
            total = total + x[k]
            k += 1
        return total

    check(f, np.arange(N, dtype=np.int32), again=False)


def test_arithmetic_on_counters():
    def f(x):
        total = 0
        for i in range(int(x[0])):
            total = (total * 31 + i * i * i * i * i + i * i // 3) % 1000003
        return total

    check(f, np.array([50]), again=False)
    check(f, np.array([20000]))
