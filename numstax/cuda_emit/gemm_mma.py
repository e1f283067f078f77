"""Products of matrices in instructions of one warp (mma.sync): for every GPU since Ampere, and for any strides.

A block computes a tile of the result; slices of both factors of 128 bytes of k lie in a ring of stages in shared
memory.  A factor whose rows (columns) begin at multiples of 16 bytes is copied there asynchronously; any other one
passes through registers, where it may also be computed.  Pieces of 16 bytes of a slice are exchanged within their row,
by the number of the row, so that matrices of 8 rows are loaded without bank conflicts.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from numstax import dtypes
from numstax.cuda_emit.product import Fragment, Tiles, begin
from numstax.cuda_emit.product_loads import Fetch, Slice
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText
from numstax.emit.product_parts import LEFT, RIGHT
from numstax.ir.contraction import Matrix, operand_of
from numstax.ir.index import Index, as_index
from numstax.records import record

WARP, PIECE, SPAN = 32, 16, 128
STEPS = 4
"""Instructions along a slice: 32 bytes of k each."""
ROWS, COLUMNS = 16, 8
"""Of one instruction."""
TERMS = {1: (("a", "b"),), 3: (("a_rest", "b"), ("a", "b_rest"), ("a", "b"))}
"""The fragments that are multiplied, small products first."""


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
        row, column = tiles.locate(text.assign("p", text.number))
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
        element, number = dtypes.name(self.wide), 4 * self.down * self.across
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
        sides = (left.fragments(lane, i, self.down), right.fragments(lane, j, self.across // 2))
        text.line(f"acc = zeros_{element}x{number}()")
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
            self._multiply(sides, [factor for factor in (left, right) if factor.fetched], later)
            text.line("free = slot")
            text.line(f"slot = 0 if slot == {stages - 1} else slot + 1")
        total = text.assign("acc", f"registers_{element}({number})")
        text.line(f"spread_{element}x{number}({total}, acc, 0)")
        i, j = text.assign("i", f"{i} + {lane} // 4"), text.assign("j", f"{j} + {lane} % 4*2")

        def down_at(chunk: str) -> str:
            return f"{i} + {chunk} // {2 * self.across}*{ROWS} + {chunk} % 2*8"

        def along_at(chunk: str) -> str:
            return f"{j} + {chunk} // 2 % {self.across}*{COLUMNS}"

        tiles.epilogue(Fragment(total, number // 2, 2, down_at, along_at), row, column)
        return (tiles.count,)

    def _multiply(self, sides: tuple[_Fragments, _Fragments], fetched: list[_Factor], later: str) -> None:
        """The slices in the current slot, step by step; what is fetched through registers is brought meanwhile."""
        text = self.text
        at = text.assign("s", f"{self.base} + slot*{self.stage}")
        with text.block(f"for q in range({STEPS})"):
            for name, side in zip("ab", sides, strict=True):
                text.line(f"{name} = {side.load}({at} + {side.place} {side.step})")
            if fetched:
                with text.block("if there"):
                    for factor in fetched:
                        factor.fetch(later)
            self._add_products()
            if fetched:
                with text.block("if there"):
                    for factor in fetched:
                        factor.put(f"free*{self.stage}")
            text.line("unroll()")

    def _add_products(self) -> None:
        """Those of the current fragments; float32 is rounded to TF32, and where several terms are added, what that
        leaves out is multiplied too."""
        text, matrix = self.text, self.matrix
        if matrix.operand == "tf32":
            counts = (4 * self.down, 2 * self.across)
            for name, count in zip("ab", counts, strict=True):
                if matrix.terms > 1:
                    text.line(f"{name}_rest = tf32_rest_u32x{count}({name})")
                text.line(f"{name} = tf32_rounded_u32x{count}({name})")
        for a, b in TERMS[matrix.terms]:
            text.line(f"acc = mma_{matrix.operand}_{self.down}x{self.across}(acc, {a}, {b})")


@record
class _Fragments:
    """How the fragments of a warp are loaded: by which instruction, from which byte of a stage in step 0, and what is
    other in step q."""

    load: str
    place: str
    step: str


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
        text, found, wanted, kernel = self.text, self.matrix, self.wanted, self.mma.kernel
        assert found is not None
        pieces, unit, tiles = self.row // PIECE, PIECE // self.itemsize, self.mma.tiles
        lines, apart = self.nbytes // self.row, self.mma.threads // pieces
        row, piece = text.assign("q", f"{self.thread} // {pieces}"), text.assign("q", f"{self.thread} % {pieces}")
        down, deep = (row, f"{piece}*{unit}") if self.along_k else (f"{piece}*{unit}", row)
        i, k = text.assign("i", f"{wanted.first} + {down}"), text.assign("k", f"{depth} + {deep}")
        names = {**tiles.named(wanted.variables, i), **tiles.named(tiles.parts.product.along, k)}
        ends = ((i, wanted.extent, wanted.size), (k, tiles.depth, wanted.depth))
        inner, outer = ends[::-1] if self.along_k else ends
        read, there = str(PIECE), str(max(lines // apart, 1))
        if tiles.mask(inner):
            read = text.assign("n", f"min(max({kernel.index(inner[1])} - {inner[0]}, 0), {unit})*{self.itemsize}")
        if tiles.mask(outer):
            there = text.assign("n", f"({kernel.index(outer[1])} - {outer[0]} + {apart - 1}) // {apart}")
        ((_, offset),) = wanted.loop.loads()
        at = text.index(offset, {**kernel.names, **names})
        if tiles.mask(inner, outer):
            at = f"{at} if ({read} > 0) & ({there} > 0) else 0"
        name, buffer = dtypes.name(dtypes.storage(found.buffer.dtype)), text.buffer(found.buffer)
        to = f"{self.mma.base} + {stage} + {self.start} + {self._at(row, piece)}"
        call = f"copy_async_{max(lines // apart, 1)}_{apart}_{self.row}_{name}"
        with text.block(f"if {row} < {lines}") if apart > lines else nullcontext():
            text.line(f"{call}({to}, {buffer}, {at}, {kernel.index(found.stride)}*{apart}, {read}, {there})")

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

    def fragments(self, lane: str, first: str, count: int) -> _Fragments:
        """`count` fragments of the part of a warp that begins at a row (column)."""
        is_left = self.wanted.name == LEFT
        low, high = f"{lane} % {COLUMNS}", f"{lane} // {COLUMNS} % 2"
        top = f"{lane} // {2 * COLUMNS}"
        # the second of the four matrices is below the first in the left factor, and further along k in the right one
        side, deep = (high, top) if is_left else (top, high)
        if self.along_k:
            place = self._at(f"({first} + {side}*{COLUMNS} + {low})", f"({deep})")
            load, step = f"load_matrix_{count}_plus_{ROWS * self.row}", f"^ q*{2 * PIECE}"
        else:
            # the first piece of a warp is a multiple of how many it has: those of other fragments differ in other bits
            place = self._at(f"({deep}*{COLUMNS} + {low})", f"({first} // {COLUMNS} + {side})")
            load, step = f"load_matrix_turned_{count}_xor_{2 * PIECE}", f"+ q*{ROWS * self.row}"
        return _Fragments(load, self.text.assign("f", f"{self.start} + {place}"), step)
