"""The text of random functions with loops, branches and jumps, for numbers and arrays of small integers.

Every value is an integer that stays small, so that results are equal or wrong.  Conditions and bounds are static
(`n`), known (constants), or traced (elements of arrays); loops have few iterations or many.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from itertools import count
from random import Random
from types import FunctionType
from typing import Any

import numpy as np

SIZE = 6
_number = count().__next__
# in templates V is a value, T a test, I an index, A an array, N a variable
_LEAVES = ("N", "N", "i", "j", "n", "1", "2", "A[I]", "A[I]")
_VALUES = (
    "(V + V)", "(V - V)", "(V % 5 * V)", "(V // 2)", "abs(V)", "(V if T else V)", "(V and V)", "(V or V)",
    "min(V, V)", "A.sum()", "A.max()",
)  # fmt: skip
_INDICES = ("0", "-1", "3", f"i % {SIZE}", f"(a + j) % {SIZE}", f"-(b % {SIZE})", f"x[i % 3] % {SIZE}")
_COMPARISONS = ("V < V", "V <= V", "V == V", "V != V", "V > V")
_TESTS = ("V < V <= V", "not T", "V % 2", "n > 1", "(T and T)", "(T or T)")
_STATEMENTS = (
    "N = V % 11", "N = (N + V) % 13", "N += V % 3", "a, b = b % 7, a % 7", "A[I] = V % 11", "A[I] += V % 3",
    "A[1:] += A[:-1] % 3", "x[:] = y % 5", "z = A + V % 4", "A[:] = np.where(y > 7, A % 5, A)", "N = A[I]",
)  # fmt: skip
_RANGES = ("range(3)", "range(18)", "range(m[0])", "range(n)", "range(1, m[1], 2)", f"range({SIZE})")
_ITERATED = ("for i in R:", "for j in R:", "for i in R:", "for j, c in enumerate(A):", "for a in A:")


class Writer:
    """Writes one function ``f(x, y, m, n)``: arrays of `SIZE` integers, of three bounds, and a static number."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lines: list[str] = []
        self._left = random.randint(3, 14)
        """Statements that may still be written."""
        self._loops = 0

    def _chance(self, percent: int) -> bool:
        return self._random.randint(1, 100) <= percent

    def _filled(self, templates: tuple[str, ...], depth: int = 0) -> str:
        return re.sub(r"\b[VTIANR]\b", lambda m: self._part(m[0], depth + 1), self._random.choice(templates))

    def _part(self, kind: str, depth: int) -> str:
        simple = depth > 3 or self._chance(40)
        if kind == "V":
            return self._filled(_LEAVES if simple else _VALUES, depth)
        if kind == "T":
            return self._filled(_COMPARISONS if simple else _TESTS, depth)
        return self._filled({"I": _INDICES, "A": ("x", "y", "z"), "N": ("a", "b", "c"), "R": _RANGES}[kind], depth)

    def _line(self, indent: int, *templates: str) -> None:
        self._lines.append("    " * indent + self._filled(templates))

    def _block(self, indent: int, loop: bool = False) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._left -= 1
            if indent > 4 or self._left < 0 or self._chance(45):
                self._simple(indent, loop)
            else:
                self._compound(indent, loop)

    def _simple(self, indent: int, loop: bool) -> None:
        jumps = ("break", "continue", "return a, b, c") if loop else ("return c, a, b",) if indent > 1 else ()
        self._line(indent, *(jumps if jumps and self._chance(20) else _STATEMENTS))

    def _compound(self, indent: int, loop: bool) -> None:
        kind = self._random.choice(("if", "if", "for", "for", "while"))
        if kind == "if":
            self._line(indent, "if T:")
            self._block(indent + 1, loop)
            if self._chance(25):
                self._line(indent, "elif T:")
                self._block(indent + 1, loop)
        elif kind == "for":
            self._line(indent, *_ITERATED)
            self._block(indent + 1, True)
        else:
            self._loops += 1
            turns = f"t{self._loops}"
            self._line(indent, f"{turns} = 0")
            self._line(indent, *(f"while {turns} < {most} and T:" for most in ("3", "20", "m[2]")))
            self._line(indent + 1, f"{turns} += 1")
            self._block(indent + 1, True)
        if self._chance(25):
            self._line(indent, "else:")
            self._block(indent + 1, loop)

    def text(self) -> str:
        self._lines = ["def f(x, y, m, n):", "    a, b, c, i, j, z = 1, 2, x[0], 0, 0, x + y"]
        while self._left > 0:
            self._block(1)
        return "\n".join([*self._lines, "    return a, b, c + z.sum()\n"])


def function(text: str) -> FunctionType:
    """The function of a text, with the text as its source."""
    file = f"<random program {_number()}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), scope)
    made: FunctionType = scope["f"]
    return made


def arguments(random: Random) -> Callable[[], tuple[Any, ...]]:
    """A function that makes the same arguments again and again."""
    x, y, m = ([random.randint(0, 9) for _ in range(size)] for size in (SIZE, SIZE, 3))
    n = random.randint(0, 3)
    return lambda: (np.array(x), np.array(y), np.array(m), n)
