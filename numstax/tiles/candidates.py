"""Ways to compute a product of matrices, compared by their predicted cost."""

from __future__ import annotations

from collections.abc import Sequence

from numstax.ir.loops import Tiling
from numstax.records import record

LIBRARY = "library"
"""The template that is no kernel of ours: NumPy's product on a CPU, CuPy's on a GPU."""


@record
class Candidate:
    """A template for a product.

    cost : predicted seconds.  tilings : those it serves, the formulas' choice first and then by predicted cost; the
    library has none.  reason : why it cannot compute the product, if so.
    """

    template: str
    cost: float
    tilings: tuple[Tiling, ...] = ()
    reason: str = ""


def cheapest(candidates: Sequence[Candidate]) -> Candidate:
    """Of those that can compute the product; at least one must."""
    return min((c for c in candidates if not c.reason), key=lambda c: c.cost)
