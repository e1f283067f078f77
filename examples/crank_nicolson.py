"""Diffusion through a bar of two materials: implicit time steps with a tridiagonal solver.

    python -m examples.crank_nicolson --picture diffusion.png

Method: Crank and Nicolson, Proceedings of the Cambridge Philosophical Society 43, 1947, with the Thomas algorithm;
Press et al., "Numerical Recipes", 3rd edition, section 2.4.
"""

import numpy as np

import numstax
from examples import show


def thomas(below, diagonal, above, right):
    """Solves the tridiagonal system; the first of `below` and the last of `above` are not used."""
    n = len(right)
    c = np.empty(n)
    d = np.empty(n)
    c[0] = above[0] / diagonal[0]
    d[0] = right[0] / diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - below[i] * c[i - 1]
        c[i] = above[i] / pivot
        d[i] = (right[i] - below[i] * d[i - 1]) / pivot
    x = np.empty(n)
    x[-1] = d[-1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


@numstax.jit
def diffuse(density, conductivity, steps, ratio):
    """`conductivity` belongs to the faces between cells, one more than cells; `ratio` is dt / dx**2."""
    left = 0.5 * ratio * conductivity[:-1]
    right = 0.5 * ratio * conductivity[1:]
    for _ in range(steps):
        explicit = (1 - left - right) * density
        explicit[1:] += left[1:] * density[:-1]
        explicit[:-1] += right[:-1] * density[1:]
        density = thomas(-left, 1 + left + right, -right, explicit)
    return density


def example(size):
    n, steps = {"small": (50, 10), "medium": (2000, 200)}[size]
    x = np.linspace(0, 1, n)
    density = np.where(np.abs(x - 0.35) < 0.1, 1.0, 0.0)
    conductivity = np.where(np.linspace(0, 1, n + 1) < 0.5, 1.0, 0.1)
    conductivity[[0, -1]] = 0.0
    return diffuse, (density, conductivity, steps, 40.0 * (n / 2000) ** 2)


def draw(figure, arguments, density):
    axes = figure.subplots()
    x = np.linspace(0, 1, len(density))
    axes.plot(x, arguments[0], label="before")
    axes.plot(x, density, label="after")
    axes.legend()


def main():
    show.run(example, lambda u: f"total {u.sum():.6f}, highest {u.max():.6f}", draw)


if __name__ == "__main__":
    main()
