"""Nested tuples, lists, dicts, named tuples and dataclasses, as variables of loops and branches hold them.

Leaves are everything else, in the order they stand in: items of dicts in theirs, fields of dataclasses as declared.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any


def attributes(value: Any) -> dict[str, Any] | None:
    """The ``__dict__`` of an object, whatever its class says about that name; None: it has none."""
    for cls in type(value).__mro__:
        found = vars(cls).get("__dict__")
        if isinstance(found, types.GetSetDescriptorType | types.MemberDescriptorType):
            held = found.__get__(value)
            return held if type(held) is dict else None
    return None


def members(value: Any) -> tuple[str, ...]:
    """The names of a dataclass's fields, and of what else is set on the object."""
    fields = tuple(f.name for f in dataclasses.fields(value))
    return *fields, *(name for name in attributes(value) or () if name not in fields)


def parts(value: Any) -> dict[Any, Any] | None:
    """What a container holds, by position, key or name of a field; None for a leaf."""
    if type(value) is dict:
        return value
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not type(value).__module__.startswith(("builtins", "numstax.")):
        return {name: getattr(value, name) for name in members(value)}
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
