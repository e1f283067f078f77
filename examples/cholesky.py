"""Random functions from a Gaussian process: a covariance matrix is factored with hand-written loops.

    python -m examples.cholesky --picture process.png

Method: Cholesky-Banachiewicz, row by row; Golub and Van Loan, "Matrix Computations", 4th edition, section 4.2.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def cholesky(a):
    n = a.shape[0]
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, i] = np.sqrt(total)
            else:
                lower[i, j] = total / lower[j, j]
    return lower


def example(size):
    n = {"small": 24, "medium": 240}[size]
    x = np.linspace(0, 1, n)
    covariance = np.exp(-0.5 * ((x[:, None] - x[None, :]) / 0.08) ** 2)
    return cholesky, (covariance + 1e-6 * np.eye(n),)


def draw(figure, arguments, lower):
    axes = figure.subplots()
    noise = np.random.default_rng(5).standard_normal((len(lower), 5))
    axes.plot(np.linspace(0, 1, len(lower)), lower @ noise)
    axes.set_title("five draws from the process")


def main():
    show.run(example, lambda lower: f"log determinant {2 * np.log(np.diag(lower)).sum():.6f}", draw)


if __name__ == "__main__":
    main()
