"""The temperature that a heated room settles to: Laplace's equation, iterated until nothing changes any more.

    python -m examples.jacobi --picture room.png

Method: Jacobi iteration; Saad, "Iterative Methods for Sparse Linear Systems", SIAM 2003, section 4.1.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def settle(room, fixed, tolerance, limit):
    """Iterates until the largest change is below `tolerance`; gives the temperatures and the number of rounds."""
    rounds = 0
    change = np.inf
    while change > tolerance and rounds < limit:
        after = room.copy()
        after[1:-1, 1:-1] = 0.25 * (room[:-2, 1:-1] + room[2:, 1:-1] + room[1:-1, :-2] + room[1:-1, 2:])
        after = np.where(fixed, room, after)
        change = np.abs(after - room).max()
        room = after
        rounds += 1
    return room, rounds


def example(size):
    n, tolerance, limit = {"small": (24, 1e-2, 200), "medium": (400, 5e-3, 2000)}[size]
    room = np.full((n, n), 15.0)
    room[0, :] = 5.0
    room[n // 2, n // 4 : n // 2] = 60.0
    fixed = np.zeros((n, n), bool)
    fixed[[0, -1], :] = fixed[:, [0, -1]] = True
    fixed[n // 2, n // 4 : n // 2] = True
    return settle, (room, fixed, tolerance, limit)


def draw(figure, arguments, result):
    axes = figure.subplots()
    figure.colorbar(axes.imshow(result[0], cmap="coolwarm"), label="temperature")


def main():
    show.run(example, lambda r: f"settled after {r[1]} rounds, mean {r[0].mean():.4f}", draw)


if __name__ == "__main__":
    main()
