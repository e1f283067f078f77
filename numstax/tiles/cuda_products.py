"""Tilings of kernels that begin with a product of matrices: the cheapest tile for which there is a template."""

from __future__ import annotations

from numstax import dtypes
from numstax.hardware import Gpu
from numstax.ir.contraction import Matrix, Product, operand_of
from numstax.ir.index import hint, product
from numstax.ir.loops import Kernel, MatrixTiling, Tiling
from numstax.tiles.feasibility import Infeasible
from numstax.tiles.gemm import GemmTile, gemm_tiles

WARP = 32


def tile_product(kernel: Kernel, found: Product, gpu: Gpu) -> Tiling:
    """The tiling of a kernel with this product."""
    matrix = _wgmma(kernel, found, gpu) or _mma(kernel, found, gpu) or _fma(found, gpu)
    teams = matrix.warps[0] * matrix.warps[1] * (4 if matrix.family == "wgmma" else 1)
    return Tiling(form="product", threads=WARP * (teams + matrix.producers), matrix=matrix)


def _extents(found: Product) -> tuple[int, int, int, int]:
    sides = (found.rows, found.columns, found.along, found.batch)
    rows, columns, along, batch = (hint(product(v.extent for v in side)) for side in sides)
    return rows, columns, along, batch


def _format(kernel: Kernel, found: Product) -> str:
    """What is multiplied, as `atoms.FORMATS` has it."""
    dtype = found.loop.body[found.effect.value].dtype
    return "tf32" if dtype == dtypes.FLOAT32 and found.effect.precision == "medium" else dtypes.name(dtype)


def _wgmma(kernel: Kernel, found: Product, gpu: Gpu) -> MatrixTiling | None:
    """Warpgroup instructions, where the factors are matrices that the copy engine can read."""
    effect, kind = found.effect, _format(kernel, found)
    if kind not in ("bf16", "f16", "tf32", "f8e4m3", "f8e5m2"):
        return None
    left = operand_of(kernel, found, effect.value, found.rows)
    right = operand_of(kernel, found, effect.other, found.columns)
    if not isinstance(left, Matrix) or not isinstance(right, Matrix):
        return None
    if left.buffer.dtype.itemsize != 2 and {left.inner, right.inner} != set(found.along):
        return None
    m, n, k, batch = _extents(found)
    tiles = gemm_tiles(gpu, m, n, k, kind, out=effect.dtype.itemsize, batch=batch, family="wgmma")
    if isinstance(tiles, Infeasible):
        return None
    return next((_matrix(t, kind, gpu) for t in tiles if t.warp[0] == 64 and t.split == 1), None)


def _mma(kernel: Kernel, found: Product, gpu: Gpu) -> MatrixTiling | None:
    """Instructions of one warp, for any strides."""
    kind = _format(kernel, found)
    if kind not in ("bf16", "f16", "tf32", "f8e4m3", "f8e5m2", "i8", "u8"):
        return None
    m, n, k, batch = _extents(found)
    tiles = gemm_tiles(gpu, m, n, k, kind, out=found.effect.dtype.itemsize, batch=batch, family="mma")
    if isinstance(tiles, Infeasible):
        return None
    return next((_matrix(t, kind, gpu) for t in tiles if _is_whole(t)), None)


def _is_whole(tile: GemmTile) -> bool:
    """Are its parts such as the template for warps takes?"""
    (bm, bn, bk), (wm, wn, _), size = tile.block, tile.warp, tile.atom.itemsize
    pieces = (bm * size // 16, bn * size // 16)
    rows = all(p % 8 == 0 or p in (1, 2, 4) for p in pieces)
    return tile.split == 1 and bk * size == 128 and wm % 16 == 0 and wn % 16 == 0 and rows and tile.stages >= 2


def _matrix(tile: GemmTile, kind: str, gpu: Gpu) -> MatrixTiling:
    resident = gpu.sms if tile.persistent else 0
    return MatrixTiling(
        tile.atom.family, kind, tile.block, tile.warp[:2], tile.stages, tile.group, resident, tile.producers
    )


def _fma(found: Product, gpu: Gpu) -> MatrixTiling:
    """Products one element at a time: exact for every dtype."""
    rows, columns, _, _ = _extents(found)
    wide = dtypes.accumulator(found.effect.dtype).itemsize == 8
    edge = 64 if wide else 128
    while edge > 64 and -(-rows // edge) * -(-columns // edge) < gpu.sms:
        edge //= 2
    warp = (32, 32) if edge == 64 else (32, 64)
    return MatrixTiling("fma", dtypes.name(found.effect.dtype), (edge, edge, 8), warp, 2)
