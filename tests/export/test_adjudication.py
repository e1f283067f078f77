"""Decisions about declared sizes: dropped, refused with a range that works, or kept as an assertion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numstax
from numstax.errors import ConstraintError, DimensionError, SizeError
from tests.support import normal, same

N = numstax.Dim("n", min=1, max=1000)


def exported(function: Callable[..., object], *args: np.ndarray, **dims: dict[int, numstax.Dim]) -> numstax.Exported:
    return numstax.export(function, args, dynamic_shapes=dims)


@pytest.mark.parametrize(
    ("function", "guards", "suggestion"),
    [
        (lambda x: x if x.shape[0] <= 100 else -x, ["n <= 100"], "min=1, max=100"),
        (lambda x: x if 20 < x.shape[0] < 100 else -x, ["n > 20", "n <= 99"], "min=21, max=99"),
        (lambda x: x if x.shape[0] ** 2 > 1000 else -x, ["n**2 > 1000"], "min=32, max=1000"),
        (lambda x: x if x.shape[0] * (x.shape[0] - 100) < 0 else -x, ["100*n > n**2"], "min=1, max=99"),
        (lambda x: x if x.shape[0] // 2 > 3 else -x, ["(n // 2) > 3"], "min=8, max=1000"),
        (lambda x: x if x.shape[0] % 4 == 0 else -x, ["(n % 4) == 0"], "min=64, max=64"),
        (lambda x: x if x.shape[0] != 7 else -x, ["n != 7"], "min=8, max=1000"),
        (lambda x: x + np.ones((64, 1)), ["n == 64"], "min=64, max=64"),
        (lambda x: [row.sum() for row in x], ["n == 64"], "min=64, max=64"),
    ],
)
def test_violated(function: Callable[..., object], guards: list[str], suggestion: str) -> None:
    x = normal((64, 3))
    with pytest.raises(ConstraintError) as caught:
        exported(function, x, x={0: N})
    head, *rows, fixes, fix = str(caught.value).splitlines()
    assert head.startswith("Constraints violated (n)!")
    assert fixes == "Suggested fixes:"
    values = "Not all values of n in [1, 1000] satisfy the guard"
    assert rows == [f"  - {values} {guard}, which the program was captured under" for guard in guards]
    assert fix == f"    n = Dim('n', {suggestion})"
    narrower = eval(fix.partition("=")[2], {"Dim": numstax.Dim})
    same(exported(function, x, x={0: narrower})(x), function(x))


def test_an_open_range_stays_open() -> None:
    with pytest.raises(ConstraintError) as caught:
        exported(lambda x: x if x.shape[0] > 5 else -x, normal((64, 3)), x={0: numstax.Dim("rows")})
    assert "rows in [1, inf)" in str(caught.value)
    assert str(caught.value).endswith("    rows = Dim('rows', min=6)")


def test_every_violated_dim_is_named() -> None:
    def function(x):
        return x if x.shape[0] > 5 and x.shape[1] < 9 else -x

    with pytest.raises(ConstraintError, match=r"^Constraints violated \(n, m\)!") as caught:
        exported(function, normal((64, 3)), x={0: N, 1: numstax.Dim("m", 1, 12)})
    assert str(caught.value).splitlines()[-2:] == [
        "    n = Dim('n', min=6, max=1000)",
        "    m = Dim('m', min=1, max=8)",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.shape[0] >= 1 else -x,
        lambda x: x if x.shape[0] * 3 <= 3000 else -x,
        lambda x: x if x.shape[0] ** 2 - 2 * x.shape[0] >= -1 else -x,
        lambda x: x if (x.shape[0] + 1) // 2 >= 1 else -x,
        lambda x: x.reshape(x.shape[0], -1).sum(1),
        lambda x: x.reshape(-1)[: x.shape[0]] * 2,
        lambda x: x[1:] - x[:-1],
    ],
)
def test_implied(function: Callable[..., object]) -> None:
    made = exported(function, normal((64, 3)), x={0: N})
    assert str(made).splitlines()[-1] == "assert 1 <= x.shape[0] <= 1000 : n"
    for size in (1, 2, 3, 1000):
        x = normal((size, 3))
        same(made(x), function(x), ulps=8)


def test_relations_of_dims_are_kept() -> None:
    def function(x, y):
        return x[: y.shape[0]] + y if x.shape[0] > 2 * y.shape[0] else y

    made = exported(function, normal((64, 3)), normal((7, 3)), x={0: N}, y={0: numstax.Dim("m")})
    x, y = normal((9, 3)), normal((4, 3))
    same(made(x, y), function(x, y))
    with pytest.raises(SizeError, match=r"x.shape\[0\] >= 2\*y.shape\[0\] \+ 1: n is 9, m is 5"):
        made(x, normal((5, 3)))


def test_broadcasting_takes_varying_sizes_for_other_than_one() -> None:
    """Whether the axis is removed depends on 1: not the declared range is at fault, a call with 1 is refused."""
    made = exported(lambda x: x.squeeze() * 2, normal((64, 3)), x={0: N})
    assert str(made).splitlines()[-1] == "assert x.shape[0] != 1"
    same(made(x := normal((2, 3))), x * 2)
    with pytest.raises(SizeError, match=r"x.shape\[0\] != 1: n is 1"):
        made(normal((1, 3)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.mean(axis=0),
        lambda x: (x.T + x.T * 2).reshape(-1),
        lambda x: np.concatenate([x, x.T.copy().T]) @ x.T,
        lambda x: (x.T[::-1] / x.shape[0]).sum(0),
        lambda x: np.cumsum(x, 0)[::-1].argmax(1),
    ],
)
def test_right_at_one(function: Callable[..., object]) -> None:
    made = exported(function, normal((64, 3)), x={0: N})
    for size in (1, 2, 31):
        x = normal((size, 3))
        got, want = made(x), function(x)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_size_zero_if_declared() -> None:
    made = exported(lambda x: (x * 2, x.sum(0)), normal((64, 3)), x={0: numstax.Dim("n", min=0)})
    for size in (0, 1, 5):
        x = normal((size, 3))
        np.testing.assert_allclose(made(x)[0], x * 2)
        np.testing.assert_allclose(made(x)[1], x.sum(0), rtol=1e-5)
    with pytest.raises(ConstraintError, match=r"n = Dim\('n', min=1\)"):
        exported(lambda x: x.argmax(0), normal((64, 3)), x={0: numstax.Dim("n", min=0)})


# --- declarations -----------------------------------------------------------------------------------


def test_limits_of_any_integer_type() -> None:
    dim = numstax.Dim("n", np.int64(2), np.arange(9).max())
    assert repr(dim) == "Dim('n', min=2, max=8)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: numstax.Dim("n", min=5, max=4), "min=5 is more than max=4"),
        (lambda: numstax.Dim("n", min=-1), "a size is not negative"),
        (lambda: numstax.Dim("n rows"), "an identifier, got 'n rows'"),
        (lambda: numstax.Dim(5), "an identifier, got 5"),
        (lambda: numstax.Dim("n", max=2.5), r"Dim\('n'\): max=2.5 is not an integer"),
        (lambda: numstax.Dim("n", min=True), "min=True is not an integer"),
        (lambda: numstax.Dim("n", min=None), "min=None is not an integer"),
    ],
)
def test_dims_without_sense(make: Callable[[], numstax.Dim], message: str) -> None:
    with pytest.raises(DimensionError, match=message):
        make()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": {0: N}}, "names 'z'; the array arguments are x, y"),
        ({"x": {2: N}}, "axis 2 of 'x', which has 2 dimensions"),
        ({"x": {0: 5}}, "declared as 5, which is no numstax.Dim"),
        ({"x": {0: N}, "y": {0: numstax.Dim("n", 1, 7)}}, r"'n' is declared as Dim\('n', min=1, max=1000\) and as"),
    ],
)
def test_declarations_that_do_not_fit(shapes: dict[str, dict[int, numstax.Dim]], message: str) -> None:
    with pytest.raises(DimensionError, match=message):
        numstax.export(lambda x, y: x, (normal((4, 2)), normal((4, 2))), dynamic_shapes=shapes)


def test_an_example_outside_the_range() -> None:
    with pytest.raises(SizeError, match=r"x.shape\[0\] is 4; the declared range is n = Dim\('n', min=5\)"):
        exported(lambda x: x, normal((4, 2)), x={0: numstax.Dim("n", min=5)})
    with pytest.raises(SizeError, match=r"n has one size: x.shape\[0\] is 4, x.shape\[1\] is 2"):
        exported(lambda x: x, normal((4, 2)), x={0: N, 1: N})


@pytest.mark.parametrize("name", ["u0", "u1", "rows"])
def test_sizes_that_depend_on_data(name: str) -> None:
    def function(x):
        places = np.flatnonzero(x > 0)
        return places, x[places].sum() / x.shape[0]

    made = exported(function, normal((64,), "f8"), x={0: numstax.Dim(name)})
    for size in (1, 30, 31):
        x = normal((size,), "f8", seed=size)
        same(made(x), function(x), ulps=8)


@pytest.mark.parametrize("name", ["x0", "out0", "call", "s1", "address", "numpy", "lo", "n0"])
def test_any_name(name: str) -> None:
    made = exported(lambda x: (x @ x.T).sum(0) / x.shape[0], normal((64, 3)), x={0: numstax.Dim(name), -1: None})
    x = normal((10, 3))
    np.testing.assert_allclose(made(x), (x @ x.T).sum(0) / 10, rtol=1e-4, atol=1e-6)
