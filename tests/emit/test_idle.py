"""Masked updates: neighbours of which no element is wanted are passed over, and nothing else."""

import numpy as np
import pytest

import numstax

N = 30_011
MASKS = {
    "none": np.zeros(N, bool),
    "all": np.ones(N, bool),
    "few": np.arange(N) % 997 == 3,
    "many": np.arange(N) % 3 == 0,
    "last": np.arange(N) == N - 1,
    "part": np.arange(N) > 20_000,
}


def escape(x, active, counts):
    x[active] = x[active] ** 2 * 0.5 + x[active] + 0.1
    active[x > 2] = False
    counts[active] += 1
    return active.any()


def counted(x, active, counts):
    x[active] = x[active] ** 2 * 0.5 + np.sqrt(x[active]) + 0.1
    active[x > 2] = False
    counts[active] += 2
    return active.sum()


def stepped(x, active, counts):
    x[active] = x[active] ** 2 * 0.5 + np.sqrt(x[active]) + 0.1
    active[x > 2] = False
    counts[active] += 1


def all_settled(x, active, counts):
    x[active] = x[active] ** 2 * 0.5 + np.sqrt(x[active]) + 0.1
    active[x > 2] = False
    counts[active] += 1
    return (~active).all()


def everywhere(x, active, counts):
    x[active] = x[active] ** 2 * 0.5 + np.sqrt(x[active]) + 0.1
    active[x > 2] = False
    x *= 0.5
    return active.any()


def revived(x, active, counts):
    x[active] = x[active] ** 2 * 0.5 + np.sqrt(x[active]) + 0.1
    active[x > 1.9] = True
    counts[active] += 1
    return active.any()


def summed(x, active, counts):
    x[active] = x[active] ** 2 * 0.5 + np.sqrt(x[active]) + 0.1
    active[x > 2] = False
    counts[active] += 1
    return counts.sum()


@pytest.mark.parametrize(
    ("program", "passes_over"),
    [
        (escape, True),
        (stepped, True),
        (counted, True),
        (all_settled, True),
        (everywhere, False),
        (revived, False),
        (summed, False),
    ],
)
@pytest.mark.parametrize("mask", MASKS)
def test_only_wanted_elements_change(program, passes_over, mask):
    args = np.linspace(0, 2.5, N), MASKS[mask], np.arange(N)
    ours, theirs = [a.copy() for a in args], [a.copy() for a in args]
    compiled = numstax.jit(program, strict=True)
    got, want = compiled(*ours), program(*theirs)
    assert got == want
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)
    assert ("if m0:" in compiled.inspect()) is passes_over
