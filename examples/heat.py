"""Heat spreading on a plate with a cold rim: explicit finite differences, updated in place.

    python -m examples.heat --picture heat.png

Method: forward Euler in time and the five-point Laplacian in space; LeVeque, "Finite Difference Methods for Ordinary
and Partial Differential Equations", SIAM 2007, chapter 9.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def spread(plate, steps, diffusivity):
    for _ in range(steps):
        inner = plate[1:-1, 1:-1]
        neighbours = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] = inner + diffusivity * (neighbours - 4.0 * inner)
    return plate


def example(size):
    n, steps = {"small": (40, 20), "medium": (500, 400)}[size]
    plate = np.zeros((n, n))
    plate[n // 4 : n // 2, n // 3 : 2 * n // 3] = 100.0
    plate[-1, :] = 60.0
    return spread, (plate, steps, 0.2)


def draw(figure, arguments, plate):
    axes = figure.subplots()
    figure.colorbar(axes.imshow(plate, cmap="inferno"), label="temperature")


def main():
    show.run(example, lambda plate: f"hottest {plate.max():.2f}, mean {plate.mean():.3f}", draw)


if __name__ == "__main__":
    main()
