"""Which lane holds which element: operands of tensor cores in registers and in shared memory.

Registers have 32 bits; an operand with elements of s bytes has 4 / s of them in each.  What holds for the warp-wide
products (PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours) holds for a warp's 16 rows of a warp group's
product too ("Register Fragments" of wgmma).  Each map is a pair of arrays, row and column, indexed by register, lane
and, for operands, element of the register.
"""

from __future__ import annotations

from functools import cache

import numpy as np

Array = np.ndarray
Places = tuple[Array, Array]

LANE = np.arange(32)
PIECE = 16
"""Bytes that lie together in every tile."""


@cache
def left(k: int, per: int) -> Places:
    """Row and k of A, 16 by `k`, with so many elements in a register."""
    r, lane, e = np.ogrid[: k // (2 * per), :32, :per]
    return _both(lane // 4 + 8 * (r % 2), per * (lane % 4) + e + r // 2 * 4 * per)


@cache
def right(k: int, per: int) -> Places:
    """k and column of B, `k` by 8."""
    r, lane, e = np.ogrid[: k // (4 * per), :32, :per]
    return _both(per * (lane % 4) + e + r * 4 * per, lane // 4)


@cache
def accumulator(n: int) -> Places:
    """Row and column of C, 16 by `n`."""
    r, lane = np.ogrid[: n // 2, :32]
    return _both(lane // 4 + 8 * (r // 2 % 2), r // 4 * 8 + 2 * (lane % 4) + r % 2)


def _both(row: Array, column: Array) -> Places:
    a, b = np.broadcast_arrays(row, column)
    return a, b


def swizzled(address: Array, span: int) -> Array:
    """Where a byte of a tile lies, whose rows of `span` bytes (32, 64, 128; 0: as it is) are turned so that columns
    meet all banks: the number of the piece in its row is changed by the bits of the address above seven."""
    mask = max(span // PIECE, 1) - 1
    return address ^ ((address >> 7 & mask) << 4)


def rows_of_k(start: int, rows: Array, pieces: int, leading: int, stride: int, span: int) -> Array:
    """Addresses (rows, pieces) of a tile with k contiguous: eight rows of `span` bytes, the next eight after `stride`;
    without swizzle pieces of eight rows together, the next along k after `leading`."""
    piece = np.arange(pieces)
    along = piece * (PIECE if span else leading)
    address = start + (rows % 8 * (span or PIECE) + rows // 8 * stride)[:, None] + along
    return swizzled(address, span)


def rows_of_m(start: int, k: int, first: int, count: int, leading: int, stride: int, span: int) -> Array:
    """Addresses (k, pieces) of a tile with m contiguous: `count` pieces of 8 elements from element `first`; a row of
    `span` bytes for each k, the next eight after `stride`, and the next `span` bytes along m after `leading`."""
    row, byte = np.arange(k)[:, None], 2 * first + PIECE * np.arange(count)
    if not span:
        return start + row % 8 * PIECE + row // 8 * leading + byte // PIECE * stride
    address = start + row % 8 * span + row // 8 * stride + byte // span * leading + byte % span
    return swizzled(address, span)
