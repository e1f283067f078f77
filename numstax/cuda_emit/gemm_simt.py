"""Products of matrices with ordinary arithmetic: exact for every dtype.

A block computes a tile of the result.  Its threads load the next slices of both factors to registers while they
multiply the current ones, which lie in shared memory with neighbouring rows (columns) side by side, whatever their
order in memory.  A warp has a part of the tile: four lanes down and eight across, each with groups of neighbours of 16
bytes.
"""

from __future__ import annotations

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk, Staged, early_loads
from numstax.cuda_emit.passes import Span, stores_only
from numstax.cuda_emit.product import LEFT, RIGHT, Fragment, Fragments, Names, Tiles, begin
from numstax.emit.nest import KernelText, Place
from numstax.emit.values import zero
from numstax.ir.index import ONE, Index, Var, stride_of
from numstax.ir.loops import Loop
from numstax.tiles.cuda_points import along_width

WARP, DOWN, ACROSS = 32, 4, 8
BYTES = 16
"""Of an access to shared memory."""


def print_simt(kernel: KernelText) -> tuple[Index, ...]:
    """Print a product in ordinary arithmetic; the number of blocks."""
    return _Simt(kernel).run()


class _Simt:
    def __init__(self, kernel: KernelText) -> None:
        self.kernel, self.parts, self.matrix = begin(kernel)
        assert kernel.kernel.tiling is not None
        self.tiles, self.text = Tiles(self.kernel, self.parts, self.matrix), self.kernel.text
        self.threads = kernel.kernel.tiling.threads
        self.dtype = dtypes.accumulator(self.parts.product.effect.dtype)
        self.name = dtypes.name(self.dtype)
        self.group = BYTES // self.dtype.itemsize
        self.down, self.across = self.matrix.warp[0] // DOWN, self.matrix.warp[1] // ACROSS

    def run(self) -> tuple[Index, ...]:
        text, (rows, columns, depth) = self.text, self.matrix.block
        thread = text.assign("t", "int64(thread_x())")
        row, column = self.tiles.locate(text.assign("p", "int64(block_x())"))
        left = _Factor(self, LEFT, self.parts.left, self.parts.product.rows, rows, row, thread)
        right = _Factor(self, RIGHT, self.parts.right, self.parts.product.columns, columns, column, thread)
        warp = text.assign("w", f"{thread} // {WARP}")
        across = self.matrix.warps[1]
        i = f"{warp} // {across}*{self.matrix.warp[0]} + {thread} % {WARP} // {ACROSS}*{self.group}"
        j = f"{warp} % {across}*{self.matrix.warp[1]} + {thread} % {ACROSS}*{self.group}"
        i, j = text.assign("i", i), text.assign("j", j)
        total = self._zeros()
        steps = self.kernel.index((self.tiles.depth + (depth - 1)) // depth)
        left.load("0")
        right.load("0")
        with text.block(f"for s in range({steps})"):
            slot = text.assign("q", "s % 2")
            left.store(slot)
            right.store(slot)
            text.line("barrier()")
            with text.block(f"if s + 1 < {steps}"):
                later = text.assign("k", f"(s + 1)*{depth}")
                left.load(later)
                right.load(later)
            self._multiply(left.at(slot, i), right.at(slot, j), left.pitch, right.pitch, total)
        self.tiles.epilogue(self._fragment(total, i, j), row, column)
        return (self.tiles.count,)

    def _zeros(self) -> str:
        number = self.down * self.across
        total = self.text.assign("acc", f"registers_{self.name}({number})")
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


class _Factor:
    """One factor: `size` of its `variables` from the `first` one on, and a slice of those that are summed over."""

    def __init__(
        self, simt: _Simt, name: str, loop: Loop, variables: tuple[Var, ...], size: int, first: str, thread: str
    ) -> None:
        self.simt, self.kernel, self.text, self.loop = simt, simt.kernel, simt.text, loop
        self.variables, self.size, self.first, self.thread = variables, size, first, thread
        self.depth, self.pitch = simt.matrix.block[2], size + simt.group
        product = simt.parts.product
        self.along, self.extent = product.along, simt.tiles.rows if name == LEFT else simt.tiles.columns
        self.shared = self.text.array("s", simt.dtype, 2 * self.depth * self.pitch)
        self.lane, self.width = self._lane()
        self.is_deep = self.lane in self.along
        self.chunks = max(size * self.depth // (simt.threads * self.width), 1)
        self.registers = self.text.assign("x", f"registers_{simt.name}({self.chunks * self.width})")
        self.kernel.places[name] = Place(self.registers, array=True, slot="?")

    def _lane(self) -> tuple[Var, int]:
        """The variable along which elements are neighbours in memory, and how many are loaded at a time."""
        accesses = list(self.loop.loads())
        for lane in (self.along[-1], *self.variables[-1:]):
            if all(stride_of(offset, lane) is ONE for _, offset in accesses):
                length = self.depth if lane in self.along else self.size
                most = min((along_width(self.kernel.kernel, x, lane, lane.extent) for x in accesses), default=1)
                while most > 1 and (length % most or self.size * self.depth % (most * self.simt.threads)):
                    most //= 2
                return lane, most
        return self.along[-1], 1

    def _place(self, number: str) -> tuple[str, str]:
        """Row and depth of a chunk in the tile."""
        long = (self.depth if self.is_deep else self.size) // self.width
        q = self.text.assign("q", f"{self.thread} + {number}*{self.simt.threads}")
        fast = self.text.assign("q", f"{q} % {long}*{self.width}")
        slow = self.text.assign("q", f"{q} // {long}")
        return (slow, fast) if self.is_deep else (fast, slow)

    def load(self, start: str) -> None:
        """The slice that begins at `start`, to registers; zeros where there is none."""
        tiles = self.simt.tiles

        def place(number: str) -> tuple[Names, str]:
            row, deep = self._place(number)
            i, k = self.text.assign("i", f"{self.first} + {row}"), self.text.assign("k", f"{start} + {deep}")
            names = {**tiles.named(self.variables, i), **tiles.named(self.along, k)}
            return names, tiles.mask((i, self.extent, self.size), (k, tiles.depth, self.depth))

        def nothing(chunk: Chunk) -> None:
            with chunk.elements(self.kernel):
                self.text.line(f"{self.registers}[{chunk.slot}] = {zero(self.simt.dtype)}")

        kernel = self.kernel.kernel
        loads = early_loads((self.loop,), {b.name: b for b in kernel.buffers})
        span = Span((*self.variables, *self.along), self.lane, self.width, 1, "", 0, None, True)
        staged = Staged(self.kernel, loads, 1, self.lane, self.width)
        Fragments(self.kernel, (self.loop,), span, staged, self.chunks, place, nothing).run(stores_only)

    def store(self, slot: str) -> None:
        """What was loaded, to the shared memory of that slot."""
        text, width = self.text, self.width
        with text.block(f"for c in range({self.chunks})"):
            row, deep = self._place("c")
            at = f"{slot}*{self.depth * self.pitch}"
            if width > 1 and not self.is_deep and self.simt.group % width == 0:
                values = ", ".join(f"{self.registers}[c*{width} + {e}]" for e in range(width))
                place = f"{at} + {deep}*{self.pitch} + {row}"
                text.line(f"store{width}_{self.simt.name}({self.shared}, {place}, ({values}))")
            else:
                step = f"({deep} + e)*{self.pitch} + {row}" if self.is_deep else f"{deep}*{self.pitch} + {row} + e"
                with text.block(f"for e in range({width})"):
                    text.line(f"{self.shared}[{at} + {step}] = {self.registers}[c*{width} + e]")
                    text.line("unroll()")
            text.line("unroll()")

    def at(self, slot: str, place: str) -> str:
        """A pointer to what a thread needs of that slot."""
        at = f"{slot}*{self.depth * self.pitch} + {place}"
        return self.text.assign("f", f"offset_{self.simt.name}({self.shared}, {at})")
