"""Branches that write arrays: what was computed before stays as it was."""

import numpy as np

from numstax.ir.show import show
from numstax.trace.tracer import trace
from tests.trace.support import check


def labels(points, centres, limit):
    nearest = np.abs(points[:, None] - centres).argmin(axis=1)
    found = np.zeros(len(points), np.int64)
    if points[0] < limit:
        found = nearest
        centres[0] = points[0]
        centres[1] = points[nearest].sum() + centres[0]
    return found


def doubled(x, limit):
    twice, view = x * 2, x[1:]
    if x[0] < limit:
        x[:] = 1.0
        x[1] = twice[2]
        x[0] = view.sum()
    return x + twice


def test_what_was_computed_before_is_not_computed_again() -> None:
    for limit in (-9.0, 9.0):
        args = np.linspace(-2, 2, 12), np.array([-1.0, 0.5, 1.0]), limit
        check(labels, *args)
        assert show(trace(labels, args, {}).graph).count("reduce_argmin") == 1


def test_memory_is_read_as_it_is_and_values_as_they_were() -> None:
    for limit in (-9.0, 9.0):
        check(doubled, np.linspace(-2, 2, 8), limit)
