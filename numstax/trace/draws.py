"""What generators of random numbers are to compiled code: the functions that extern nodes call to draw.

A generator of the caller is a `Ticket`, a number; a generator seeded inside a function is its state, an array.  From
PCG64 and its successor, whose states they read and write, programs draw themselves (see `form`, and `ir/draws.py`).
"""

from __future__ import annotations

import copy
import ctypes
import sys
import threading
import zlib
from functools import cache
from typing import Any, TypeGuard

import numpy as np


def is_generator(value: object) -> TypeGuard[np.random.Generator]:
    """Is this a ``numpy.random.Generator``?  `numpy.random`, which takes 10 ms, is not imported to know."""
    return _is_random(value, "Generator")


def draws_numbers(value: object) -> bool:
    """Is this a generator of any kind?"""
    return _is_random(value, "Generator", "RandomState", "BitGenerator")


def _is_random(value: object, *kinds: str) -> bool:
    module = sys.modules.get("numpy.random")
    return isinstance(value, tuple(getattr(module, kind) for kind in kinds if hasattr(module, kind)))


# --- generators of the caller ---------------------------------------------------------------------------


class Ticket(int):
    """A generator as a number, which compiled code can pass on: the address of two numbers of 64 bits, the generator's
    identity and, where programs draw from it, the address of its state.  The ticket keeps the generator alive.
    `lock` : to be held while programs draw."""

    def __new__(cls, generator: np.random.Generator) -> Ticket:
        bits = generator.bit_generator if form(generator) else None
        desk = _Desk(id(generator), 0 if bits is None else bits.ctypes.state_address)
        self = super().__new__(cls, ctypes.addressof(desk))
        self.generator, self.desk, self.lock = generator, desk, None if bits is None else bits.lock
        self.bits = bits  # whose state programs write to, also where the generator is given another meanwhile
        return self

    generator: np.random.Generator
    desk: ctypes.Array[ctypes.c_int64]
    lock: Any
    bits: Any


_Desk = ctypes.c_int64 * 2


def draw(ticket: int, turn: int, method: str, form: str, /, **words: Any) -> tuple[Any, int]:
    """A draw from the generator that the ticket leads to, and the number of the next draw; `form` is for programs."""
    generator = ctypes.cast(_Desk.from_address(int(ticket))[0], ctypes.py_object).value
    return _draw(generator, method, words), int(turn) + 1


def rehearsal(generator: np.random.Generator) -> Ticket:
    """A generator that will draw the same numbers, so that tracing leaves the original alone."""
    return Ticket(copy.deepcopy(generator))


# --- generators seeded inside a function ------------------------------------------------------------------


def seeded(seed: Any) -> np.ndarray:
    """The state of ``numpy.random.default_rng(seed)``."""
    return _packed(np.random.default_rng(seed))


def draw_seeded(state: np.ndarray, method: str, form: str, /, **words: Any) -> tuple[Any, np.ndarray]:
    """A draw from a generator in this state, and its state afterwards; `form` is for programs."""
    bits = np.random.PCG64()
    inner: Any = {"state": _joined(state[:2]), "inc": _joined(state[2:4])}
    bits.state = {
        "bit_generator": "PCG64", "state": inner, "has_uint32": int(state[4]), "uinteger": int(state[5])
    }  # fmt: skip
    generator = np.random.Generator(bits)
    return _draw(generator, method, words), _packed(generator)


def _draw(generator: np.random.Generator, method: str, words: dict[str, Any]) -> Any:
    if method == "shuffle":
        shuffled = words["x"].copy()
        generator.shuffle(shuffled, words["axis"])
        return shuffled
    return getattr(generator, method)(**words)


def _packed(generator: np.random.Generator) -> np.ndarray:
    """The state as six numbers of 64 bits."""
    state: Any = generator.bit_generator.state
    inner, low = state["state"], 2**64 - 1
    halves = [half for value in (inner["state"], inner["inc"]) for half in (value & low, value >> 64)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def _joined(halves: np.ndarray) -> int:
    return int(halves[0]) | int(halves[1]) << 64


# --- what programs can draw from ----------------------------------------------------------------------------


def form(generator: np.random.Generator) -> str:
    """How programs may draw from a generator: 'pcg64', 'pcg64dxsm', or '' where only its own methods can."""
    bits: Any = generator.bit_generator
    kind = type(bits).__name__
    if kind not in _KINDS or type(generator) is not np.random.Generator or type(bits) is not getattr(np.random, kind):
        return ""
    return kind.lower() if isinstance(bits.lock, _REENTRANT) and is_as_known(kind) else ""


_KINDS = ("PCG64", "PCG64DXSM")
_REENTRANT = type(threading.RLock())
"""Of a lock that a call may hold while generators' methods take it."""


@cache
def is_as_known(kind: str) -> bool:
    """Does this NumPy keep the state of such generators where programs look for it, and draw the numbers that they
    draw?  NumPy may change both."""
    return _has_known_layout(kind) and all(_checksum(*draws) == known for draws, known in _CHECKSUMS.items())


def _has_known_layout(kind: str) -> bool:
    bits = getattr(np.random, kind)(1)
    np.random.Generator(bits).random(dtype=np.float32)
    block = (ctypes.c_uint64 * 2).from_address(bits.ctypes.state_address)
    packed = _packed(np.random.Generator(bits)).tolist()
    if [block[1] & 0xFFFFFFFF, block[1] >> 32] != packed[4:]:
        return False  # then what is before may be no address
    words = (ctypes.c_uint64 * 4).from_address(block[0])
    if [*words] != packed[:4]:
        return False
    words[0] ^= 1
    return int(_packed(np.random.Generator(bits))[0]) == packed[0] ^ 1


def _checksum(kind: str, method: str, dtype: str, *first: int) -> int:
    generator = np.random.Generator(getattr(np.random, kind)(7))
    sample = getattr(generator, method)(*first, size=SAMPLE, dtype=dtype)
    return zlib.crc32(sample.tobytes())


SAMPLE = 1 << 14
_CHECKSUMS: dict[tuple[Any, ...], int] = {
    ("PCG64", "random", "float64"): 0x844D4F36,
    ("PCG64", "random", "float32"): 0x08C40757,
    ("PCG64", "standard_normal", "float64"): 0x3153E1DC,
    ("PCG64", "standard_normal", "float32"): 0xAE7645D3,
    ("PCG64", "standard_exponential", "float64"): 0x1D460B60,
    ("PCG64", "standard_exponential", "float32"): 0x1D7A885E,
    ("PCG64", "integers", "int64", 5, 3_000_000_000): 0x9D512D14,
    ("PCG64", "integers", "uint64", 5, 3_000_000_000): 0x9D512D14,
    ("PCG64", "integers", "uint32", 5, 3_000_000_000): 0x2607EC17,
    ("PCG64", "integers", "int32", -5, 1_500_000_000): 0x63128A38,
    ("PCG64DXSM", "random", "float64"): 0x637C347C,
    ("PCG64DXSM", "random", "float32"): 0x97CAA691,
}
"""Of the first draws, among which are some from tails and some that are rejected at first.  What is made of a
generator's words is the same for all."""
