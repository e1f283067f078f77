"""A GPU that is not there: memory of the host, and programs run by the interpreter.

It offers what `device.Device` does, so everything above runs as it does with a GPU.  There is one stream, which is
always done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.hardware import GPUS, Gpu
from numstax.program import Param, Program
from numstax.runtime import libraries, simulate
from numstax.runtime.device import ALIGNED, Loaded
from numstax.runtime.memory import address_of

MEMORY = 1 << 34
GARBAGE = 0xA5
"""What new memory holds."""


class Address(int):
    """The address of the first element of an array, which programs need here to check what they access."""

    array: np.ndarray


def pointed(array: np.ndarray) -> int:
    found = Address(address_of(array))
    found.array = array
    return found


class SimulatedDevice:
    align, number = ALIGNED, 0

    def __init__(self, gpu: Gpu = GPUS["H200"]) -> None:
        self.gpu = gpu
        self.active: set[int] = set()
        self.address: Callable[[np.ndarray], int] = pointed

    def activate(self) -> None:
        """Nothing has to be chosen."""

    def root(self, nbytes: int) -> np.ndarray:
        return np.full(max(nbytes, 1), GARBAGE, np.uint8)

    def memory_info(self) -> tuple[int, int]:
        return MEMORY, MEMORY

    def write(self, target: np.ndarray, source: np.ndarray, stream: int) -> None:
        np.copyto(target, source)

    def read(self, target: np.ndarray, source: np.ndarray, stream: int) -> None:
        np.copyto(target, source)

    def copy(self, target: np.ndarray, source: np.ndarray, stream: int) -> None:
        np.copyto(target, source)

    def clear(self, array: np.ndarray, stream: int) -> None:
        array[...] = 0

    def stream(self) -> int:
        return 0

    def order(self, first: int, second: int) -> None:
        """There is one stream."""

    def synchronize(self, stream: int) -> None:
        """Everything is done when it is asked for."""

    def function(self, path: str) -> Callable[..., Any]:
        """NumPy's own, which runs on the host."""
        return libraries.on_host(path)

    def load(self, programs: Sequence[Program], *_: object) -> list[Loaded]:
        return [_loaded(program) for program in programs]


def _loaded(program: Program) -> Loaded:
    def run(stream: int, x: int, y: int, z: int, shared: int, *words: Any) -> None:
        given = iter(words)
        values = {p.name: _value(p, given) for p in program.params}
        special = {p.kind: values.pop(p.name) for p in program.params if p.kind in ("status", "counters")}
        simulate.run(program, list(values.values()), **special)

    return Loaded(program, run)


def _value(param: Param, words: Iterator[Any]) -> Any:
    """An argument from the words that a launch takes."""
    if param.is_array or param.kind in ("status", "counters"):
        return next(words).array
    if param.kind != "scalar":
        return next(words)
    assert param.dtype is not None
    if dtypes.kind(param.dtype) == "c":
        return complex(next(words), next(words))
    word = next(words)
    return np.array(word, dtypes.storage(param.dtype)).view(param.dtype)[()] if dtypes.is_low(param.dtype) else word
