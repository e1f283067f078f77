"""Small scalar intrinsics: bit patterns, rounding to integers, neighbours, and reassociable accumulation.

`find` gives the Intrinsic of a name that program text calls, from here, `vecmath` or `draws`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numstax.emit import draws, vecmath
from numstax.emit.vecmath_half import round_bf16
from numstax.emit.vecmath_record import Value, absolute, bitcast, convert, copysign, record, where
from numstax.program import Intrinsic


@cache
def find(name: str) -> Intrinsic | None:
    """The intrinsic called `name`; None when there is none."""
    if name in _BITS:
        source, target = _BITS[name]
        return record(name, (source,), lambda x: bitcast(x, target))
    if name in _MIXED:
        params, mixed = _MIXED[name]
        return record(name, params, mixed)
    op, _, dtype = name.rpartition("_")
    function = _FLOATS.get(op) if dtype in ("f32", "f64") else _INTEGERS.get(op)
    if function is not None and (dtype in ("f32", "f64") or dtype[:1] in ("i", "u")):
        count = function.__code__.co_argcount
        return record(name, (dtype,) * count, function)
    return vecmath.intrinsic(name) if vecmath.has(name) else draws.find(name)


_BITS = {
    f"bits_{a}_from_{b}": (b, a)
    for bits in (32, 64)
    for b in (f"f{bits}", f"i{bits}", f"u{bits}")
    for a in (f"f{bits}", f"i{bits}", f"u{bits}")
    if (a[0] == "f") != (b[0] == "f")
}


def _signed(x: Value) -> Value:
    return bitcast(x, f"i{x.dtype[1:]}")


def _nextafter(x: Value, y: Value) -> Value:
    """The neighbour of x towards y: one step of the bit pattern, away from or towards zero."""
    bits = _signed(x)
    grows = (x < y) & (x > 0.0) | (x > y) & (x < 0.0)
    step = bitcast(where(grows, bits + 1, bits - 1), x.dtype)
    smallest = copysign(bitcast(bits.like(1), x.dtype), y)
    moved = where(x == 0.0, smallest, step)
    unordered = (x != x) | (y != y)
    return where(unordered, x + y, where(x == y, y, moved))


def _round_to_odd(x: Value) -> Value:
    """The float32 next to x that a second rounding, to float16, takes to the float16 nearest to x."""
    near = convert(x, "f32")
    back = convert(near, "f64")
    bits = bitcast(near, "i32")
    outside = absolute(back) > absolute(x)
    cut = where(outside, bits - 1, bits)
    odd = bitcast(cut | 1, "f32")
    exact = (back == x) | (x != x)
    return where(exact, near, odd)


def _ldexp(x: Value, n: Value) -> Value:
    """x * 2**n: large powers in steps that round only once."""
    for _ in range(2):
        up, down = n > 1023, n < -1022
        x = where(up, x * 2.0**1023, where(down, x * 2.0**-969, x))
        n = where(up, n - 1023, where(down, n + 969, n))
    n = where(n > 1023, 1023, where(n < -1022, -1022, n))
    return x * bitcast((n + 1023) << 52, "f64")


def _low_nextafter(infinity: int, first: bool = False) -> Callable[[Value, Value], Value]:
    """nextafter on the bits of a half float whose infinity (or largest number) has these bits; of two zeros
    it gives the `first` or the second."""

    def nextafter(x: Value, y: Value) -> Value:
        sign = 1 << (int(x.dtype[1:]) - 1)
        size_x, size_y = x & (sign - 1), y & (sign - 1)
        smaller = (size_x > size_y) | ((x & sign) != (y & sign))
        moved = where(size_x == 0, (y & sign) | 1, where(smaller, x - 1, x + 1))
        same = (x == y) | ((size_x | size_y) == 0)
        return where((size_x > infinity) | (size_y > infinity), sign - 1, where(same, x if first else y, moved))

    return nextafter


def _upward(x: Value) -> Value:
    """The bits of the next float16 above."""
    sign = 1 << 15
    return where((x & (sign - 1)) == 0, 1, where((x & sign) == 0, x + 1, x - 1))


_MIXED: dict[str, tuple[tuple[str, ...], Callable[..., Value]]] = {
    "add_bf16": (("f32", "f32"), lambda a, b: round_bf16(a + b)),
    "subtract_bf16": (("f32", "f32"), lambda a, b: round_bf16(a - b)),
    "multiply_bf16": (("f32", "f32"), lambda a, b: round_bf16(a * b)),
    "f32_odd_from_f64": (("f64",), _round_to_odd),
    "ldexp_f64": (("f64", "i64"), _ldexp),
    "nextafter_f16": (("u16", "u16"), _low_nextafter(0x7C00, first=True)),
    "nextafter_bf16": (("u16", "u16"), _low_nextafter(0x7F80)),
    "nextafter_f8e4m3": (("u8", "u8"), _low_nextafter(0x7E)),
    "nextafter_f8e5m2": (("u8", "u8"), _low_nextafter(0x7C)),
    "neighbour_f16": (("u16",), _upward),
    "neighbour_bf16": (("u16",), lambda x: x + 1),
    "neighbour_f8e4m3": (("u8",), lambda x: x + 1),
    "neighbour_f8e5m2": (("u8",), lambda x: x + 1),
}
_FLOATS: dict[str, Callable[..., Value]] = {
    "floor": lambda x: x.op("floor"),
    "ceil": lambda x: x.op("ceil"),
    "trunc": lambda x: x.op("trunc"),
    "rint": lambda x: x.op("rint"),
    "sqrt": lambda x: x.op("sqrt"),
    "copysign": copysign,
    "fmod": lambda x, y: x.op("frem", y),
    "signbit": lambda x: _signed(x) < 0,
    "nextafter": _nextafter,
    "maximum": lambda a, b: where((a > b) | (a != a), a, b),
    "minimum": lambda a, b: where((a < b) | (a != a), a, b),
    "add_reassoc": lambda a, b: a.op("fadd_reassoc", b),
    "mul_reassoc": lambda a, b: a.op("fmul_reassoc", b),
    "maximum_nsz": lambda a, b: a.op("fmaximum_nsz", b),
    "minimum_nsz": lambda a, b: a.op("fminimum_nsz", b),
}


def _divided(a: Value, b: Value) -> tuple[Value, Value, Value]:
    """Quotient towards zero, remainder, and the divisor used: 1 where division by b would trap."""
    signed = a.dtype[0] == "i"
    safe = where((b == 0) | (b == -1), 1, b) if signed else where(b == 0, 1, b)
    quotient = a.op("sdiv" if signed else "udiv", safe)
    return quotient, a - quotient * safe, safe


def _floor_divide(a: Value, b: Value) -> Value:
    quotient, rest, safe = _divided(a, b)
    if a.dtype[0] == "u":
        return where(b == 0, 0, quotient)
    down = where((rest != 0) & ((rest ^ safe) < 0), quotient - 1, quotient)
    return where(b == 0, 0, where(b == -1, 0 - a, down))


def _remainder(a: Value, b: Value) -> Value:
    """With the sign of the divisor.  By 0 and by -1 the rest is that of a division by 1: 0."""
    _, rest, safe = _divided(a, b)
    return rest if a.dtype[0] == "u" else where((rest != 0) & ((rest ^ safe) < 0), rest + safe, rest)


_INTEGERS: dict[str, Callable[..., Value]] = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": lambda a, b: _divided(a, b)[1],
    "popcount": lambda x: x.op("ctpop"),
    "quotient": lambda a, b: a.op("udiv", b),
    "rest": lambda a, b: a - a.op("udiv", b) * b,
    "add_fits": lambda a, b: a.op("sadd_fits", b, dtype="b1"),
    "subtract_fits": lambda a, b: a.op("ssub_fits", b, dtype="b1"),
    "multiply_fits": lambda a, b: a.op("smul_fits", b, dtype="b1"),
}
"""quotient and rest: of numbers that are not negative, by one that is positive."""
