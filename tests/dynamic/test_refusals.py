"""What is refused only where sizes are symbols, and that what the messages and docs/dynamic.md say helps."""

import numpy as np
import pytest

import numstax
from numstax.errors import TraceError
from tests.support import copy, same

X = np.linspace(0, 1, 50)


def grows(x, n):
    out = []
    for i in range(n):
        out.append(x.sum() * i)
    return np.array(out)


def fills(x, n):
    out = np.empty(n)
    for i in range(n):
        out[i] = x.sum() * i
    return out


def sliced(x, n):
    p = np.ones(n, bool)
    for i in range(2, int(n**0.5) + 1):
        p[i * i :: i] = False
    return p


def masked(x, n):
    p, k = np.ones(n, bool), np.arange(n)
    for i in range(2, int(n**0.5) + 1):
        p[(k >= i * i) & (k % i == 0)] = False
    return p


@pytest.mark.parametrize(
    ("refused", "instead", "remedy"),
    [
        (grows, fills, r"out = np.empty\(n\) before the loop"),
        (sliced, masked, "choose elements of the whole with a mask"),
    ],
)
def test_remedies(refused, instead, remedy):
    same(numstax.jit(refused, strict=True)(copy(X), 30), refused(copy(X), 30), ulps=8)
    dynamic = numstax.jit(refused, strict=True, dynamic=True)
    with pytest.raises(TraceError, match=rf"remedy: .*{remedy}"):
        dynamic(copy(X), 30)
    compiled = numstax.jit(instead, strict=True, dynamic=True)
    for n in (30, 41, 500):
        same(compiled(copy(X), n), instead(copy(X), n), ulps=8)
        same(instead(copy(X), n), refused(copy(X), n), ulps=8)
