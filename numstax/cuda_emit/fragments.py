"""Where the elements of operands of tensor cores are: in registers, as `atoms` says, and in tiles of shared memory."""

# NumPy types the results of some operators as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from functools import cache

import numpy as np

from numstax.atoms import ATOMS, Atom, Fragment

Array = np.ndarray
Places = tuple[Array, Array]

LANE = np.arange(32)
PIECE = 16
"""Bytes that lie together in every tile."""
_BY_NAME = {atom.name: atom for atom in ATOMS}


def mma_atom(k: int, kind: str) -> Atom:
    return _BY_NAME[f"mma m16n8k{k} {kind}"]


def wgmma_atom(n: int, kind: str) -> Atom:
    return next(a for a in ATOMS if (a.family, a.n, a.operand) == ("wgmma", n, kind))


@cache
def places(fragment: Fragment) -> Places:
    """Row and column of each element that the lanes of the first warp hold: (lanes, elements)."""
    at = np.array(fragment.positions())[: LANE.size]
    return at[..., 0], at[..., 1]


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
