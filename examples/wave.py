"""Ripples that meet a wall with two gaps: the wave equation with absorbing margins.

    python -m examples.wave --picture wave.png

Method: second-order central differences; the three time levels rotate.  Strikwerda, "Finite Difference Schemes and
Partial Differential Equations", SIAM 2004, section 8.2.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def ripple(speed, damping, steps, frequency):
    """`speed` is the squared Courant number of every cell, 0 in the wall."""
    rows, columns = speed.shape
    before = np.zeros((rows, columns), np.float32)
    now = np.zeros((rows, columns), np.float32)
    after = np.zeros((rows, columns), np.float32)
    for step in range(steps):
        laplacian = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
        after[1:-1, 1:-1] = 2 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + speed[1:-1, 1:-1] * laplacian
        after *= damping
        after[rows // 2, 4] += np.sin(frequency * step)
        before, now, after = now, after, before
    return now


def example(size):
    n, steps = {"small": (40, 30), "medium": (400, 500)}[size]
    speed = np.full((n, n), 0.25, np.float32)
    speed[:, n // 3] = 0
    for gap in (2 * n // 5, 3 * n // 5):
        speed[gap - n // 40 : gap + n // 40 + 1, n // 3] = 0.25
    edge = np.minimum(np.arange(n), np.arange(n)[::-1])
    margin = np.clip(np.minimum(edge[:, None], edge[None, :]) / (n / 12), 0, 1)
    damping = (1 - 0.05 * (1 - margin) ** 2).astype(np.float32)
    return ripple, (speed, damping, steps, 0.35)


def draw(figure, arguments, now):
    axes = figure.subplots()
    limit = 3 * now.std()
    axes.imshow(now, cmap="seismic", vmin=-limit, vmax=limit)


def main():
    show.run(example, lambda now: f"largest amplitude {np.abs(now).max():.4f}", draw)


if __name__ == "__main__":
    main()
