"""The best alignment of two gene sequences, by dynamic programming.

    python -m examples.alignment

Method: Needleman and Wunsch, "A general method applicable to the search for similarities in the amino acid sequence
of two proteins", Journal of Molecular Biology 48, 1970.
"""

import numpy as np

import numstax
from examples import show

MATCH, MISMATCH, GAP = 2, -1, -2


@numstax.jit
def align(a, b):
    """The score, and for each letter of `a` the position in `b` that it stands beside (-1: a gap)."""
    m, n = len(a), len(b)
    score = np.zeros((m + 1, n + 1), np.int64)
    for i in range(1, m + 1):
        score[i, 0] = i * GAP
    for j in range(1, n + 1):
        score[0, j] = j * GAP
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            pair = MATCH if a[i - 1] == b[j - 1] else MISMATCH
            score[i, j] = max(score[i - 1, j - 1] + pair, score[i - 1, j] + GAP, score[i, j - 1] + GAP)

    partner = np.full(m, -1)
    i, j = m, n
    while i > 0 and j > 0:
        pair = MATCH if a[i - 1] == b[j - 1] else MISMATCH
        if score[i, j] == score[i - 1, j - 1] + pair:
            i -= 1
            j -= 1
            partner[i] = j
        elif score[i, j] == score[i - 1, j] + GAP:
            i -= 1
        else:
            j -= 1
    return score[m, n], partner


def example(size):
    length = {"small": 40, "medium": 1000}[size]
    rng = np.random.default_rng(12)
    gene = rng.integers(0, 4, length)
    copied = gene[rng.random(length) > 0.1]
    changed = rng.random(len(copied)) < 0.1
    copied[changed] = rng.integers(0, 4, changed.sum())
    return align, (gene, copied)


def main():
    show.run(example, lambda r: f"score {r[0]}, {np.mean(r[1] >= 0):.1%} of the letters are paired")


if __name__ == "__main__":
    main()
