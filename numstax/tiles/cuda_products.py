"""Tilings of kernels that begin with a product of matrices."""

from __future__ import annotations

from numstax import dtypes
from numstax.hardware import Gpu
from numstax.ir.contraction import Product
from numstax.ir.index import hint, product
from numstax.ir.loops import MatrixTiling, Tiling

WARP = 32


def tile_product(found: Product, gpu: Gpu) -> Tiling:
    """The tiling of a kernel with this product."""
    matrix = _fma(found, gpu)
    down, along = matrix.warps
    return Tiling(form="product", threads=WARP * down * along, matrix=matrix)


def _fma(found: Product, gpu: Gpu) -> MatrixTiling:
    """Products one element at a time: exact for every dtype."""
    rows, columns = (hint(product(v.extent for v in side)) for side in (found.rows, found.columns))
    wide = dtypes.accumulator(found.effect.dtype).itemsize == 8
    edge = 64 if wide else 128
    while edge > 64 and -(-rows // edge) * -(-columns // edge) < gpu.sms:
        edge //= 2
    warp = (32, 32) if edge == 64 else (32, 64)
    return MatrixTiling("fma", dtypes.name(found.effect.dtype), (edge, edge, 8), warp, 2)
