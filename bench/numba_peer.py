"""The workloads as a Numba user writes them by hand: explicit parallel loops, fast-math."""

from __future__ import annotations

import math

import numpy as np
from numba import get_num_threads, njit, prange

f4 = np.float32
_parallel = njit(parallel=True, fastmath=True)


@_parallel
def relu_sum(x, w):
    n, m = x.shape
    out = np.empty(n, x.dtype)
    for i in prange(n):
        acc = f4(0)
        for j in range(m):
            acc += max(x[i, j] + w[j], f4(0)) * f4(2)
        out[i] = acc
    return out


@_parallel
def transpose_add(x, y):
    m, n = y.shape
    out = np.empty_like(y)
    bs = 32
    for bi in prange((m + bs - 1) // bs):
        for bj in range((n + bs - 1) // bs):
            for i in range(bi * bs, min(m, bi * bs + bs)):
                for j in range(bj * bs, min(n, bj * bs + bs)):
                    out[i, j] = x[j, i] + y[i, j]
    return out


@_parallel
def gelu_backward(dy, x):
    out = np.empty_like(x)
    for i in prange(x.size):
        v = x[i]
        cdf = f4(0.5) * (f4(1) + f4(math.erf(v * f4(0.7071067811865476))))
        out[i] = dy[i] * (cdf + v * f4(math.exp(v * v * f4(-0.5))) * f4(0.3989422804014327))
    return out


@_parallel
def sum_squares(x):
    n, m = x.shape
    out = np.empty(n, x.dtype)
    for i in prange(n):
        acc = f4(0)
        for j in range(m):
            acc += x[i, j] * x[i, j]
        out[i] = acc
    return out


@_parallel
def softmax(x):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        top = x[i, 0]
        for j in range(m):
            top = max(top, x[i, j])
        total = f4(0)
        for j in range(m):
            e = f4(math.exp(x[i, j] - top))
            out[i, j] = e
            total += e
        scale = f4(1) / total
        for j in range(m):
            out[i, j] *= scale
    return out


@_parallel
def layernorm(x, g, b):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        total = f4(0)
        for j in range(m):
            total += x[i, j]
        mean = total / f4(m)
        squares = f4(0)
        for j in range(m):
            d = x[i, j] - mean
            squares += d * d
        scale = f4(1) / f4(math.sqrt(squares / f4(m) + f4(1e-5)))
        for j in range(m):
            out[i, j] = (x[i, j] - mean) * scale * g[j] + b[j]
    return out


@_parallel
def rmsnorm_residual(x, r, g):
    n, m = x.shape
    out, h = np.empty_like(x), np.empty_like(x)
    for i in prange(n):
        squares = f4(0)
        for j in range(m):
            v = x[i, j] + r[i, j]
            h[i, j] = v
            squares += v * v
        scale = f4(1) / f4(math.sqrt(squares / f4(m) + f4(1e-6)))
        for j in range(m):
            out[i, j] = h[i, j] * scale * g[j]
    return out, h


@_parallel
def col_mean(x):
    n, m = x.shape
    threads = get_num_threads()
    part = np.zeros((threads, m), x.dtype)
    for k in prange(threads):
        for i in range(k * n // threads, (k + 1) * n // threads):
            for j in range(m):
                part[k, j] += x[i, j]
    out = np.zeros(m, x.dtype)
    for k in range(threads):
        for j in range(m):
            out[j] += part[k, j] / f4(n)
    return out


@_parallel
def row_var(x):
    n, m = x.shape
    out = np.empty(n, x.dtype)
    for i in prange(n):
        total = f4(0)
        for j in range(m):
            total += x[i, j]
        mean = total / f4(m)
        squares = f4(0)
        for j in range(m):
            d = x[i, j] - mean
            squares += d * d
        out[i] = squares / f4(m)
    return out


@_parallel
def black_scholes(s, k, t):
    call, put = np.empty_like(s), np.empty_like(s)
    for i in prange(s.size):
        sq = f4(math.sqrt(t[i])) * f4(0.3)
        d1 = (f4(math.log(s[i] / k[i])) + f4(0.02 + 0.5 * 0.3 * 0.3) * t[i]) / sq
        d2 = d1 - sq
        n1 = f4(0.5) * (f4(1) + f4(math.erf(d1 * f4(0.7071067811865476))))
        n2 = f4(0.5) * (f4(1) + f4(math.erf(d2 * f4(0.7071067811865476))))
        disc = k[i] * f4(math.exp(t[i] * f4(-0.02)))
        c = s[i] * n1 - disc * n2
        call[i] = c
        put[i] = c - s[i] + disc
    return call, put


@_parallel
def stencil5(u):
    n, m = u.shape
    out = np.empty((n - 2, m - 2), u.dtype)
    for i in prange(1, n - 1):
        for j in range(1, m - 1):
            c = u[i, j]
            out[i - 1, j - 1] = c + f4(0.2) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f4(4) * c)
    return out


@_parallel
def full_sum(x):
    total = f4(0)
    for i in prange(x.size):
        total += x[i]
    return total


@_parallel
def cumsum_rows(x):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        total = f4(0)
        for j in range(m):
            total += x[i, j]
            out[i, j] = total
    return out


@_parallel
def bcast_chain(x, a, b):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        av = a[i, 0]
        for j in range(m):
            t = f4(math.tanh(x[i, j] * av + b[0, j]))
            t = t * b[0, j] - av
            t = f4(math.exp(-(t * t))) * x[i, j] + b[0, j]
            out[i, j] = min(max(t, av), f4(3))
    return out


KERNELS = {
    fn.__name__: fn
    for fn in (
        relu_sum,
        transpose_add,
        gelu_backward,
        sum_squares,
        softmax,
        layernorm,
        rmsnorm_residual,
        col_mean,
        row_var,
        black_scholes,
        stencil5,
        full_sum,
        cumsum_rows,
        bcast_chain,
    )
}
