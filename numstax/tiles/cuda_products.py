"""Tilings of kernels that begin with a product of matrices: the tiles for which there is a template, cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

from numstax import dtypes
from numstax.atoms import FORMATS
from numstax.hardware import Gpu
from numstax.ir.contraction import Matrix, Product, Tensor, factor_of, operand_of, product_of
from numstax.ir.index import ZERO, divides, hint, less, product
from numstax.ir.loops import Kernel, MatrixTiling, Tiling
from numstax.tiles.feasibility import Infeasible
from numstax.tiles.gemm import GemmTile, gemm_tiles

WARP, SPAN = 32, 128
ROWS = 64
"""Of one warpgroup instruction."""
_FLOATS = ("bf16", "f16", "tf32", "f8e4m3", "f8e5m2")
TEMPLATES = {"wgmma": _FLOATS, "mma": (*_FLOATS, "i8", "u8")}
"""What the templates of a family multiply."""
SQUARE, ENOUGH, SHORT = 128, 1.9, 64
"""Edge of the tiles of warpgroups that take turns, tiles for each multiprocessor, and steps of k at most."""
MOST_TOGETHER = 8
"""Rows of tiles numbered together: with more, an H200 was slower."""
LONG_PART = 256
"""Terms of a sum that are worth computing apart from others."""
COPYING, FETCHING = 128, 32
"""Accumulators of a thread, at most, where it also holds fragments and addresses of what is copied, or what passes
through its registers; half of that where several variables number terms, which makes addresses longer."""


def tile_product(kernel: Kernel, found: Product, gpu: Gpu) -> Tiling:
    """The tiling of a kernel with this product."""
    return product_tilings(kernel, found, gpu)[0]


def product_tilings(kernel: Kernel, found: Product, gpu: Gpu) -> tuple[Tiling, ...]:
    """All tilings that the best template serves; the formulas' choice is the first, then by predicted cost."""
    matrices = _wgmma(kernel, found, gpu) or _mma(kernel, found, gpu) or (_fma(found, gpu),)
    return tuple(map(_tiling, matrices))


def group_tilings(kernels: Sequence[Kernel], gpu: Gpu) -> dict[str, Tiling]:
    """One tiling for the products of each group, which one program is to compute: that of the product whose threads
    have least room."""
    found: dict[str, list[Tiling]] = {}
    for kernel in kernels:
        product = product_of(kernel)
        if product is not None and product.effect.group:
            served = _mma(kernel, product, gpu) or (_fma(product, gpu),)
            found.setdefault(product.effect.group, []).append(_tiling(replace(served[0], split=1)))
    return {group: min(tilings, key=_accumulators) for group, tilings in found.items()}


def _accumulators(tiling: Tiling) -> int:
    """Of a thread."""
    assert tiling.matrix is not None
    return tiling.matrix.block[0] * tiling.matrix.block[1] // tiling.threads


def _tiling(matrix: MatrixTiling) -> Tiling:
    teams = matrix.warps[0] * matrix.warps[1] * (4 if matrix.family == "wgmma" else 1) * (2 if matrix.turns else 1)
    return Tiling(form="product", threads=WARP * (teams + matrix.producers), matrix=matrix)


def _extents(found: Product) -> tuple[int, int, int, int]:
    sides = (found.rows, found.columns, found.along, found.batch)
    rows, columns, along, batch = (hint(product(v.extent for v in side)) for side in sides)
    return rows, columns, along, batch


def _format(kernel: Kernel, found: Product) -> str:
    """What is multiplied, as `atoms.FORMATS` has it."""
    dtype = found.loop.body[found.effect.value].dtype
    rounded = dtype == dtypes.FLOAT32 and found.effect.precision != "highest"
    return "tf32" if rounded else dtypes.name(dtype)


def _sides(kernel: Kernel, found: Product) -> tuple[Matrix | str, Matrix | str]:
    effect = found.effect
    left = operand_of(kernel, found, effect.value, found.rows)
    return left, operand_of(kernel, found, effect.other, found.columns)


def _wgmma(kernel: Kernel, found: Product, gpu: Gpu) -> tuple[MatrixTiling, ...]:
    """Warpgroup instructions, where the copy engine can read the factors: matrices, and of the left one also boxes of
    points that several variables number."""
    effect, kind = found.effect, _format(kernel, found)
    if kind == "tf32" and effect.precision == "high":
        return ()  # factors are taken apart in registers
    left = factor_of(kernel, found, effect.value, found.rows)
    right = factor_of(kernel, found, effect.other, found.columns)
    if not isinstance(left, Tensor) or not isinstance(right, Tensor) or len(found.columns) != 1 or not found.rows:
        return ()
    *_, last = found.along
    inner, depth = {left.inner, right.inner}, SPAN // left.buffer.dtype.itemsize
    if (FORMATS.get(kind) != 2 and inner != {last}) or not inner <= {last, *found.rows, *found.columns}:
        return ()
    if len(found.along) > 1 and divides(depth, last.extent) is not True:
        return ()  # a step would be in two rows of taps
    served = _taking_turns(found, gpu, _served(found, gpu, kind, "wgmma", lambda tile: tile.warp[0] == ROWS))
    if len(found.rows) == 1:
        return served
    in_order = tuple(v for v, _ in reversed(left.dims) if v in found.rows) == found.rows
    if left.inner != last or not in_order:
        return ()
    return tuple(replace(matrix, box=_box(found, matrix.block[0])) for matrix in served)


def _box(found: Product, size: int) -> tuple[int, ...]:
    """The box of so many rows that covers them with the least left over."""
    extents = [hint(v.extent) for v in found.rows]

    def boxes(count: int, left: int) -> Iterator[tuple[int, ...]]:
        if count == 1:
            yield (left,)
            return
        sides = (1 << e for e in range(left.bit_length()))
        yield from ((*others, side) for side in sides for others in boxes(count - 1, left // side))

    def covered(box: tuple[int, ...]) -> int:
        return prod(-(-n // b) * b for n, b in zip(extents, box, strict=True))

    # of equals, the one that is nearest to a square of neighbours
    return min(boxes(len(extents), size), key=lambda b: (covered(b), b))


def _taking_turns(found: Product, gpu: Gpu, served: tuple[MatrixTiling, ...]) -> tuple[MatrixTiling, ...]:
    """With square tiles for each of two warpgroups in front, where there are enough of them and sums are short: the
    epilogue of one then hides behind the products of the other."""
    square = next((t for t in served if t.block[:2] == (SQUARE, SQUARE)), None)
    rows, columns, _, batch = _extents(found)
    tiles = batch * -(-rows // SQUARE) * -(-columns // SQUARE)
    if square is None or square.split > 1 or tiles < ENOUGH * gpu.sms or columns < SQUARE:
        return served
    steps = -(-_extents(found)[2] // square.block[2])
    if steps > SHORT:
        return served
    return (replace(square, warp=(SQUARE, SQUARE), turns=True, cost=served[0].cost), *served)


def _mma(kernel: Kernel, found: Product, gpu: Gpu) -> tuple[MatrixTiling, ...]:
    """Instructions of one warp, for any strides."""
    kind = _format(kernel, found)
    turned = FORMATS.get(kind) == 2
    copied = (isinstance(side, Matrix) and (turned or side.inner in found.along) for side in _sides(kernel, found))
    most = COPYING if all(copied) else FETCHING if len(found.along) == 1 else FETCHING // 2
    served = _served(found, gpu, kind, "mma", lambda tile: _is_whole(tile) and tile.accumulators <= most)
    apart = kind == "tf32" and found.effect.precision == "high"
    return tuple(replace(tiling, terms=3) for tiling in served) if apart else served


def _served(
    found: Product, gpu: Gpu, kind: str, family: str, serves: Callable[[GemmTile], bool]
) -> tuple[MatrixTiling, ...]:
    """The tiles of a family that its template can serve."""
    if kind not in TEMPLATES[family] or less(ZERO, product(v.extent for v in found.along)) is not True:
        return ()
    m, n, k, batch = _extents(found)
    tiles = gemm_tiles(gpu, m, n, k, kind, out=found.effect.dtype.itemsize, batch=batch, family=family)
    if isinstance(tiles, Infeasible):
        return ()
    return tuple(_matrix(tile, kind, gpu) for tile in tiles if serves(tile))


def _is_whole(tile: GemmTile) -> bool:
    """Are its parts such as the template for warps takes?"""
    (bm, bn, bk), (wm, wn, _), size = tile.block, tile.warp, tile.atom.itemsize
    pieces = (bm * size // 16, bn * size // 16)
    rows = all(p % 8 == 0 or p in (1, 2, 4) for p in pieces)
    return bk * size == SPAN and wm % 16 == 0 and wn % 16 == 0 and rows


def _matrix(tile: GemmTile, kind: str, gpu: Gpu) -> MatrixTiling:
    resident = gpu.sms if tile.persistent else 0
    shape = (tile.block, tile.warp[:2], tile.stages, min(tile.group, MOST_TOGETHER), resident, tile.producers)
    return MatrixTiling(tile.atom.family, kind, *shape, split=tile.split, cost=tile.cost)


def _fma(found: Product, gpu: Gpu) -> MatrixTiling:
    """Products one element at a time: exact for every dtype."""
    rows, columns, depth, batch = _extents(found)
    wide = dtypes.accumulator(found.effect.dtype).itemsize == 8

    def tiles(block: tuple[int, int]) -> int:
        return batch * -(-rows // block[0]) * -(-columns // block[1])

    shapes = _FMA[2:] if wide else _FMA
    block, warp = next((s for s in shapes if tiles(s[0]) >= gpu.sms), shapes[-1])
    split = max(1, min(gpu.sms // tiles(block), depth // LONG_PART))
    return MatrixTiling("fma", dtypes.name(found.effect.dtype), (*block, 8), warp, 2, split=split)


_FMA = (((256, 128), (64, 64)), ((128, 128), (32, 64)), ((64, 64), (32, 32)))
"""Tiles of blocks and of warps, in ordinary arithmetic, those with most reuse first."""
