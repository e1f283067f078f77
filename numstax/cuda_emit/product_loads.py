"""Slices of the factors of a product, from memory to registers and on to shared memory.

Any factor can be fetched so, whatever its strides and also where it is computed on the way; what lies outside is 0.
"""

from __future__ import annotations

from collections.abc import Callable

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk, Staged, early_loads, storage_name
from numstax.cuda_emit.passes import Span, stores_only
from numstax.cuda_emit.product import Fragments, Names, Tiles
from numstax.emit.nest import KernelText, Place
from numstax.emit.values import zero
from numstax.ir.index import ONE, Index, Var, stride_of
from numstax.ir.loops import Loop
from numstax.records import record
from numstax.tiles.cuda_points import along_width


@record
class Slice:
    """`size` rows (columns) of a factor by so much `depth`, from the `first` row on; `extent` : all rows there are.
    `loop` stores an element to the local buffer `name`."""

    name: str
    loop: Loop
    variables: tuple[Var, ...]
    extent: Index
    size: int
    depth: int
    first: str


class Fetch:
    """The part of a slice that one of `threads` threads brings, in registers."""

    def __init__(self, kernel: KernelText, tiles: Tiles, slice_: Slice, thread: str, threads: int) -> None:
        self.kernel, self.text, self.tiles, self.slice = kernel, kernel.text, tiles, slice_
        self.thread, self.threads = thread, threads
        self.dtype = kernel.buffer(slice_.name).dtype
        self.lane, self.width = self._lane()
        self.is_deep = self.lane in tiles.parts.product.along
        self.chunks = max(slice_.size * slice_.depth // (threads * self.width), 1)
        self.registers = self.text.assign("x", f"registers_{storage_name(self.dtype)}({self.chunks * self.width})")
        kernel.places[slice_.name] = Place(self.registers, array=True, slot="?")

    def _lane(self) -> tuple[Var, int]:
        """The variable along which elements are neighbours in memory, and how many are loaded at a time."""
        wanted, accesses, along = self.slice, list(self.slice.loop.loads()), self.tiles.parts.product.along
        for lane in (along[-1], *wanted.variables[-1:]):
            if all(stride_of(offset, lane) is ONE for _, offset in accesses):
                length = wanted.depth if lane in along else wanted.size
                most = min((along_width(self.kernel.kernel, x, lane, lane.extent) for x in accesses), default=1)
                while most > 1 and (length % most or wanted.size * wanted.depth % (most * self.threads)):
                    most //= 2
                return lane, most
        return along[-1], 1

    def _place(self, number: str) -> tuple[str, str]:
        """Row and depth of the first element of a chunk, in the slice."""
        long = (self.slice.depth if self.is_deep else self.slice.size) // self.width
        place = f"{self.thread} + {number}*{self.threads}"
        fast, slow = f"({place}) % {long}", f"({place}) // {long}"
        if self.threads % long == 0:  # only the slower index depends on the number
            fast, slow = f"{self.thread} % {long}", f"{self.thread} // {long} + {number}*{self.threads // long}"
        fast, slow = self.text.assign("q", f"{fast}*{self.width}"), self.text.assign("q", slow)
        return (slow, fast) if self.is_deep else (fast, slow)

    def load(self, start: str) -> None:
        """The slice that begins at depth `start`, to registers."""
        tiles, wanted = self.tiles, self.slice
        along = tiles.parts.product.along

        def place(number: str) -> tuple[Names, str]:
            row, deep = self._place(number)
            i, k = self.text.assign("i", f"{wanted.first} + {row}"), self.text.assign("k", f"{start} + {deep}")
            names = {**tiles.named(wanted.variables, i), **tiles.named(along, k)}
            return names, tiles.mask((i, wanted.extent, wanted.size), (k, tiles.depth, tiles.matrix.block[2]))

        def nothing(chunk: Chunk) -> None:
            with chunk.elements(self.kernel):
                self.text.line(f"{self.registers}[{chunk.slot}] = {zero(dtypes.storage(self.dtype))}")

        loads = early_loads((wanted.loop,), {b.name: b for b in self.kernel.kernel.buffers})
        span = Span((*wanted.variables, *along), self.lane, self.width, 1, "", 0, None, True)
        staged = Staged(self.kernel, loads, 1, self.lane, self.width)
        Fragments(self.kernel, (wanted.loop,), span, staged, self.chunks, place, nothing).run(stores_only)

    def store(self, shared: str, at: Callable[[str, str], str], is_deep: bool) -> None:
        """What was loaded, to shared memory: `at` gives the element for a row and a depth, where neighbours lie side by
        side along the depth (`is_deep`) or the rows."""
        text, width = self.text, self.width
        with text.block(f"for c in range({self.chunks})"):
            row, deep = self._place("c")
            if width > 1 and self.is_deep == is_deep:
                values = ", ".join(f"{self.registers}[c*{width} + {e}]" for e in range(width))
                name = dtypes.name(dtypes.storage(self.dtype))
                text.line(f"store{width}_{name}({shared}, {at(row, deep)}, ({values}))")
            else:
                place = at(row, f"({deep} + e)") if self.is_deep else at(f"({row} + e)", deep)
                with text.block(f"for e in range({width})"):
                    text.line(f"{shared}[{place}] = {self.registers}[c*{width} + e]")
                    text.line("unroll()")
            text.line("unroll()")
