"""Pointwise kernels in two-dimensional tiles.

`print_transposed`: loads that are contiguous along another variable than the lane are read along that one, a tile at a
time, and turned in shared memory, whose rows are padded so that neither direction meets one bank again and again.

`print_stencil`: a thread has several neighbouring rows, so that what neighbours in different rows load is loaded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numstax.cuda_emit.accesses import Access, Staged, Tile, Window, early_loads, load_text, storage_name
from numstax.cuda_emit.passes import Mask, Pass, Span, stores_only
from numstax.cuda_emit.points import count, decode
from numstax.emit.nest import KernelText, Place
from numstax.ir.index import ZERO, Atom, Index, Var, as_index, divides, stride_of, substitute
from numstax.ir.loops import NARROW
from numstax.ir.renaming import substitute_vars
from numstax.tiles.cpu import crossing
from numstax.tiles.cuda_points import along_width, place_in_chunk

NEAR = 4
"""Chunks that one window spans, at most."""


def print_transposed(kernel: KernelText) -> tuple[Index, ...]:
    """Print a kernel in transposed form; the number of blocks."""
    return _Tiled(kernel).run_transposed()


def print_stencil(kernel: KernelText) -> tuple[Index, ...]:
    """Print a kernel in stencil form; the number of blocks."""
    return _Tiled(kernel).run_stencil()


class _Tiled:
    """`rows`, `columns` : the two variables of a tile, which is `height` by `length` points; `row` and `column` are
    their places in it."""

    def __init__(self, kernel: KernelText) -> None:
        tiling = kernel.kernel.tiling
        assert tiling is not None
        assert tiling.vector is not None
        assert tiling.tile is not None
        self.kernel, self.text, self.tiling = kernel, kernel.text, tiling
        self.columns, (self.rows, self.height), self.length = tiling.vector, tiling.tile, tiling.block
        self.row, self.column = Var("row", as_index(self.height)), Var("column", as_index(self.length))
        down = Var("row_tile", (self.rows.extent + (self.height - 1)) // self.height)
        along = Var("column_tile", (self.columns.extent + (self.length - 1)) // self.length)
        others = (v for v in kernel.kernel.outer if v not in (self.rows, self.columns))
        self.blocks = (*others, down, along)
        self.places: dict[Atom, Index] = {
            self.rows: as_index(down) * self.height + as_index(self.row),
            self.columns: as_index(along) * self.length + as_index(self.column),
        }
        sides = ((self.rows, self.height), (self.columns, self.length))
        self.partial = [var for var, size in sides if divides(size, var.extent) is not True]
        self.loops = tuple(substitute_vars(loop, self.places, ()) for loop in kernel.kernel.loops)

    def _begin(self) -> None:
        for buffer in self.kernel.kernel.buffers:
            if buffer.kind == "local":
                self.kernel.places[buffer.name] = Place(self.text.fresh("r"), array=False)
        names, lines = decode(self.kernel, self.blocks, self.text.assign("p", "int64(block_x())"), "b", NARROW)
        for name, value in lines:
            self.text.line(f"{name} = {value}")
        self.kernel.names.update(names)

    def _mask(self, names: Mapping[Atom, str]) -> str:
        """Is the point inside of the space?"""
        places = ((self.text.index(self.places[v], names), self.kernel.index(v.extent)) for v in self.partial)
        return " & ".join(f"({place} < {extent})" for place, extent in places)

    def _span(self, variables: tuple[Var, ...], width: int) -> Span:
        threads = self.tiling.threads
        chunks = self.height * self.length // (threads * width)
        thread = "int64(thread_x())" if width == 1 else f"int64(thread_x())*{width}"
        first = self.text.assign("q", thread)
        mask = self._mask if self.partial else None
        return Span(variables, variables[-1], width, chunks, first, threads * width, None, mask=mask)

    def run_transposed(self) -> tuple[Index, ...]:
        self._begin()
        tiles: dict[Access, Tile | Window] = {x: self._turned(x) for x in self._crossing()}
        self.text.line("barrier()")
        loads = early_loads(self.loops, {b.name: b for b in self.kernel.kernel.buffers})
        span = self._span((self.row, self.column), self.tiling.width)
        staged = Staged(self.kernel, [x for x in loads if x not in tiles], span.count, span.lane, span.width)
        staged.tiles = tiles
        Pass(self.kernel, self.loops, span, staged).run(stores_only)
        return (count(self.blocks),)

    def _crossing(self) -> list[Access]:
        written = self.kernel.kernel.writes()
        found: dict[Access, None] = {}
        for loop in self.kernel.kernel.loops:
            for name, offset in crossing(loop, self.columns, self.rows, written):
                found[name, substitute(offset, self.places)] = None
        return list(found)

    def _turned(self, access: Access) -> Tile:
        """Load one tile along its rows, store it along its columns."""
        buffer, pitch = self.kernel.buffer(access[0]), self.length + 1
        tile = self.text.array("s", buffer.dtype, self.height * pitch)
        width = along_width(self.kernel.kernel, access, self.row, self.rows.extent)
        span = self._span((self.column, self.row), width)
        staged = Staged(self.kernel, [access], span.count, span.lane, width, {access})
        staged.declare()
        made = Pass(self.kernel, (), span, staged)
        with made.chunks() as chunk:
            staged.load(chunk)
        with made.chunks() as chunk, chunk.elements(self.kernel):
            row = chunk.at(chunk.element)
            self.text.line(f"{tile}[{row}*{pitch} + {chunk.names[self.column]}] = {staged.elements(chunk)[access]}")
        return Tile(tile, self.row, pitch)

    def run_stencil(self) -> tuple[Index, ...]:
        self._begin()
        width = self.tiling.width
        thread = "int64(thread_x())" if width == 1 else f"int64(thread_x())*{width}"
        self.kernel.names[self.column] = self.text.assign("j", thread)
        if not self.partial:
            self._rows_of_thread(None)
            return (count(self.blocks),)
        with self.text.block(f"if {self._whole()}"):
            self._rows_of_thread(None)
        with self.text.block("else"):
            self._rows_of_thread(self._mask)
        return (count(self.blocks),)

    def _whole(self) -> str:
        """Is all of the tile inside of the space?"""
        first: dict[Atom, str] = {**self.kernel.names, self.row: "0", self.column: "0"}
        sides = ((self.rows, self.height), (self.columns, self.length))
        ends = ((self.text.index(self.places[v] + n, first), v) for v, n in sides if v in self.partial)
        return " & ".join(f"({end} <= {self.kernel.index(v.extent)})" for end, v in ends)

    def _rows_of_thread(self, mask: Mask | None) -> None:
        span = Span((self.row,), self.column, self.tiling.width, self.height, "0", 1, None, mask=mask)
        loads = early_loads(self.loops, {b.name: b for b in self.kernel.kernel.buffers})
        windows = self._windows(loads) if span.width > 1 else {}
        staged = Staged(self.kernel, [x for x in loads if x not in windows], span.count, span.lane, span.width)
        made = Pass(self.kernel, self.loops, span, staged)
        staged.tiles = self._load_windows(windows, made)
        made.run(stores_only)

    def _windows(self, loads: Sequence[Access]) -> dict[Access, tuple[Access, int]]:
        """For each load along the lane the aligned access before it that it is `k` elements behind, of which there is
        one for neighbours."""
        width, found = self.tiling.width, dict[Access, tuple[Access, int]]()
        starts: list[Access] = []
        for name, offset in loads:
            if stride_of(offset, self.column) is ZERO:
                continue
            place = place_in_chunk(self.kernel.buffer(name), offset, self.column, width)
            assert place is not None
            starts.append((name, offset - place))
        for name, offset in loads:
            near = [(k, s) for s in starts if s[0] == name and (k := (offset - s[1]).value) is not None]
            near = [(k, s) for k, s in near if 0 <= k < NEAR * width]
            if stride_of(offset, self.column) is not ZERO:
                k, start = max(near, key=lambda pair: pair[0])
                found[name, offset] = start, k
        return found

    def _load_windows(self, windows: Mapping[Access, tuple[Access, int]], made: Pass) -> dict[Access, Tile | Window]:
        width, count = self.tiling.width, made.span.count
        lengths: dict[Access, int] = {}
        for start, k in windows.values():
            lengths[start] = max(lengths.get(start, 0), -(-(k + width) // width) * width)
        arrays = {}
        for start, length in lengths.items():
            kind = storage_name(self.kernel.buffer(start[0]).dtype)
            arrays[start] = self.text.assign("x", f"registers_{kind}({count * length})")
        with made.chunks() as chunk:
            for (name, offset), length in lengths.items():
                for k in range(0, length, width):
                    at = self.text.index(offset + k, chunk.names)
                    first = f"{arrays[name, offset]}[{chunk.number}*{length} + "
                    places = ", ".join(f"{first}{k + e}]" for e in range(width))
                    self.text.line(f"{places} = {load_text(self.kernel, name, at, width)}")
        return {x: Window(arrays[start], lengths[start], k) for x, (start, k) in windows.items()}
