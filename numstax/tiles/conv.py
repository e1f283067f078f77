"""Tiles of direct two-dimensional convolution in closed form (paper, section 5.2; section 9.8).

A `Gpu` row and a convolution enter; a `ConvTile` leaves, or the constraint that binds.  The convolution is a product
whose rows are the pixels of the result, whose columns are the filters, and whose k runs over the taps of the window and
the channels: a block's tile is that of the product, its rows shaped into a box of pixels, since a box of the image is
what a block copies.  Where channels are so few that a tap has less than a line of them, the taps become channels:
a window of 2 by 2 and 3 channels are 12 channels and one tap, so that there is one partial sum instead of one for each
tap.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from numstax.atoms import FORMATS
from numstax.hardware import Gpu
from numstax.records import record
from numstax.tiles.feasibility import Infeasible, usage_of
from numstax.tiles.gemm import GemmTile, gemm_tiles
from numstax.tiles.tree import (
    ATOM,
    BLOCK,
    REGISTERS,
    WARP,
    Chain,
    Clear,
    Contract,
    Grid,
    Node,
    Operand,
    Operator,
    Stream,
    Write,
    operand,
)

Pair = tuple[int, int]


@record
class Convolution:
    """A batch of images (groups * channels, *image) with filters (groups * filters, channels, *window).

    padding : zeros before and behind each dimension; after : behind it where that is another number.
    operand : format of both, see `atoms.FORMATS`; out : bytes of an element of the result.
    """

    batch: int
    image: Pair
    channels: int
    filters: int
    window: Pair
    operand: str
    out: int
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def result(self) -> Pair:
        """Rows and columns of the result."""
        made = [
            (self.image[i] + 2 * self.padding[i] - (self.window[i] - 1) * self.dilation[i] - 1) // self.stride[i] + 1
            for i in (0, 1)
        ]
        return made[0], made[1]


@record
class ConvTile:
    """How a convolution is cut.

    problem : what is cut: after `replicated`, where taps became channels.
    pixels : rows and columns of the box of a block; warp_pixels : of a team's.
    gemm : the tile of the product whose rows are the pixels.
    """

    problem: Convolution
    replicated: bool
    pixels: Pair
    warp_pixels: Pair
    atom_pixels: Pair
    gemm: GemmTile


def folded(problem: Convolution) -> Convolution:
    """The convolution whose channels are the taps and channels of another."""
    rows, columns = problem.window
    return replace(
        problem,
        image=problem.result,
        channels=problem.channels * rows * columns,
        window=(1, 1),
        stride=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
    )


def replicated(images: np.ndarray, problem: Convolution) -> np.ndarray:
    """The images (batch, groups, *image, channels) of the folded convolution: each pixel has those of its window."""
    (ph, pw), (sh, sw), (dh, dw), (oh, ow) = problem.padding, problem.stride, problem.dilation, problem.result
    padded = np.pad(images, ((0, 0), (0, 0), (ph, ph), (pw, pw), (0, 0)))
    taps = [
        padded[:, :, y * dh : y * dh + (oh - 1) * sh + 1 : sh, x * dw : x * dw + (ow - 1) * sw + 1 : sw]
        for y, x in np.ndindex(problem.window)
    ]
    return np.concatenate(taps, axis=-1)


def conv_tree(tile: ConvTile) -> Operator:
    """The convolution as an algorithm tree over batch, group, pixels y and x, filters, window u and v, and channels."""
    p, gemm, atom = tile.problem, tile.gemm, tile.gemm.atom
    (bh, bw), (wh, ww), (ah, aw) = tile.pixels, tile.warp_pixels, tile.atom_pixels
    product = Stream(ATOM, "c", atom.k, Contract("acc", "x", "w", atom))
    atoms = Grid(ATOM, (("y", ah), ("x", aw), ("f", atom.n)), product)
    warps: Node = Grid(WARP, (("y", wh), ("x", ww), ("f", gemm.warp[1])), Stream(WARP, "c", gemm.warp[2], atoms))
    stages = Stream(BLOCK, "c", gemm.block[2], warps, ("x", "w"), gemm.stages, gemm.producers)
    taps = Stream(BLOCK, "u", 1, Stream(BLOCK, "v", 1, stages))
    whole = Chain((Clear("acc"), taps, Write("out", "acc")))
    size, (rows, columns) = FORMATS[p.operand], p.result
    image = Operand(
        "x",
        (
            (("b", 1),),
            (("g", 1),),
            (("y", p.stride[0]), ("u", p.dilation[0])),
            (("x", p.stride[1]), ("v", p.dilation[1])),
            (("c", 1),),
        ),
        size,
        offset=(0, 0, *p.padding, 0),
    )
    return Operator(
        "convolution",
        (
            ("b", p.batch), ("g", p.groups), ("y", rows), ("x", columns), ("f", p.filters),
            ("u", p.window[0]), ("v", p.window[1]), ("c", p.channels),
        ),
        (
            image,
            operand("w", "g u v c f", size),
            operand("acc", "b g y x f", max(4, size), REGISTERS),
            operand("out", "b g y x f", p.out),
        ),
        Grid(BLOCK, (("b", 1), ("g", 1), ("y", bh), ("x", bw), ("f", gemm.block[1])), whole),
    )  # fmt: skip


def conv_tile(gpu: Gpu, problem: Convolution, *, family: str = "") -> ConvTile | Infeasible:
    """The tile of a convolution, in closed form: that of the product, if its boxes fit too; else the next one."""
    size = FORMATS[problem.operand]
    few = problem.channels * size < gpu.line and problem.window != (1, 1)
    cut = folded(problem) if few else problem
    rows, columns = cut.result
    k = cut.channels * cut.window[0] * cut.window[1]
    # a box lies in one image, so that rows of different images are not put together
    found = gemm_tiles(
        gpu, rows * columns, cut.filters, k, cut.operand, out=cut.out, batch=cut.batch * cut.groups, family=family
    )
    if isinstance(found, Infeasible):
        return found
    refusal: Infeasible | None = None
    for gemm in (tile for tile in found if tile.split == 1):
        tile = ConvTile(
            cut, few, _box(gemm.block[0], columns), _box(gemm.warp[0], columns), _box(gemm.atom.m, columns), gemm
        )
        needs = usage_of(conv_tree(tile), gpu)
        if not isinstance(needs, Infeasible):
            return tile
        refusal = refusal or needs
    assert refusal is not None
    return refusal


def _box(pixels: int, columns: int) -> Pair:
    """Rows and columns of a box of so many pixels: as wide as the image, rounded up to a power of two, allows."""
    wide = min(pixels, 1 << (columns - 1).bit_length())
    return pixels // wide, wide
