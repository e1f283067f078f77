"""What mutable values of Python hold, so that it can be compared and put back.

Values enter; for each list, dict, set and the like among them, and for the attributes of each object, a `Content`
leaves, which knows what it held.  An iterator can be looked at, too, but not put back.
"""

from __future__ import annotations

import array
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from numstax.trace.owners import is_heap_type
from numstax.trace.trees import attributes

_SEQUENCES = (list, deque, bytearray, array.array)


class Content:
    """What the list, dict, set or slots (`slots` of an object) held."""

    def __init__(self, holder: Any, slots: tuple[str, ...] = ()) -> None:
        self.holder, self._slots = holder, slots
        self._before = self._now()

    def _now(self) -> list[Any]:
        holder = self.holder
        if self._slots:
            return [(name, getattr(holder, name)) for name in self._slots if hasattr(holder, name)]
        if _is(holder, dict):
            return [*holder.items()]
        if _is(holder, bytearray, array.array):
            return [bytes(holder)]
        return [*holder]

    @property
    def is_as_before(self) -> bool:
        now = self._now()
        return len(now) == len(self._before) and all(map(_same, now, self._before))

    def restore(self) -> None:
        if self.is_as_before:
            return
        holder, before = self.holder, self._before
        if self._slots:
            for name in self._slots:
                if hasattr(holder, name):
                    object.__delattr__(holder, name)
            for name, value in before:
                object.__setattr__(holder, name, value)
        elif _is(holder, bytearray):
            holder[:] = before[0]
        elif _is(holder, array.array):
            holder[:] = array.array(holder.typecode, before[0])
        else:
            holder.clear()
            put: Callable[[Any], Any] = holder.update if _is(holder, dict, set) else holder.extend
            put(dict(before) if _is(holder, dict) else before)


def contents(values: Iterable[Any]) -> list[Content]:
    """What the containers and objects among the values hold."""
    found = []
    for value in values:
        if _is(value, dict, set, *_SEQUENCES):
            found.append(Content(value))
        if (own := own_attributes(value)) is not None:
            found.append(Content(own))
        if slots := _slots(value):
            found.append(Content(value, slots))
    return found


def reachable(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and everything that variables of functions, containers and attributes of objects lead to."""
    seen: set[int] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, types.FunctionType):
            pending += [c.cell_contents for c in value.__closure__ or () if _is_full(c)]
        elif _is(value, dict):
            pending += value.values()
        elif _is(value, list, tuple, set, deque):
            pending += value
        pending += (own_attributes(value) or {}).values()
        pending += [getattr(value, name) for name in _slots(value) if hasattr(value, name)]


def own_attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an object that the user's program has made."""
    # first: handles answer isinstance slowly
    if type(value).__module__.startswith("numstax") or isinstance(value, type | types.ModuleType | types.FunctionType):
        return None
    return attributes(value)


def _slots(value: Any) -> tuple[str, ...]:
    kind = type(value)
    if not is_heap_type(kind) or kind.__module__.startswith("numstax"):
        return ()
    members = [pair for base in kind.__mro__ if is_heap_type(base) for pair in vars(base).items()]
    return tuple(name for name, member in members if isinstance(member, types.MemberDescriptorType))


def _is(value: Any, *kinds: type) -> bool:
    """isinstance, which handles answer slowly, and not as they are."""
    return issubclass(type(value), kinds)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _same(a: Any, b: Any) -> bool:
    if type(a) is tuple and type(b) is tuple and len(a) == len(b) == 2:
        return a is b or (a[0] is b[0] and a[1] is b[1])
    return a is b or (type(a) is bytes and type(b) is bytes and a == b)


def position(iterator: Any) -> object:
    """Where an iterator is: another after an item was taken."""
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        return frame and (frame.f_lasti, {name: _mark(value) for name, value in frame.f_locals.items()})
    if is_heap_type(type(iterator)):
        return None  # its attributes say it
    if type(iterator).__module__ == "itertools":
        return repr(iterator)
    try:
        return _mark(iterator.__reduce__())
    except TypeError:
        return None


def _mark(value: Any) -> object:
    if isinstance(value, tuple):
        return tuple(map(_mark, value))
    if isinstance(value, list):
        return len(value)
    if hasattr(type(value), "__next__"):
        return position(value)
    return value if type(value) in (int, range) else id(value)
