"""Tables of the ziggurat method: a decreasing density is covered by 256 layers of one area.

Enters: a distribution, 'normal' or 'exponential', and the width of its floats in bits; leaves a `Ziggurat`.  Each layer
reaches to the right up to its edge; what is left of the edge of the layer above is under the density.  Layer 0 holds
the tail beyond the outermost edge.  G. Marsaglia, W. W. Tsang: The Ziggurat Method for Generating Random Variables,
Journal of Statistical Software 5(8), 2000.

Programs draw NumPy's numbers, so the tables are NumPy's to the last bit.  Those were rounded in several ways: the
normal distribution's was computed in float64 throughout, the others from more digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal, localcontext
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

from numstax.records import record

LAYERS = 256
DIGITS = 40
NORMAL_EDGE = Decimal("3.654152885361008771645429720399516")
EXPONENTIAL_EDGE = Decimal("7.697117470131049714044628048015")
"""The outermost edges: layers of one area then end where the density does."""
NORMAL_AREA = 0.004928673233974652
"""Of a layer under exp(-x*x/2), as it was rounded: exact is 0.00492867323397465...3."""
MISROUNDED = {float.fromhex("0x1.5ad29acc85c88p-1"): float.fromhex("0x1.5ad29acc85c89p-1")}
"""The one height that was not rounded to the nearest float64."""
Number = TypeVar("Number", float, Decimal)


@record
class Ziggurat:
    """A point of a layer is a whole number below 2**`bits` times the layer's step.

    limits : numbers below the layer's limit are certainly under the density.
    heights : the density at the edge of each layer, at 0 its largest value.
    edge : where the tail begins.
    """

    bits: int
    steps: tuple[float, ...]
    limits: tuple[int, ...]
    heights: tuple[float, ...]
    edge: float


@cache
def ziggurat(distribution: str, width: int) -> Ziggurat:
    with localcontext(Context(prec=DIGITS)):
        if distribution == "exponential":
            return _exponential(width)
        return _normal() if width == 32 else _normal_in_double()


def _normal() -> Ziggurat:
    scale = Decimal(1 << 23)
    edges, heights = _layers(NORMAL_EDGE, _normal_area(), lambda x: (-x * x / 2).exp(), lambda y: (-2 * y.ln()).sqrt())
    steps, rounded = _float32(e / scale for e in edges), _float32(heights)
    return Ziggurat(23, steps, tuple(map(round, _inside(edges, scale))), rounded, *_float32([NORMAL_EDGE]))


def _normal_area() -> Decimal:
    """The layer below the tail and the tail itself, what is missing to sqrt(pi/2): by a series."""
    pi = Decimal("3.14159265358979323846264338327950288419716940")
    term = total = NORMAL_EDGE
    count = 1
    while term > Decimal(10) ** -DIGITS:
        count += 2
        term *= NORMAL_EDGE * NORMAL_EDGE / count
        total += term
    return (pi / 2).sqrt() + (NORMAL_EDGE - total) * (-NORMAL_EDGE * NORMAL_EDGE / 2).exp()


def _normal_in_double() -> Ziggurat:
    def density(x: float) -> float:
        height = float(Decimal(-0.5 * x * x).exp())
        return MISROUNDED.get(height, height)

    scale = float(1 << 52)
    edge = float(NORMAL_EDGE)
    edges, heights = _layers(edge, NORMAL_AREA, density, lambda y: math.sqrt(-2.0 * float(Decimal(y).ln())))
    limits = tuple(map(round, _inside(edges, scale)))
    return Ziggurat(52, tuple(e / scale for e in edges), limits, tuple(heights), edge)


def _exponential(width: int) -> Ziggurat:
    edge = EXPONENTIAL_EDGE
    edges, heights = _layers(edge, (edge + 1) * (-edge).exp(), lambda x: (-x).exp(), lambda y: -y.ln())
    bits = 23 if width == 32 else 53
    scale = Decimal(1 << bits)
    steps, inside = [e / scale for e in edges], _inside(edges, scale)
    if width == 64:
        # limits of 52 bits
        limits = tuple(2 * int(k / 2) for k in inside)
        return Ziggurat(bits, tuple(map(float, steps)), limits, tuple(map(float, heights)), float(edge))
    # written with nine digits before they were read as float32
    nine = Context(prec=9)
    return Ziggurat(
        bits, _float32(map(nine.plus, steps)), tuple(map(round, inside)), _float32(map(nine.plus, heights)),
        *_float32([edge]),
    )  # fmt: skip


def _layers(
    edge: Number, area: Number, density: Callable[[Number], Number], inverse: Callable[[Number], Number]
) -> tuple[list[Number], list[Number]]:
    """The edges of the layers (of layer 0 the width of a rectangle of its area) and the density there (at 0 for 0)."""
    edges: list[Number] = [edge]
    heights: list[Number] = [density(edge)]
    for _ in range(LAYERS - 2):
        edges.append(inverse(area / edges[-1] + heights[-1]))
        heights.append(density(edges[-1]))
    edges.append(area / heights[0])
    heights.append(density(edge - edge))
    return edges[::-1], heights[::-1]


def _inside(edges: Sequence[Number], scale: Number) -> list[Number]:
    """The part of each layer that is under the density, times the scale; of layer 1 nothing is."""
    parts = [edges[-1] / edges[0] * scale, scale - scale]
    for inner, outer in pairwise(edges[1:]):
        parts.append(inner / outer * scale)
    return parts


def _float32(values: Iterable[Decimal]) -> tuple[float, ...]:
    return tuple(float(np.float32(float(v))) for v in values)
