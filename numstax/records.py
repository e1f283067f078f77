"""Records: frozen dataclasses with slots, cheap to define.

A class with annotated fields enters; what ``dataclasses.dataclass(frozen=True, slots=True)`` would make of it leaves:
`fields`, `replace`, defaults (no factories), `__post_init__`, equality, hash and repr work alike, and methods written
in the class body are kept.  `dataclass` prints and compiles six methods for every class, which for about a hundred
classes was half of the time of ``import numstax``; here `__init__` alone is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, eq: bool = ..., weakref_slot: bool = ...) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(
    cls: type[T] | None = None, /, *, eq: bool = True, weakref_slot: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a record.  `eq`: compare and hash by fields; otherwise by identity."""
    if cls is None:
        return lambda later: _make(later, eq, weakref_slot)
    return _make(cls, eq, weakref_slot)


def _make(cls: type[T], eq: bool, weakref_slot: bool) -> type[T]:
    cls.__doc__ = cls.__doc__ or cls.__name__  # dataclass would derive one from the signature, slowly
    dataclass(init=False, repr=False, eq=False)(cls)
    every = fields(cls)  # type: ignore[arg-type]
    names = [f.name for f in every]
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    own = [*(name for name in names if name not in inherited), *(["__weakref__"] if weakref_slot else [])]
    body = {k: v for k, v in cls.__dict__.items() if k not in (*names, "__dict__", "__weakref__")}
    shared = {
        "__slots__": tuple(own),
        "__qualname__": cls.__qualname__,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__repr__": _repr_of([f.name for f in every if f.repr]),
        "__reduce__": _reduce_of(_values_of(names)),
        **(_comparison(_values_of([f.name for f in every if f.compare])) if eq else {}),
    }
    made: Any = type(cls)(cls.__name__, cls.__bases__, {**shared, **body})  # type: ignore[misc]
    made.__init__ = _init_of(made, every)
    return cast("type[T]", made)


def _refuse(self: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r} of {type(self).__name__}")


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _comparison(values: Callable[[Any], tuple[Any, ...]]) -> dict[str, object]:
    def equal(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equal, "__hash__": lambda self: hash(values(self))}


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return text


def _reduce_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[type, tuple[Any, ...]]]:
    return lambda self: (type(self), values(self))


def _init_of(cls: type, every: tuple[Field[Any], ...]) -> Callable[..., None]:
    """`__init__`, compiled: it sets the slots themselves, past `__setattr__`."""
    scope: dict[str, Any] = {f"set_{f.name}": getattr(cls, f.name).__set__ for f in every}
    scope |= {f"default_{f.name}": f.default for f in every}
    heads = [f.name if f.default is MISSING else f"{f.name}=default_{f.name}" for f in every]
    lines = [f" set_{f.name}(self, {f.name})" for f in every]
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec("\n".join((f"def __init__({', '.join(('self', *heads))}):", *lines, " pass")), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
