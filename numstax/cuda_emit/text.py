"""Text of a GPU program: shared memory, and divisions without signs.

An Index is printed as an int64 expression, as on the CPU; what is divided and provably not negative is divided as
uint32 where that holds it, else as uint64, which takes a GPU a fraction of the instructions of a signed division.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from numstax import dtypes
from numstax.emit.text import Text
from numstax.ir.index import ZERO, Atom, Index, IndexLike, Quotient, Remainder, as_index, bounds
from numstax.ir.loops import NARROW, Buffer
from numstax.program import Param, TensorMap

_ALIGNMENT = 16


class DeviceText(Text):
    """`shared` : bytes of shared memory a block needs."""

    def __init__(self, written: frozenset[str]) -> None:
        super().__init__(written)
        self.shared = ZERO
        self.for_host = False
        self.number = "int64(block_x())"
        """Of a block, among those that do the same."""

    def array(self, prefix: str, dtype: np.dtype, count: IndexLike) -> str:
        """A pointer to `count` elements of the block's shared memory, as `dtype` stores them."""
        name = self.constant(prefix, f"shared_{dtypes.name(dtype)}(int32({self.index(self.shared)}))")
        nbytes = as_index(count) * dtype.itemsize
        self.shared = self.shared + (nbytes + (_ALIGNMENT - 1)) // _ALIGNMENT * _ALIGNMENT
        return name

    def tensor(self, buffer: Buffer, described: TensorMap) -> str:
        """The parameter for a buffer that is copied in boxes."""
        name = self.fresh("map")
        self.params[name] = Param(name, "tensor_map", buffer.dtype, described)
        self.args[name] = buffer.name
        return name

    def formula(self, index: Index) -> str:
        """An Index as the host computes it, for the launch."""
        self.for_host = True
        text = self.index(index)
        self.for_host = False
        return text

    def _atom(self, atom: Atom, names: Mapping[Atom, str]) -> str:
        if not self.for_host and atom not in names and isinstance(atom, Quotient | Remainder):
            low, high = bounds(atom.value)
            if low is not None and low >= 0:
                name = "quotient" if isinstance(atom, Quotient) else "rest"
                return self.division(name, self.index(atom.value, names), high, atom.divisor, names)
        return super()._atom(atom, names)

    def division(
        self,
        name: str,
        value: str,
        most: int | None,
        divisor: Index,
        names: Mapping[Atom, str] | None = None,
        within: bool = False,
    ) -> str:
        """The 'quotient' or the 'rest' of a value that is not negative, and at most `most`; `within` : as the divisor
        is."""
        low, high = bounds(divisor)
        text = self.index(divisor, names)
        if low is None or low < 1:
            text = f"max({text}, 1)"
        bits = 32 if all(n is not None and n <= NARROW for n in (most, most if within else high)) else 64
        return f"int64({name}_u{bits}({value}, {text}))"
