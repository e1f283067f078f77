"""Heat spreading on a plate: an in-place stencil, written as in NumPy."""

import numpy as np

import numstax


@numstax.jit
def steps(plate):
    """Ten steps; the caller's array changes."""
    for _ in range(10):
        inner = plate[1:-1, 1:-1]
        inner += 0.2 * (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:] - 4.0 * inner)


def main() -> None:
    plate = np.zeros((200, 300), np.float32)
    plate[80:120, 140:160] = 100
    before = plate.sum()
    for _ in range(20):
        steps(plate)
    print(f"hottest {plate.max():.2f}, total {plate.sum() / before:.6f} of the start")
    print(numstax.explain(steps, plate))


if __name__ == "__main__":
    main()
