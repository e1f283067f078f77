"""The arguments of an exported function: what they were at export, and whether those of a call fit.

Enters: the arguments of the example and the declared Dims, later the arguments of calls.  Leaves: for each call the
inputs of the compiled graph, laid out as the code expects.  Every part of the arguments has a name, ``x``,
``x[0]``, ``x['bias']``, in which the errors speak.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import CodeType
from typing import Any

import numpy as np

from numstax.errors import ArgumentCountError, ReadOnlyError, SignatureError, SizeError, UnsupportedArgumentError
from numstax.records import record
from numstax.trace.declared import Dim, axis_order
from numstax.trace.trees import members


@record
class ArrayInput:
    """shape : sizes, or names of Dims.  order : axes from the outermost in memory to the innermost."""

    name: str
    dtype: np.dtype
    shape: tuple[int | str, ...]
    order: tuple[int, ...]
    written: bool = False

    @classmethod
    def of(cls, name: str, array: np.ndarray, dims: Mapping[int, Dim]) -> ArrayInput:
        shape = tuple(dims[k].name if k in dims else n for k, n in enumerate(array.shape))
        return cls(name, array.dtype.newbyteorder("="), shape, axis_order(array.shape, array.strides))

    def check(self, value: object) -> np.ndarray:
        """The array.  Raises SignatureError."""
        if type(value) not in (np.ndarray, np.memmap):
            raise SignatureError(f"{self.name} is a {type(value).__name__}; it was exported as an array")
        assert isinstance(value, np.ndarray)
        if value.dtype.newbyteorder("=") != self.dtype:
            raise SignatureError(f"{self.name} has dtype {value.dtype}; it was exported with {self.dtype}")
        if value.ndim != len(self.shape):
            raise SignatureError(f"{self.name} has {value.ndim} dimensions; it was exported with {len(self.shape)}")
        if self.written and not value.flags.writeable:
            raise ReadOnlyError(f"{self.name} is written, and this array is read-only")
        return value if type(value) is np.ndarray else value.view(np.ndarray)

    def laid_out(self, array: np.ndarray) -> np.ndarray:
        """The array, or a copy with the strides that the code expects."""
        outer_first = array.transpose(self.order)
        flags = outer_first.flags
        if flags.c_contiguous and flags.aligned and array.dtype.isnative:
            return array
        return np.array(outer_first, self.dtype, order="C").transpose(np.argsort(self.order))


@record
class ScalarInput:
    """A NumPy scalar, or a Python float or complex (`python`): another value in every call."""

    name: str
    dtype: np.dtype
    python: bool

    @classmethod
    def of(cls, name: str, value: np.generic | float | complex) -> ScalarInput:
        return cls(name, np.asarray(value).dtype, not isinstance(value, np.generic))

    def check(self, value: object) -> object:
        kind = (float if self.dtype.kind == "f" else complex) if self.python else self.dtype.type
        if type(value) is not kind:
            raise SignatureError(f"{self.name} is a {type(value).__name__}; it was exported as a {kind.__name__}")
        return value


@record
class IntegerInput:
    """An integer, whose value is that of a Dim."""

    name: str
    dim: str

    def check(self, value: object) -> int:
        if type(value) is not int:
            raise SignatureError(f"{self.name} is a {type(value).__name__}; it was exported as an int")
        return value


@record
class FixedInput:
    """A value that is part of the program, or a container."""

    name: str
    value: object

    def check(self, value: object) -> None:
        if type(value) is not type(self.value) or value != self.value:
            raise SignatureError(f"{self.name} is {value!r}; the function was exported for {self.value!r}")


@record
class Container:
    kind: str
    length: int

    def __repr__(self) -> str:
        return f"a {self.kind} of {self.length}"


Input = ArrayInput | ScalarInput | IntegerInput | FixedInput
Place = tuple[int, int | None]
"""Where a size is found: the number of an input, and the axis of an array."""


@record
class Assertion:
    """`test` : a condition over the names of the Dims; `text` : the same in terms of the arguments."""

    test: str
    text: str


@dataclass(frozen=True)
class Interface:
    """parameters : names of the arguments; inputs : their parts; assertions : the guards that were kept."""

    function: str
    parameters: tuple[str, ...]
    inputs: tuple[Input, ...]
    dims: tuple[Dim, ...]
    assertions: tuple[Assertion, ...] = ()

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[tuple[str, object]]:
        """The parts of the arguments of a call."""
        values = dict(zip(self.parameters, args, strict=False)) | dict(kwargs)
        wrong = [
            *(["too many positional arguments"] if len(args) > len(self.parameters) else []),
            *(f"multiple values for argument {name!r}" for name in self.parameters[: len(args)] if name in kwargs),
            *(f"got an unexpected keyword argument {name!r}" for name in kwargs if name not in self.parameters),
            *(f"missing a required argument: {name!r}" for name in self.parameters if name not in values),
        ]
        if wrong:
            signature = f"{self.function}({', '.join(self.parameters)})"
            raise ArgumentCountError(f"{self.function}() {wrong[0]}; it was exported as {signature}")
        return [part for name in self.parameters for part in parts(values[name], name)]

    def take(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[list[Any], dict[str, int]]:
        """The arrays and scalars of a call, and the sizes of the Dims.

        Raises
        ------
        ArgumentCountError, SignatureError : the arguments are others than were exported.
        SizeError : a size is not what was declared.
        """
        found = self.bind(args, kwargs)
        if [name for name, _ in found] != [i.name for i in self.inputs]:
            self._check_kinds(found)
            raise SignatureError(
                f"the arguments are {_listed([name for name, _ in found])}; "
                f"{self.function} was exported for {_listed([i.name for i in self.inputs])}"
            )
        taken = [i.check(value) for i, (_, value) in zip(self.inputs, found, strict=True)]
        sizes = self._sizes(taken)
        return [v for i, v in zip(self.inputs, taken, strict=True) if isinstance(i, ArrayInput | ScalarInput)], sizes

    def _check_kinds(self, found: Sequence[tuple[str, object]]) -> None:
        """Raises SignatureError for a part that is a container where none was exported, or one of another kind."""
        known = {i.name: i for i in self.inputs}
        for name, value in found:
            spec = known.get(name)
            wanted = spec.value if isinstance(spec, FixedInput) else spec
            if spec is not None and value != wanted and (isinstance(value, Container) or isinstance(wanted, Container)):
                raise SignatureError(f"{name} is {_kind(value)}; it was exported as {_kind(wanted)}")

    @cached_property
    def arrays(self) -> list[ArrayInput]:
        return [i for i in self.inputs if isinstance(i, ArrayInput)]

    @cached_property
    def places(self) -> dict[str, list[Place]]:
        """Where each Dim is found."""
        places: dict[str, list[Place]] = {dim.name: [] for dim in self.dims}
        for k, spec in enumerate(self.inputs):
            if isinstance(spec, IntegerInput):
                places[spec.dim].append((k, None))
            elif isinstance(spec, ArrayInput):
                for axis, size in enumerate(spec.shape):
                    if isinstance(size, str):
                        places[size].append((k, axis))
        return places

    def shown(self, place: Place) -> str:
        """``x.shape[0]``, or the name of an integer."""
        k, axis = place
        return self.inputs[k].name if axis is None else f"{self.inputs[k].name}.shape[{axis}]"

    def _sizes(self, taken: Sequence[Any]) -> dict[str, int]:
        for spec, array in zip(self.inputs, taken, strict=True):
            if isinstance(spec, ArrayInput):
                for axis, (size, want) in enumerate(zip(array.shape, spec.shape, strict=True)):
                    if isinstance(want, int) and size != want:
                        where = f"{spec.name}.shape[{axis}]"
                        raise SizeError(f"{where} is {size}; it is always {want}, since it was not declared as a Dim")

        def read(place: Place) -> int:
            k, axis = place
            return taken[k] if axis is None else taken[k].shape[axis]  # type: ignore[no-any-return]

        sizes = {}
        for dim, (first, *others) in zip(self.dims, self.places.values(), strict=True):
            size = sizes[dim.name] = read(first)
            for place in others:
                if read(place) != size:
                    other = f"{self.shown(place)} is {read(place)}"
                    raise SizeError(f"{dim.name} has one size: {self.shown(first)} is {size}, {other}")
            if not dim.admits(size):
                raise SizeError(f"{self.shown(first)} is {size}; the declared range is {dim.name} = {dim!r}")
        for assertion in self.assertions:
            if not eval(_code(assertion.test), {"__builtins__": {"max": max}}, sizes):
                given = ", ".join(f"{name} is {size}" for name, size in sizes.items())
                raise SizeError(f"the program was captured for {assertion.text}: {given}")
        return sizes

    def check_overlap(self, arrays: Sequence[np.ndarray]) -> None:
        """Raises UnsupportedArgumentError when an array that is written may share memory with another."""
        specs = self.arrays
        for k, spec in enumerate(specs):
            for j, other in enumerate(specs):
                if spec.written and j != k and np.may_share_memory(arrays[k], arrays[j]):
                    raise UnsupportedArgumentError(
                        f"{spec.name} is written and shares memory with {other.name}", remedy="pass a copy of one"
                    )

    def conditions(self) -> list[str]:
        """What a call is checked for, as text."""
        lines = []
        for dim, places in zip(self.dims, self.places.values(), strict=True):
            where = list(map(self.shown, places))
            lines += [f"assert {other} == {where[0]} : {dim.name}" for other in where[1:]]
            upper = "" if dim.max is None else f" <= {dim.max}"
            lines.append(f"assert {dim.min} <= {where[0]}{upper} : {dim.name}")
        return lines + [f"assert {a.text}" for a in self.assertions]


@cache
def _code(test: str) -> CodeType:
    return compile(test, "<assertion>", "eval")


def parts(value: Any, name: str) -> Iterator[tuple[str, object]]:
    """Names and leaves of an argument, in the order in which a trace takes them; a container comes before its items."""
    if type(value) is np.ndarray:
        yield name, value
    elif isinstance(value, tuple | list):
        yield name, Container(_type_name(value), len(value))
        for k, item in enumerate(value):
            yield from parts(item, f"{name}[{k}]")
    elif type(value) is dict:
        yield name, Container("dict", len(value))
        for key, item in value.items():
            yield from parts(item, f"{name}[{key!r}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = members(value)
        yield name, Container(_type_name(value), len(names))
        for member in names:
            yield from parts(getattr(value, member), f"{name}.{member}")
    else:
        yield name, value


def _kind(value: object) -> str:
    """What a part of an argument is, or (of its row) has to be."""
    if isinstance(value, Container):
        return repr(value)
    if isinstance(value, np.ndarray | ArrayInput):
        return "an array"
    return "a number" if isinstance(value, ScalarInput | IntegerInput | int | float | complex) else repr(value)


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def describe(value: Any, name: str, dims: Mapping[int, Dim] | Dim) -> Input:
    """The row for one part of the example; `dims` by axis, or what an integer is."""
    if isinstance(dims, Dim):
        return IntegerInput(name, dims.name)
    if isinstance(value, np.ndarray):
        return ArrayInput.of(name, value, dims)
    if isinstance(value, np.generic) or type(value) in (float, complex):
        return ScalarInput.of(name, value)
    return FixedInput(name, value)


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
