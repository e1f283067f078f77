"""Conway's game of life on a torus.

    python -m examples.life --picture life.png

Source: Gardner, "Mathematical Games", Scientific American, October 1970.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def generations(cells, steps):
    for _ in range(steps):
        neighbours = np.zeros_like(cells)
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                if (down, right) != (0, 0):
                    neighbours += np.roll(cells, (down, right), axis=(0, 1))
        born = (cells == 0) & (neighbours == 3)
        survives = (cells == 1) & ((neighbours == 2) | (neighbours == 3))
        cells = np.where(born | survives, 1, 0).astype(np.uint8)
    return cells


def example(size):
    n, steps = {"small": (32, 10), "medium": (1000, 50)}[size]
    return generations, (np.random.default_rng(2).integers(0, 2, (n, n)).astype(np.uint8), steps)


def draw(figure, arguments, cells):
    axes = figure.subplots()
    axes.imshow(cells[:300, :300], cmap="Greens", interpolation="nearest")


def main():
    show.run(example, lambda cells: f"{int(cells.sum())} of {cells.size} cells are alive", draw)


if __name__ == "__main__":
    main()
