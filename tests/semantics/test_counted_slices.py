"""Slices of as many elements as values decide: views with NumPy's elements, however few there are."""

import numpy as np
import pytest

import numstax
from tests.support import copy, same

VALUES = ([1.0, -2, 3, 0.5, 7], [-1.0, -2], [1.0], [1.0, 2], [1.0, 2, 3], [-1.0, 1, 2, 3, 4, 5, 6], list(range(20)))


def first(x):
    s = x[x > 0]
    return s[:3]


def neighbours(x):
    s = x[x > 0]
    return s[1:] - s[:-1], s[2:] - 2 * s[1:-1] + s[:-2]


def slices(x):
    s = x[x > 0]
    return (
        s[:3], s[-2:], s[1:3], s[::2], s[1::2], s[2:5:2], s[:-5], s[-4:-1], s[-3:2], s[3:1], s[4:-2:3],
        s[1:][:2], s[:4][-2:], s[: x.shape[0] // 2], s[3:].sum(), np.concatenate([s[:3], s[3:]]),
    )  # fmt: skip


def writes(x):
    s = x[x > 0]
    s[:3] += 1
    s[-2:] = 0
    s[1:][:2] *= 3
    return s, np.diff(s)


def pairs(x):
    s = x[x > 0]
    n = s.shape[0] // 2 * 2
    return s[:n].reshape(-1, 2), s[: s.size // 3 * 3].reshape(3, -1)


def in_a_branch(x):
    s = np.sort(x[x > 0])
    r = s[:1].sum()
    if s.size > 2:
        r = s[:3].mean()
    return r


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "reference"}], ids=str)
@pytest.mark.parametrize("function", [first, neighbours, slices, writes, pairs, in_a_branch])
def test_with_any_number_of_elements(function, options):
    compiled = numstax.jit(function, strict=True, **options)
    for values in VALUES:
        x = np.array(values, float)
        same(compiled(copy(x)), function(x), ulps=8)


def test_parts_have_one_size_however_they_are_named():
    graph = numstax.make_graph(neighbours, (np.array(VALUES[0]),))
    assert len({out.node.shape for out in graph.outputs}) == 2
    assert len(graph.binders) == 3
