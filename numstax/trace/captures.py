"""What a traced function reads from outside itself: arrays become inputs, everything else becomes a guard.

A guard is cheap: it is an expression that compares objects by identity first.  What can change in place is compared by
its fingerprint.
"""

from __future__ import annotations

import re
import reprlib
import types
from collections.abc import Callable, Mapping, Sized
from typing import Any

import numpy as np

from numstax.records import record

Getter = Callable[[], Any]
MISSING = object()
"""What a name that is not defined gives."""


def always(value: Any) -> Getter:
    return lambda: value


def item(getter: Getter, key: Any) -> Getter:
    """Reads an item of what `getter` reads."""
    return lambda: getter()[key]


_PLAIN = (bool, int, float, complex, str, bytes)


def can_change(value: Any) -> bool:
    """Can its fingerprint change while it stays the same object?"""
    return isinstance(value, list | dict | set | np.ndarray) or (
        isinstance(value, tuple) and any(map(can_change, value))
    )


def fingerprint(value: Any, kept: list[Any] | None = None, seen: tuple[int, ...] = ()) -> object:
    """Equal for two values that a traced function cannot tell apart, contents of arrays aside.  `kept` gets the objects
    that count by identity: while they live, no other has theirs."""
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape, value.strides, value.flags.writeable
    if isinstance(value, _PLAIN):
        return type(value), repr(value) if isinstance(value, float | complex) else value
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    if id(value) in seen:
        return "cycle"
    seen = (*seen, id(value))
    if isinstance(value, list | tuple | set | frozenset):
        return type(value), tuple([fingerprint(v, kept, seen) for v in value])
    if isinstance(value, dict):
        return type(value), tuple([(fingerprint(k, kept, seen), fingerprint(v, kept, seen)) for k, v in value.items()])
    if kept is not None:
        kept.append(value)
    return id(value)


@record
class Outside:
    """What must hold of the outside for a trace to be the right one: expressions, and the names in them.

    kept : what counts by identity in them, so that no other object gets theirs.
    """

    conditions: tuple[str, ...]
    names: Mapping[str, Any]
    kept: tuple[Any, ...]

    def holds(self) -> bool:
        return all(eval(condition, {**self.names}) for condition in self.conditions)


def readable(condition: str, names: Mapping[str, Any]) -> str:
    """A condition of the outside with what it is about in place of the names; others as they are."""

    def shown(name: str) -> str:
        value: Any = names[name]
        if name.startswith("outside_get"):
            value = value()
        if value is MISSING or name.startswith("outside_container"):
            return "a name that is absent" if value is MISSING else f"a {type(value).__name__}"
        name = getattr(value, "__qualname__", "") or (value.__name__ if isinstance(value, types.ModuleType) else "")
        kind: Any = type(value)
        return name or (f"a {kind.__name__}" if kind.__repr__ is object.__repr__ else reprlib.repr(value))

    for pattern, text in _READABLE:
        if found := re.fullmatch(pattern, condition):
            return text.format(shown(found[1]), *found.groups()[1:])
    return condition


_READABLE = (
    (r"(outside_owner_\d+)\.(\w+) is outside_value_\d+", "{0}.{1} is unchanged"),
    (r"\(outside_get_\d+\(\) is (outside_value_\d+) or .*\)", "{0}, found outside, is unchanged"),
    (r"fingerprint\((outside_get_\d+)\(\)\) == outside_mark_\d+", "{0}, found outside, is unchanged"),
    (r"len\((outside_container_\d+)\) == (\d+)", "{0} has {1} items"),
)


class Captures:
    """`getters`: how to read each captured input again, by position."""

    def __init__(self) -> None:
        self.getters: dict[int, Getter] = {}
        self._conditions: list[str] = []
        self._names: dict[str, Any] = {"fingerprint": fingerprint}
        self._kept: list[Any] = []

    def watch(self, getter: Getter, value: Any) -> None:
        """The result holds only while `getter` gives `value`, or one with the same fingerprint."""
        mark = self._name("mark", fingerprint(value, self._kept))
        get = self._name("get", getter)
        is_equal = f"fingerprint({get}()) == {mark}"
        is_same = f"{get}() is {self._name('value', value)}"
        self._conditions.append(is_equal if can_change(value) else f"({is_same} or {is_equal})")

    def watch_attributes(self, owner: Any, *names: str) -> None:
        """The result holds only while these attributes are the same objects."""
        text = self._name("owner", owner)
        self._conditions += [f"{text}.{name} is {self._name('value', getattr(owner, name))}" for name in names]

    def watch_result(self, function: Callable[[Any], Any], getter: Getter, value: Any) -> None:
        """The result holds only while the function gives the same for what `getter` gives as for `value`."""
        called = f"{self._name('function', function)}({self._name('get', getter)}())"
        self._conditions.append(f"{called} == {function(value)!r}")

    def watch_length(self, container: Sized) -> None:
        """The result holds only while nothing is put into the container or taken out."""
        self._conditions.append(f"len({self._name('container', container)}) == {len(container)}")

    def _name(self, kind: str, value: Any) -> str:
        name = f"outside_{kind}_{len(self._names)}"
        self._names[name] = value
        return name

    def outside(self) -> Outside:
        return Outside(tuple(self._conditions), self._names, tuple(self._kept))
