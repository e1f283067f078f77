"""Tilings of kernels that begin with a product of matrices: the tiles for which there is a template, cheapest first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.atoms import FORMATS
from numstax.errors import TemplateError
from numstax.hardware import LATENCY, Gpu
from numstax.ir.contraction import Matrix, Product, Tensor, factor_of, operand_of, product_of
from numstax.ir.graph import Node
from numstax.ir.index import ZERO, divides, hint, less, product
from numstax.ir.loops import Kernel, MatrixTiling, Tiling
from numstax.tiles.candidates import LIBRARY, Candidate, cheapest
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
SLICE = 8
"""Of k, in ordinary arithmetic."""
FMA_RATE = 80
"""Products that a multiprocessor adds in one clock cycle in ordinary arithmetic, of 128 that it could."""
LONG_PART = 256
"""Terms of a sum that are worth computing apart from others."""
FETCHED, CLEARLY = 2, 0.8
"""So many times as long takes a product with a factor that passes through registers; a template that comes later in
the list is taken where it needs so much of the time of the first."""
COPYING, FETCHING = 128, 32
"""Accumulators of a thread, at most, where it also holds fragments and addresses of what is copied, or what passes
through its registers; half of that where several variables number terms, which makes addresses longer."""


def chosen_products(products: Mapping[Node, bool]) -> Iterable[Node]:
    """Which products of matrices are kernels of ours, whatever follows them, rather than calls of a library?"""
    return [node for node in products if dtypes.kind(node.dtype) in "iuf" and node.attr("template") != LIBRARY]


def computes_factors(node: Node) -> bool:
    """Does the only template that serves this product load its factors through registers, where they can be computed as
    well?  The others have them copied to shared memory, and would take longer than a kernel for the factor."""
    kinds = {a.dtype for a in node.args}
    return not node.attr("group") and all(_is_ordinary(dtype, node.attr("precision")) for dtype in kinds)


def _is_ordinary(dtype: np.dtype, precision: object) -> bool:
    exact = dtype == dtypes.FLOAT32 and precision == "highest"
    return exact or dtype == dtypes.FLOAT64 or (dtypes.kind(dtype) in "iu" and dtype.itemsize > 1)


def candidates(kernel: Kernel, found: Product, gpu: Gpu) -> tuple[Candidate, ...]:
    """Every template, and the library with a kernel for what follows."""
    served = {"wgmma": _wgmma(kernel, found, gpu), "mma": _mma(kernel, found, gpu), "fma": (_fma(found, gpu),)}
    templates = tuple(
        Candidate(
            name,
            made[0].cost if made else math.inf,
            tuple(map(_tiling, made)),
            "" if made else _binding(name, kernel, found, gpu),
        )
        for name, made in served.items()
    )
    return (*templates, Candidate(LIBRARY, _library_seconds(kernel, templates, gpu)))


def _library_seconds(kernel: Kernel, templates: Sequence[Candidate], gpu: Gpu) -> float:
    """Taken to multiply as fast as the best of our templates; its result is then read again."""
    seconds = cheapest(templates).cost
    if len(kernel.loops) == 1:
        return seconds
    passed = sum(hint(product(b.shape)) * b.dtype.itemsize for b in kernel.buffers if b.name in kernel.writes())
    return seconds + 2 * passed / gpu.bandwidth + 2 * LATENCY


def chosen(kernel: Kernel, found: Product, gpu: Gpu) -> Candidate:
    """The template that the user named, or the cheapest.  Raises TemplateError when the named one cannot serve.

    Not the library: it has to be there, so the user names it before the product becomes a kernel
    (`chosen_products`)."""
    every, named = [c for c in candidates(kernel, found, gpu) if c.template != LIBRARY], found.effect.template
    if not named:
        first, best = next(c for c in every if not c.reason), cheapest(every)
        return best if best.cost < CLEARLY * first.cost else first
    candidate = next(c for c in every if c.template == named)
    if candidate.reason:
        remedy = f"choose from {', '.join(c.template for c in every if not c.reason)}"
        raise TemplateError(f"{named} cannot compute this product: {candidate.reason}", remedy=remedy)
    return candidate


def _binding(family: str, kernel: Kernel, found: Product, gpu: Gpu) -> str:
    """What prevents a template."""
    kind = _format(kernel, found)
    if kind not in TEMPLATES[family]:
        return f"it does not multiply {kind}"
    if less(ZERO, product(v.extent for v in found.along)) is not True:
        return "the sum may have no terms"
    m, n, k, batch = _extents(found)
    tiles = gemm_tiles(gpu, m, n, k, kind, out=found.effect.dtype.itemsize, batch=batch, family=family)
    if isinstance(tiles, Infeasible):
        return str(tiles)
    if family == "mma":
        return "no tile fits"
    if kind == "tf32" and found.effect.precision == "high":
        return "its instructions read factors from memory, where they are not taken apart"
    entries = ((found.effect.value, found.rows), (found.effect.other, found.columns))
    reasons = [side for e in entries if isinstance(side := factor_of(kernel, found, *e), str)]
    return reasons[0] if reasons else "neighbours in the factors do not lie as its instructions read them"


def tile_product(kernel: Kernel, found: Product, gpu: Gpu) -> Tiling:
    """The tiling of a kernel with this product.  Raises TemplateError."""
    return chosen(kernel, found, gpu).tilings[0]


def product_tilings(kernel: Kernel, found: Product, gpu: Gpu) -> tuple[Tiling, ...]:
    """All tilings that the chosen template serves.  Raises TemplateError."""
    return chosen(kernel, found, gpu).tilings


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
        return math.prod(-(-n // b) * b for n, b in zip(extents, box, strict=True))

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
    copied = all(isinstance(side, Matrix) and (turned or side.inner in found.along) for side in _sides(kernel, found))
    most = COPYING if copied else FETCHING if len(found.along) == 1 else FETCHING // 2
    terms = 3 if kind == "tf32" and found.effect.precision == "high" else 1
    slower, launch = terms * (1 if copied else FETCHED), 2 * LATENCY
    served = _served(found, gpu, kind, "mma", lambda tile: _is_whole(tile) and tile.accumulators <= most)
    return tuple(replace(t, terms=terms, cost=launch + slower * (t.cost - launch)) for t in served)


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
    cycles = -(-tiles(block) // gpu.sms) * block[0] * block[1] * depth / (FMA_RATE / (2 if wide else 1))
    # a slice is loaded while the one before is multiplied, and waited for where that takes less time
    seconds = max(cycles / gpu.clock, -(-depth // SLICE) * LATENCY / 2) + 2 * LATENCY
    name = dtypes.name(found.effect.dtype)
    return MatrixTiling("fma", name, (*block, SLICE), warp, 2, split=split, cost=seconds)


_FMA = (((256, 128), (64, 64)), ((128, 128), (32, 64)), ((64, 64), (32, 32)))
"""Tiles of blocks and of warps, in ordinary arithmetic, those with most reuse first."""
