"""A Julia set, all points at once: a mask says which points have not escaped yet.

    python -m examples.julia_masks --picture julia.png

Method: the escape-time algorithm as in mandelbrot.py, vectorised the usual NumPy way.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def escape_times(z, c, limit):
    counts = np.zeros(z.shape, np.int64)
    active = np.ones(z.shape, bool)
    for _ in range(limit):
        z[active] = z[active] ** 2 + c
        active[np.abs(z) > 2] = False
        counts[active] += 1
        if not active.any():
            break
    return counts


def example(size):
    n, limit = {"small": (40, 30), "medium": (600, 150)}[size]
    x, y = np.linspace(-1.6, 1.6, n), np.linspace(-1.1, 1.1, 2 * n // 3)
    return escape_times, (x[None, :] + 1j * y[:, None], -0.74 + 0.19j, limit)


def draw(figure, arguments, counts):
    axes = figure.subplots()
    axes.imshow(np.log1p(counts), cmap="twilight_shifted", extent=(-1.6, 1.6, -1.1, 1.1))


def main():
    show.run(example, lambda counts: f"slowest escape {counts.max()} steps, mean {counts.mean():.3f}", draw)


if __name__ == "__main__":
    main()
