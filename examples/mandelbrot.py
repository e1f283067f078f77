"""The Mandelbrot set, pixel by pixel: how many steps each point takes to escape.

    python -m examples.mandelbrot --picture mandelbrot.png

Method: the escape-time algorithm; Peitgen and Richter, "The Beauty of Fractals", Springer 1986, section 4.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def escape_times(xs, ys, limit):
    counts = np.zeros((len(ys), len(xs)), np.int64)
    for row in range(len(ys)):
        for column in range(len(xs)):
            c = complex(xs[column], ys[row])
            z = 0j
            count = 0
            while count < limit and z.real * z.real + z.imag * z.imag <= 4.0:
                z = z * z + c
                count += 1
            counts[row, column] = count
    return counts


def example(size):
    width, height, limit = {"small": (24, 16, 30), "medium": (240, 160, 200)}[size]
    return escape_times, (np.linspace(-2.1, 0.7, width), np.linspace(-1.1, 1.1, height), limit)


def draw(figure, arguments, counts):
    axes = figure.subplots()
    axes.imshow(np.log1p(counts), cmap="magma", extent=(-2.1, 0.7, -1.1, 1.1))


def main():
    show.run(example, lambda counts: f"{(counts == counts.max()).mean():.2%} of the points stay", draw)


if __name__ == "__main__":
    main()
