"""Exported functions: run, save, load.

Enters: the compiled Plan of a graph, the Interface of its arguments, and arrays that are part of the program.
Leaves: an `Exported`, which checks its arguments and calls the code; on disk, a directory that gives the same again in
another process.  Nothing is traced there, and nothing compiled where the processor and LLVM are the same.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from numstax import dtypes, interface, program
from numstax.errors import ArtifactError, EmptyReductionError, PythonNumberError, SizeError, ZeroDivideError
from numstax.interface import ArrayInput, Interface
from numstax.ir.graph import Graph
from numstax.ir.parse import parse_graph
from numstax.jit import process
from numstax.program import Plan
from numstax.records import record
from numstax.requirements import REQUIREMENTS, CannotRunError
from numstax.runtime import artifact
from numstax.runtime.launch import launcher
from numstax.runtime.load import Entry, ObjectCode, processor
from numstax.runtime.serial import Json, from_json, to_json
from numstax.trace.arguments import Branch, Fixed, Leaf, Tree, builder
from numstax.trace.declared import Dim

_RAISED = {"zero": ZeroDivideError, "weights": ZeroDivideError, "empty": EmptyReductionError}
"""What a function without its Python source raises for a requirement that does not hold, if not PythonNumberError."""

FORMAT = 3
"""Goes up when the files, or the calling convention of the code in them, change."""

TYPES = {
    cls.__name__: cls
    for cls in (
        *(
            program.Plan,
            program.Program,
            program.Callee,
            program.Param,
            program.Intrinsic,
            program.Argument,
            program.Result,
        ),
        *(program.Allocate, program.Call, program.ExternCall, program.Release, program.Check, program.ControlStep),
        *(program.ArrayExpr, program.Name),
        *(Interface, ArrayInput, interface.ScalarInput, interface.IntegerInput, interface.FixedInput),
        *(interface.Container, interface.Assertion, Dim),
        *(Leaf, Fixed, Branch),
    )
}


@record
class Baked:
    """An array that is part of the program: the input of the graph at `position`; strides in elements."""

    position: int
    array: np.ndarray

    @classmethod
    def of(cls, position: int, values: np.ndarray, strides: tuple[int, ...]) -> Baked:
        """A copy of `values` with these strides."""
        spans = [(n - 1) * s for n, s in zip(values.shape, strides, strict=True)] if values.size else [0]
        memory = np.zeros(sum(map(abs, spans)) + 1, values.dtype)
        start = -sum(min(s, 0) for s in spans)
        steps = [s * values.itemsize for s in strides]
        array = np.lib.stride_tricks.as_strided(memory[start:], values.shape, steps)
        array[...] = values
        return cls(position, array)


@record
class Contents:
    """All there is to an exported function.

    graph : as text.
    tree, first : the structure of the result, whose leaves are the outputs of the plan from number `first` on.
    """

    interface: Interface
    graph: str
    plan: Plan
    tree: Tree
    first: int
    baked: tuple[Baked, ...]


class Exported:
    """A function that serves every declared size; made by `numstax.export` and `numstax.load`."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._launch = launcher(contents.plan, process()[1])
        self._unflatten = builder(contents.tree, contents.first)
        self._baked = {b.position: b.array for b in contents.baked}
        self._specs = [i for i in contents.interface.inputs if isinstance(i, ArrayInput | interface.ScalarInput)]
        self._writes = any(i.written for i in contents.interface.arrays)
        self.__name__ = contents.interface.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        declared = self._contents.interface
        given, sizes = declared.take(args, kwargs)
        inputs = [
            spec.laid_out(value) if isinstance(spec, ArrayInput) else value
            for spec, value in zip(self._specs, given, strict=True)
        ]
        if self._writes:
            declared.check_overlap([value for value in given if isinstance(value, np.ndarray)])
        rest = iter(inputs)
        count = len(inputs) + len(self._baked)
        passed = [self._baked[k] if k in self._baked else next(rest) for k in range(count)]
        try:
            outputs = self._launch.call(*passed, *(sizes[dim.name] for dim in declared.dims))
        except CannotRunError as error:
            if error.requirement:
                raise _RAISED.get(error.requirement, PythonNumberError)(
                    str(error), None, REQUIREMENTS[error.requirement].remedy
                ) from None
            raise SizeError(f"{self.__name__} was exported for other results of a library function: {error}") from None
        for spec, value, used in zip(self._specs, given, inputs, strict=True):
            if isinstance(spec, ArrayInput) and spec.written and used is not value:
                value[...] = used
        return self._unflatten(outputs)

    @property
    def graph(self) -> Graph:
        return parse_graph(self._contents.graph)

    def __str__(self) -> str:
        return "\n".join((self._contents.graph, *self._contents.interface.conditions()))

    def __repr__(self) -> str:
        dims = ", ".join(f"{dim.name} = {dim!r}" for dim in self._contents.interface.dims)
        return f"<exported {self.__name__}({', '.join(self._contents.interface.parameters)}) {dims}>"

    def save(self, directory: str | Path) -> None:
        """Write the function to a directory, which is made, or replaced if it holds a saved function.

        Raises ArtifactError when the result has a type, or the program a function, that cannot be imported by name.
        """
        c, host = self._contents, process()[1]
        files: dict[str, bytes] = {"graph.txt": c.graph.encode(), "wrapper.py": self._launch.source.encode()}
        codes = {}
        for p in c.plan.programs:
            code = host.object_code(p)
            codes[p.name] = {"symbol": code.symbol, "externals": list(code.externals)}
            files |= {f"{p.name}.py": p.text.encode(), f"{p.name}.o": code.code}
        for b in c.baked:
            files[f"input{b.position}.npy"] = _npy(b.array)
        # the text of a program is in its own file
        plan = replace(c.plan, programs=tuple(replace(p, text="") for p in c.plan.programs))
        files["plan.json"] = _text(to_json(plan))
        metadata = {
            "format": FORMAT,
            "machine": list(processor()),
            "interface": to_json(c.interface),
            "result": to_json(c.tree),
            "first": c.first,
            "baked": [
                [b.position, dtypes.name(b.array.dtype), [s // b.array.itemsize for s in b.array.strides]]
                for b in c.baked
            ],
            "code": codes,
        }
        artifact.write(Path(directory), {"artifact.json": _text(metadata), **files})


def load(directory: str | Path) -> Exported:
    """The function that `Exported.save` wrote; it contains code, so load only what you trust.

    Raises ArtifactError when the directory is damaged, incomplete, or of another format.
    """
    files = artifact.read(Path(directory))
    try:
        data = json.loads(files["artifact.json"])
        if data["format"] != FORMAT:
            raise ArtifactError(
                f"{directory} has format {data['format']}; this version of numstax reads {FORMAT}",
                remedy="export again",
            )
        plan = from_json(json.loads(files["plan.json"]), TYPES)
        texts = {p.name: files[f"{p.name}.py"].decode() for p in plan.programs}
        plan = replace(plan, programs=tuple(replace(p, text=texts[p.name]) for p in plan.programs))
        contents = Contents(
            from_json(data["interface"], TYPES),
            files["graph.txt"].decode(),
            plan,
            from_json(data["result"], TYPES),
            data["first"],
            tuple(
                Baked.of(position, _array(files[f"input{position}.npy"], dtypes.by_name(name)), tuple(strides))
                for position, name, strides in data["baked"]
            ),
        )
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"{directory} cannot be read: {type(error).__name__}: {error}") from error
    host, entries = process()[1], dict[str, Entry]()
    if data["machine"] == list(processor()):
        for p in plan.programs:
            code = data["code"][p.name]
            kept = ObjectCode(files[f"{p.name}.o"], code["symbol"], tuple(code["externals"]))
            entries[p.name] = host.adopt(p, kept, [entries[s.name] for s in p.calls])
    made = Exported(contents)
    del entries  # until here they kept the code loaded
    return made


def _text(data: Mapping[str, Json]) -> bytes:
    return (json.dumps(data, indent=1) + "\n").encode()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array.copy("C").view(dtypes.storage(array.dtype)), allow_pickle=False)
    return stream.getvalue()


def _array(content: bytes, dtype: np.dtype) -> np.ndarray:
    stored: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return stored.view(dtype)
