"""Classes and objects from outside, as traced code sees them: copies whose attributes are found when asked for.

A class or object of the user enters; a copy leaves, with the bases of the original, on which each attribute is found
where Python finds it on the original, and rebound.  What was found, and that nothing was found before it, is watched:
in the object, its class, and the bases of that.  What a copy cannot stand for is refused.
"""

from __future__ import annotations

import abc
import enum
import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from numstax.errors import UnsupportedOperationError
from numstax.trace import draws
from numstax.trace.captures import MISSING, always
from numstax.trace.origin import user_origin
from numstax.trace.owners import is_heap_type, is_impure, is_library, is_own
from numstax.trace.trees import attributes

if TYPE_CHECKING:
    from numstax.trace.rebind import Rebinder

_STRUCTURE = {"__dict__", "__weakref__", "__slots__", "__module__", "__qualname__", "__doc__", "__annotations__"}
_METHODS = (types.FunctionType, staticmethod, classmethod, property, types.WrapperDescriptorType)
_UNSEEN = ("__getattr__", "__getattribute__", "__del__")
"""Methods that Python calls for any attribute, or without being asked by the traced code."""
_REMEDY = "pass what is needed of it as arguments"


class Member:
    """Stands for a member of a class in a copy of the class: `find(instance, owner)` gives it."""

    def __init__(self, find: Callable[[Any, type], Any]) -> None:
        self._find = find

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        found = self._find(instance, type(instance) if owner is None else owner)
        bind = getattr(type(found), "__get__", None)
        return found if bind is None else bind(found, instance, owner)


class DataMember(Member):
    """A member that is asked before the attributes of an object, such as a property."""

    def __set__(self, instance: Any, value: Any) -> None:
        self._find(instance, type(instance)).__set__(instance, value)

    def __delete__(self, instance: Any) -> None:
        self._find(instance, type(instance)).__delete__(instance)


class Mirrors:
    """Makes the copies, each once: the rebinder remembers them."""

    def __init__(self, rebinder: Rebinder) -> None:
        self._rebinder = rebinder
        self._captures = rebinder.captures
        self._originals: dict[type, type] = {}
        """Copies of classes and what they are copies of."""
        self._objects: dict[int, dict[str, Any]] = {}
        """The attributes of the object that a copy, given by its identity, stands for."""
        self._watched: set[tuple[int, str]] = set()

    # --- classes --------------------------------------------------------------------------------------

    def copy_of_class(self, cls: type) -> type:
        if not is_own(cls) or issubclass(cls, BaseException):
            return cls
        if issubclass(cls, enum.Enum):
            _check_no_code(cls)
            return cls
        if type(cls) not in (type, abc.ABCMeta) or "__init_subclass__" in vars(cls):
            raise _refused_class(cls)
        bases = [self._rebinder.value(b, b.__name__, always(b)) for b in cls.__bases__ if is_own(b)]
        members: dict[str, Any] = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        for name, member in vars(cls).items():
            if _is_found(name, member):
                kind = DataMember if hasattr(type(member), "__set__") else Member
                members[name] = kind(functools.partial(self._member, cls, name))
        metaclass: Any = type(cls)
        copy: type = metaclass(cls.__name__, (*bases, cls), members)
        self._originals[copy] = cls
        self._captures.watch_attributes(cls, "__mro__")
        self._captures.watch_length(vars(cls))  # Python looks for special methods unasked
        self._rebinder.copied(cls.__name__, lambda: [*vars(copy).items()])
        return copy

    def _member(self, cls: type, name: str, instance: Any, owner: type) -> Any:
        own = self._objects.get(id(instance))
        if own is not None:
            self._watch(own, own, name)
        self._watch_lookup(next((self._originals[c] for c in owner.__mro__ if c in self._originals), cls), name)
        return self._rebound(vars(cls)[name], cls, name)

    def _watch_lookup(self, cls: type, name: str) -> None:
        """Watch where the class finds the name, and that what it asks before has none."""
        for base in filter(is_own, cls.__mro__):
            self._watch(base, vars(base), name)
            if name in vars(base):
                return

    def _watch(self, owner: Any, namespace: Any, name: str) -> None:
        """Watch what the namespace of `owner` has for the name."""
        held = namespace.get(name, MISSING)
        if not isinstance(held, np.ndarray) and (key := (id(owner), name)) not in self._watched:
            self._watched.add(key)
            self._captures.watch(functools.partial(namespace.get, name, MISSING), held)

    def _rebound(self, member: Any, cls: type, name: str) -> Any:
        """What takes the place of a member in the copy."""
        text = f"{cls.__name__}.{name}"
        if isinstance(member, types.FunctionType):
            file = member.__code__.co_filename
            return member if file == "<string>" or is_library(file) else self._rebinder.function(member)
        if isinstance(member, staticmethod | classmethod):
            return type(member)(self._rebinder.value(member.__func__, text, always(member.__func__)))
        if isinstance(member, property):
            parts: list[Any] = [f and self._rebinder.value(f, text, always(f)) for f in _accessors(member)]
            return property(*parts)
        kind = type(member)
        if hasattr(kind, "__get__") and not kind.__module__.startswith("numstax."):
            if is_heap_type(kind) or kind.__module__ == "functools":
                raise UnsupportedOperationError(f"{text}, a descriptor, cannot be compiled", user_origin(), _REMEDY)
            return member
        return self._rebinder.value(member, text, functools.partial(vars(cls).get, name, MISSING))

    # --- objects --------------------------------------------------------------------------------------

    def copy_of_object(self, value: Any, name: str) -> Any:
        """A copy whose attributes are read, and watched, one by one."""
        cls, own = type(value), attributes(value)
        if own is None or draws.draws_numbers(value) or not _can_stand_for(cls):
            raise UnsupportedOperationError(
                f"{name!r} of type {cls.__module__}.{cls.__name__} cannot be compiled", user_origin(), _REMEDY
            )
        read: dict[str, Any] = {}

        def get(copy: object, attribute: str) -> Any:
            if copy is made:
                self._watch(own, own, attribute)
                if attribute in own:
                    getter = functools.partial(own.get, attribute, MISSING)
                    found = held[attribute] = read[attribute] = self._rebinder.value(
                        own[attribute], f"{name}.{attribute}", getter
                    )
                    return found
            self._watch_lookup(cls, attribute)
            raise AttributeError(f"{cls.__name__!r} object has no attribute {attribute!r}")

        rebound = self._rebinder.value(cls, cls.__name__, always(cls))
        members = {
            "__getattr__": get,
            "__dict__": property(_refuse_all),
            "__reduce_ex__": _refuse_all,
            "__class__": property(lambda copy: rebound),
            "__module__": cls.__module__,
        }
        watched = type(rebound)(cls.__name__, (rebound,), members)
        self._originals[watched] = cls
        self._rebinder.rec.stand_ins[watched] = rebound
        made: Any = _native(cls).__new__(watched)
        held: Any = attributes(made)
        self._objects[id(made)] = own
        self._captures.watch_attributes(value, "__class__", "__dict__")
        for attribute in own:
            if hasattr(cls, attribute) and not _is_data(cls, attribute):
                get(made, attribute)
        before = [*vars(watched).items()]
        self._rebinder.copied(name, lambda: [*held.items()], lambda: [*read.items()])
        self._rebinder.copied(cls.__name__, lambda: [*vars(watched).items()], lambda: before)
        return made


def check_plain(value: Any) -> None:
    """Raise UnsupportedOperationError for a number, text or member of an enumeration of the user's with more to it."""
    cls = type(value)
    if not is_heap_type(cls) or not is_own(cls):
        return
    if not isinstance(value, enum.Enum) and attributes(value):
        raise _refused_class(cls)
    _check_no_code(cls)


def _check_no_code(cls: type) -> None:
    """Raise UnsupportedOperationError where a class that is not copied has methods or, as an enumeration, values that
    may change."""
    members = [m for base in cls.__mro__ if is_own(base) for m in vars(base).values()]
    functions = [getattr(m, "fget", None) or getattr(m, "__func__", m) for m in members]
    if any(isinstance(f, types.FunctionType) and not is_library(f.__code__.co_filename) for f in functions) or (
        issubclass(cls, enum.Enum) and not all(_is_simple(member.value) for member in cls)
    ):
        raise _refused_class(cls)


def _is_simple(value: Any) -> bool:
    return type(value) in (bool, int, float, complex, str, bytes, type(None)) or (
        type(value) is tuple and all(map(_is_simple, value))
    )


def _refused_class(cls: type) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"the class {cls.__name__} cannot be compiled", user_origin(), _REMEDY)


def _is_found(name: str, member: Any) -> bool:
    """Is the member of a class looked up by traced code?"""
    kind = type(member)
    if name in _STRUCTURE or (hasattr(kind, "__set__") and not is_heap_type(kind) and kind is not property):
        return False  # where a slot or a field of a named tuple is
    is_special = name.startswith("__") and name.endswith("__")
    return not is_special or name == "__hash__" or isinstance(member, _METHODS)


def _accessors(member: property) -> tuple[Any, ...]:
    return member.fget, member.fset, member.fdel


def _is_data(cls: type, name: str) -> bool:
    """Is the attribute of the class asked before those of an object?"""
    member = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return hasattr(type(member), "__set__")


def _native(cls: type) -> Any:
    """The nearest class that is not written in Python: it decides what an object holds besides attributes."""
    return next(base for base in cls.__mro__ if not is_heap_type(base))


def _can_stand_for(cls: type) -> bool:
    """Is the state of an object of this class all in its attributes?"""
    if _native(cls) not in (object, types.SimpleNamespace) or type(cls) not in (type, abc.ABCMeta):
        return False
    for base in cls.__mro__:
        if is_heap_type(base) and (
            is_impure(base.__module__)
            or any(name in vars(base) for name in _UNSEEN)
            or any(isinstance(member, types.MemberDescriptorType) for member in vars(base).values())
        ):
            return False
    return True


def _refuse_all(copy: Any, *protocol: int) -> NoReturn:
    raise UnsupportedOperationError("all attributes of an object are asked for", user_origin(), "ask for them by name")
