"""Clusters in a cloud of points: k-means, until no point changes its cluster.

    python -m examples.kmeans --picture clusters.png

Method: Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28, 1982.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def kmeans(points, centres, rounds):
    centres = centres.copy()
    labels = np.full(len(points), -1)
    for _ in range(rounds):
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)
        nearest = distances.argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        for k in range(len(centres)):
            members = points[labels == k]
            if len(members) > 0:
                centres[k] = members.mean(axis=0)
    return centres, labels


def example(size):
    n, k, rounds = {"small": (200, 4, 10), "medium": (100_000, 12, 20)}[size]
    rng = np.random.default_rng(3)
    true = rng.uniform(-10, 10, (k, 2))
    points = true[rng.integers(0, k, n)] + rng.standard_normal((n, 2))
    return kmeans, (points, points[rng.choice(n, k, replace=False)], rounds)


def draw(figure, arguments, result):
    points, (centres, labels) = arguments[0], result
    axes = figure.subplots()
    axes.scatter(points[:, 0], points[:, 1], c=labels, s=3, cmap="tab20")
    axes.plot(centres[:, 0], centres[:, 1], "k*", markersize=12)


def main():
    show.run(example, lambda r: f"centres {np.round(np.sort(r[0][:, 0]), 3)}", draw)


if __name__ == "__main__":
    main()
