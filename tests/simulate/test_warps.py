"""Warps that run by themselves: a product of matrices, whose tiles one warp copies and four multiply."""

import numpy as np
import pytest

from numstax import dtypes
from numstax.errors import SimulationError
from numstax.program import Param, Program, TensorMap
from numstax.runtime.simulate import run
from tests.simulate.matrix_rows import instructions

BF16 = dtypes.BFLOAT16
TEXT = """
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


def product(text, swizzle=128):
    maps = (TensorMap("bf16", ("k", rows), ("k",), (64, 64), swizzle) for rows in ("m", "n"))
    tensors = (Param(name, "tensor_map", BF16, tensor) for name, tensor in zip("ab", maps, strict=True))
    params = (*tensors, Param("out", "pointer", dtypes.FLOAT32), *(Param(name, "size") for name in "mnk"))
    return Program(
        "tem_matmul",
        "sm_90a",
        text.lstrip("\n"),
        "tem_matmul",
        params,
        intrinsics=instructions(text),
        block=160,
        grid=("(m + 63) // 64", "(n + 63) // 64"),
        shared="32800",
    )


def multiplied(text, m=64, n=64, k=256, seed=None, **options):
    """Is the product right, and what was reported?"""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(BF16) for rows in (m, n))
    out = np.zeros((m, n), np.float32)
    report = run(product(text, **options), [a, b, out, m, n, k], seed=seed, check=False)
    return np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32).T), report


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_product_of_one_tile(seed):
    right, report = multiplied(TEXT, seed=seed)
    assert right
    assert not report.violations


@pytest.mark.parametrize("shape", [(64, 64, 64), (70, 130, 200), (1, 3, 8)])
def test_products_with_borders(shape):
    right, report = multiplied(TEXT, *shape)
    assert right
    assert not report.violations


WRONG = {
    "no wait for products before their tiles are free": ("            wgmma_wait_0()\n", "", "race"),
    "no wait for products before they are used": ("            wgmma_wait_0()\n", "", "flight"),
    "no wait for tiles": ("            mbarrier_wait(full + 8*s, i >> 1 & 1)\n", "", "race"),
    "no wait for free tiles": ("                mbarrier_wait(empty + 8*s, (i >> 1 & 1) ^ 1)\n", "", "race"),
    "wrong parity of the first": ("(i >> 1 & 1) ^ 1)", "i >> 1 & 1)", "deadlock"),
    "wrong parity of the second": ("(full + 8*s, i >> 1 & 1)", "(full + 8*s, (i >> 1 & 1) ^ 1)", "race"),
    "no fence after making mbarriers": ("        mbarrier_fence()\n", "", "race"),
    "no barrier after making mbarriers": ("    barrier()\n", "", "race"),
    "half of the bytes expected": ("16384)\n", "8192)\n", "race"),
    "more bytes expected": ("16384)\n", "16400)\n", "deadlock"),
    "more arrivals expected": ("(empty + 8*s, 4)", "(empty + 8*s, 5)", "deadlock"),
    "fewer arrivals expected": ("(empty + 8*s, 4)", "(empty + 8*s, 3)", "race"),
    "an mbarrier that nobody made": ("mbarrier_arrive(empty + 8*s)", "mbarrier_arrive(empty + 8*s + 16)", "barrier"),
    "every lane arrives": ("if t & 31 == 0:\n                mb", "if t >= 0:\n                mb", "barrier"),
    "the wrong tile": ("descriptor(tile,", "descriptor(base + 16384*(s ^ 1),", "race"),
    "a tile beyond the end": ("descriptor(tile + 8192,", "descriptor(tile + 8192*3,", "bounds"),
    "a tile at no multiple of 128 bytes": ("tensor_load_2d(base +", "tensor_load_2d(64 + base +", "alignment"),
    "an address without the base": ("tensor_load_2d(base +", "tensor_load_2d(0*base +", "bounds"),
    "part of a warp group": ("if warp == 4", "if warp >= 4 or t == 5", "divergence"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("seed", [None, 1])
def test_what_a_product_needs(case, seed):
    before, after, kind = WRONG[case]
    assert before in TEXT
    _, report = multiplied(TEXT.replace(before, after), seed=seed)
    assert report.of(kind), report.violations


@pytest.mark.parametrize("swizzle", [0, 64])
def test_another_swizzle_than_that_of_the_copy(swizzle):
    _, report = multiplied(TEXT, swizzle=swizzle)
    assert report.of("layout"), report.violations


def test_another_distance_of_rows_is_another_product():
    right, _ = multiplied(TEXT.replace("8192, 16, 1024)", "8192, 16, 512)"))
    assert not right


def test_all_that_wait_are_named():
    _, report = multiplied(TEXT.replace("(empty + 8*s, 4)", "(empty + 8*s, 5)"))
    first, second = report.of("deadlock")
    assert "warps 0, 1, 2, 3: parity 1 of the mbarrier at 33792 (phase 1 runs, 1 threads and 0 bytes" in first.detail
    assert "warps 4: parity 0 of the mbarrier at 33808 (phase 0 runs, 1 threads" in second.detail
    assert "mbarrier_wait(empty" in second.text


def test_an_error_in_one_warp_ends_all():
    with pytest.raises(SimulationError, match="uninitialised"):
        run(
            product(TEXT), [np.zeros((64, 64), BF16)] * 2 + [np.zeros((64, 64), "f4"), 64, 64, 64], fresh=frozenset("a")
        )
