"""Small scalar intrinsics: bit patterns, rounding to integers, neighbours, and reassociable accumulation.

`find` gives the Intrinsic of a name that program text calls, from here or from `vecmath`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numstax.cpu_emit import vecmath
from numstax.cpu_emit.vecmath_record import Value, absolute, bitcast, convert, copysign, record, where
from numstax.program import Intrinsic


@cache
def find(name: str) -> Intrinsic | None:
    """The intrinsic called `name`; None when there is none."""
    if name in _BITS:
        source, target = _BITS[name]
        return record(name, (source,), lambda x: bitcast(x, target))
    if name == "f32_odd_from_f64":
        return record(name, ("f64",), _round_to_odd)
    op, _, dtype = name.rpartition("_")
    function = _FLOATS.get(op) if dtype in ("f32", "f64") else _INTEGERS.get(op)
    if function is not None and (dtype in ("f32", "f64") or dtype[:1] in ("i", "u")):
        count = function.__code__.co_argcount
        return record(name, (dtype,) * count, function)
    return vecmath.intrinsic(name) if vecmath.has(name) else None


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


_FLOATS: dict[str, Callable[..., Value]] = {
    "floor": lambda x: x.op("floor"),
    "ceil": lambda x: x.op("ceil"),
    "trunc": lambda x: x.op("trunc"),
    "rint": lambda x: x.op("rint"),
    "sqrt": lambda x: x.op("sqrt"),
    "copysign": copysign,
    "signbit": lambda x: _signed(x) < 0,
    "nextafter": _nextafter,
    "maximum": lambda a, b: where((a > b) | (a != a), a, b),
    "minimum": lambda a, b: where((a < b) | (a != a), a, b),
    "add_reassoc": lambda a, b: a.op("fadd_reassoc", b),
    "mul_reassoc": lambda a, b: a.op("fmul_reassoc", b),
    "maximum_nsz": lambda a, b: a.op("fmaximum_nsz", b),
    "minimum_nsz": lambda a, b: a.op("fminimum_nsz", b),
}
_INTEGERS: dict[str, Callable[..., Value]] = {
    "popcount": lambda x: x.op("ctpop"),
}
