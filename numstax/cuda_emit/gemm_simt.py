"""Products of matrices with ordinary arithmetic: exact for every dtype.

A block computes a tile of the result.  Its threads load the next slices of both factors to registers while they
multiply the current ones, which lie in shared memory with neighbouring rows (columns) side by side, whatever their
order in memory.  A warp has a part of the tile: four lanes down and eight across, each with groups of neighbours of 16
bytes.
"""

from __future__ import annotations

from contextlib import nullcontext

from numstax import dtypes
from numstax.cuda_emit.product import Fragment, Tiles, begin
from numstax.cuda_emit.product_loads import Fetch, Slice
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText
from numstax.emit.product_parts import LEFT, RIGHT
from numstax.emit.text import Text
from numstax.emit.values import zero
from numstax.ir.index import ZERO, Index, as_index, less
from numstax.records import record

WARP, DOWN, ACROSS = 32, 4, 8
BYTES = 16
"""Of an access to shared memory."""
TOGETHER, FEW = 64, 32
"""Terms of a float32 that are added up before they are added to the sum, where a thread has so few sums that there is
room for two sets: the error of a sum grows with the number of additions in a row."""


def print_simt(kernel: KernelText) -> tuple[Index, ...]:
    """Print a product in ordinary arithmetic; the number of blocks."""
    return _Simt(kernel).run()


class _Simt:
    def __init__(self, kernel: KernelText) -> None:
        self.kernel, self.parts, self.matrix = begin(kernel)
        assert kernel.kernel.tiling is not None
        assert isinstance(self.kernel.text, DeviceText)
        self.tiles, self.text = Tiles(self.kernel, self.parts, self.matrix), self.kernel.text
        self.threads = kernel.kernel.tiling.threads
        self.dtype = dtypes.accumulator(self.parts.product.effect.dtype)
        self.name = dtypes.name(self.dtype)
        self.group = BYTES // self.dtype.itemsize
        self.down, self.across = self.matrix.warp[0] // DOWN, self.matrix.warp[1] // ACROSS

    def run(self) -> tuple[Index, ...]:
        text, (rows, columns, depth) = self.text, self.matrix.block
        thread = text.assign("t", "int64(thread_x())")
        row, column = self.tiles.locate(text.assign("p", text.number))
        product, tiles = self.parts.product, self.tiles
        down = Slice(LEFT, self.parts.left, product.rows, tiles.rows, rows, depth, row)
        along = Slice(RIGHT, self.parts.right, product.columns, tiles.columns, columns, depth, column)
        left, right = self._factor(down, thread), self._factor(along, thread)
        warp = text.assign("w", f"{thread} // {WARP}")
        across = self.matrix.warps[1]
        i = f"{warp} // {across}*{self.matrix.warp[0]} + {thread} % {WARP} // {ACROSS}*{self.group}"
        j = f"{warp} % {across}*{self.matrix.warp[1]} + {thread} % {ACROSS}*{self.group}"
        i, j = text.assign("i", i), text.assign("j", j)
        total = self._zeros("acc")
        whole = self._zeros("sum") if self._in_parts() else None
        steps = self.kernel.index((self.tiles.depth + (depth - 1)) // depth)
        some = less(ZERO, self.tiles.depth) is True
        with nullcontext() if some else text.block(f"if {steps} > 0"):
            left.fetch.load("0")
            right.fetch.load("0")
        with text.block(f"for s in range({steps})"):
            slot = text.assign("q", "s % 2")
            left.store(slot)
            right.store(slot)
            text.line("barrier()")
            with text.block(f"if s + 1 < {steps}"):
                later = text.assign("k", f"(s + 1)*{depth}")
                left.fetch.load(later)
                right.fetch.load(later)
            self._multiply(left.at(slot, i), right.at(slot, j), left.pitch, right.pitch, total)
            if whole is not None:
                with text.block(f"if s % {TOGETHER // depth} == {TOGETHER // depth - 1}"):
                    self._add(whole, total)
        if whole is not None:
            self._add(whole, total)
        self.tiles.epilogue(self._fragment(whole or total, i, j), row, column)
        return (self.tiles.count,)

    def _factor(self, wanted: Slice, thread: str) -> _Factor:
        pitch = wanted.size + self.group
        shared = self.text.array("s", self.dtype, 2 * wanted.depth * pitch)
        fetch = Fetch(self.kernel, self.tiles, wanted, thread, self.threads)
        return _Factor(self.text, fetch, shared, self.name, pitch)

    def _in_parts(self) -> bool:
        few = self.down * self.across <= FEW
        return few and self.name == "f32" and less(self.tiles.depth, as_index(TOGETHER + 1)) is not True

    def _add(self, whole: str, total: str) -> None:
        """What has been added up to the sum, and from 0 again."""
        with self.text.block(f"for e in range({self.down * self.across})"):
            self.text.line(f"{whole}[e] = {whole}[e] + {total}[e]")
            self.text.line(f"{total}[e] = {zero(self.dtype)}")
            self.text.line("unroll()")

    def _zeros(self, name: str) -> str:
        number = self.down * self.across
        total = self.text.assign(name, f"registers_{self.name}({number})")
        with self.text.block(f"for e in range({number})"):
            self.text.line(f"{total}[e] = {zero(self.dtype)}")
            self.text.line("unroll()")
        return total

    def _multiply(self, left: str, right: str, left_pitch: int, right_pitch: int, total: str) -> None:
        text = self.text
        text.line(f"a = registers_{self.name}({self.down})")
        text.line(f"b = registers_{self.name}({self.across})")
        with text.block(f"for k in range({self.matrix.block[2]})"):
            self._fetch("a", self.down, left, f"k*{left_pitch}", DOWN)
            self._fetch("b", self.across, right, f"k*{right_pitch}", ACROSS)
            r, c = f"a[e // {self.across}]", f"b[e % {self.across}]"
            with text.block(f"for e in range({self.down * self.across})"):
                is_float = self.dtype.kind == "f"
                fused = f"fma_{self.name}({r}, {c}, {total}[e])" if is_float else f"{total}[e] + {r}*{c}"
                text.line(f"{total}[e] = {fused}")
                text.line("unroll()")
            text.line("unroll()")

    def _fetch(self, registers: str, number: int, shared: str, at: str, lanes: int) -> None:
        """Groups of neighbours from shared memory, those of other lanes in between."""
        for first in range(0, number, self.group):
            places = ", ".join(f"{registers}[{first + e}]" for e in range(self.group))
            self.text.line(f"{places} = load{self.group}_{self.name}({shared}, {at} + {first * lanes})")

    def _fragment(self, total: str, i: str, j: str) -> Fragment:
        group, chunks = self.group, self.across // self.group

        def row(number: str) -> str:
            r = f"({number} // {chunks})"
            return f"{i} + {r} // {group}*{DOWN * group} + {r} % {group}"

        def column(number: str) -> str:
            return f"{j} + {number} % {chunks}*{ACROSS * group}"

        return Fragment(total, self.down * chunks, group, row, column)


@record
class _Factor:
    """A factor: what a thread fetches of it, and two slices in shared memory, where rows at one depth lie side by
    side."""

    text: Text
    fetch: Fetch
    shared: str
    name: str
    pitch: int

    def store(self, slot: str) -> None:
        """What was loaded, to the shared memory of that slot."""
        first = self._start(slot)
        self.fetch.store(self.shared, lambda row, deep: f"{first} + {deep}*{self.pitch} + {row}", is_deep=False)

    def at(self, slot: str, place: str) -> str:
        """A pointer to what a thread needs of that slot."""
        return self.text.assign("f", f"offset_{self.name}({self.shared}, {self._start(slot)} + {place})")

    def _start(self, slot: str) -> str:
        return f"{slot}*{self.fetch.slice.depth * self.pitch}"
