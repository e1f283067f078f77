"""Flow that sets in around a cylinder: the lattice Boltzmann method on the D2Q9 lattice.

    python -m examples.lattice_boltzmann --picture flow.png

Method: single relaxation time (BGK) with bounce-back walls; Krüger et al., "The Lattice Boltzmann Method", Springer
2017, chapters 3 and 5.
"""

import numpy as np

import numstax
from examples import show

CX = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
CY = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]


def equilibrium(rho, ux, uy):
    feq = np.empty((9, *rho.shape))
    speed = ux**2 + uy**2
    for k in range(9):
        cu = CX[k] * ux + CY[k] * uy
        feq[k] = WEIGHTS[k] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * speed)
    return feq


@numstax.jit
def flow(f, solid, steps, tau, inflow):
    """`f[k]` are the particles that move along direction k; `solid` says where the cylinder is."""
    for _ in range(steps):
        for k in range(9):
            f[k] = np.roll(f[k], (CX[k], CY[k]), axis=(0, 1))
        bounced = f[OPPOSITE][:, solid]

        rho = f.sum(axis=0)
        ux = (CX[:, None, None] * f).sum(axis=0) / rho
        uy = (CY[:, None, None] * f).sum(axis=0) / rho
        ux[0, :], uy[0, :], rho[0, :] = inflow, 0.0, 1.0

        feq = equilibrium(rho, ux, uy)
        f += (feq - f) / tau
        f[:, 0, :] = feq[:, 0, :]
        f[:, solid] = bounced
    ux[solid] = 0
    uy[solid] = 0
    return ux, uy


def example(size):
    nx, ny, steps = {"small": (40, 20, 10), "medium": (400, 100, 200)}[size]
    x, y = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    solid = (x - nx / 5) ** 2 + (y - ny / 2 + 0.5) ** 2 < (ny / 9) ** 2
    wobble = 1e-3 * np.sin(2 * np.pi * y / ny)
    f = equilibrium(np.ones((nx, ny)), np.full((nx, ny), 0.1) * (1 + wobble), np.zeros((nx, ny)))
    return flow, (f, solid, steps, 0.53, 0.1)


def draw(figure, arguments, result):
    ux, uy = result
    curl = np.gradient(uy, axis=0) - np.gradient(ux, axis=1)
    axes = figure.subplots()
    axes.imshow(curl.T, cmap="RdBu", vmin=-0.02, vmax=0.02, origin="lower")
    axes.set_title("vorticity")


def main():
    show.run(example, lambda r: f"fastest {np.hypot(*r).max():.4f}, mean along the channel {r[0].mean():.5f}", draw)


if __name__ == "__main__":
    main()
