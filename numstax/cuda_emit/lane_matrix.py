"""What instructions for tensor cores, copies of tensors and barriers of some warps do to the lanes that execute them.

Operands are arrays of shape (warps, 32), tuples of them, or a tensor as the interpreter sees it; `lanes` is the
interpreter's view of the running lanes, which moves the bytes and watches who may touch them.  Where elements lie is in
`fragments`.
"""
# NumPy types the results of some operators as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.atoms import Fragment
from numstax.cuda_emit.fragments import (
    LANE,
    PIECE,
    mma_atom,
    places,
    rows_of_k,
    rows_of_m,
    swizzled,
    wgmma_atom,
)

Array = np.ndarray
Lanes = Any
Model = Callable[..., Any]
Tile = tuple[Array, ...]

KINDS = {
    "bf16": dtypes.BFLOAT16,
    "f16": dtypes.FLOAT16,
    "tf32": dtypes.FLOAT32,
    "f8e4m3": dtypes.FLOAT8_E4M3,
    "f8e5m2": dtypes.FLOAT8_E5M2,
    "i8": dtypes.INT8,
    "u8": dtypes.UINT8,
}
"""Operands of tensor cores by the names of `atoms`."""
SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
"""Swizzle of a descriptor -> bytes of a row of the tile."""
_TF32 = np.uint32(0xFFFFE000)
"""The bits of a float32 that tensor cores look at."""
_WORD, _HALF = np.dtype(np.uint32), np.dtype(np.uint16)
_TENSOR_ALIGNMENT = 128


def uniform(lanes: Lanes, value: Array) -> Array:
    """The value of lane 0."""
    return value[:, :1]


def nothing(lanes: Lanes, *operands: Any) -> None:
    """What only makes things faster."""


# --- barriers


def mbarrier_init(lanes: Lanes, address: Array, count: Array) -> None:
    lanes.mbarrier_init(address, count)


def mbarrier_fence(lanes: Lanes) -> None:
    lanes.mbarrier_fence()


def mbarrier_arrive(lanes: Lanes, address: Array) -> None:
    lanes.mbarrier_arrive(address)


def mbarrier_expect(lanes: Lanes, address: Array, nbytes: Array) -> None:
    lanes.mbarrier_arrive(address, nbytes)


def mbarrier_wait(lanes: Lanes, address: Array, parity: Array) -> None:
    lanes.mbarrier_wait(address, parity)


def named_barrier(number: int, threads: int) -> Model:
    return lambda lanes: lanes.named_barrier(number, threads)


def async_fence(lanes: Lanes) -> None:
    lanes.proxy_fence()


def registers(count: int) -> Model:
    return lambda lanes: lanes.registers(count)


# --- copies


def tensor_load(lanes: Lanes, to: Array, tensor: Any, *rest: Array) -> None:
    """A box at coordinates, innermost first, to shared memory; the last operand is the mbarrier's address."""
    *corner, mbarrier = rest
    for at in _places(lanes):
        offsets, inside = _box(lanes, tensor, [int(c[at]) for c in corner])
        where = _laid_out(lanes, tensor, int(to[at]), len(offsets))
        lanes.tensor_load(at[1], tensor.pointer, offsets, inside, where, int(mbarrier[at]), tensor.swizzle)


def tensor_store(lanes: Lanes, tensor: Any, *rest: Array) -> None:
    """The other way, what is inside of the tensor; the last operand is the address in shared memory.  Found on an
    H200: a copy that begins before the tensor is an illegal instruction."""
    *corner, source = rest
    for at in _places(lanes):
        first = [int(c[at]) for c in corner]
        lanes.violation("bounds", min(first) < 0, f"a tensor is stored from {first} on")
        offsets, inside = _box(lanes, tensor, first)
        where, some = _laid_out(lanes, tensor, int(source[at]), len(offsets)), inside.any(-1)
        lanes.tensor_store(at[1], tensor.pointer, offsets[some], inside[some], where[some])


def tensor_commit(lanes: Lanes) -> None:
    lanes.commit("tensor")


def tensor_wait(left: int) -> Model:
    return lambda lanes: lanes.wait("tensor", left)


def copy_async(size: int) -> Model:
    def model(lanes: Lanes, to: Array, source: Any, offset: Array, wanted: Array) -> None:
        lanes.copy(to, source, offset, size, wanted)

    return model


def copy_rows(count: int, lines: int, row: int) -> Model:
    """Pieces to places `lines` rows apart of a tile whose rows of `row` bytes are turned; `there` of them are read."""
    turn = min(8, row // PIECE)

    def model(lanes: Lanes, to: Array, source: Any, first: Array, step: Array, wanted: Array, there: Array) -> None:
        for k in range(count):
            place = to + np.uint32(k * lines * row) ^ np.uint32(k * lines % turn * PIECE)
            lanes.copy(place, source, first + k * step, PIECE, np.where(k < there, wanted, 0))

    return model


def copy_commit(lanes: Lanes) -> None:
    lanes.commit("copy")


def copy_wait(left: int) -> Model:
    return lambda lanes: lanes.wait("copy", left)


def _places(lanes: Lanes) -> Iterator[tuple[int, int]]:
    return ((int(warp), int(lane)) for warp, lane in np.argwhere(lanes.active))


def _box(lanes: Lanes, tensor: Any, corner: list[int]) -> tuple[Array, Array]:
    """The elements of a box in pieces: their offsets, and which are inside of the tensor.  Found on an H200: a box that
    begins within 16 bytes of a row is an illegal instruction."""
    offsets, inside = np.zeros((), np.int64), np.True_
    for start, size, stride, extent in zip(corner, tensor.sizes, (1, *tensor.strides), tensor.box, strict=True):
        position = start + np.arange(extent)
        offsets = offsets + (position * stride).reshape(-1, *(1 for _ in range(offsets.ndim)))
        inside = inside & ((position >= 0) & (position < size)).reshape(-1, *(1 for _ in range(np.ndim(inside))))
    itemsize = tensor.pointer.dtype.itemsize
    row = tensor.box[0] * itemsize
    lanes.violation("alignment", corner[0] * itemsize % PIECE != 0, f"a box from element {corner[0]} of a row")
    wrong = row % PIECE != 0 or (tensor.swizzle and row > tensor.swizzle)
    lanes.violation("layout", wrong, f"a box with rows of {row} bytes and a swizzle of {tensor.swizzle}")
    per = PIECE // itemsize
    return offsets.reshape(-1, per), np.asarray(inside).reshape(-1, per)


def _laid_out(lanes: Lanes, tensor: Any, address: int, pieces: int) -> Array:
    wrong = address % _TENSOR_ALIGNMENT != 0
    lanes.violation("alignment", wrong, f"a tensor at {address} in shared memory, no multiple of {_TENSOR_ALIGNMENT}")
    return swizzled(address + PIECE * np.arange(pieces), tensor.swizzle)


# --- matrices in registers


def load_matrix(count: int, turned: bool) -> Model:
    """Matrices of 8 rows of 16 bytes, whose addresses the lanes give in turn, as one register each (`ldmatrix`)."""

    def model(lanes: Lanes, address: Array) -> Tile:
        with lanes.limited(8 * count > LANE):
            row = np.stack(lanes.load(lanes.shared(address, _WORD), np.int64(0), PIECE // _WORD.itemsize), -1)
        halves = np.ascontiguousarray(row).view(_HALF)
        if turned:
            return tuple(_turned(halves, m) for m in range(count))
        return tuple(row[:, 8 * m + LANE // 4, LANE % 4] for m in range(count))

    return model


def _turned(halves: Array, matrix: int) -> Array:
    low, high = (halves[:, 8 * matrix + 2 * (LANE % 4) + e, LANE // 4].astype(_WORD) for e in range(2))
    return low | high << np.uint32(16)


def store_matrix(count: int) -> Model:
    """The other way (`stmatrix`)."""

    def model(lanes: Lanes, address: Array, values: Tile) -> None:
        held = np.stack([lanes.spread(v) for v in values])
        matrix, row = np.minimum(LANE // 8, count - 1), LANE % 8
        words = [held[matrix, :, 4 * row + k].T for k in range(4)]
        with lanes.limited(8 * count > LANE):
            lanes.store(lanes.shared(address, _WORD), np.int64(0), words)

    return model


def load_matrices(count: int, xor: bool, step: int, turned: bool) -> Model:
    """Four matrices, so many times, at addresses that differ by multiples of a step, added or as bits."""
    load = load_matrix(4, turned)

    def model(lanes: Lanes, address: Array) -> Tile:
        steps = [np.uint32(k * step) for k in range(count)]
        return tuple(part for k in steps for part in load(lanes, address ^ k if xor else address + k))

    return model


def mma(kind: str, down: int, across: int) -> Model:
    """C + A B of a warp: `down` times 16 rows and `across` times 8 columns, 32 bytes deep."""
    atom = mma_atom(2 * PIECE // KINDS[kind].itemsize, kind)
    assert atom.b is not None
    b_fragment = atom.b
    row, column = places(atom.c)
    at = np.arange(down * across)[:, None, None]
    rows, columns = at // across * 16 + row.T, at % across * 8 + column.T

    def model(lanes: Lanes, c: Tile, a: Tile, b: Tile) -> Tile:
        left = np.concatenate([_gathered(kind, a[4 * r : 4 * r + 4], atom.a) for r in range(down)], 1)
        right = np.concatenate([_gathered(kind, b[2 * k : 2 * k + 2], b_fragment) for k in range(across)], 2)
        product = (left @ right)[:, rows, columns]
        return tuple(held + product[:, r // 4, r % 4] for r, held in enumerate(c))

    return model


def zeros(element: str, count: int) -> Model:
    return lambda lanes: (dtypes.by_name(element).type(0),) * count


def _gathered(kind: str, registers: Tile, fragment: Fragment) -> Array:
    """The matrix of each warp from its registers."""
    held = np.stack(registers, -1)
    elements = _decoded(held.view(np.uint8), kind)
    out = np.zeros((len(held), *fragment.shape), elements.dtype)
    rows, columns = places(fragment)
    out[:, rows, columns] = elements
    return out


def _decoded(data: Array, kind: str) -> Array:
    """Bytes as the numbers that are multiplied."""
    dtype = KINDS[kind]
    if kind == "tf32":
        return (data.view(_WORD) & _TF32).view(np.float32)
    return data.view(dtype).astype(np.int32 if dtypes.kind(dtype) in "iu" else np.float32)


# --- matrices in shared memory


def descriptor(lanes: Lanes, address: Array, leading: Array, stride: Array) -> Array:
    """Of a tile with rows of 128 bytes, swizzled."""
    for value in (address, leading, stride):
        lanes.violation("layout", lanes.active & (value % PIECE != 0), "a tile at no multiple of 16 bytes")
    parts = (np.asarray(value).astype(np.int64) >> 4 & 0x3FFF for value in (address, leading, stride))
    start, along, apart = parts
    return start | along << 16 | apart << 32 | np.int64(1) << 62


def wgmma(kind: str, n: int, a: str, b: str, first: bool, steps: int = 4) -> Model:
    """C + A B of four warps, 64 by n, or A B at `first`, without an operand C; `steps` times 32 bytes along k, from
    tiles that descriptors tell; a group of products.  a, b : which index of the operand is contiguous, 'k' or 'm'."""
    rows, columns = places(wgmma_atom(n, kind).c)

    def model(lanes: Lanes, *operands: Any) -> Tile:
        *held, a_tile, b_tile = operands
        out = np.zeros((n // 2, *lanes.shape), np.int32 if kind in ("i8", "u8") else np.float32)
        for warp in np.nonzero(lanes.active.any(-1))[0].tolist():
            at = 16 * (int(lanes.thread[warp, 0]) // 32 % 4)
            A = _operand(lanes, warp, a_tile, kind, a, at, 16, steps)
            B = _operand(lanes, warp, b_tile, kind, b, 0, n, steps)
            out[:, warp] = (A @ B.T)[rows.T, columns.T]
        if not first:
            out += np.stack(held[0])
        made = lanes.in_flight(tuple(out))
        lanes.commit("matrix")
        return made

    return model


def _operand(lanes: Lanes, warp: int, tile: Array, kind: str, along: str, first: int, count: int, steps: int) -> Array:
    """Rows of an operand from the tile of a descriptor: (count, k)."""
    word, per = int(tile[warp, 0]), PIECE // KINDS[kind].itemsize
    lanes.violation("divergence", lanes.active & (tile != tile[:, :1]), "the lanes of a warp have different tiles")
    start, leading, stride = ((word >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    span = SPANS[word >> 62 & 3]
    if along == "k":
        at = rows_of_k(start, first + np.arange(count), 2 * steps, leading, stride, span)
        return _decoded(lanes.fetch(warp, at, span), kind).reshape(count, -1)
    at = rows_of_m(start, 2 * per * steps, first, count // per, leading, stride, span)
    return _decoded(lanes.fetch(warp, at, span), kind).reshape(-1, count).T


def wgmma_wait(left: int) -> Model:
    return lambda lanes: lanes.wait("matrix", left)


def wgmma_settle(lanes: Lanes, values: Tile) -> Tile:
    """Wait until nothing is under way."""
    lanes.wait("matrix", 0)
    return tuple(values)


def tf32(rest: bool) -> Model:
    """float32 rounded to 11 bits, halves away from zero, or what that leaves out, rounded."""

    def rounded(bits: Array) -> Array:
        return bits + np.uint32(1 << 12) & np.uint32(0xFFFFE000)

    def model(lanes: Lanes, values: Tile) -> Tile:
        bits = np.stack(values)
        most = rounded(bits)
        return tuple(rounded((bits.view(np.float32) - most.view(np.float32)).view(np.uint32)) if rest else most)

    return model
