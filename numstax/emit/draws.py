"""Scalar functions that programs draw random numbers with: steps of PCG64, and the ziggurat's tables.

A name that program text calls, such as ``pcg64_low``, enters; an `Intrinsic` leaves.

PCG64: the state is a number of 128 bits, in two halves.  A step multiplies it by a constant and adds an odd number that
is the generator's own; a word is both halves mixed, turned by the upper six bits (XSL-RR).  M. E. O'Neill: PCG: A
Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number Generation, Harvey Mudd College,
2014.  PCG64DXSM: the factor has 64 bits, and a word is what two multiplications and shifts make of the state before the
step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from numstax.emit.vecmath_record import Value, bitcast, convert, lookup, record, where
from numstax.emit.ziggurat import LAYERS, Ziggurat, ziggurat
from numstax.program import Intrinsic

FACTOR_HIGH, FACTOR_LOW = 0x2360ED051FC65DA4, 0x4385DF649FCCF645
SHORT_FACTOR = 0xDA942042E4DD58B5


@cache
def find(name: str) -> Intrinsic | None:
    """The intrinsic called `name`; None when there is none."""
    row = _functions().get(name)
    return None if row is None else record(name, *row)


def _low(low: Value, add_low: Value, factor: int = FACTOR_LOW) -> Value:
    return low * factor + add_low


def _high(high: Value, low: Value, add_high: Value, add_low: Value) -> Value:
    return _short_high(high, low, add_high, add_low, FACTOR_LOW) + low * FACTOR_HIGH


def _short_high(high: Value, low: Value, add_high: Value, add_low: Value, factor: int = SHORT_FACTOR) -> Value:
    carry = where(_low(low, add_low, factor) < add_low, low.like(1), 0)
    return low.op("umulh", factor) + high * factor + add_high + carry


def _output(high: Value, low: Value) -> Value:
    mixed, turn = high ^ low, high >> 58
    return (mixed >> turn) | (mixed << ((0 - turn) & 63))


def _short_output(high: Value, low: Value) -> Value:
    mixed = (high ^ (high >> 32)) * SHORT_FACTOR
    return (mixed ^ (mixed >> 48)) * (low | 1)


def _unit(shift: int, dtype: str, word: Value) -> Value:
    """The bits of a word above the `shift` lowest as a fraction of 1."""
    bits = (64 if dtype == "f64" else 32) - shift
    return _float(word >> shift, dtype) * 2.0**-bits


def _float(word: Value, dtype: str) -> Value:
    """Of a number below 2**63."""
    return convert(bitcast(word, "i64"), dtype)


class _Points:
    """What a word says of a point under a ziggurat: the layer in 8 bits from `first` on, then `gap` bits, then how far
    the point is to the right.  A word for float32 has 32 bits."""

    def __init__(self, distribution: str, dtype: str, first: int, gap: int) -> None:
        self.distribution, self.dtype, self.first, self.gap = distribution, dtype, first, gap

    @property
    def table(self) -> Ziggurat:
        return ziggurat(self.distribution, int(self.dtype[1:]))

    def layer(self, word: Value) -> Value:
        return (word >> self.first) & (LAYERS - 1)

    def number(self, word: Value) -> Value:
        return (word >> (self.first + 8 + self.gap)) & ((1 << self.table.bits) - 1)

    def point(self, word: Value) -> Value:
        """The bit in the gap, if there is one, is the sign."""
        size = _float(self.number(word), self.dtype) * lookup(self.layer(word), self.table.steps, self.dtype)
        return where(self.bit(word, self.first + 8), -size, size) if self.gap else size

    def inside(self, word: Value) -> Value:
        """Is the point under the density for certain?"""
        return self.number(word) < lookup(self.layer(word), self.table.limits, "u64")

    def tail(self, word: Value) -> Value:
        return self.layer(word) == 0

    def bit(self, word: Value, position: int) -> Value:
        return ((word >> position) & 1) != 0

    def height(self, word: Value) -> Value:
        return lookup(self.layer(word), self.table.heights, self.dtype)

    def drop(self, word: Value) -> Value:
        """From the edge of the layer above; not of layer 0."""
        return lookup(self.layer(word) - 1, self.table.heights, self.dtype) - self.height(word)


@cache
def _functions() -> dict[str, tuple[tuple[str, ...], Callable[..., Value]]]:
    functions: dict[str, tuple[tuple[str, ...], Callable[..., Value]]] = {
        "pcg64_low": (("u64",) * 2, _low),
        "pcg64_high": (("u64",) * 4, _high),
        "pcg64_output": (("u64",) * 2, _output),
        "pcg64dxsm_low": (("u64",) * 2, partial(_low, factor=SHORT_FACTOR)),
        "pcg64dxsm_high": (("u64",) * 4, _short_high),
        "pcg64dxsm_output": (("u64",) * 2, _short_output),
        "upper_word": (("u64",), lambda word: word >> 32),
        "lower_word": (("u64",), lambda word: word & 0xFFFFFFFF),
        "joined_words": (("u64",) * 2, lambda lower, upper: lower | (upper << 32)),
        "unit_f64": (("u64",), partial(_unit, 11, "f64")),
        "unit_f32": (("u64",), partial(_unit, 8, "f32")),
    }
    for distribution, dtype, first, gap in _LAYOUTS:
        points = _Points(distribution, dtype, first, gap)
        for name in ("point", "inside", "tail", "height", "drop"):
            functions[f"{distribution}_{name}_{dtype}"] = ("u64",), getattr(points, name)
        if gap:
            functions[f"{distribution}_negative_{dtype}"] = ("u64",), partial(points.bit, position=first + 17)
    return functions


_LAYOUTS = (
    ("normal", "f64", 0, 1), ("normal", "f32", 0, 1), ("exponential", "f64", 3, 0), ("exponential", "f32", 1, 0)
)  # fmt: skip
"""Distribution, dtype, and where the layer is in a word, and the point after it."""
