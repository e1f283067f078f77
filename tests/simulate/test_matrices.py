"""Products of matrices by warps that step together: fragments from shared memory, copies that go on by themselves."""

import numpy as np
import pytest

from numstax.cuda_emit.lane_matrix import KINDS
from numstax.program import Param, Program
from numstax.runtime.simulate import run
from tests.simulate.matrix_rows import instructions


def program(text, block, shared, *params, grid="1"):
    name = text.split("def ")[1].split("(")[0]
    return Program(
        name,
        "sm_80",
        text.lstrip("\n"),
        name,
        params,
        intrinsics=instructions(text),
        block=block,
        grid=(grid,),
        shared=str(shared),
    )


def pointers(**kinds):
    return tuple(Param(name, "pointer", np.dtype(kind)) for name, kind in kinds.items())


RNG = np.random.default_rng(0)


def numbers(rng, kind, *shape):
    """Small integers, which every kind holds and no sum rounds."""
    low = 0 if kind == "u8" else -4
    return rng.integers(low, 5, shape).astype(KINDS[kind])


# rows of A and of the transpose of B, 32 bytes each
MMA = """
def tem_mma(a, b, out):
    t = thread_x()
    base = shared_address()
    words = shared_u32(0)
    for i in range(8):
        words[32*i + t] = a[32*i + t] if i < 4 else b[32*(i - 4) + t]
    barrier()
    x = load_matrix_x4(base + 32*(t & 15) + 16*(t >> 4))
    y = load_matrix_x4(base + 512 + 32*(t & 7) + 256*(t >> 4) + 16*(t >> 3 & 1))
    c = (ZERO, ZERO, ZERO, ZERO)
    d = c
    for i in range(2):
        c = mma_KIND(c, x, (y[0], y[1]))
        d = mma_KIND(d, x, (y[2], y[3]))
    for r in range(4):
        at = 16*(t // 4 + r // 2*8) + t % 4*2 + r % 2
        out[at] = c[r]
        out[at + 8] = d[r]
"""


def multiply(a, b, kind, out):
    zero = "int32(0)" if out.dtype.kind == "i" else "float32(0)"
    text = MMA.replace("KIND", kind).replace("ZERO", zero)
    made = program(text, 32, 1024, *pointers(a="u4", b="u4", out=out.dtype))
    return run(made, [a.view("u4"), b.view("u4"), out])


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_a_warp(kind):
    k = 32 // KINDS[kind].itemsize
    a, b = numbers(RNG, kind, 16, k), numbers(RNG, kind, 16, k)
    out = np.zeros((16, 16), np.int32 if kind in ("i8", "u8") else np.float32)
    assert not multiply(a, b, kind, out).violations
    assert out.tolist() == (2 * (a.astype(out.dtype) @ b.astype(out.dtype).T)).tolist()


def test_tf32_looks_at_the_upper_bits():
    a, b, out = np.full((16, 8), 1 + 2.0**-11, "f4"), np.ones((16, 8), "f4"), np.zeros((16, 16), "f4")
    multiply(a, b, "tf32", out)
    assert np.all(out == 16)


MOVE = """
def per_move(a, out):
    t = thread_x()
    base = shared_address()
    words = shared_u32(0)
    for i in range(4):
        words[32*i + t] = a[32*i + t]
    barrier()
    x = load_matrix_x{count}{turned}(base + 16*t)
    barrier()
    store_matrix_x{count}(base + 16*t, x)
    barrier()
    for i in range(4):
        out[32*i + t] = words[32*i + t]
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_matrices_are_loaded_and_stored(count, turned):
    a, out = RNG.integers(0, 1 << 16, (4, 8, 8)).astype(np.uint16), np.zeros((4, 8, 8), np.uint16)
    text = MOVE.format(count=count, turned="_turned" if turned else "")
    report = run(program(text, 32, 512, *pointers(a="u4", out="u4")), [a.view("u4"), out.view("u4")])
    want = a.copy()
    want[:count] = a[:count].swapaxes(1, 2) if turned else a[:count]
    assert out.tolist() == want.tolist()
    assert [site.conflicts for site in report.sites.values() if site.space == "shared"] == [0] * 4


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
    c0 = zeros_f32x4()
    c1 = zeros_f32x4()
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
                x = load_matrix_x4(tile + y*64 + 16*(p ^ (y >> 1 & 3)))
                p = 2*q + (lane >> 3 & 1)
                w = load_matrix_x4(tile + 2048 + z*64 + 16*(p ^ (z >> 1 & 3)))
                c0 = mma_bf16(c0, x, (w[0], w[1]))
                c1 = mma_bf16(c1, x, (w[2], w[3]))
            barrier()
    y = m0 + 16*(warp >> 1) + (lane >> 2)
    x = 16*(warp & 1) + 2*(lane & 3)
    for e in range(8):
        i = y + 8*(e >> 1 & 1)
        j = x + 8*(e >> 2) + (e & 1)
        if i < m and j < n:
            out[i*n + j] = c0[e] if e < 4 else c1[e - 4]
"""


def staged(text, m=64, n=32, k=96):
    rng = np.random.default_rng(m)
    a, b = (numbers(rng, "bf16", rows, k) for rows in (m, n))
    out = np.zeros((m, n), np.float32)
    sizes = tuple(Param(name, "size") for name in "mnk")
    made = program(text, 128, 8192, *pointers(a="u1", b="u1", out="f4"), *sizes, grid="(m + 31) // 32")
    report = run(made, [a.view("u1"), b.view("u1"), out, m, n, k], check=False)
    return np.array_equal(out, a.astype("f4") @ b.astype("f4").T), report


@pytest.mark.parametrize("shape", [(64, 32, 96), (33, 17, 40), (5, 32, 8)])
def test_a_product_with_copies_a_stage_ahead(shape):
    right, report = staged(STAGED, *shape)
    assert right
    assert not report.violations
    assert all(site.conflicts == 0 for site in report.sites.values() if site.space == "shared")


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("            copy_wait_1()\n", "", "race"),
        ("copy_wait_1()", "copy_wait_2()", "race"),
        ("        copy_commit()\n", "", "race"),
        ("            copy_wait_1()\n            barrier()\n", "            copy_wait_1()\n", "race"),
        ("            barrier()\n    y", "    y", "race"),
        ("copy_async_16_u8(to + 4096*(i & 1) + 2048", "copy_async_16_u8(to + 4096*(i & 1) + 2056", "alignment"),
        ("left if r < n else 0", "left", "bounds"),
        ("min(max((k - 32*i - 8*c)*2, 0), 16)", "(k - 32*i - 8*c)*2", "bounds"),
        ("tile + 2048 + z*64", "tile + 8192 + z*64", "bounds"),
    ],
)
def test_what_copies_need(before, after, kind):
    assert before in STAGED
    _, report = staged(STAGED.replace(before, after), 33, 17, 96)
    assert report.of(kind), report.violations


@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_part_of_a_copy_and_zeros(size):
    text = f"""
def per_copy(a, out):
    t = thread_x()
    base = shared_address()
    copy_async_{size}_u8(base + {size}*t, a, {size}*t, t if t < {size} else {size})
    copy_commit()
    copy_wait_0()
    held = shared_u8({size}*t)
    for e in range({size}):
        out[{size}*t + e] = held[e]
"""
    a, out = np.arange(1, 32 * size + 1).astype(np.uint8), np.zeros((32, size), np.uint8)
    run(program(text, 32, 32 * size, *pointers(a="u1", out="u1")), [a, out])
    want = a.reshape(32, size).copy()
    for t in range(size):
        want[t, t:] = 0
    assert out.tolist() == want.tolist()


def test_nobody_sees_the_copies_of_other_lanes_without_a_barrier():
    text = """
def per_copy(a, out):
    t = thread_x()
    copy_async_4_u8(shared_address() + 4*t, a, int64(4*t), 4)
    copy_commit()
    copy_wait_0()
    warp_barrier()
    out[t] = shared_u32(0)[t ^ 1]
"""
    given = [np.arange(128, dtype="u1"), np.zeros(32, "u4")]
    run(program(text, 32, 128, *pointers(a="u1", out="u4")), given)
    assert given[1].tolist() == given[0].view("u4")[np.arange(32) ^ 1].tolist()
    without = text.replace("    warp_barrier()\n", "")
    assert run(program(without, 32, 128, *pointers(a="u1", out="u4")), given, check=False).of("race")
