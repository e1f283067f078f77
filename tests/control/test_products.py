"""Products of vectors and small matrices inside loops: compiled into the loop, with NumPy's results."""

import numpy as np
import pytest

from tests.control.alike import N, check, uniform


def solve_lower(lower, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def kalman(z, f, h, q, r):
    x, p = np.zeros(f.shape[0]), np.eye(f.shape[0])
    out = np.empty((len(z), f.shape[0]))
    for k in range(len(z)):
        x, p = f @ x, f @ p @ f.T + q
        s = h @ p @ h.T + r
        gain = p @ h.T / s
        x = x + (gain * (z[k] - h @ x))[:, 0]
        p = p - gain @ h @ p
        out[k] = x
    return out, p


def batches(a, b):
    total = np.zeros((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
    for k in range(N):
        total = total + np.matmul(a + k, b)
    return total


def powers(a):
    x = np.eye(len(a), dtype=a.dtype)
    for _ in range(N):
        x = x @ a
    return x


def nothing(a, n):
    s = 0.0
    for k in range(N):
        s += a[:n] @ (a[:n] * k)
    return s


def mixed(a, b):
    s = np.zeros(3)
    for k in range(N):
        s = s + np.dot(a, b[k]) + np.vdot(a[0], b[k]) + np.inner(a, b[k])
    return s


def whole(a, dtype):
    return (a * 5).astype(dtype)


PROGRAMS = [
    (solve_lower, (uniform(N, N) + N * np.eye(N), uniform(N))),
    (kalman, (uniform(N), uniform(4, 4) / 3, uniform(1, 4), 0.1 * np.eye(4), np.array([[0.5]]))),
    (batches, (uniform(2, 3, 4), uniform(2, 4, 5))),
    (batches, (whole(uniform(2, 3, 4), "i4"), whole(uniform(2, 4, 5), "i4"))),
    (batches, (uniform(2, 3, 4).astype("f4"), uniform(2, 4, 5).astype("f4"))),
    (powers, (uniform(3, 3) / 2,)),
    (powers, (uniform(3, 3) / 2 + 0.1j,)),
    (powers, (whole(uniform(3, 3), "i8"),)),
    (nothing, (uniform(5), 0)),
    (mixed, (uniform(3, 3), uniform(N, 3))),
]


@pytest.mark.parametrize("option", [{}, {"dynamic": True}], ids=["fixed", "dynamic"])
@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=[f"{f.__name__}{k}" for k, (f, _) in enumerate(PROGRAMS)])
def test_no_library_is_called(program, args, option):
    (artifact,) = check(program, args, "cpu", **option).artifacts()
    assert "matmul" not in artifact.source


def test_large_matrices_are_left_to_the_library():
    (artifact,) = check(powers, (uniform(60, 60) / 40,), "cpu").artifacts()
    assert "matmul" in artifact.source
