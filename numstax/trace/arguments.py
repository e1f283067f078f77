"""Arguments and results: nested tuples, lists, dicts, named tuples and dataclasses of arrays and numbers.

Leaves are taken in the order they stand in: items of dicts in theirs, fields of dataclasses as declared.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import (
    ArgumentCountError,
    SideEffectError,
    UnsupportedArgumentError,
    UnsupportedArrayError,
    UnsupportedOperationError,
)
from numstax.records import record
from numstax.trace.captures import always
from numstax.trace.draws import draws_numbers, is_generator
from numstax.trace.generators import caller_generator
from numstax.trace.origin import user_origin
from numstax.trace.rebind import AS_THEY_ARE, Rebinder
from numstax.trace.sizes import Condition
from numstax.trace.trees import attributes, members

_ARRAYS = (np.ndarray, np.memmap)


def parameter_names(function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]) -> list[str]:
    """The parameter each positional argument goes to.  Raises ArgumentCountError when the call does not fit."""
    signature = inspect.signature(function)
    name = getattr(function, "__name__", "function")
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentCountError(f"{name}() {error}; its signature is {name}{signature}") from None
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{k}]" for k in range(len(args) - len(names))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return names[: len(args)]


class Arguments:
    """Makes handles of the arguments of one call."""

    def __init__(self, rebinder: Rebinder) -> None:
        self._rebinder = rebinder

    def take(self, value: Any, name: str) -> Any:
        """The argument with a handle in place of each array and run-time number."""
        if isinstance(value, np.ndarray):
            if type(value) not in _ARRAYS:
                plain = f"{name}.filled(value)" if isinstance(value, np.ma.MaskedArray) else f"np.asarray({name})"
                raise UnsupportedArrayError(
                    f"argument {name!r} is a {_type_name(value)}", user_origin(), f"pass a plain array: {plain}"
                )
            return self._rebinder.rec.input(value, name, symbolic=True)
        if type(value) is int:
            return self._rebinder.rec.size(self._rebinder.rec.shapes.integer(value, name))
        if type(value) in (float, complex) or (isinstance(value, np.generic) and dtypes.is_supported(value.dtype)):
            return self._rebinder.rec.input(value, name)
        if (isinstance(value, tuple | list) and type(value) in (tuple, list)) or hasattr(value, "_fields"):
            items = [self.take(v, f"{name}[{k}]") for k, v in enumerate(value)]
            if isinstance(value, list):
                self._rebinder.copied(name, lambda: items)
                return items
            return self._copy_of_class(type(value))(*items) if hasattr(value, "_fields") else tuple(items)
        if type(value) is dict:
            made = {k: self.take(v, f"{name}[{k!r}]") for k, v in value.items()}
            self._rebinder.copied(name, lambda: [*made.items()])
            return made
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._dataclass(value, name)
        if is_generator(value):
            return caller_generator(self._rebinder.rec, value, name)
        if draws_numbers(value):
            what = f"argument {name!r} is a {type(value).__name__}, which draws random numbers"
            raise SideEffectError(what, remedy="pass a numpy.random.Generator: numpy.random.default_rng(seed)")
        return self.fixed(value, name)

    def fixed(self, value: Any, name: str) -> Any:
        """What stands for an argument that counts by its value or identity."""
        try:
            if isinstance(value, np.generic) and not dtypes.is_supported(value.dtype):
                raise UnsupportedOperationError("a number of this dtype cannot be compiled")
            return self._rebinder.value(value, name, always(value))
        except UnsupportedOperationError:
            raise UnsupportedArgumentError(
                f"argument {name!r} is of type {_type_name(value)}", user_origin(),
                "pass arrays, numbers and containers of them",
            ) from None  # fmt: skip

    def _dataclass(self, value: Any, name: str) -> Any:
        made = copy.copy(value)
        for member in members(value):
            object.__setattr__(made, member, self.take(getattr(value, member), f"{name}.{member}"))
        object.__setattr__(made, "__class__", self._copy_of_class(type(value)))
        self._rebinder.copied(name, lambda: [(member, getattr(made, member)) for member in members(made)])
        return made

    def _copy_of_class(self, cls: type) -> Any:
        return self._rebinder.value(cls, cls.__name__, always(cls))


def _type_name(value: object) -> str:
    kind = type(value)
    return "masked array" if issubclass(kind, np.ma.MaskedArray) else f"{kind.__module__}.{kind.__name__}"


# --- results ------------------------------------------------------------------------------------------


@record
class Leaf:
    """The k-th output that the user gets; `kind` turns it into a Python number."""

    k: int
    kind: type | None = None


@record
class Fixed:
    """A value that is the same in every call."""

    value: object


@record
class Branch:
    """A container or slice: `type` and its parts; `names` are the keys of a dict or the fields of a dataclass."""

    type: type
    parts: tuple[Tree, ...]
    names: tuple[object, ...] = ()


Tree = Leaf | Fixed | Branch


def flatten(value: Any, leaf: Callable[[Any], Leaf | None], original: Callable[[Any], Any]) -> Tree:
    """The tree of a result; `leaf` takes what is an output, `original` gives what stands outside for a value."""
    found = leaf(value)
    if found is not None:
        return found
    if original(value) is not value:
        return Fixed(original(value))

    def parts(items: Any) -> tuple[Tree, ...]:
        return tuple(flatten(item, leaf, original) for item in items)

    kind = original(type(value))
    is_named = isinstance(value, tuple) and hasattr(value, "_fields")
    if kind in (set, frozenset) or is_named or _is_made_of_items(kind, value, list, tuple):
        return Branch(kind, parts(value))
    if kind is collections.OrderedDict or _is_made_of_items(kind, value, dict):
        return Branch(kind, parts(value.values()), tuple(map(original, value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = members(value)
        return Branch(kind, parts(getattr(value, n) for n in names), names)
    if type(value) is Condition:
        return Fixed(bool(value))
    if isinstance(value, slice):
        return Branch(kind, parts((value.start, value.stop, value.step)))
    if isinstance(value, (*AS_THEY_ARE, type, types.BuiltinFunctionType)):
        return Fixed(value)
    raise UnsupportedOperationError(
        f"a function that returns a {kind.__name__} cannot be compiled", None,
        "return arrays, numbers and containers of them",
    )  # fmt: skip


def _is_made_of_items(kind: Any, value: Any, *bases: Any) -> bool:
    """Does its class, made of the items, give the same container again?"""
    return not attributes(value) and any(
        issubclass(kind, base) and kind.__init__ is base.__init__ and kind.__new__ is base.__new__ for base in bases
    )


def builder(tree: Tree, first: int = 0) -> Callable[[Sequence[Any]], Any]:
    """A function that puts the outputs of the graph, from number `first` on, into the user's structure."""
    if isinstance(tree, Fixed):
        return lambda outputs: tree.value
    if isinstance(tree, Leaf):
        k, number = first + tree.k, tree.kind
        return (lambda outputs: outputs[k]) if number is None else (lambda outputs: number(outputs[k]))
    parts, kind, names = [builder(p, first) for p in tree.parts], tree.type, tree.names
    if issubclass(kind, dict):
        return lambda outputs: kind(zip(names, [p(outputs) for p in parts], strict=True))
    if names:
        return lambda outputs: _dataclass(kind, names, [p(outputs) for p in parts])
    if hasattr(kind, "_fields") or kind is slice:
        named: Any = kind
        return lambda outputs: named(*[p(outputs) for p in parts])
    if kind is tuple:
        return lambda outputs: tuple([p(outputs) for p in parts])
    sequence: Any = kind
    return lambda outputs: sequence([p(outputs) for p in parts])


def _dataclass(kind: type, names: Sequence[Any], values: Sequence[Any]) -> Any:
    made: Any = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)
    return made
