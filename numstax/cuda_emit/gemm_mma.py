"""Products of matrices in instructions of one warp (mma.sync): for every GPU since Ampere, and for any strides.

A block computes a tile of the result; slices of both factors of 128 bytes of k lie in a ring of stages in shared
memory.  A factor whose rows (columns) begin at multiples of 16 bytes is copied there asynchronously; any other one
passes through registers, where it may also be computed.  Pieces of 16 bytes of a slice are exchanged within their row,
by the number of the row, so that matrices of 8 rows are loaded without bank conflicts.
"""

from __future__ import annotations

from dataclasses import replace

from numstax import dtypes
from numstax.cuda_emit.product import LEFT, RIGHT, Fragment, Tiles, begin
from numstax.cuda_emit.product_loads import Fetch, Slice
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText
from numstax.emit.values import zero
from numstax.ir.contraction import Matrix, operand_of
from numstax.ir.index import Index, as_index, divides

WARP, PIECE, SPAN = 32, 16, 128
STEPS = 4
"""Instructions along a slice: 32 bytes of k each."""
ROWS, COLUMNS = 16, 8
"""Of one instruction."""


def print_mma(kernel: KernelText) -> tuple[Index, ...]:
    """Print a product in instructions of warps; the number of blocks."""
    return _Mma(kernel).run()


class _Mma:
    def __init__(self, kernel: KernelText) -> None:
        tiling = kernel.kernel.tiling
        assert tiling is not None
        assert tiling.matrix is not None
        kind = tiling.matrix.operand
        self.factor = dtypes.FLOAT32 if kind == "tf32" else dtypes.by_name(kind)
        self.kernel, self.parts, self.matrix = begin(kernel, self.factor)
        assert isinstance(self.kernel.text, DeviceText)
        self.tiles, self.text = Tiles(self.kernel, self.parts, self.matrix), self.kernel.text
        self.threads = tiling.threads
        self.wide = dtypes.accumulator(self.parts.product.effect.dtype)
        self.down, self.across = self.matrix.warp[0] // ROWS, self.matrix.warp[1] // COLUMNS

    def run(self) -> tuple[Index, ...]:
        text, (rows, columns, depth), stages = self.text, self.matrix.block, self.matrix.stages
        product, tiles = self.parts.product, self.tiles
        thread = text.assign("t", "int64(thread_x())")
        row, column = tiles.locate(text.assign("p", "int64(block_x())"))
        down = Slice(LEFT, self.parts.left, product.rows, tiles.rows, rows, depth, row)
        along = Slice(RIGHT, self.parts.right, product.columns, tiles.columns, columns, depth, column)
        left = _Factor(self, down, product.effect.value, thread, 0)
        right = _Factor(self, along, product.effect.other, thread, left.nbytes)
        self.stage = left.nbytes + right.nbytes
        self.text.shared = as_index(stages * self.stage)
        self.base = text.assign("s", "shared_address()")
        across = self.matrix.warps[1]
        warp, lane = text.assign("w", f"{thread} // {WARP}"), text.assign("l", f"{thread} % {WARP}")
        i = text.assign("i", f"{warp} // {across}*{self.matrix.warp[0]}")
        j = text.assign("j", f"{warp} % {across}*{self.matrix.warp[1]}")
        total = self._zeros()
        steps = self.kernel.index((tiles.depth + (depth - 1)) // depth)
        with text.block(f"for s in range({stages - 1})"):
            with text.block(f"if s < {steps}"):
                start, stage = text.assign("k", f"s*{depth}"), text.assign("q", f"s*{self.stage}")
                for factor in (left, right):
                    factor.copy(start, stage)
                with text.block(f"for q in range({STEPS})"):
                    for factor in (left, right):
                        factor.fetch(start)
                        factor.put(stage)
            text.line("copy_commit()")
        text.line("slot = 0")
        text.line(f"free = {stages - 1}")
        with text.block(f"for s in range({steps})"):
            text.line(f"copy_wait_{stages - 2}()")
            text.line("barrier()")
            text.line(f"there = s + {stages - 1} < {steps}")
            later = text.assign("k", f"(s + {stages - 1})*{depth}")
            with text.block("if there"):
                for factor in (left, right):
                    factor.copy(later, f"free*{self.stage}")
            text.line("copy_commit()")
            self._multiply((left, lane, i), (right, lane, j), total, later)
            text.line("free = slot")
            text.line(f"slot = 0 if slot == {stages - 1} else slot + 1")
        i, j = text.assign("i", f"{i} + {lane} // 4"), text.assign("j", f"{j} + {lane} % 4*2")
        number = self.down * self.across * 2

        def down_at(chunk: str) -> str:
            return f"{i} + {chunk} // {2 * self.across}*{ROWS} + {chunk} % 2*8"

        def along_at(chunk: str) -> str:
            return f"{j} + {chunk} // 2 % {self.across}*{COLUMNS}"

        tiles.epilogue(Fragment(total, number, 2, down_at, along_at), row, column)
        return (tiles.count,)

    def _zeros(self) -> str:
        number = 4 * self.down * self.across
        total = self.text.assign("acc", f"registers_{dtypes.name(self.wide)}({number})")
        with self.text.block(f"for e in range({number})"):
            self.text.line(f"{total}[e] = {zero(self.wide)}")
            self.text.line("unroll()")
        return total

    def _multiply(self, left: Place, right: Place, total: str, later: str) -> None:
        """The slices in the current slot, step by step; what is fetched through registers is brought meanwhile."""
        text, across, sides = self.text, self.across, (left, right)
        text.line(f"a = registers_u32({4 * self.down})")
        text.line(f"b = registers_u32({2 * across})")
        fetched = [factor for factor, _, _ in sides if factor.fetched]
        with text.block(f"for q in range({STEPS})"):
            for array, count, (factor, lane, first) in zip("ab", (self.down, across // 2), sides, strict=True):
                load, place = factor.fragment(lane, first)
                with text.block(f"for e in range({count})"):
                    registers = _places(array, "e*4", 4)
                    text.line(f"{registers} = {load}({self.base} + slot*{self.stage} + {place})")
                    text.line("unroll()")
            if fetched:
                with text.block("if there"):
                    for factor in fetched:
                        factor.fetch(later)
            with text.block(f"for e in range({self.down * across})"):
                held = _places(total, "e*4", 4)
                a, b = _places("a", f"e // {across}*4", 4), _places("b", f"e % {across}*2", 2)
                text.line(f"{held} = mma_{self.matrix.operand}(({held}), ({a}), ({b}))")
                text.line("unroll()")
            if fetched:
                with text.block("if there"):
                    for factor in fetched:
                        factor.put(f"free*{self.stage}")
            text.line("unroll()")


def _places(array: str, first: str, count: int) -> str:
    return ", ".join(f"{array}[{first} + {k}]" for k in range(count))


class _Factor:
    """One factor: how it comes to shared memory, at byte `start` of a stage, and how it is read there."""

    def __init__(self, mma: _Mma, wanted: Slice, entry: int, thread: str, start: int) -> None:
        self.mma, self.text, self.wanted, self.thread, self.start = mma, mma.text, wanted, thread, start
        found = operand_of(mma.kernel.kernel, mma.parts.product, entry, wanted.variables)
        self.itemsize, along = mma.factor.itemsize, mma.parts.product.along
        self.matrix: Matrix | None = None
        self.fetched: Fetch | None = None
        if isinstance(found, Matrix) and found.buffer.dtype == mma.factor and self._turns(found.inner in along):
            self.matrix = found
            self.along_k = found.inner in along
        else:
            part = replace(wanted, depth=wanted.depth // STEPS)
            self.fetched = Fetch(mma.kernel, mma.tiles, part, thread, mma.threads)
            self.along_k = self.fetched.is_deep or not self._turns(False)
        self.row = SPAN if self.along_k else wanted.size * self.itemsize
        """Bytes of a row in shared memory."""
        self.nbytes = wanted.size * wanted.depth * self.itemsize
        self.turn = min(8, self.row // PIECE)
        if self.fetched:
            name = dtypes.name(dtypes.storage(mma.factor))
            self.shared, self.name = self.text.assign("s", f"shared_{name}(int32(0))"), name

    def _turns(self, along_k: bool) -> bool:
        """Can fragments be loaded where neighbours lie so?  Only elements of 16 bits can be turned on the way."""
        return along_k or self.itemsize == 2

    def _at(self, row: str, piece: str) -> str:
        """The byte of a piece in a slice; `row` is a depth where neighbours lie along the rows."""
        return f"{row}*{self.row} + ({piece} ^ {row} % {self.turn})*{PIECE}"

    def fetch(self, depth: str) -> None:
        """Load step q of the slice from that depth on to registers, where it is not copied."""
        if self.fetched:
            self.fetched.load(self.text.assign("k", f"{depth} + q*{self.fetched.slice.depth}"))

    def copy(self, depth: str, stage: str) -> None:
        """Start to copy the slice from that depth on to the stage that begins at that byte."""
        if self.fetched:
            return
        text, found, wanted = self.text, self.matrix, self.wanted
        assert found is not None
        pieces, threads = self.row // PIECE, self.mma.threads
        unit, tiles = PIECE // self.itemsize, self.mma.tiles
        number = self.nbytes // PIECE // threads
        with text.block(f"for c in range({number})"):
            q = text.assign("q", f"{self.thread} + c*{threads}")
            row, piece = text.assign("q", f"{q} // {pieces}"), text.assign("q", f"{q} % {pieces}")
            fast, slow = f"{piece}*{unit}", row
            down, deep = (slow, fast) if self.along_k else (fast, slow)
            i, k = text.assign("i", f"{wanted.first} + {down}"), text.assign("k", f"{depth} + {deep}")
            names = {**tiles.named(wanted.variables, i), **tiles.named(tiles.parts.product.along, k)}
            ends = ((i, wanted.extent, wanted.size), (k, tiles.depth, wanted.depth))
            inner, outer = ends[::-1] if self.along_k else ends
            inside = tiles.mask(outer)
            read = str(PIECE)
            if divides(unit, inner[1]) is not True:
                left = f"max({self.mma.kernel.index(inner[1])} - {inner[0]}, 0)"
                read = f"min({left}, {unit})*{self.itemsize}"
            else:
                inside = tiles.mask(outer, inner)
            if inside:
                read = f"{read} if {inside} else 0"
            ((_, offset),) = wanted.loop.loads()
            at = text.index(offset, {**self.mma.kernel.names, **names})
            if not read.isdigit():
                read = text.assign("n", read)
                at = f"{at} if {read} > 0 else 0"
            name, buffer = dtypes.name(dtypes.storage(found.buffer.dtype)), text.buffer(found.buffer)
            to = f"{self.mma.base} + {stage} + {self.start} + {self._at(row, piece)}"
            text.line(f"copy_async_16_{name}({to}, {buffer}, {at}, {read})")
            text.line("unroll()")

    def put(self, stage: str) -> None:
        """Store what was fetched."""
        if not self.fetched:
            return
        step = f"q*{self.fetched.slice.depth}"
        unit = PIECE // self.itemsize

        def at(row: str, deep: str) -> str:
            deep = f"({step} + {deep})"
            line, along = (row, deep) if self.along_k else (deep, row)
            byte = f"{self._at(line, f'({along} // {unit})')} + {along} % {unit}*{self.itemsize}"
            return f"({stage} + {self.start} + {byte}) // {self.itemsize}"

        self.fetched.store(self.shared, at, is_deep=self.along_k)

    def fragment(self, lane: str, first: str) -> tuple[str, str]:
        """The instruction that loads fragment e of step q, and the byte that this lane gives it."""
        is_left = self.wanted.name == LEFT
        low, high = f"{lane} % {COLUMNS}", f"({lane} // {COLUMNS} % 2)"
        top = f"({lane} // {2 * COLUMNS})"
        # the second of the four matrices is below the first in the left factor, and further along k in the right one
        side, deep = (high, top) if is_left else (top, high)
        if self.along_k:
            row = f"({first} + e*{ROWS} + {side}*{COLUMNS} + {low})"
            return "load_matrix", f"{self.start} + {self._at(row, f'(q*2 + {deep})')}"
        row = f"(q*{ROWS} + {deep}*{COLUMNS} + {low})"
        unit = PIECE // self.itemsize
        return "load_matrix_turned", f"{self.start} + {self._at(row, f'(({first} + e*{ROWS}) // {unit} + {side})')}"


Place = tuple[_Factor, str, str]
"""A factor, the number of a thread in its warp, and the first row (column) of the warp's part."""
