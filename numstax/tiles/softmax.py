"""Tiles of softmax over rows in closed form (paper, section 5.3; section 9.5).

A `Gpu` row and sizes enter; a `SoftmaxTile` leaves, or the constraint that binds.  A warp owns a row, and keeps the
running maximum and denominator in registers; the step along the row is the longest that its registers allow, so that
short rows are read once.
"""

from __future__ import annotations

from numstax.hardware import Gpu
from numstax.records import record
from numstax.tiles.feasibility import Infeasible, feasible
from numstax.tiles.tree import (
    BLOCK,
    REGISTERS,
    WARP,
    Chain,
    Clear,
    Grid,
    Operator,
    Rescale,
    Stream,
    Write,
    operand,
)


@record
class SoftmaxTile:
    """rows : of a block, one for each warp; columns : of one step."""

    rows: int
    columns: int


def softmax_tree(rows: int, columns: int, itemsize: int, tile: SoftmaxTile) -> Operator:
    """Online softmax as an algorithm tree.  Where one step is the whole row, what it loaded is still there for the
    second pass."""
    read = ("x",)
    once = tile.columns >= columns
    first = Stream(WARP, "c", tile.columns, Rescale("x", "weights", "maximum", "denominator"), () if once else read)
    second = Stream(WARP, "c", tile.columns, Write("y", "x", "denominator", "maximum"), () if once else read)
    start = (Clear("maximum", -float("inf")), Clear("denominator"))
    whole = Grid(WARP, (("r", 1),), Chain((*start, first, second)))
    return Operator(
        "softmax",
        (("r", rows), ("c", columns)),
        (
            operand("x", "r c", itemsize),
            operand("y", "r c", itemsize),
            operand("weights", "r c", 4, REGISTERS),
            operand("maximum", "r", 4, REGISTERS),
            operand("denominator", "r", 4, REGISTERS),
        ),
        Grid(BLOCK, (("r", tile.rows),), whole, read if once else ()),
    )


def softmax_tile(gpu: Gpu, rows: int, columns: int, itemsize: int = 4) -> SoftmaxTile | Infeasible:
    """The tile of a softmax over the rows of a matrix, in closed form."""
    steps = [1 << e for e in range(5, 14) if 1 << e < 2 * columns or e == 5]
    tiles = [SoftmaxTile(r, c) for r in (1, 2, 4, 8, 16) for c in steps]
    fits = feasible(((tile, softmax_tree(rows, columns, itemsize, tile)) for tile in tiles), gpu)
    if isinstance(fits, Infeasible):
        return fits
    longest = max(tile.columns for tile, _ in fits)
    wide = [tile for tile, _ in fits if tile.columns == longest]
    full = [tile for tile in wide if -(-rows // tile.rows) >= gpu.sms]
    return max(full, key=lambda tile: tile.rows) if full else min(wide, key=lambda tile: tile.rows)
