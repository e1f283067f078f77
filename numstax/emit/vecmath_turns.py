"""1/(2*pi) to 1300 bits, cut for the reduction of arguments to a fraction of a turn."""

from __future__ import annotations

_BITS = 1300
BUCKET = 16
"""Exponents that share one of `rows`."""


def _arctan_of_inverse(n: int, one: int) -> int:
    """arctan(1/n), in units of 1/one, by its power series."""
    total, term, k = 0, one // n, 1
    while term:
        total += term // k if k % 4 == 1 else -(term // k)
        term //= n * n
        k += 2
    return total


def _per_turn() -> int:
    """1/(2*pi) in units of 2**-_BITS, by Machin's formula for pi."""
    one = 1 << (_BITS + 64)
    pi = 16 * _arctan_of_inverse(5, one) - 4 * _arctan_of_inverse(239, one)
    return (one << _BITS) // (2 * pi)


_PER_TURN = _per_turn()


def pieces(count: int, bits: int) -> tuple[float, ...]:
    """The first pieces of `bits` bits: their sum is 1/(2*pi), and each is exact."""
    cuts = [(_PER_TURN >> (_BITS - k * bits)) % (1 << bits) for k in range(1, count + 1)]
    return tuple(cut / (1 << (k * bits)) for k, cut in enumerate(cuts, 1))


def rows() -> tuple[tuple[float, ...], ...]:
    """Four columns of float64 whose sum is, for each k, 2**(BUCKET*k) / (2*pi) less the nearest integer."""
    columns: tuple[list[float], ...] = ([], [], [], [])
    one = 1 << _BITS
    for k in range(64):
        rest = (_PER_TURN << (BUCKET * k)) % one
        rest -= one if 2 * rest > one else 0
        for column in columns:
            column.append(rest / one)
            numerator, denominator = column[-1].as_integer_ratio()
            rest -= (numerator << _BITS) // denominator
    return tuple(map(tuple, columns))
