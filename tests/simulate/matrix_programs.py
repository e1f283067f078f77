"""Programs written by hand that multiply matrices and copy tensors, with their arguments and what they must give."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from numstax.cuda_emit.instructions import find
from numstax.cuda_emit.lane_matrix import KINDS
from numstax.program import Instruction, Param, Program, TensorMap
from tests.simulate.matrix_rows import ROWS


@dataclass
class Case:
    """A program and its arguments, the last array of which it writes; `want` : what that holds then."""

    program: Program
    values: list[Any]
    want: np.ndarray

    @property
    def out(self) -> np.ndarray:
        return next(v for v in reversed(self.values) if isinstance(v, np.ndarray))

    def with_text(self, before: str, after: str) -> Case:
        assert before in self.program.text
        given, text = self.program, self.program.text.replace(before, after)
        return Case(program(text, given.block, given.shared, *given.params, grid=given.grid), self.values, self.want)


def program(text: str, block: int, shared: object, *params: Param, grid: tuple[str, ...] = ("1",)) -> Program:
    text = text.lstrip("\n")
    name = text.removeprefix("def ").partition("(")[0]
    rows = instructions(text)
    return Program(name, "sm_90a", text, name, params, intrinsics=rows, block=block, grid=grid, shared=str(shared))


def instructions(text: str) -> tuple[Instruction, ...]:
    """The rows of what a text calls."""
    found = (find(name) or ROWS.get(name) for name in sorted(set(re.findall(r"\b([a-z]\w*)\(", text))))
    return tuple(row for row in found if row is not None)


def pointers(**dtypes: Any) -> tuple[Param, ...]:
    return tuple(Param(name, "pointer", np.dtype(dtype)) for name, dtype in dtypes.items())


def tensor(
    name: str,
    kind: str,
    sizes: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int = 128,
    strides: tuple[int, ...] | None = None,
) -> Param:
    strides = strides or tuple(int(np.prod(sizes[: d + 1])) for d in range(len(sizes) - 1))
    described = TensorMap(kind, tuple(map(str, sizes)), tuple(map(str, strides)), box, swizzle)
    return Param(name, "tensor_map", KINDS[kind], described)


def numbers(kind: str, *shape: int) -> np.ndarray:
    """Small integers, which every kind holds and no sum rounds."""
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0 if kind == "u8" else -4, 5, shape).astype(KINDS[kind])


def product(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.int32 if kind in ("i8", "u8") else np.float32
    return a.astype(wide) @ b.astype(wide).T


# rows of A and of the transpose of B, 32 bytes each
MMA = """
def tem_mma(a, b, out):
    t = thread_x()
    base = shared_address()
    words = shared_u32(0)
    for i in range(8):
        words[32*i + t] = a[32*i + t] if i < 4 else b[32*(i - 4) + t]
    barrier()
    x = load_matrix(base + 32*(t & 15) + 16*(t >> 4))
    y = load_matrix(base + 512 + 32*(t & 7) + 256*(t >> 4) + 16*(t >> 3 & 1))
    c = zeros_ELEMENTx8()
    for i in range(2):
        c = mma_KIND_1x2(c, x, y)
    for r in range(8):
        out[16*(t // 4 + r % 4 // 2*8) + r // 4*8 + t % 4*2 + r % 2] = c[r]
"""


def warp_product(kind: str) -> Case:
    """16 by 16 by 32 bytes, twice."""
    a, b = (numbers(kind, 16, 32 // KINDS[kind].itemsize) for _ in "ab")
    want = 2 * product(kind, a, b)
    text = MMA.replace("KIND", kind).replace("ELEMENT", "i32" if want.dtype.kind == "i" else "f32")
    made = program(text, 32, 1024, *pointers(a="u4", b="u4", out=want.dtype))
    return Case(made, [a.view("u4"), b.view("u4"), np.zeros_like(want)], want)


# two stages of 32 by 32 tiles; four warps, each with 16 rows and 16 columns
STAGED = """
def tem_staged(a, b, out, m, n, k):
    base = shared_address()
    t = thread_x()
    warp = t >> 5
    lane = t & 31
    m0 = block_x()*32
    r = t >> 2
    c = t & 3
    to = base + r*64 + 16*(c ^ (r >> 1 & 3))
    acc = zeros_f32x8()
    steps = (k + 31) >> 5
    for i in range(steps + 1):
        if i < steps:
            left = min(max((k - 32*i - 8*c)*2, 0), 16)
            copy_async_16_u8(to + 4096*(i & 1), a, ((m0 + r)*k + 32*i + 8*c)*2, left if m0 + r < m else 0)
            copy_async_16_u8(to + 4096*(i & 1) + 2048, b, (r*k + 32*i + 8*c)*2, left if r < n else 0)
        copy_commit()
        if i > 0:
            copy_wait_1()
            barrier()
            tile = base + 4096*((i - 1) & 1)
            y = 16*(warp >> 1) + (lane & 15)
            z = 16*(warp & 1) + (lane & 7) + 8*(lane >> 4)
            for q in range(2):
                p = 2*q + (lane >> 4)
                x = load_matrix(tile + y*64 + 16*(p ^ (y >> 1 & 3)))
                p = 2*q + (lane >> 3 & 1)
                w = load_matrix(tile + 2048 + z*64 + 16*(p ^ (z >> 1 & 3)))
                acc = mma_bf16_1x2(acc, x, w)
            barrier()
    y = m0 + 16*(warp >> 1) + (lane >> 2)
    x = 16*(warp & 1) + 2*(lane & 3)
    for e in range(8):
        i = y + 8*(e >> 1 & 1)
        j = x + 8*(e >> 2) + (e & 1)
        if i < m and j < n:
            out[i*n + j] = acc[e]
"""


def staged_product(m: int = 64, n: int = 32, k: int = 96) -> Case:
    """Tiles are copied a stage ahead."""
    a, b = numbers("bf16", m, k), numbers("bf16", n, k)
    sizes = tuple(Param(name, "size") for name in "mnk")
    made = program(STAGED, 128, 8192, *pointers(a="u1", b="u1", out="f4"), *sizes, grid=("(m + 31) // 32",))
    want = product("bf16", a, b)
    return Case(made, [a.view("u1"), b.view("u1"), np.zeros_like(want), m, n, k], want)


# one stage: A of 64 rows and B of 32, 128 bytes along k; tiles with m contiguous are 64 elements wide
PRODUCT = """
def tem_product(a, b, out):
    t = thread_x()
    base = shared_address()
    bar = base + 16384
    if t == 0:
        mbarrier_init(bar, 1)
        mbarrier_fence()
        mbarrier_expect(bar, {bytes})
        tensor_load_2d(base, a, 0, 0, bar)
        tensor_load_2d(base + 8192, b, 0, 0, bar)
    barrier()
    mbarrier_wait(bar, 0)
    da = descriptor(base, 8192, 1024)
    db = descriptor(base + 8192, 8192, 1024)
    acc = wgmma_first_{kind}_n32_{layout}(da, db)
    acc = wgmma_{kind}_n32_{layout}(acc, da, db)
    wgmma_wait_0()
    for r in range(16):
        out[(t//32*16 + t//4%8 + 8*(r >> 1 & 1))*32 + 8*(r >> 2) + 2*(t & 3) + (r & 1)] = acc[r]
"""


def group_product(kind: str, layout: str) -> Case:
    """64 by 32 by 128 bytes, twice; `layout` : which index of A and of B is contiguous."""
    unit = 128 // KINDS[kind].itemsize
    a, b = numbers(kind, 64, unit), numbers(kind, 32, unit)
    held = [v if c == "k" else np.ascontiguousarray(v.T) for v, c in zip((a, b), layout, strict=True)]
    maps = [tensor(name, kind, v.shape[::-1], (unit, len(v))) for name, v in zip("ab", held, strict=True)]
    want = 2 * product(kind, a, b)
    text = PRODUCT.format(kind=kind, layout=layout, bytes=sum(128 * len(v) for v in held))
    return Case(program(text, 128, 16392, *maps, *pointers(out=want.dtype)), [*held, np.zeros_like(want)], want)


# one warp copies tiles of both factors, two stages ahead; four multiply them
SPECIALISED = """
def tem_matmul(a, b, out, m, n, k):
    base = shared_address()
    t = thread_x()
    warp = uniform_i32(t >> 5)
    m0 = block_x()*64
    n0 = block_y()*64
    full = base + 32768
    empty = full + 16
    if t == 0:
        for s in range(2):
            mbarrier_init(full + 8*s, 1)
            mbarrier_init(empty + 8*s, 4)
        mbarrier_fence()
    barrier()
    steps = (k + 63) >> 6
    if warp == 4:
        if t & 31 == 0:
            for i in range(steps):
                s = i & 1
                mbarrier_wait(empty + 8*s, (i >> 1 & 1) ^ 1)
                mbarrier_expect(full + 8*s, 16384)
                tensor_load_2d(base + 16384*s, a, i*64, m0, full + 8*s)
                tensor_load_2d(base + 16384*s + 8192, b, i*64, n0, full + 8*s)
    else:
        acc = zeros_f32x32()
        for i in range(steps):
            s = i & 1
            tile = base + 16384*s
            mbarrier_wait(full + 8*s, i >> 1 & 1)
            acc = wgmma_bf16_n64_kk(acc, descriptor(tile, 16, 1024), descriptor(tile + 8192, 16, 1024))
            wgmma_wait_0()
            if t & 31 == 0:
                mbarrier_arrive(empty + 8*s)
        row = m0 + warp*16 + (t & 31)//4
        column = n0 + 2*(t & 3)
        for r in range(32):
            y = row + 8*(r >> 1 & 1)
            x = column + 8*(r >> 2) + (r & 1)
            if y < m and x < n:
                out[y*n + x] = acc[r]
"""


def specialised_product(m: int = 64, n: int = 64, k: int = 256, swizzle: int = 128) -> Case:
    a, b = numbers("bf16", m, k), numbers("bf16", n, k)
    maps = (TensorMap("bf16", ("k", rows), ("k",), (64, 64), swizzle) for rows in ("m", "n"))
    tensors = (Param(name, "tensor_map", KINDS["bf16"], described) for name, described in zip("ab", maps, strict=True))
    sizes = (Param(name, "size") for name in "mnk")
    grid = "(m + 63) // 64", "(n + 63) // 64"
    made = program(SPECIALISED, 160, 32800, *tensors, *pointers(out="f4"), *sizes, grid=grid)
    want = product("bf16", a, b)
    return Case(made, [a, b, np.zeros_like(want), m, n, k], want)


COPY = """
def per_copy(a, b):
    t = thread_x()
    base = shared_address()
    bar = base + 4096
    if t == 0:
        mbarrier_init(bar, 1)
        mbarrier_fence()
        mbarrier_expect(bar, {bytes})
        tensor_load_{rank}d(base, a, {corner}, bar)
        mbarrier_wait(bar, 0)
        tensor_store_{rank}d(b, {other}, base)
        tensor_commit()
        tensor_wait_read_0()
"""


def boxes(corner: tuple[int, int], other: tuple[int, int], swizzle: int) -> Case:
    """A box of a tensor goes to shared memory, and on to another corner of another tensor, where it meets them."""
    (x, y), (u, v), width, height = corner, other, (swizzle or 32) // 2, 16
    a, want = numbers("bf16", 20, 40), np.zeros((20, 40), KINDS["bf16"])
    for i, j in np.ndindex(height, width):
        if 0 <= y + i < 20 and 0 <= x + j < 40 and v + i < 20 and u + j < 40:
            want[v + i, u + j] = a[y + i, x + j]
    maps = [tensor(name, "bf16", (40, 20), (width, height), swizzle) for name in "ab"]
    text = COPY.format(rank=2, corner=f"{x}, {y}", other=f"{u}, {v}", bytes=2 * width * height)
    return Case(program(text, 32, 4104, *maps), [a, np.zeros_like(a)], want)


def deep_boxes() -> Case:
    """A box of three dimensions, of every second row."""
    a, want = numbers("bf16", 5, 6, 40), np.zeros((5, 6, 40), KINDS["bf16"])
    want[2:, 2::2, :16] = a[2:, 2::2, :16]
    maps = [tensor(name, "bf16", (16, 3, 5), (16, 2, 4), 32, strides=(80, 240)) for name in "ab"]
    text = COPY.format(rank=3, corner="0, 1, 2", other="0, 1, 2", bytes=2 * 16 * 2 * 4)
    return Case(program(text, 32, 4104, *maps), [a, np.zeros_like(a)], want)


SHOW = """
def per_show(a, out):
    t = thread_x()
    base = shared_address()
    bar = base + 4096
    if t == 0:
        mbarrier_init(bar, 1)
        mbarrier_fence()
        mbarrier_expect(bar, BYTES)
        tensor_load_2d(base, a, 0, 0, bar)
    barrier()
    mbarrier_wait(bar, 0)
    held = shared_u16(0)
    for i in range(32):
        if 32*i + t < BYTES//2:
            out[32*i + t] = held[32*i + t]
"""


def swizzled_tile(swizzle: int) -> Case:
    """Where the pieces of a tile with rows of `swizzle` bytes lie in shared memory, as the manual's figures show it."""
    pieces = swizzle // 16
    a = np.arange(16 * pieces).repeat(8).reshape(16, -1).astype(KINDS["bf16"])
    places = [[r * pieces + (p ^ r // (128 // swizzle) % pieces) for p in range(pieces)] for r in range(16)]
    want = np.repeat(places, 8, axis=1).astype(KINDS["bf16"])
    text = SHOW.replace("BYTES", str(a.nbytes))
    made = program(text, 32, 4104, tensor("a", "bf16", a.shape[::-1], a.shape[::-1], swizzle), *pointers(out="u2"))
    return Case(made, [a, np.zeros_like(want).view("u2")], want.view("u2"))


# warps 0 and 1 fill one tile, warps 2 and 3 another; one lane of each pair stores it
STORE = """
def tem_store(a, out):
    t = thread_x()
    base = shared_address()
    group = t >> 6
    held = shared_u16(0)
    for half in range(2):
        if t & 63 == 0:
            tensor_wait_read_0()
        if group == 0:
            barrier_1_64()
        else:
            barrier_2_64()
        for i in range(8):
            r = 2*i + (t >> 5 & 1)
            p = (t & 31) >> 2 ^ r & 7
            for e in range(2):
                held[1024*group + 64*r + 8*p + 2*(t & 3) + e] = a[(32*half + 16*group + r)*64 + 2*(t & 31) + e]
        async_fence()
        if group == 0:
            barrier_1_64()
        else:
            barrier_2_64()
        if t & 63 == 0:
            tensor_store_2d(out, 0, 32*half + 16*group, base + 2048*group)
            tensor_commit()
    if t & 63 == 0:
        tensor_wait_read_0()
"""


def stored_tiles() -> Case:
    a, out = numbers("bf16", 64, 64), np.zeros((50, 64), KINDS["bf16"])
    params = *pointers(a="u2"), tensor("out", "bf16", (64, 50), (64, 16))
    return Case(program(STORE, 128, 4096, *params), [a.view("u2"), out], a[:50])


CORNERS = ((0, 0), (0, 0)), ((16, 5), (8, 7)), ((-8, -2), (24, 0)), ((104, 3), (0, 2)), ((0, 0), (104, 3))
CASES: dict[str, Callable[[], Case]] = {
    **{f"warp {kind}": partial(warp_product, kind) for kind in KINDS},
    **{f"group {kind}": partial(group_product, kind, "kk") for kind in KINDS},
    **{f"group {kind} {x}": partial(group_product, kind, x) for kind in ("bf16", "f16") for x in ("mk", "km", "mm")},
    **{f"staged {s}": partial(staged_product, *s) for s in ((64, 32, 96), (33, 17, 40), (5, 32, 8))},
    **{f"specialised {s}": partial(specialised_product, *s) for s in ((64, 64, 64), (70, 136, 200), (1, 8, 8))},
    **{f"box {c} {s}": partial(boxes, *c, s) for c in CORNERS for s in (0, 32, 64, 128)},
    "box of three dimensions": deep_boxes,
    **{f"pieces {swizzle}": partial(swizzled_tile, swizzle) for swizzle in (32, 64, 128)},
    "stored tiles": stored_tiles,
}
"""What is run by the interpreter, and on a GPU to confirm the models of instructions."""
