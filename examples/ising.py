"""A magnet near its critical temperature: the Ising model.

    python -m examples.ising --picture magnet.png

Method: single spin flips, site after site; Metropolis et al., "Equation of State Calculations by Fast Computing
Machines", Journal of Chemical Physics 21, 1953.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def sweep(spins, rng, sweeps, temperature):
    """Flips spins in place; gives the magnetisation after each sweep."""
    n = spins.shape[0]
    magnetisation = np.empty(sweeps)
    for k in range(sweeps):
        chance = rng.random((n, n))
        for i in range(n):
            for j in range(n):
                around = spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1]
                cost = 2 * spins[i, j] * around
                if cost <= 0 or chance[i, j] < np.exp(-cost / temperature):
                    spins[i, j] = -spins[i, j]
        magnetisation[k] = spins.mean()
    return spins, magnetisation


def example(size):
    n, sweeps = {"small": (16, 6), "medium": (128, 30)}[size]
    spins = np.random.default_rng(13).choice([-1, 1], (n, n))
    return sweep, (spins, np.random.default_rng(14), sweeps, 2.1)


def draw(figure, arguments, result):
    left, right = figure.subplots(1, 2)
    left.imshow(result[0], cmap="gray")
    right.plot(result[1])
    right.set(xlabel="sweep", ylabel="magnetisation")


def main():
    show.run(example, lambda r: f"magnetisation {r[1][-1]:.4f}", draw)


if __name__ == "__main__":
    main()
