# ruff: noqa: N803
"""Programs with loops and branches as users write them, and arguments for each."""

import numpy as np


def heat(u, n):
    u = u.copy()
    for t in range(n):
        un = u.copy()
        u[1:-1] = un[1:-1] + 0.1 * (un[2:] - 2 * un[1:-1] + un[:-2])
    return u


def collatz(x):
    n = x[0]
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def total(x):
    s = 0
    for i in range(len(x)):
        if x[i] > 0.5:
            s += x[i]
    return s


def swap(u, n):
    v = np.zeros_like(u)
    u = u + 1
    for t in range(n):
        v[1:-1] = (u[2:] + u[:-2]) / 2
        u, v = v, u
    return u, v


def fib(n):
    a, b = 0, 1
    for i in range(n):
        a, b = b, (a + b) % 1000007
    return a


def newton(x):
    y = x
    it = 0
    while abs(y * y - x) > 1e-10 and it < 100:
        y = 0.5 * (y + x / y)
        it += 1
    return y, it


def find(x, w):
    for i in range(len(x)):
        if x[i] == w:
            return i
    return -1


def lu(a):
    a = a.copy()
    n = a.shape[0]
    for k in range(n - 1):
        a[k + 1 :, k] = a[k + 1 :, k] / a[k, k]
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return a


def recur(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + x[i]
    return y


def mandel(c):
    out = np.zeros(c.shape, np.int64)
    for i in range(c.shape[0]):
        z = 0j
        n = 0
        while n < 30 and abs(z) <= 2.0:
            z = z * z + c[i]
            n += 1
        out[i] = n
    return out


def swaparg(u, v, n):
    for t in range(n):
        v[1:-1] = (u[2:] + u[:-2]) / 2
        u, v = v, u
    return u


def listappend(x):
    out = []
    for i in range(20):
        out.append(x * i)
    return out


def shapes(x):
    for i in range(30):
        x = np.concatenate([x, x[:1]])
    return x


def crc(data):
    c = 0xFFFFFFFF
    for b in data:
        c = c ^ int(b)
        for _ in range(8):
            if c & 1:
                c = (c >> 1) ^ 0xEDB88320
            else:
                c = c >> 1
    return c ^ 0xFFFFFFFF


def floyd(d):
    d = d.copy()
    n = d.shape[0]
    for k in range(n):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return d


def floyd3(d):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


def gs(u, n):
    for it in range(n):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


def bubble(a):
    n = len(a)
    for i in range(n):
        for j in range(n - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


def csr(indptr, indices, data, x):
    y = np.zeros(len(indptr) - 1)
    for i in range(len(y)):
        for k in range(indptr[i], indptr[i + 1]):
            y[i] += data[k] * x[indices[k]]
    return y


def hist(x, n):
    h = np.zeros(n, np.int64)
    for i in range(len(x)):
        h[x[i]] += 1
    return h


def jacobi(A, b, tol):
    x = np.zeros_like(b)
    d = np.diag(A)
    R = A - np.diagflat(d)
    it = 0
    err = np.inf
    while err > tol:
        xn = (b - R @ x) / d
        err = np.abs(xn - x).max()
        x = xn
        it += 1
        if it >= 200:
            break
    return x, it


def early(x):
    if x.sum() > 10:
        return x * 2
    return x + 1


def ternary(x):
    s = x.sum()
    return np.sqrt(s) if s > 0 else -s


def cholesky(A):
    n = A.shape[0]
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                L[i, j] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return L


def nbody(pos, vel, m, dt, n):
    for t in range(n):
        d = pos[None, :, :] - pos[:, None, :]
        r2 = (d**2).sum(-1) + 1e-3
        acc = (d * (m[None, :] / r2**1.5)[:, :, None]).sum(1)
        vel += acc * dt
        pos += vel * dt
    return pos


def kmeans(x, c, n):
    for t in range(n):
        d = ((x[:, None, :] - c[None, :, :]) ** 2).sum(-1)
        lab = d.argmin(1)
        for k in range(c.shape[0]):
            m = lab == k
            cnt = m.sum()
            if cnt > 0:
                c[k] = (x * m[:, None]).sum(0) / cnt
    return c, lab


def editd(a, b):
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1), np.int64)
    for i in range(n + 1):
        D[i, 0] = i
    for j in range(m + 1):
        D[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + cost)
    return D[n, m]


def solve_loop(A, b, n):
    for t in range(n):
        b = np.linalg.solve(A, b) + 1
    return b


def life(g, n):
    for t in range(n):
        nb = sum(np.roll(np.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i or j))
        g = ((nb == 3) | ((g == 1) & (nb == 2))).astype(g.dtype)
    return g


def damped(u, n):
    for k in range(n):
        u = np.roll(u, 1) + 0.5 * u
        if k % 3 == 0:
            u = u * 0.25
    return u


def sharpened(u, n):
    for k in range(n):
        u = np.roll(u, 1) - 0.5 * u
        if u.sum() > 0:
            u = np.roll(u, -1) - 0.25 * u
        elif k % 2:
            u[1:-1] = u[2:] - u[:-2]
    return u


def accepted(u, n):
    energy = (u * u).sum()
    taken = 0
    for k in range(n):
        new = np.roll(u, 1) * (0.8 + 0.05 * k) - 0.1 * u
        found = (new * new).sum()
        if found < energy:
            u, energy = new, found
            taken += 1
    return u, energy, taken


def best(u, n):
    least, kept = np.inf, u
    for k in range(n):
        u = np.roll(u, 1) - 0.5 * u
        size = np.abs(u).max()
        if size < least:
            least, kept = size, u
    return kept, least, u


def exchanged(u, v, n):
    for k in range(n):
        a, b = u + 0.5 * np.roll(v, 1), v - 0.5 * np.roll(u, 1)
        if a[0] > b[0]:
            u, v = b, a
        else:
            u, v = a, b * 0.5
    return u, v


def streamed(f, n):
    for k in range(n):
        for i in range(3):
            f[:, i] = np.roll(f[:, i], i - 1)
        density = f.sum(1)
        for i in range(3):
            f[:, i] += 0.3 * (density / 3 - f[:, i])


R = np.random.default_rng(0)
S = R.random((12, 12))
S = S @ S.T + 12 * np.eye(12)
NARROW = np.array([0, 2, 5, 5, 9] + [9] * 20)
COMPLEX = R.random(20) * 2 - 1 + 1j * (R.random(20) * 2 - 1)

PROGRAMS = [
    (heat, (R.random(50), 40)),
    (collatz, (np.array([27]),)),
    (total, (R.random(40),)),
    (swap, (R.random(30), 33)),
    (fib, (50,)),
    (newton, (7.3,)),
    (find, (np.arange(40), 17)),
    (find, (np.arange(40), 170)),
    (lu, (R.random((20, 20)) + 20 * np.eye(20),)),
    (recur, (R.random(40),)),
    (mandel, (COMPLEX,)),
    (swaparg, (R.random(30), R.random(30), 33)),
    (listappend, (R.random(3),)),
    (shapes, (R.random(3),)),
    (crc, (np.frombuffer(b"hello world, this is me", np.uint8),)),
    (floyd, (R.random((20, 20)),)),
    (floyd3, (R.random((20, 20)),)),
    (gs, (R.random((20, 20)), 20)),
    (bubble, (R.random(25),)),
    (csr, (NARROW, R.integers(0, 24, 9), R.random(9), R.random(24))),
    (hist, (R.integers(0, 7, 50), 7)),
    (jacobi, (S + 40 * np.eye(12), R.random(12), 1e-9)),
    (early, (R.random(30),)),
    (early, (R.random(3),)),
    (ternary, (R.random(3) - 2,)),
    (cholesky, (np.tile(S, (2, 2)) + 30 * np.eye(24),)),
    (nbody, (R.random((10, 3)), R.random((10, 3)), R.random(10), 0.01, 20)),
    (kmeans, (R.random((40, 2)), R.random((3, 2)), 20)),
    (editd, (R.integers(0, 3, 22), R.integers(0, 3, 25))),
    (solve_loop, (S, R.random(12), 20)),
    (life, ((R.random((20, 20)) > 0.5).astype(np.int64), 20)),
    (streamed, (R.random((50, 3)), 20)),
    (damped, (R.random(50), 20)),
    (sharpened, (R.random(50) - 0.4, 20)),
    (accepted, (R.random(50), 20)),
    (best, (R.random(50), 20)),
    (exchanged, (R.random(50), R.random(50), 20)),
]
