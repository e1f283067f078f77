"""Copies of tensors by the machine, products of warp groups from every layout, and barriers of some warps."""

import numpy as np
import pytest

from numstax.cuda_emit.lane_matrix import KINDS
from numstax.program import Param, Program, TensorMap
from numstax.runtime.simulate import run
from tests.simulate.matrix_rows import instructions

RNG = np.random.default_rng(0)


def program(text, block, shared, *params):
    name = text.split("def ")[1].split("(")[0]
    rows = instructions(text)
    return Program(
        name, "sm_90a", text.lstrip("\n"), name, params, intrinsics=rows, block=block, grid=("1",), shared=str(shared)
    )


def tensor(name, dtype, sizes, box, swizzle=128, strides=None):
    strides = strides or [int(np.prod(sizes[: d + 1])) for d in range(len(sizes) - 1)]
    described = TensorMap("bf16", tuple(map(str, sizes)), tuple(map(str, strides)), box, swizzle)
    return Param(name, "tensor_map", np.dtype(dtype), described)


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
LAYOUTS = [(kind, "kk") for kind in KINDS] + [(kind, x) for kind in ("bf16", "f16") for x in ("mk", "km", "mm")]


@pytest.mark.parametrize(("kind", "layout"), LAYOUTS)
def test_products_of_a_warp_group(kind, layout):
    whole, dtype = kind in ("i8", "u8"), KINDS[kind]
    k = 128 // dtype.itemsize
    low = 0 if kind == "u8" else -3
    a, b = (RNG.integers(low, 4, (rows, k)).astype(dtype) for rows in (64, 32))
    maps, held = [], []
    for name, values, contiguous in zip("ab", (a, b), layout, strict=True):
        memory = np.ascontiguousarray(values if contiguous == "k" else values.T)
        width, height = memory.shape[::-1]
        maps.append(tensor(name, dtype, (width, height), (128 // dtype.itemsize, height)))
        held.append(memory)
    nbytes = sum(m.map.box[0] * m.map.box[1] * dtype.itemsize for m in maps)
    text = PRODUCT.format(kind=kind, layout=layout, bytes=nbytes)
    out = np.zeros((64, 32), np.int32 if whole else np.float32)
    run(program(text, 128, 16392, *maps, Param("out", "pointer", out.dtype)), [*held, out])
    assert out.tolist() == (2 * (a.astype(out.dtype) @ b.astype(out.dtype).T)).tolist()


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
        tensor_store_{rank}d(b, {corner}, base)
        tensor_commit()
        tensor_wait_0()
"""


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("corner", [(0, 0), (16, 5), (-3, -2), (100, 3)])
def test_a_box_is_copied_where_it_meets_the_tensor(swizzle, corner):
    width, height = (swizzle or 32) // 2, 16
    a, b = RNG.integers(1, 99, (20, 40)).astype("u2"), np.zeros((20, 40), "u2")
    maps = [tensor(name, "u2", (40, 20), (width, height), swizzle) for name in "ab"]
    text = COPY.format(rank=2, corner=", ".join(map(str, corner)), bytes=2 * width * height)
    run(program(text, 32, 4104, *maps), [a, b])
    want = np.zeros_like(a)
    x, y = corner
    part = np.s_[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)]
    want[part] = a[part]
    assert b.tolist() == want.tolist()


def test_a_box_of_three_dimensions_with_strides():
    a, b = RNG.integers(1, 99, (5, 6, 40)).astype("u2"), np.zeros((5, 6, 40), "u2")
    maps = [tensor(name, "u2", (16, 3, 5), (16, 2, 4), 32, strides=(80, 240)) for name in "ab"]
    run(program(COPY.format(rank=3, corner="0, 1, 2", bytes=2 * 16 * 2 * 4), 32, 4104, *maps), [a, b])
    want = np.zeros_like(a)
    want[2:, 2::2, :16] = a[2:, 2::2, :16]
    assert b.tolist() == want.tolist()


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_pieces_of_a_swizzled_tile(swizzle):
    """Row r of a tile of `span` bytes a row has its piece p where the manual's figures show it."""
    text = """
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
    pieces = swizzle // 16
    a, out = np.arange(16 * pieces).repeat(8).reshape(16, -1).astype("u2"), np.zeros((16, 8 * pieces), "u2")
    made = text.replace("BYTES", str(a.nbytes))
    source = tensor("a", "u2", a.shape[::-1], a.shape[::-1], swizzle)
    run(program(made, 32, 4104, source, Param("out", "pointer", a.dtype)), [a, out])
    period = 128 // swizzle  # rows of 128 bytes
    want = [[r * pieces + (p ^ r // period % pieces) for p in range(pieces)] for r in range(16)]
    assert out[:, ::8].tolist() == want


def test_a_box_that_does_not_fit_its_swizzle():
    maps = [tensor(name, "u2", (40, 20), (32, 8), 32) for name in "ab"]
    text = COPY.format(rank=2, corner="0, 0", bytes=512)
    report = run(program(text, 32, 4104, *maps), [np.zeros((20, 40), "u2")] * 2, check=False)
    assert report.of("layout")


# warps 0 and 1 fill one tile, warps 2 and 3 another; one lane of each pair stores it
STORE = """
def tem_store(a, out):
    t = thread_x()
    base = shared_address()
    group = t >> 6
    held = shared_u16(0)
    for half in range(2):
        if t & 63 == 0:
            tensor_wait_0()
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
        tensor_wait_0()
"""


def stored(text, seed=None):
    a, out = RNG.integers(1, 99, (64, 64)).astype("u2"), np.zeros((50, 64), "u2")
    params = Param("a", "pointer", np.dtype("u2")), tensor("out", "u2", (64, 50), (64, 16))
    report = run(program(text, 128, 4096, *params), [a, out], seed=seed, check=False)
    return np.array_equal(out, a[:50]), report


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_tiles_are_stored(seed):
    right, report = stored(STORE, seed)
    assert right
    assert not report.violations


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("        async_fence()\n", "", "race"),
        ("        if t & 63 == 0:\n            tensor_wait_0()\n", "", "race"),
        ("    if t & 63 == 0:\n        tensor_wait_0()\n", "", "flight"),
        ("            tensor_commit()\n", "", "flight"),
        ("        else:\n            barrier_2_64()\n        if", "        if", "race"),
        ("barrier_2_64", "barrier_1_64", "race"),
        ("barrier_2_64()\n        for", "barrier_2_128()\n        for", "deadlock"),
        ("barrier_2_64()\n        for", "barrier_1_128()\n        for", "barrier"),
        ("    barrier_2_64()\n        for", "    if t & 1:\n                barrier_2_64()\n        for", "divergence"),
        ("base + 2048*group)", "base + 2048*group + 16)", "alignment"),
    ],
)
def test_what_stores_need(before, after, kind, seed):
    assert before in STORE
    _, report = stored(STORE.replace(before, after), seed)
    assert report.of(kind), report.violations


def test_a_fence_of_the_storing_lane_after_the_barrier():
    text = STORE.replace("        async_fence()\n", "")
    text = text.replace("            tensor_store", "            async_fence()\n            tensor_store")
    right, report = stored(text)
    assert right
    assert not report.violations
