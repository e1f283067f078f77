"""Programs of statements that are rewritten: joined conditions, deletions, tests that assign, closures that do."""

import numpy as np

from tests.control.alike import N, uniform


def joined_conditions(x, m):
    n = 0
    for i in range(len(x)):
        if (x[i] > 0.5 and m[i] % 2) or not (m[i] or x[i]):
            n += 1
        n += 2 if m[i] % 3 and x[i] < 0.3 else 0
    return n


def smallest(x, m):
    total = 0
    for i in range(len(m)):
        total += min(i, m[i]) + max(m[i], 3, i) + min(total, m[i])
    return total


def long_unrolled(x):
    t = 0
    while t < 12:
        for i in range(8):
            for j in range(8):
                x[i] += x[j] * 0.1
        t += 1
    return x


def deleted(x):
    total = 0.0
    for i in range(N):
        scratch = x[i] * 2
        total += scratch
        del scratch
    return total


def assigned_in_a_test(x):
    steps = 0
    while (error := np.abs(x).max()) > 0.01:
        x = x * 0.7
        if (steps := steps + 1) > 500:
            break
    return x, error, steps


def changed_by_a_closure(x):
    total = 0.0

    def add(v):
        nonlocal total
        if v > 0.5:
            total += v

    for i in range(N):
        add(x[i])
    return total


def asserted_size(x):
    assert x.shape[0] < 50 or x.ndim == 2, "limits"
    return x * 2


def asserted_value(x):
    assert x.min() > -100, "limits"
    return x * 2


PROGRAMS = [
    (asserted_size, (uniform(8),)),
    (joined_conditions, (uniform(N), np.arange(N) % 7)),
    (smallest, (uniform(N), np.arange(N) % 7)),
    (long_unrolled, (uniform(8),)),
    (deleted, (uniform(N),)),
    (assigned_in_a_test, (uniform(5),)),
    (changed_by_a_closure, (uniform(N),)),
]
