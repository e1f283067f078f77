"""Waves in a basin after a drop: the nonlinear shallow-water equations with reflecting walls.

    python -m examples.shallow_water --picture waves.png

Method: conservative form, two-step Lax-Wendroff scheme; Richtmyer and Morton, "Difference Methods for Initial-Value
Problems", 1967, section 13.7.
"""

import numpy as np

import numstax
from examples import show

GRAVITY = 9.81


def reflect(h, u, v):
    """Walls: heights are copied outwards, the velocity across the wall changes sign."""
    h[:, 0], u[:, 0], v[:, 0] = h[:, 1], u[:, 1], -v[:, 1]
    h[:, -1], u[:, -1], v[:, -1] = h[:, -2], u[:, -2], -v[:, -2]
    h[0, :], u[0, :], v[0, :] = h[1, :], -u[1, :], v[1, :]
    h[-1, :], u[-1, :], v[-1, :] = h[-2, :], -u[-2, :], v[-2, :]


def flux(momentum, other, height):
    """Momentum carried along its own direction, with the pressure, and across it."""
    return momentum**2 / height + 0.5 * GRAVITY * height**2, momentum * other / height


@numstax.jit
def simulate(h, steps, dt, dx):
    """`h` with one cell of border on every side; `u` and `v` are momenta along the two axes."""
    u = np.zeros_like(h)
    v = np.zeros_like(h)
    c = 0.5 * dt / dx
    for _ in range(steps):
        reflect(h, u, v)

        # half a step: values on the faces between cells
        uu, uv = flux(u[:, 1:-1], v[:, 1:-1], h[:, 1:-1])
        hx = 0.5 * (h[1:, 1:-1] + h[:-1, 1:-1]) - c * (u[1:, 1:-1] - u[:-1, 1:-1])
        ux = 0.5 * (u[1:, 1:-1] + u[:-1, 1:-1]) - c * (uu[1:] - uu[:-1])
        vx = 0.5 * (v[1:, 1:-1] + v[:-1, 1:-1]) - c * (uv[1:] - uv[:-1])
        vv, vu = flux(v[1:-1, :], u[1:-1, :], h[1:-1, :])
        hy = 0.5 * (h[1:-1, 1:] + h[1:-1, :-1]) - c * (v[1:-1, 1:] - v[1:-1, :-1])
        uy = 0.5 * (u[1:-1, 1:] + u[1:-1, :-1]) - c * (vu[:, 1:] - vu[:, :-1])
        vy = 0.5 * (v[1:-1, 1:] + v[1:-1, :-1]) - c * (vv[:, 1:] - vv[:, :-1])

        # the whole step
        uu, uv = flux(ux, vx, hx)
        vv, vu = flux(vy, uy, hy)
        h[1:-1, 1:-1] -= dt / dx * ((ux[1:] - ux[:-1]) + (vy[:, 1:] - vy[:, :-1]))
        u[1:-1, 1:-1] -= dt / dx * ((uu[1:] - uu[:-1]) + (vu[:, 1:] - vu[:, :-1]))
        v[1:-1, 1:-1] -= dt / dx * ((uv[1:] - uv[:-1]) + (vv[:, 1:] - vv[:, :-1]))
    return h, u, v


def example(size):
    n, steps = {"small": (40, 20), "medium": (300, 150)}[size]
    x = np.linspace(-1, 1, n + 2)
    drop = 0.3 * np.exp(-80 * ((x[:, None] + 0.3) ** 2 + (x[None, :] - 0.2) ** 2))
    return simulate, (1.0 + drop, steps, 0.4 / n, 2.0 / n)


def draw(figure, arguments, result):
    axes = figure.add_subplot(projection="3d")
    h = result[0][1:-1, 1:-1]
    x, y = np.meshgrid(*(np.linspace(-1, 1, n) for n in h.shape), indexing="ij")
    axes.plot_surface(x, y, h, cmap="Blues_r", rcount=80, ccount=80)


def main():
    show.run(example, lambda r: f"water {r[0][1:-1, 1:-1].sum():.6f}, highest wave {r[0].max():.4f}", draw)


if __name__ == "__main__":
    main()
