"""Programs on grids: each row of the grid is one parallel task, a time step is one pass over memory."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from examples.lattice_boltzmann import CX, CY, OPPOSITE, WEIGHTS
from examples.shallow_water import GRAVITY

f4 = np.float32
_OPPOSITE = np.array(OPPOSITE)
_parallel = njit(parallel=True)


@_parallel
def heat(plate, steps, diffusivity):
    rows, columns = plate.shape
    now, after = plate, plate.copy()
    for _ in range(steps):
        for i in prange(1, rows - 1):
            for j in range(1, columns - 1):
                neighbours = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                after[i, j] = now[i, j] + diffusivity * (neighbours - 4.0 * now[i, j])
        now, after = after, now
    if steps % 2:
        plate[:] = now
    return plate


@njit
def _reflect(h, u, v):
    h[:, 0], u[:, 0], v[:, 0] = h[:, 1], u[:, 1], -v[:, 1]
    h[:, -1], u[:, -1], v[:, -1] = h[:, -2], u[:, -2], -v[:, -2]
    h[0, :], u[0, :], v[0, :] = h[1, :], -u[1, :], v[1, :]
    h[-1, :], u[-1, :], v[-1, :] = h[-2, :], -u[-2, :], v[-2, :]


@njit
def _half(h, h2, along, along2, across, across2, c):
    """Between two cells: the momentum along, and the fluxes of both momenta."""
    height = 0.5 * (h2 + h) - c * (along2 - along)
    pressure, pressure2 = along**2 / h + 0.5 * GRAVITY * h**2, along2**2 / h2 + 0.5 * GRAVITY * h2**2
    m = 0.5 * (along2 + along) - c * (pressure2 - pressure)
    other = 0.5 * (across2 + across) - c * (along2 * across2 / h2 - along * across / h)
    return m, m**2 / height + 0.5 * GRAVITY * height**2, m * other / height


@_parallel
def shallow_water(h, steps, dt, dx):
    rows, columns = h.shape
    u, v = np.zeros_like(h), np.zeros_like(h)
    ux, uu, uv = np.empty_like(h), np.empty_like(h), np.empty_like(h)
    vy, vv, vu = np.empty_like(h), np.empty_like(h), np.empty_like(h)
    c, r = 0.5 * dt / dx, dt / dx
    for _ in range(steps):
        _reflect(h, u, v)
        for i in prange(rows - 1):
            for j in range(1, columns - 1):
                ux[i, j], uu[i, j], uv[i, j] = _half(
                    h[i, j], h[i + 1, j], u[i, j], u[i + 1, j], v[i, j], v[i + 1, j], c
                )
            if i > 0:
                for j in range(columns - 1):
                    vy[i, j], vv[i, j], vu[i, j] = _half(
                        h[i, j], h[i, j + 1], v[i, j], v[i, j + 1], u[i, j], u[i, j + 1], c
                    )
        for i in prange(1, rows - 1):
            for j in range(1, columns - 1):
                h[i, j] -= r * ((ux[i, j] - ux[i - 1, j]) + (vy[i, j] - vy[i, j - 1]))
                u[i, j] -= r * ((uu[i, j] - uu[i - 1, j]) + (vu[i, j] - vu[i, j - 1]))
                v[i, j] -= r * ((uv[i, j] - uv[i - 1, j]) + (vv[i, j] - vv[i, j - 1]))
    return h, u, v


@_parallel
def lattice_boltzmann(f, solid, steps, tau, inflow):
    _, nx, ny = f.shape
    now, after = f, np.empty_like(f)
    ux, uy = np.empty((nx, ny)), np.empty((nx, ny))
    for _ in range(steps):
        for x in prange(nx):
            g = np.empty(9)
            for y in range(ny):
                for k in range(9):
                    sx, sy = x - CX[k], y - CY[k]
                    sx = sx + nx if sx < 0 else (sx - nx if sx >= nx else sx)
                    sy = sy + ny if sy < 0 else (sy - ny if sy >= ny else sy)
                    g[k] = now[k, sx, sy]
                rho, mx, my = 0.0, 0.0, 0.0
                for k in range(9):
                    rho += g[k]
                    mx += CX[k] * g[k]
                    my += CY[k] * g[k]
                mx, my = mx / rho, my / rho
                if x == 0:
                    mx, my, rho = inflow, 0.0, 1.0
                ux[x, y], uy[x, y] = mx, my
                speed = mx * mx + my * my
                for k in range(9):
                    cu = CX[k] * mx + CY[k] * my
                    feq = WEIGHTS[k] * rho * (1 + 3 * cu + 4.5 * cu * cu - 1.5 * speed)
                    if solid[x, y]:
                        after[k, x, y] = g[_OPPOSITE[k]]
                    else:
                        after[k, x, y] = feq if x == 0 else g[k] + (feq - g[k]) / tau
        now, after = after, now
    if steps % 2:
        f[:] = now
    for x in prange(nx):
        for y in range(ny):
            if solid[x, y]:
                ux[x, y] = uy[x, y] = 0.0
    return ux, uy


@_parallel
def mandelbrot(xs, ys, limit):
    counts = np.zeros((len(ys), len(xs)), np.int64)
    for row in prange(len(ys)):
        for column in range(len(xs)):
            c = complex(xs[column], ys[row])
            z = 0j
            count = 0
            while count < limit and z.real * z.real + z.imag * z.imag <= 4.0:
                z = z * z + c
                count += 1
            counts[row, column] = count
    return counts


@_parallel
def julia_masks(z, c, limit):
    counts = np.zeros(z.shape, np.int64)
    for row in prange(z.shape[0]):
        for column in range(z.shape[1]):
            w = z[row, column]
            count = 0
            for _ in range(limit):
                w = w * w + c
                if w.real * w.real + w.imag * w.imag > 4.0:
                    break
                count += 1
            z[row, column] = w
            counts[row, column] = count
    return counts


@njit
def _lives(above, here, below, left, j, right):
    n = above[left] + above[j] + above[right] + here[left]
    n += here[right] + below[left] + below[j] + below[right]
    return (n == 3) | ((here[j] == 1) & (n == 2))


@_parallel
def life(cells, steps):
    rows, columns = cells.shape
    last = columns - 1
    now, after = cells.copy(), np.empty_like(cells)
    for _ in range(steps):
        for i in prange(rows):
            above, here, below = now[i - 1], now[i], now[(i + 1) % rows]
            for j in range(1, last):
                after[i, j] = _lives(above, here, below, j - 1, j, j + 1)
            after[i, 0] = _lives(above, here, below, last, 0, 1)
            after[i, last] = _lives(above, here, below, last - 1, last, 0)
        now, after = after, now
    return now


@_parallel
def wave(speed, damping, steps, frequency):
    rows, columns = speed.shape
    before, now, after = np.zeros_like(speed), np.zeros_like(speed), np.zeros_like(speed)
    for step in range(steps):
        for i in prange(1, rows - 1):
            for j in range(1, columns - 1):
                laplacian = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - f4(4) * now[i, j]
                after[i, j] = (f4(2) * now[i, j] - before[i, j] + speed[i, j] * laplacian) * damping[i, j]
        after[rows // 2, 4] += math.sin(frequency * step)
        before, now, after = now, after, before
    return now


@_parallel
def jacobi(room, fixed, tolerance, limit):
    rows, columns = room.shape
    now, after = room.copy(), room.copy()
    rounds, change = 0, np.inf
    while change > tolerance and rounds < limit:
        change = 0.0
        for i in prange(1, rows - 1):
            largest = 0.0
            for j in range(1, columns - 1):
                mean = 0.25 * (now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1])
                value = now[i, j] if fixed[i, j] else mean
                largest = max(largest, abs(value - now[i, j]))
                after[i, j] = value
            change = max(change, largest)
        now, after = after, now
        rounds += 1
    return now, rounds


@njit
def _react(u, v, up, i, down, left, j, right, feed, loss):
    a, b = u[i, j], v[i, j]
    lap_u = u[up, j] + u[down, j] + u[i, left] + u[i, right] - f4(4) * a
    lap_v = v[up, j] + v[down, j] + v[i, left] + v[i, right] - f4(4) * b
    reaction = a * b * b
    return a + f4(0.16) * lap_u - reaction + feed * (f4(1) - a), b + f4(0.08) * lap_v + reaction - loss * b


@_parallel
def reaction_diffusion(u, v, steps, feed, kill):
    rows, columns = u.shape
    last = columns - 1
    loss, feed = f4(feed + kill), f4(feed)
    u2, v2, u, v = np.empty_like(u), np.empty_like(v), u.copy(), v.copy()
    for _ in range(steps):
        for i in prange(rows):
            up, down = i - 1 if i else rows - 1, i + 1 if i + 1 < rows else 0
            for j in range(1, last):
                u2[i, j], v2[i, j] = _react(u, v, up, i, down, j - 1, j, j + 1, feed, loss)
            u2[i, 0], v2[i, 0] = _react(u, v, up, i, down, last, 0, 1, feed, loss)
            u2[i, last], v2[i, last] = _react(u, v, up, i, down, last - 1, last, 0, feed, loss)
        u, u2, v, v2 = u2, u, v2, v
    return u, v
