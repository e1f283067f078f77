"""Nested tuples, lists, dicts, named tuples and dataclasses, as variables of loops and branches hold them.

Leaves are everything else, in the order they stand in: items of dicts in theirs, fields of dataclasses as declared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any


def parts(value: Any) -> dict[Any, Any] | None:
    """What a container holds, by position, key or name of a field; None for a leaf."""
    if type(value) is dict:
        return value
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not type(value).__module__.startswith(("builtins", "numstax.")):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


def leaves(value: Any) -> Iterator[Any]:
    held = parts(value)
    if held is None:
        yield value
    else:
        for item in held.values():
            yield from leaves(item)


def rebuilt(value: Any, new: Iterator[Any]) -> Any:
    """The same nest with other leaves."""
    held = parts(value)
    if held is None:
        return next(new)
    items = {name: rebuilt(item, new) for name, item in held.items()}
    if type(value) is dict:
        return items
    if isinstance(value, list):
        return [*items.values()]
    if isinstance(value, tuple):
        return type(value)(*items.values()) if hasattr(value, "_fields") else tuple(items.values())
    made = object.__new__(type(value))
    if hasattr(value, "__dict__"):
        vars(made).update(vars(value))
    for name, item in items.items():
        object.__setattr__(made, name, item)
    return made


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The same nest with `function` of each leaf."""
    return rebuilt(value, map(function, leaves(value)))
