"""The potential around two charged plates: Poisson's equation by successive over-relaxation, cell after cell.

    python -m examples.gauss_seidel --picture potential.png

Method: Press et al., "Numerical Recipes", 3rd edition, section 20.5.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def relax(potential, charge, omega, sweeps):
    rows, columns = potential.shape
    for _ in range(sweeps):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = potential[i - 1, j] + potential[i + 1, j] + potential[i, j - 1] + potential[i, j + 1]
                residual = around + charge[i, j] - 4 * potential[i, j]
                potential[i, j] += omega * residual / 4
    return potential


def example(size):
    n, sweeps = {"small": (24, 10), "medium": (160, 40)}[size]
    charge = np.zeros((n, n))
    charge[n // 4 : 3 * n // 4, n // 3] = 1.0
    charge[n // 4 : 3 * n // 4, 2 * n // 3] = -1.0
    return relax, (np.zeros((n, n)), charge, 2 / (1 + np.sin(np.pi / n)), sweeps)


def draw(figure, arguments, potential):
    axes = figure.subplots()
    figure.colorbar(axes.contourf(potential, 25, cmap="coolwarm"), label="potential")


def main():
    show.run(example, lambda v: f"from {v.min():.4f} to {v.max():.4f}", draw)


if __name__ == "__main__":
    main()
