"""A cluster of stars under its own gravity: direct summation over all pairs.

    python -m examples.nbody --picture cluster.png

Method: leapfrog (kick-drift-kick) with softened forces; Binney and Tremaine, "Galactic Dynamics", 2nd edition,
section 3.4.
"""

import numpy as np

import numstax
from examples import show


def acceleration(position, mass, softening):
    offset = position[None, :, :] - position[:, None, :]
    inverse = ((offset**2).sum(axis=-1) + softening**2) ** -1.5
    return (offset * (mass[None, :] * inverse)[:, :, None]).sum(axis=1)


@numstax.jit
def evolve(position, velocity, mass, steps, dt, softening):
    force = acceleration(position, mass, softening)
    for _ in range(steps):
        velocity += 0.5 * dt * force
        position += dt * velocity
        force = acceleration(position, mass, softening)
        velocity += 0.5 * dt * force
    return position, velocity


def example(size):
    n, steps = {"small": (30, 5), "medium": (500, 20)}[size]
    rng = np.random.default_rng(1)
    position = rng.standard_normal((n, 3))
    spin = np.cross(position, [0.0, 0.0, 0.6])
    mass = rng.uniform(0.5, 1.5, n) / n
    return evolve, (position, spin, mass, steps, 0.01, 0.05)


def draw(figure, arguments, result):
    position, velocity = result
    axes = figure.subplots()
    speed = np.linalg.norm(velocity, axis=1)
    figure.colorbar(axes.scatter(position[:, 0], position[:, 1], c=speed, s=6, cmap="plasma"), label="speed")
    axes.set_aspect("equal")


def main():
    def found(result):
        position, velocity = result
        return f"radius {np.linalg.norm(position, axis=1).mean():.4f}, kinetic {(velocity**2).sum() / 2:.4f}"

    show.run(example, found, draw)


if __name__ == "__main__":
    main()
