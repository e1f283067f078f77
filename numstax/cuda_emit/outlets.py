"""Results of a product that leave through shared memory: whole rows at a time, copied asynchronously in boxes.

A warp puts 16 rows of 128 bytes into a buffer of its own, with pieces of 16 bytes exchanged as the copy engine expects
them, which also spares bank conflicts, and goes on while they are copied.  What lies outside of the result is not
written, so the last tiles need no masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk
from numstax.cuda_emit.product import FragmentStores, Tiles
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText
from numstax.ir.contraction import Tensor, tensor_of
from numstax.ir.index import ONE, Var
from numstax.program import TensorMap

SPAN, ROWS, BELOW = 128, 16, 64
MOST = 2
"""Results that leave so."""
WIDTH, COLUMNS = 2, 8
"""Neighbours that a thread holds, and columns that four threads hold together."""


class Outlets(FragmentStores):
    """The stores of a kernel with a product; `start` is the byte of shared memory where buffers begin."""

    def __init__(self, kernel: KernelText, tiles: Tiles, start: int, warps: int) -> None:
        columns = tiles.parts.product.columns
        lane = columns[-1] if columns else Var("lane", ONE)
        super().__init__(kernel, tiles.parts.rest, lane, min(WIDTH, tiles.width()))
        assert isinstance(kernel.text, DeviceText)
        self.text, self.tiles, self.start = kernel.text, tiles, start
        self.matrices = self._matrices()
        self.buffers = 0 if not self.matrices else max(2, len(self.matrices))
        self.nbytes = warps * self.buffers * ROWS * SPAN
        self.maps = {key: self._map(m) for key, m in self.matrices.items()}

    def _matrices(self) -> dict[tuple[int, int], Tensor]:
        product = self.tiles.parts.product
        found: dict[tuple[int, int], Tensor] = {}
        for key, effect in sorted(self.effects.items()):
            buffer = self.kernel.buffer(effect.buffer)
            tensor = tensor_of(buffer, effect.offset, (*product.columns, *product.rows), product.batch)
            if isinstance(tensor, Tensor) and tensor.inner in product.columns and buffer.dtype.itemsize <= 4:
                found |= {key: tensor} if self.tiles.in_order(tensor) else {}
        widest = max((m.buffer.dtype.itemsize for m in found.values()), default=1)
        same = [key for key, m in found.items() if m.buffer.dtype.itemsize == widest]
        self.columns = SPAN // widest
        return {key: found[key] for key in same[:MOST]} if self.tiles.matrix.block[1] % self.columns == 0 else {}

    def _map(self, matrix: Tensor) -> str:
        formula, rows, left = self.text.formula, self.tiles.parts.product.rows, ROWS
        box: dict[Var, int] = {}
        for v, size in reversed(list(zip(rows, self.tiles.matrix.box or (ROWS,), strict=True))):
            box[v] = min(size, left)
            left //= box[v]
        sizes = (matrix.inner, *(v for v, _ in matrix.dims))
        described = TensorMap(
            dtypes.name(matrix.buffer.dtype),
            tuple(formula(v.extent) for v in sizes),
            tuple(formula(stride) for _, stride in matrix.dims),
            (self.columns, *(box.get(v, 1) for v, _ in matrix.dims)),
            SPAN,
            formula(matrix.offset),
        )
        return self.text.tensor(matrix.buffer, described)

    def begin(self, warp: str, lane: str, row: str, column: str, columns: int) -> None:
        """Of a warp: its number, that of the thread in it, and the first row and column it has, of so many; the next 16
        rows lie `BELOW` further down."""
        if self.matrices:
            self.lane, self.row, self.column, self.across = lane, row, column, columns // self.columns
            self.first = self.text.assign("s", f"{self.start} + ({warp})*{self.buffers * ROWS * SPAN}")

    def finish(self, lane: str) -> None:
        """Wait for the last copies."""
        if self.matrices:
            with self.text.block(f"if {lane} == 0"):
                self.text.line("tensor_wait_0()")

    @contextmanager
    def groups(self, number: int) -> Iterator[tuple[int, str]]:
        if not self.matrices:
            yield number, ""
            return
        text, count = self.text, 2 * self.columns // COLUMNS
        # the buffer that is filled next must have been read; where a tile fills both equally often, not the last one
        left = int(len(self.matrices) == 1 and number // count % 2 == 0)
        with text.block(f"for g in range({number // count})"):
            with text.block(f"if {self.lane} == 0"):
                text.line(f"tensor_wait_read_{left}()")
            text.line("warp_barrier()")
            yield count, f"g*{count}"
            text.line("async_fence()")
            text.line("warp_barrier()")
            with text.block(f"if {self.lane} == 0"):
                column, row = f"{self.column} + g*{self.columns}", self.row
                if number // count > self.across:
                    column = f"{self.column} + g % {self.across}*{self.columns}"
                    row = text.assign("i", f"{self.row} + g // {self.across}*{BELOW}")
                names = {**self.kernel.names, **self.tiles.rows_at(row)}
                for k, (key, matrix) in enumerate(self.matrices.items()):
                    at = [column, *(names[v] for v, _ in matrix.dims)]
                    source = f"shared_address() + {self._buffer(k)}"
                    text.line(f"tensor_store_{len(at)}d({self.maps[key]}, {', '.join(at)}, {source})")
                text.line("tensor_commit()")
            text.line("unroll()")

    def _buffer(self, k: int) -> str:
        """The first byte of the buffer of result k."""
        which = "g % 2" if len(self.matrices) == 1 else str(k)
        return f"{self.first} + {which}*{ROWS * SPAN}"

    def store(self, chunk: Chunk) -> None:
        direct = {key: effect for key, effect in self.effects.items() if key not in self.matrices}
        self.store_some(direct, chunk)
        for k, (key, matrix) in enumerate(self.matrices.items()):
            size, name = matrix.buffer.dtype.itemsize, dtypes.name(matrix.buffer.dtype)
            row = f"({self.lane} // 4 + {chunk.number} % 2*{COLUMNS})"
            inside = (
                f"{chunk.number} // 2 % {self.columns // COLUMNS}*{COLUMNS * size} + {self.lane} % 4*{WIDTH * size}"
            )
            place = f"({self._buffer(k)} + {row}*{SPAN} + (({inside}) ^ {row} % 8*16)) // {size}"
            values = ", ".join(f"{self.targets[key]}[{e}]" for e in range(self.width))
            self.text.line(f"store{self.width}_{name}(shared_{name}(int32(0)), {place}, ({values}))")
