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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numstax import dtypes, precision
from numstax.errors import UnsupportedArgumentError
from numstax.ir.graph import CONTROL, Graph, InputSpec, control_bodies
from numstax.runtime.arrays import contents
from numstax.runtime.interop import Family, family_of, seen
from numstax.size_guards import size_conditions
from numstax.trace.captures import Outside, readable
from numstax.trace.declared import axis_order
from numstax.trace.draws import Ticket, form, is_generator
from numstax.trace.environment import ShapeEnvironment
from numstax.trace.trees import attributes, members

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
    if kind in RUNTIME or isinstance(value, np.generic) or (dynamic and kind is int):
        return kind
    if is_generator(value):
        return kind, form(value)
    if isinstance(value, np.ndarray):
        return kind, key_of(value.view(np.ndarray), dynamic=dynamic)
    if isinstance(value, tuple | list):
        return kind, *[key_of(v, dynamic=dynamic) for v in value]
    if isinstance(value, dict):
        return kind, *((k, key_of(v, dynamic=dynamic)) for k, v in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind, *(key_of(getattr(value, name), dynamic=dynamic) for name in members(value))
    family = family_of(value)
    if family is None:
        return static_key(value)
    tests = family.kind(value) if dynamic else (*family.kind(value), *family.layout(value))
    return kind, *(want for _, _, want in tests)


def device_arrays(value: Any) -> Iterator[tuple[Family, Any]]:
    """The arrays on a GPU among arguments, each with its family."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from device_arrays(item)
    elif isinstance(value, dict):
        yield from device_arrays(list(value.values()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from device_arrays([getattr(value, name) for name in members(value)])
    else:
        family = family_of(value)
        if family is not None:
            yield family, value


def static_key(value: object) -> object:
    """Type and value, with the text of numbers, which tells -0.0 from 0.0; objects count by identity."""
    if isinstance(value, slice):
        return slice, static_key(value.start), static_key(value.stop), static_key(value.step)
    if isinstance(value, tuple | list | set | frozenset):
        return type(value), *map(static_key, value)
    if isinstance(value, dict):
        return type(value), *((static_key(k), static_key(v)) for k, v in value.items())
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


def dense(array: np.ndarray, dynamic: bool) -> np.ndarray:
    """What a GPU is given for an array of the host: without gaps; the order of axes stays, unless sizes are symbols."""
    order = range(array.ndim) if dynamic else axis_order(array.shape, array.strides)
    outer_first = array.transpose(*order)
    made = np.asarray(outer_first, array.dtype.newbyteorder("="), order="C")
    if not made.flags.aligned:
        made = made.copy()
    if made is outer_first:
        return array
    made.flags.writeable = array.flags.writeable
    return made.transpose(*np.argsort(order))


def blank(layout: np.ndarray) -> np.ndarray:
    """Zeros on the host, laid out like memory of a GPU: what a trace is given for such an array."""
    ends = [(n - 1) * s for n, s in zip(layout.shape, layout.strides, strict=True)] if layout.size else []
    memory = np.zeros(sum(map(abs, ends)) + layout.itemsize, np.uint8)
    return np.ndarray(layout.shape, layout.dtype, memory, -sum(e for e in ends if e < 0), layout.strides)


class Guard:
    """Conditions and leaves of one call, collected from its arguments.

    `static` : positions and keywords whose values are static whatever their type.
    `dynamic` : conditions on sizes, strides and integers come after tracing, from `add_sizes`.
    `on_gpu` : arrays of the host are copied to a GPU before the compiled code reads them.
    """

    def __init__(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        static: frozenset[int | str] = frozenset(),
        dynamic: bool = False,
        on_gpu: bool = False,
    ) -> None:
        self.conditions: list[str] = []
        self.leaves: list[str] = []
        self.integers: list[str] = []
        """Where the integers of a dynamic call are."""
        self.dynamic, self.on_gpu = dynamic, on_gpu
        self.odd: set[str] = set()
        """The leaves that are copies."""
        self.uploaded: set[str] = set()
        """The leaves that are copied to a GPU."""
        self.families: dict[str, Family] = {}
        """The leaves that are on a GPU already."""
        self._blank: dict[int, tuple[np.ndarray, Callable[[], np.ndarray]]] = {}
        self.kept: list[object] = []
        """Static objects: while they live, no other has their identity."""
        self.names: dict[str, object] = {
            "ndarray": np.ndarray,
            "static_key": static_key,
            "plain_copy": plain_copy,
            "Ticket": Ticket,
            "form": form,
            "seen": seen,
        }
        self._call = f"len(args) == {len(args)} and " + (
            f"kwargs.keys() == {set(kwargs)!r}" if kwargs else "not kwargs"
        )
        self._given = (
            [self._take(f"args[{k}]", v, k in static) for k, v in enumerate(args)],
            {k: self._take(f"kwargs[{k!r}]", v, k in static) for k, v in kwargs.items()},
        )

    def forget(self) -> None:
        """Nothing will be filled any more."""
        self._blank.clear()

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
            self.conditions.append(f"form({path}) == {form(value)!r}")
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
            if (held := attributes(value)) is not None:
                self.conditions.append(f"len({path}.__dict__) == {len(held)}")
            made = copy.copy(value)
            for name in members(value):
                object.__setattr__(made, name, self._take(f"{path}.{name}", getattr(value, name)))
            return made
        family = family_of(value)
        return self._static(path, value) if family is None else self._device_array(path, value, family)

    def _device_array(self, path: str, value: Any, family: Family) -> Any:
        self._type(path, type(value))
        tests = family.kind(value) if self.dynamic else (*family.kind(value), *family.layout(value))
        for text, relation, want in tests:
            self.conditions.append(f"{text.format(path)} {relation} {self._name(want)}")
        self.families[path] = family
        layout = family.seen(value)
        made = blank(layout)
        self._blank[id(made)] = (made, lambda: contents(layout, family.device(value)))
        return self._leaf(path, made)

    def fill(self, array: np.ndarray) -> None:
        """Put the values of an array on a GPU into the zeros that stand for it."""
        if id(array) in self._blank:
            made, read = self._blank.pop(id(array))
            np.copyto(made, read())

    def _array(self, path: str, array: np.ndarray) -> Any:
        self._type(path, type(array))
        self.conditions.append(f"{path}.dtype {'is' if _is_singleton(array.dtype) else '=='} {self._name(array.dtype)}")
        if self.dynamic and not self.on_gpu:
            self.names["is_odd"] = is_odd
            if is_odd(array):
                self.conditions.append(f"is_odd({path})")
        elif not self.dynamic:
            self.conditions.append(f"{path}.shape == {array.shape}")
            self.conditions.append(f"{path}.strides == {array.strides}")
        if self.on_gpu and type(array) in (np.ndarray, np.memmap):
            self.uploaded.add(path)
            return self._leaf(path, dense(array.view(np.ndarray), self.dynamic))
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
        if type(value) in (int, str, bool) or (type(value) is tuple and all(type(n) is int for n in value)):
            return repr(value)
        base = value.__name__ if isinstance(value, type) else str(value) if isinstance(value, np.dtype) else "c"
        base = base if base.isidentifier() and not re.fullmatch(r"([densqu]|stride)\d+", base) else "c"
        k = 0
        while self.names.setdefault(name := f"{base}_{k}" if k else base, value) is not value:
            k += 1
        return name

    # --- the conditions that tracing adds -----------------------------------------------------------

    def require_outside(self, outside: Outside) -> None:
        self.names |= outside.names
        self.conditions += outside.conditions
        self.kept += outside.kept

    def fix_products(self, graph: Graph) -> None:
        """Products of matrices on a GPU are computed as is set where the call is."""
        if self.on_gpu and _multiplies(graph):
            self.names["product_settings"] = precision.settings
            self.conditions.append(f"product_settings() == {precision.settings()!r}")

    def add_sizes(self, inputs: Sequence[tuple[str, InputSpec]], shapes: ShapeEnvironment) -> list[str]:
        """Conditions on the sizes of the leaves, given with their specs; leaves the symbols that these bind."""
        arrays = [(path, spec) for path, spec in inputs if spec.kind == "array" and path in self.leaves]
        shown = {path: f"v{k}" for k, (path, _) in enumerate(arrays) if path in self.families}
        self.conditions += [f"({name} := seen({path})) is not None" for path, name in shown.items()]
        arrays = [(shown.get(path, path), spec) for path, spec in arrays]
        integers = zip(self.integers, map(shapes.resolve, shapes.integers), strict=True)
        conditions, symbols = size_conditions(arrays, integers, shapes.guards(), self.odd | self.uploaded)
        self.conditions += conditions
        return symbols

    def writes(self, inputs: Sequence[str], arrays: Iterable[int], written: Iterable[int]) -> str:
        """The compiled code writes to some of its inputs (given as expressions): those must be writeable.  Leaves an
        expression that says whether one of them shares memory with another array, '' when none can."""
        written = set(written)
        pairs = []
        self.names["shares"] = np.may_share_memory
        memory = [f"seen({path})" if path in self.families else path for path in inputs]
        arrays = list(arrays)
        for p in sorted(written):
            family = self.families.get(inputs[p])
            if family is None:
                self.conditions.append(f"{inputs[p]}.flags.writeable")
            elif not family.writeable:
                raise UnsupportedArgumentError(f"{inputs[p]} is written to; arrays taken through {family.name} are not")
            others = (q for q in arrays if q != p and (q not in written or p < q))
            pairs += [f"shares({memory[p]}, {memory[q]})" for q in others if self._near(inputs[p], inputs[q])]
        return " or ".join(pairs)

    def _near(self, one: str, other: str) -> bool:
        """Are both arrays on a GPU, or both on the host?  Others share no memory."""
        return (one in self.families) == (other in self.families)

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
                text = readable(condition, self.names)
                if text != condition:
                    return f"not any more: {text}"
                try:
                    return f"{condition} (was {eval(left, self.names, scope)!r:.80})"
                except Exception:
                    return condition
        return ""


def _is_singleton(dtype: np.dtype) -> bool:
    """NumPy hands out one object for each built-in dtype in native byte order."""
    return dtype.isbuiltin == 1 and dtype is np.dtype(dtype.str) and dtype.metadata is None


def _multiplies(graph: Graph) -> bool:
    """Is there a product of matrices, also in a loop or branch?"""
    return any(
        node.op == "matmul" or (node.op in CONTROL and any(map(_multiplies, control_bodies(node))))
        for node in graph.nodes()
    )
