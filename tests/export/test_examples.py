"""The examples of a declared dimension shared by two arguments, of a violated range, and of a kept relation."""

from __future__ import annotations

import numpy as np
import pytest

import numstax
from numstax.errors import ConstraintError, SizeError
from tests.support import normal


def relu_mean(x, w):
    y = (np.maximum(x + w, 0) * 2).sum(-1)
    return y / x.shape[0]


def lines(exported: numstax.Exported) -> list[str]:
    """The text without the lines of the user's code."""
    return [line.split("  # ")[0].rstrip() for line in str(exported).splitlines()]


def test_one_dim_for_two_arguments() -> None:
    n = numstax.Dim("n", min=2, max=4096)
    x = normal((64, 8))
    exported = numstax.export(relu_mean, (x, x), dynamic_shapes={"x": {0: n}, "w": {0: n}})
    assert lines(exported) == [
        "graph",
        "symbol n hi=4096 hint=64",
        "input 0 array f32[n, 8] strides [8, 1] 'x'",
        "input 1 array f32[n, 8] strides [8, 1] 'w'",
        "%0 = input f32[n, 8] {position=0}",
        "%1 = input f32[n, 8] {position=1}",
        "%2 = add f32[n, 8] %0 %1",
        "%3 = constant f32[] {value=Literal.of(0.0, f32)}",
        "%4 = broadcast_to f32[n, 8] %3",
        "%5 = maximum f32[n, 8] %2 %4",
        "%6 = constant f32[] {value=Literal.of(2.0, f32)}",
        "%7 = broadcast_to f32[n, 8] %6",
        "%8 = multiply f32[n, 8] %5 %7",
        "%9 = reduce_add f32[n] %8 {axes=(1,)}",
        "%10 = size i64[] {index=Index(n)}",
        "%11 = cast f32[] %10",
        "%12 = broadcast_to f32[n] %11",
        "%13 = divide f32[n] %9 %12",
        "return %13",
        "assert w.shape[0] == x.shape[0] : n",
        "assert 2 <= x.shape[0] <= 4096 : n",
    ]
    for size in (10, 2, 64, 4096):
        a, b = normal((size, 8), seed=1), normal((size, 8), seed=2)
        result = exported(a, b)
        assert result.shape == (size,)
        np.testing.assert_allclose(result, relu_mean(a, b), rtol=1e-5)


def branch(x):
    if x.shape[0] > 32:
        return x * 2
    return x + 100


def test_a_branch_that_some_declared_sizes_do_not_take() -> None:
    x = normal((64, 3))
    with pytest.raises(ConstraintError) as caught:
        numstax.export(branch, (x,), dynamic_shapes={"x": {0: numstax.Dim("n", min=2, max=4096)}})
    assert str(caught.value) == (
        "Constraints violated (n)! The captured program holds only for some of the declared sizes:\n"
        "  - Not all values of n in [2, 4096] satisfy the guard n > 32, which the program was captured under\n"
        "Suggested fixes:\n"
        "    n = Dim('n', min=33, max=4096)"
    )
    assert __file__ in caught.value.__notes__[0]


def test_the_suggested_range_is_accepted() -> None:
    n = numstax.Dim("n", min=33, max=4096)
    exported = numstax.export(branch, (normal((64, 3)),), dynamic_shapes={"x": {0: n}})
    text = lines(exported)
    assert not any("100" in line for line in text)
    assert text[-1] == "assert 33 <= x.shape[0] <= 4096 : n"
    x = normal((33, 3))
    np.testing.assert_array_equal(exported(x), x * 2)
    with pytest.raises(SizeError, match=r"x.shape\[0\] is 32; the declared range is n = Dim\('n', min=33, max=4096\)"):
        exported(x[1:])


def test_broadcasting_relates_two_dims() -> None:
    x = normal((64, 3))
    shapes = {"x": {0: numstax.Dim("p", min=1)}, "y": {0: numstax.Dim("q", min=1)}}
    exported = numstax.export(lambda x, y: x + y, (x, x), dynamic_shapes=shapes)
    assert lines(exported)[-3:] == [
        "assert 1 <= x.shape[0] : p",
        "assert 1 <= y.shape[0] : q",
        "assert x.shape[0] == y.shape[0]",
    ]
    for size in (1, 2, 500):
        a = normal((size, 3))
        np.testing.assert_array_equal(exported(a, a), a + a)
    for size in (1, 2):
        with pytest.raises(SizeError, match=rf"x.shape\[0\] == y.shape\[0\]: p is 3, q is {size}"):
            exported(x[:3], x[:size])
