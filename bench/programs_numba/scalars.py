"""Programs of scalar loops: parallel where iterations are independent, otherwise plain compiled loops."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from examples.alignment import GAP, MATCH, MISMATCH

_serial = njit
_parallel = njit(parallel=True)


@_parallel
def floyd_warshall(length):
    n = len(length)
    distance = length.copy()
    via = np.empty((n, n), np.int64)
    for i in prange(n):
        via[i, :] = i
    for k in range(n):
        for i in prange(n):
            first = distance[i, k]
            for j in range(n):
                through = first + distance[k, j]
                if through < distance[i, j]:
                    distance[i, j] = through
                    via[i, j] = via[k, j]
    return distance, via


@njit(parallel=True, fastmath={"reassoc"})
def cholesky(a):
    n = a.shape[0]
    lower = np.zeros((n, n))
    for j in range(n):
        total = a[j, j]
        for k in range(j):
            total -= lower[j, k] * lower[j, k]
        lower[j, j] = pivot = math.sqrt(total)
        for i in prange(j + 1, n):
            total = a[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = total / pivot
    return lower


@_serial
def crc32(message):
    table = np.zeros(256, np.uint32)
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ 0xEDB88320 if remainder & 1 else remainder >> 1
        table[byte] = remainder
    crc = np.uint32(0xFFFFFFFF)
    for byte in message:
        crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ np.uint32(crc >> np.uint32(8))
    return np.uint32(crc ^ np.uint32(0xFFFFFFFF))


@_serial
def gauss_seidel(potential, charge, omega, sweeps):
    rows, columns = potential.shape
    for _ in range(sweeps):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = potential[i - 1, j] + potential[i + 1, j] + potential[i, j - 1] + potential[i, j + 1]
                residual = around + charge[i, j] - 4 * potential[i, j]
                potential[i, j] += omega * residual / 4
    return potential


@_serial
def crank_nicolson(density, conductivity, steps, ratio):
    n = len(density)
    density = density.copy()
    left, right = 0.5 * ratio * conductivity[:-1], 0.5 * ratio * conductivity[1:]
    c, d = np.empty(n), np.empty(n)
    for _ in range(steps):
        for i in range(n):
            value = (1 - left[i] - right[i]) * density[i]
            if i > 0:
                value += left[i] * density[i - 1]
            if i < n - 1:
                value += right[i] * density[i + 1]
            pivot = 1 + left[i] + right[i]
            if i > 0:
                pivot += left[i] * c[i - 1]
                value += left[i] * d[i - 1]
            c[i] = -right[i] / pivot
            d[i] = value / pivot
        density[n - 1] = d[n - 1]
        for i in range(n - 2, -1, -1):
            density[i] = d[i] - c[i] * density[i + 1]
    return density


@_serial
def alignment(a, b):
    m, n = len(a), len(b)
    score = np.zeros((m + 1, n + 1), np.int64)
    for i in range(1, m + 1):
        score[i, 0] = i * GAP
    for j in range(1, n + 1):
        score[0, j] = j * GAP
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            pair = MATCH if a[i - 1] == b[j - 1] else MISMATCH
            score[i, j] = max(score[i - 1, j - 1] + pair, score[i - 1, j] + GAP, score[i, j - 1] + GAP)
    partner = np.full(m, -1)
    i, j = m, n
    while i > 0 and j > 0:
        pair = MATCH if a[i - 1] == b[j - 1] else MISMATCH
        if score[i, j] == score[i - 1, j - 1] + pair:
            i -= 1
            j -= 1
            partner[i] = j
        elif score[i, j] == score[i - 1, j] + GAP:
            i -= 1
        else:
            j -= 1
    return score[m, n], partner


@_serial
def ising(spins, rng, sweeps, temperature):
    n = spins.shape[0]
    magnetisation = np.empty(sweeps)
    for k in range(sweeps):
        chance = rng.random((n, n))
        total = 0
        for i in range(n):
            down = i + 1 if i + 1 < n else 0
            for j in range(n):
                right = j + 1 if j + 1 < n else 0
                around = spins[down, j] + spins[i - 1, j] + spins[i, right] + spins[i, j - 1]
                cost = 2 * spins[i, j] * around
                if cost <= 0 or chance[i, j] < math.exp(-cost / temperature):
                    spins[i, j] = -spins[i, j]
                total += spins[i, j]
        magnetisation[k] = total / (n * n)
    return spins, magnetisation
