"""What `numstax.check` states about sizes that depend on data: used in what follows, and checked in every call."""

import numpy as np
import pytest

import numstax
from numstax.errors import SizeError
from tests.support import same


def pairs(x, z):
    y = x[x > 0.5]
    numstax.check(y.shape[0] % 2 == 0)
    return y.reshape(2, -1)


def as_many(x, z):
    y, w = x[x > 0.5], z[z > 0.5]
    numstax.check(y.shape[0] == w.shape[0])
    return y + w


def four(x, z):
    y = x[x > 0.5]
    numstax.check(y.shape[0] == 4)
    return y.reshape(2, 2)


def as_long(x, z):
    y = x[x > 0.5]
    numstax.check(y.shape[0] == z.shape[0])
    return y + z


def twice_as_many(x, z):
    y, w = x[x > 0.5], z[z > 0.5]
    numstax.check(y.shape[0] == 2 * w.shape[0])
    return y.reshape(2, -1) + w


def some(x, z):
    y = x[x > 0.5]
    numstax.check(y.shape[0] != 0)
    return y[0] + z


ONES = np.ones(9)
CASES = (
    (pairs, (4, 4), [(5, 5), (1, 1)]),
    (as_many, (4, 4), [(4, 3), (3, 4)]),
    (four, (4, 4), [(5, 5), (3, 3)]),
    (as_long, (4, 4), [(4, 5), (5, 4)]),
    (twice_as_many, (4, 2), [(4, 3), (5, 2)]),
    (some, (3, 2), [(0, 2)]),
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "good", "bad"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_what_is_stated_is_used_and_checked(function, good, bad, dynamic):
    compiled = numstax.jit(function, strict=True, dynamic=dynamic)
    ready = [np.r_[ONES[:n], 0, 0] if k == 0 or function is not as_long else ONES[:n] for k, n in enumerate(good)]
    same(compiled(*ready), function(*ready))
    for sizes in bad:
        with pytest.raises((SizeError, AssertionError), match=r"numstax\.check failed"):
            compiled(*(ONES[:n] if k and function is as_long else np.r_[ONES[:n], 0, 0] for k, n in enumerate(sizes)))
