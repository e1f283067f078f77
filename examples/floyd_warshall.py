"""Shortest routes between all pairs of towns, and the towns that they pass through.

    python -m examples.floyd_warshall --picture routes.png

Method: Floyd, "Algorithm 97: Shortest path", Communications of the ACM 5, 1962.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def shortest_routes(length):
    """Lengths of the shortest routes, and `via[i, j]`, the last town before j on the route from i."""
    n = len(length)
    distance = length.copy()
    via = np.empty((n, n), np.int64)
    for i in range(n):
        for j in range(n):
            via[i, j] = i
    for k in range(n):
        for i in range(n):
            for j in range(n):
                through = distance[i, k] + distance[k, j]
                if through < distance[i, j]:
                    distance[i, j] = through
                    via[i, j] = via[k, j]
    return distance, via


def towns(n):
    return np.random.default_rng(4).random((n, 2))


def example(size):
    n = {"small": 20, "medium": 160}[size]
    place = towns(n)
    length = np.linalg.norm(place[:, None] - place[None, :], axis=-1)
    length[length > 2.2 / np.sqrt(n)] = np.inf
    return shortest_routes, (length,)


def draw(figure, arguments, result):
    place = towns(len(result[0]))
    axes = figure.subplots()
    for i, j in np.argwhere(np.isfinite(arguments[0])):
        axes.plot(*place[[i, j]].T, color="lightgrey", linewidth=0.6)
    start = int(place.sum(axis=1).argmin())
    town = int(np.where(np.isfinite(result[0][start]), result[0][start], 0).argmax())
    while town != start:
        last = result[1][start, town]
        axes.plot(*place[[last, town]].T, color="crimson", linewidth=2)
        town = last
    axes.plot(*place.T, "k.", markersize=4)


def main():
    def found(result):
        finite = np.isfinite(result[0])
        return f"{finite.mean():.1%} of the pairs are connected, the longest route is {result[0][finite].max():.4f}"

    show.run(example, found, draw)


if __name__ == "__main__":
    main()
