"""Pointwise kernels that read along different variables: two-dimensional tiles.

Loads that are contiguous along the second variable are first transposed, tile by tile, into scratch memory;
then the tile is computed row by row along the vector variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numstax import dtypes
from numstax.cpu_emit.space import points, print_tile, task_count
from numstax.emit.nest import Axis, BodyText, KernelText
from numstax.emit.text import factor
from numstax.ir.index import ZERO, Index, Var, stride_of, substitute
from numstax.tiles.cpu import crossing

PAD = 16
"""Elements between rows of a tile in scratch memory beyond its width, so that rows fall in different sets."""


def print_tiles(kernel: KernelText, parallel: bool) -> Index:
    """Print a kernel in transposed form; the number of parallel tasks."""
    tiling = kernel.kernel.tiling
    assert tiling is not None
    assert tiling.vector is not None
    assert tiling.tile is not None
    lane, (across, height) = tiling.vector, tiling.tile
    width = tiling.block
    rows = tuple(v for v in kernel.kernel.outer if v not in (lane, across))
    tiles_down = Var(f"{across.name}_tile", (across.extent + (height - 1)) // height)
    tiles_along = Var(f"{lane.name}_tile", (lane.extent + (width - 1)) // width)
    variables = (*rows, tiles_down, tiles_along)
    with points(kernel, variables, parallel):
        a, a_end = _range(kernel, tiles_down, height, across)
        b, b_end = _range(kernel, tiles_along, width, lane)
        _Tile(kernel, (across, a, a_end), (lane, b, b_end), height, width).run()
    return task_count(variables)


def _range(kernel: KernelText, tiles: Var, size: int, var: Var) -> tuple[str, str]:
    start = kernel.text.assign("lane", f"{size}*{kernel.names[tiles]}")
    return start, kernel.text.assign("end", f"min({start} + {size}, {kernel.index(var.extent)})")


class _Tile:
    """One tile: `down` and `along` are (variable, start, stop)."""

    def __init__(
        self, kernel: KernelText, down: tuple[Var, str, str], along: tuple[Var, str, str], height: int, width: int
    ) -> None:
        self.kernel, self.text = kernel, kernel.text
        self.down, self.along = down, along
        self.height, self.pitch = height, width + PAD
        self.row, self.column = self.text.fresh("i"), self.text.fresh("i")
        self.at = f"{self.pitch}*({self.row} - {down[1]}) + {self.column} - {along[1]}"

    def run(self) -> None:
        loops = self.kernel.kernel.loops
        written = frozenset().union(*(loop.writes() for loop in loops))
        staged: dict[tuple[str, Index], str] = {}
        for loop in loops:
            for name, offset in crossing(loop, self.along[0], self.down[0], written):
                if (name, offset) not in staged:
                    staged[name, offset] = f"{self._stage(name, offset)}[{self.at}]"
        axes = [Axis(self.down[0], self.row, *self.down[1:]), Axis(self.along[0], self.column, *self.along[1:])]
        bodies = [BodyText(self.kernel, loop, axes, loops, staged) for loop in loops]
        print_tile(self.text, axes, bodies)

    def _stage(self, name: str, offset: Index) -> str:
        """Transpose this tile of a buffer into scratch memory: squares first, then what is left over."""
        buffer = self.kernel.buffer(name)
        (across, a, a_end), (lane, b, b_end) = self.down, self.along
        dtype, edge = dtypes.name(buffer.dtype), square(buffer.dtype.itemsize)
        tile = self.text.array("tile", buffer.dtype, self.height * self.pitch)
        source = self.text.buffer(buffer)
        stride = stride_of(offset, lane)
        assert stride is not None
        step = factor(self.kernel.index(stride))
        rest = self.kernel.index(substitute(offset, {across: ZERO, lane: ZERO}))
        base = self.text.assign("b", rest if rest != "0" else "0")
        a_full = self.text.assign("end", f"{a} + ({a_end} - {a})//{edge}*{edge}")
        b_full = self.text.assign("end", f"{b} + ({b_end} - {b})//{edge}*{edge}")
        p, q = self.text.fresh("p"), self.text.fresh("q")
        to, come = f"{self.pitch}*({p} - {a}) + {q} - {b}", f"{base} + {p} + {step}*{q}"
        with self._both(q, f"{b}, {b_full}, {edge}", p, f"{a}, {a_full}, {edge}"):
            self.text.line(
                f"transpose_{dtype}(offset_{dtype}({tile}, {to}), {self.pitch}, "
                f"offset_{dtype}({source}, {come}), {step})"
            )
        for along, down in ((f"{b}, {b_full}", f"{a_full}, {a_end}"), (f"{b_full}, {b_end}", f"{a}, {a_end}")):
            with self._both(q, along, p, down):
                self.text.line(f"{tile}[{to}] = {source}[{come}]")
        return tile

    @contextmanager
    def _both(self, q: str, along: str, p: str, down: str) -> Iterator[None]:
        """Two loops, one inside the other."""
        with self.text.block(f"for {q} in range({along})"), self.text.block(f"for {p} in range({down})"):
            yield


def square(itemsize: int) -> int:
    """The edge of the squares that `transpose_<dtype>` moves."""
    return min(16, 64 // itemsize)
