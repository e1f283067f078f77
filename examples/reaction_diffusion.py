"""Spots and stripes from two chemicals: the Gray-Scott model.

    python -m examples.reaction_diffusion --picture pattern.png

Method: explicit Euler with a five-point Laplacian on a torus; Pearson, "Complex Patterns in a Simple System",
Science 261, 1993.
"""

import numpy as np

import numstax
from examples import show


def laplacian(a):
    return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a


@numstax.jit
def react(u, v, steps, feed, kill):
    for _ in range(steps):
        reaction = u * v * v
        u = u + 0.16 * laplacian(u) - reaction + feed * (1 - u)
        v = v + 0.08 * laplacian(v) + reaction - (feed + kill) * v
    return u, v


def example(size):
    n, steps = {"small": (40, 20), "medium": (300, 500)}[size]
    rng = np.random.default_rng(15)
    u, v = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    for row, column in rng.integers(0, n - n // 10, (12, 2)):
        u[row : row + n // 10, column : column + n // 10] = 0.5
        v[row : row + n // 10, column : column + n // 10] = 0.25
    v += 0.02 * rng.random((n, n), np.float32)
    return react, (u, v, steps, 0.035, 0.06)


def draw(figure, arguments, result):
    figure.subplots().imshow(result[1], cmap="viridis")


def main():
    show.run(example, lambda r: f"mean concentrations {r[0].mean():.4f} and {r[1].mean():.4f}", draw)


if __name__ == "__main__":
    main()
