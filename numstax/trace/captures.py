"""What a traced function reads from outside itself: arrays become inputs, everything else becomes a guard.

A guard is cheap: it compares objects by identity first.  Containers and objects are compared by their
fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Getter = Callable[[], Any]
MISSING = object()
"""What a name that is not defined gives."""


def always(value: Any) -> Getter:
    return lambda: value


def item(getter: Getter, key: Any) -> Getter:
    """Reads an item of what `getter` reads."""
    return lambda: getter()[key]


_PLAIN = (bool, int, float, complex, str, bytes)


def fingerprint(value: Any, seen: tuple[int, ...] = ()) -> object:
    """Equal for two values that a traced function cannot tell apart, contents of arrays aside."""
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape, value.strides, value.flags.writeable
    if isinstance(value, _PLAIN):
        return type(value), repr(value) if isinstance(value, float | complex) else value
    if id(value) in seen:
        return "cycle"
    seen = (*seen, id(value))
    if isinstance(value, list | tuple):
        return type(value), tuple(fingerprint(v, seen) for v in value)
    if isinstance(value, dict):
        return type(value), tuple((k, fingerprint(v, seen)) for k, v in value.items())
    if isinstance(value, set | frozenset):
        return type(value), frozenset(value)
    return id(value)


class Attribute:
    """Stands for an attribute of a class in a copy of the class: `read` is called when it is first asked for."""

    def __init__(self, read: Getter) -> None:
        self.read = cache(read)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.read()


class Captures:
    """`getters`: how to read each captured input again, by position.  `checks`: (getter, value, fingerprint)."""

    def __init__(self) -> None:
        self.getters: dict[int, Getter] = {}
        self._checks: list[tuple[Getter, Any, object]] = []

    def watch(self, getter: Getter, value: Any) -> None:
        """The result holds only while `getter` gives `value`, or one with the same fingerprint."""
        self._checks.append((getter, value, fingerprint(value)))

    def guard(self) -> Callable[[], bool] | None:
        """A function that says whether everything read still is what it was; None when nothing was read."""
        mutable = [
            (get, mark) for get, value, mark in self._checks if isinstance(value, list | dict | set | np.ndarray)
        ]
        fixed = [row for row in self._checks if not isinstance(row[1], list | dict | set | np.ndarray)]
        if not self._checks:
            return None

        def holds() -> bool:
            for get, value, mark in fixed:
                now = get()
                if now is not value and fingerprint(now) != mark:
                    return False
            return all(fingerprint(get()) == mark for get, mark in mutable)

        return holds
