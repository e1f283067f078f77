"""Products of matrices by warps that step together: fragments from shared memory, copies that go on by themselves."""

import numpy as np
import pytest

from numstax.cuda_emit.lane_matrix import KINDS
from numstax.program import Param, Program
from numstax.runtime.simulate import run
from tests.simulate.matrix_rows import ROWS, instructions


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


# rows of A and of the transpose of B, in 16-byte pieces, two matrices of 8 rows for each piece along k
MMA = """
def tem_mma(a, b, out):
    t = thread_x()
    base = shared_address()
    words = shared_u32(0)
    for i in range({a_words}):
        words[32*i + t] = a[32*i + t]
    for i in range({b_words}):
        words[32*({a_words} + i) + t] = b[32*i + t]
    barrier()
    row = {bytes}*(t & 15) + 16*(t >> 4)
    x = load_matrix_x{registers_a}(base + (row if t < 8*{registers_a} else 0))
    row = {bytes}*(t & 7) + 16*(t >> 3)
    y = load_matrix_x{registers_b}(base + 16*{bytes} + (row if t < 8*{registers_b} else 0))
    c = ({zero}, {zero}, {zero}, {zero})
    c = {name}(c, x, y)
    c = {name}(c, x, y)
    for r in range(4):
        out[(t//4 + 8*(r >> 1))*8 + 2*(t & 3) + (r & 1)] = c[r]
"""


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("mma_")])
def test_products_of_a_warp(name):
    kind, k = name.split("_")[-1], int(name.split("k")[1].split("_")[0])
    a, b = numbers(RNG, kind, 16, k), numbers(RNG, kind, 8, k)
    whole = kind in ("i8", "u8")
    row = k * a.itemsize
    text = MMA.format(
        name=name,
        bytes=row,
        a_words=row // 8,
        b_words=row // 16,
        registers_a=row // 8,
        registers_b=row // 16,
        zero="int32(0)" if whole else "float32(0)",
    )
    out = np.zeros((16, 8), np.int32 if whole else np.float32)
    report = run(
        program(text, 32, 24 * row, *pointers(a="u4", b="u4", out=out.dtype)), [a.view("u4"), b.view("u4"), out]
    )
    assert out.tolist() == (2 * (a.astype(out.dtype) @ b.astype(out.dtype).T)).tolist()
    assert not report.violations


def test_tf32_looks_at_the_upper_bits():
    text = MMA.format(
        name="mma_m16n8k8_tf32", bytes=32, a_words=4, b_words=2, registers_a=4, registers_b=2, zero="float32(0)"
    )
    a, b, out = np.full((16, 8), 1 + 2.0**-11, "f4"), np.ones((8, 8), "f4"), np.zeros((16, 8), "f4")
    run(program(text, 32, 24 * 32, *pointers(a="u4", b="u4", out="f4")), [a.view("u4"), b.view("u4"), out])
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
    c0 = (float32(0), float32(0), float32(0), float32(0))
    c1 = c0
    steps = (k + 31) >> 5
    for i in range(steps + 1):
        if i < steps:
            left = min(max((k - 32*i - 8*c)*2, 0), 16)
            copy_async_16(to + 4096*(i & 1), a, ((m0 + r)*k + 32*i + 8*c)*2, left if m0 + r < m else 0)
            copy_async_16(to + 4096*(i & 1) + 2048, b, (r*k + 32*i + 8*c)*2, left if r < n else 0)
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
                c0 = mma_m16n8k16_bf16(c0, x, (w[0], w[1]))
                c1 = mma_m16n8k16_bf16(c1, x, (w[2], w[3]))
            barrier()
    y = m0 + 16*(warp >> 1) + (lane >> 2)
    x = 16*(warp & 1) + 2*(lane & 3)
    for e in range(4):
        if y + 8*(e >> 1) < m and x + (e & 1) < n:
            out[(y + 8*(e >> 1))*n + x + (e & 1)] = c0[e]
        if y + 8*(e >> 1) < m and x + 8 + (e & 1) < n:
            out[(y + 8*(e >> 1))*n + x + 8 + (e & 1)] = c1[e]
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
        ("copy_async_16(to + 4096*(i & 1) + 2048", "copy_async_16(to + 4096*(i & 1) + 2056", "alignment"),
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
    copy_async_{size}(base + {size}*t, a, {size}*t, t if t < {size} else {size})
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
    copy_async_4(shared_address() + 4*t, a, int64(4*t), 4)
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
