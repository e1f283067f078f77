"""Guards: what must hold of a call's arguments for an artifact to be the right one.

Enters: the arguments of a first call.  Leaves: a key that is equal for interchangeable calls, and a `Guard`:
conditions as Python expressions over ``args`` and ``kwargs``, and an expression for each leaf (array or
run-time number) that the compiled code takes.  A guard reads metadata only and keeps no example array alive.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.ir.graph import InputSpec
from numstax.size_guards import size_conditions
from numstax.trace.environment import ShapeEnvironment
from numstax.trace.host import Ticket, is_generator

RUNTIME = (float, complex)
"""Python types whose values are given to compiled code; the values of others are part of the key."""

MISS = object()
"""What `enter` returns when a condition does not hold."""


def key_of(value: Any, static: bool = False, dynamic: bool = False) -> object:
    """Hashable; calls with other keys need other artifacts.  `dynamic`: sizes, strides and integers are left out."""
    kind = type(value)
    if static:
        return static_key(value)
    if kind is np.ndarray:
        return (value.dtype, value.ndim) if dynamic else (value.dtype, value.shape, value.strides)
    if kind in RUNTIME or isinstance(value, np.generic) or is_generator(value) or (dynamic and kind is int):
        return kind
    if isinstance(value, np.ndarray):
        return kind, key_of(value.view(np.ndarray), dynamic=dynamic)
    if isinstance(value, tuple | list):
        return kind, *[key_of(v, dynamic=dynamic) for v in value]
    if isinstance(value, dict):
        return kind, *((k, key_of(v, dynamic=dynamic)) for k, v in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind, *(key_of(getattr(value, f.name), dynamic=dynamic) for f in dataclasses.fields(value))
    return static_key(value)


def static_key(value: object) -> object:
    """Type and value, with the text of numbers, which tells -0.0 from 0.0; objects count by identity."""
    if isinstance(value, slice):
        return slice, static_key(value.start), static_key(value.stop), static_key(value.step)
    if isinstance(value, tuple | list):
        return type(value), *map(static_key, value)
    if isinstance(value, float | complex):
        return type(value), repr(value)
    return type(value), value if isinstance(value, _PLAIN) else id(value)


_PLAIN = (bool, int, str, bytes, type(None), np.dtype)


def searcher(enters: Sequence[Callable[[tuple, dict], Any]]) -> Callable[[tuple, dict], Any]:
    """A function that tries these in order: (result, the one that gave it), or MISS.  It is written out, since a call
    that always goes to the same function costs a third of one that does not."""
    lines = (f"    r = enter{k}(args, kwargs)\n    if r is not MISS: return r, enter{k}\n" for k in range(len(enters)))
    namespace: dict[str, Any] = {"MISS": MISS, **{f"enter{k}": enter for k, enter in enumerate(enters)}}
    exec(f"def search(args, kwargs):\n{''.join(lines)}    return MISS\n", namespace)
    return namespace["search"]  # type: ignore[no-any-return]


def is_odd(array: np.ndarray) -> bool:
    """Must the array be copied before compiled code can read it (byte order, strides, alignment)?"""
    return not array.dtype.isnative or not array.flags.aligned or any(s % array.itemsize for s in array.strides)


def plain_copy(array: np.ndarray) -> np.ndarray:
    return np.array(array, array.dtype.newbyteorder("="), order="C", subok=False)


class Guard:
    """Conditions and leaves of one call, collected from its arguments.

    `static` : positions and keywords whose values are static whatever their type.
    `dynamic` : conditions on sizes, strides and integers come after tracing, from `add_sizes`.
    """

    def __init__(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        static: frozenset[int | str] = frozenset(),
        dynamic: bool = False,
    ) -> None:
        self.conditions: list[str] = []
        self.leaves: list[str] = []
        self.integers: list[str] = []
        """Where the integers of a dynamic call are."""
        self.dynamic = dynamic
        self.odd: set[str] = set()
        """The leaves that are copies."""
        self.kept: list[object] = []
        """Static objects: while they live, no other has their identity."""
        self.names: dict[str, object] = {
            "ndarray": np.ndarray,
            "static_key": static_key,
            "plain_copy": plain_copy,
            "Ticket": Ticket,
        }
        self._call = f"len(args) == {len(args)} and " + (
            f"kwargs.keys() == {set(kwargs)!r}" if kwargs else "not kwargs"
        )
        self._given = (
            [self._take(f"args[{k}]", v, k in static) for k, v in enumerate(args)],
            {k: self._take(f"kwargs[{k!r}]", v, k in static) for k, v in kwargs.items()},
        )

    def given(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of this call, ready for tracing: odd arrays are copies.  The guard forgets them."""
        given = self._given
        del self._given
        return given

    def _take(self, path: str, value: Any, static: bool = False) -> Any:
        """Guard the value at `path`; what the tracer is given for it."""
        kind = type(value)
        if static:
            return self._static(path, value, True)
        if isinstance(value, np.ndarray):
            return self._array(path, value)
        if kind in RUNTIME or isinstance(value, np.generic):
            self._type(path, kind)
            return self._leaf(path, value)
        if is_generator(value):
            self._type(path, kind)
            self._leaf(f"Ticket({path})", value)
            return value
        if isinstance(value, tuple | list):
            self._type(path, kind)
            self.conditions.append(f"len({path}) == {len(value)}")
            items = [self._take(f"{path}[{k}]", v) for k, v in enumerate(value)]
            if all(map(operator.is_, items, value)):
                return value
            return kind(*items) if hasattr(value, "_fields") else kind(items)
        if kind is dict:
            self._type(path, kind)
            self.conditions.append(f"list({path}) == {self._name(list(value))}")
            return {k: self._take(f"{path}[{self._name(k)}]", v) for k, v in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            self._type(path, kind)
            made = copy.copy(value)
            for field in dataclasses.fields(value):
                item = self._take(f"{path}.{field.name}", getattr(value, field.name))
                object.__setattr__(made, field.name, item)
            return made
        return self._static(path, value)

    def _array(self, path: str, array: np.ndarray) -> Any:
        self._type(path, type(array))
        self.conditions.append(f"{path}.dtype {'is' if _is_singleton(array.dtype) else '=='} {self._name(array.dtype)}")
        if self.dynamic:
            self.names["is_odd"] = is_odd
            if is_odd(array):
                self.conditions.append(f"is_odd({path})")
        else:
            self.conditions.append(f"{path}.shape == {array.shape}")
            self.conditions.append(f"{path}.strides == {array.strides}")
        if dtypes.is_supported(array.dtype.newbyteorder("=")) and is_odd(array):
            self.odd.add(f"plain_copy({path})")
            self.conditions.append(f"{path}.flags.aligned is {array.flags.aligned}")
            return self._leaf(f"plain_copy({path})", plain_copy(array))
        if isinstance(array, np.memmap):
            return self._leaf(f"{path}.view(ndarray)", array.view(np.ndarray))
        return self._leaf(path, array)

    def _leaf(self, path: str, value: Any) -> Any:
        self.leaves.append(path)
        return value

    def _type(self, path: str, kind: type) -> None:
        self.conditions.append(f"type({path}) is {self._name(kind)}")

    def _static(self, path: str, value: object, static: bool = False) -> object:
        if self.dynamic and not static and type(value) is int:
            self._type(path, int)
            self.integers.append(path)
        elif value is None or isinstance(value, bool):
            self.conditions.append(f"{path} is {value}")
        elif type(value) in (int, str):
            self._type(path, type(value))
            self.conditions.append(f"{path} == {value!r}")
        else:
            self.conditions.append(f"static_key({path}) == {self._name(static_key(value))}")
            self.kept.append(value)
        return value

    def _name(self, value: object) -> str:
        """A name for `value` in the guard's namespace, or its literal."""
        if type(value) in (int, str):
            return repr(value)
        base = value.__name__ if isinstance(value, type) else str(value) if isinstance(value, np.dtype) else "c"
        base = base if base.isidentifier() and not re.fullmatch(r"([densqu]|stride)\d+", base) else "c"
        k = 0
        while self.names.setdefault(name := f"{base}_{k}" if k else base, value) is not value:
            k += 1
        return name

    # --- the conditions that tracing adds -----------------------------------------------------------

    def require(self, text: str, **names: object) -> None:
        """Add a condition; `names` are free names in it."""
        self.names |= names
        self.conditions.append(text)

    def add_sizes(self, inputs: Sequence[tuple[str, InputSpec]], shapes: ShapeEnvironment) -> list[str]:
        """Conditions on the sizes of the leaves, given with their specs; leaves the symbols that these bind."""
        arrays = [(path, spec) for path, spec in inputs if spec.kind == "array" and path in self.leaves]
        integers = zip(self.integers, map(shapes.resolve, shapes.integers), strict=True)
        conditions, symbols = size_conditions(arrays, integers, shapes.guards(), self.odd)
        self.conditions += conditions
        return symbols

    def writes(self, inputs: Sequence[str], arrays: Iterable[int], written: Iterable[int]) -> str:
        """The compiled code writes to some of its inputs (given as expressions): those must be writeable.  Leaves an
        expression that says whether one of them shares memory with another array, '' when none can."""
        written = set(written)
        pairs = []
        self.names["shares"] = np.may_share_memory
        for p in sorted(written):
            self.conditions.append(f"{inputs[p]}.flags.writeable")
            others = (q for q in arrays if q != p and (q not in written or p < q))
            pairs += [f"shares({inputs[p]}, {inputs[q]})" for q in others]
        return " or ".join(pairs)

    # --- the function -------------------------------------------------------------------------------

    def enter(self, run: str, **names: object) -> Callable[[tuple, dict], Any]:
        """A function of (args, kwargs) that gives the value of the expression `run`, or MISS when a condition
        does not hold.  `run` may use the leaves as ``leaves`` written out."""
        tests = "\n            and ".join([self._call, *self.conditions])
        source = (
            f"def enter(args, kwargs):\n    if (\n            {tests}\n    ):\n        return {run}\n    return MISS\n"
        )
        namespace = {**self.names, **names, "MISS": MISS}
        exec(compile(source, "<numstax guard>", "exec"), namespace)
        return namespace["enter"]  # type: ignore[return-value]

    def failing(self, args: tuple, kwargs: dict) -> str:
        """The first condition that does not hold for these arguments, and the value that it saw."""
        scope: dict[str, Any] = {"args": args, "kwargs": kwargs}
        for condition in (self._call, *self.conditions):
            if not eval(condition, self.names, scope):
                sizes = {k: v for k, v in scope.items() if isinstance(v, int) and re.search(rf"\b{k}\b", condition)}
                if sizes:
                    return f"{condition}, where {', '.join(f'{k} = {v}' for k, v in sizes.items())}"
                left = condition.split(" == ")[0].split(" is ")[0]
                try:
                    return f"{condition} (was {eval(left, self.names, scope)!r:.80})"
                except Exception:
                    return condition
        return ""


def _is_singleton(dtype: np.dtype) -> bool:
    """NumPy hands out one object for each built-in dtype in native byte order."""
    return dtype.isbuiltin == 1 and dtype is np.dtype(dtype.str) and dtype.metadata is None
