"""Products of matrices and copies of tensors give what they must; single instructions, and mistakes with copies."""

import numpy as np
import pytest

from numstax.runtime.simulate import run
from tests.simulate.matrix_programs import (
    CASES,
    boxes,
    numbers,
    pointers,
    program,
    staged_product,
    tensor,
    warp_product,
)


@pytest.mark.parametrize("name", CASES)
def test_programs(name):
    case = CASES[name]()
    report = run(case.program, case.values)
    assert np.array_equal(case.out, case.want)
    if name.startswith("staged"):
        assert all(site.conflicts == 0 for site in report.sites.values() if site.space == "shared")


def test_tf32_looks_at_the_upper_bits():
    case = warp_product("tf32")
    case.values[0].view("f4")[...] = 1 + 2.0**-11
    case.values[1].view("f4")[...] = 1
    run(case.program, case.values)
    assert np.all(case.out == 16)


MOVE = """
def per_move(a, out):
    t = thread_x()
    base = shared_address()
    words = shared_u32(0)
    for i in range(4):
        words[32*i + t] = a[32*i + t]
    barrier()
    x = load_matrix{count}{turned}(base + 16*t)
    barrier()
    store_matrix{count}(base + 16*t, x)
    barrier()
    for i in range(4):
        out[32*i + t] = words[32*i + t]
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_matrices_are_loaded_and_stored(count, turned):
    a, out = np.random.default_rng(0).integers(0, 1 << 16, (4, 8, 8)).astype(np.uint16), np.zeros((4, 8, 8), np.uint16)
    text = MOVE.format(count=f"_x{count}" if count < 4 else "", turned="_turned" if turned else "")
    report = run(program(text, 32, 512, *pointers(a="u4", out="u4")), [a.view("u4"), out.view("u4")])
    want = a.copy()
    want[:count] = a[:count].swapaxes(1, 2) if turned else a[:count]
    assert out.tolist() == want.tolist()
    assert [site.conflicts for site in report.sites.values() if site.space == "shared"] == [0] * 4


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
    case = staged_product(33, 17, 96).with_text(before, after)
    report = run(case.program, case.values, check=False)
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


@pytest.mark.parametrize(
    ("corner", "other", "kind"),
    [((3, 0), (0, 0), "alignment"), ((0, 0), (3, 0), "alignment"), ((0, 0), (0, -2), "bounds")],
)
def test_boxes_that_cannot_be_copied(corner, other, kind):
    case = boxes(corner, other, 32)
    assert run(case.program, case.values, check=False).of(kind)


def test_a_box_that_does_not_fit_its_swizzle():
    text = """
def per_copy(a):
    bar = shared_address() + 4096
    if thread_x() == 0:
        mbarrier_init(bar, 1)
        mbarrier_fence()
        mbarrier_expect(bar, 512)
        tensor_load_2d(shared_address(), a, 0, 0, bar)
        mbarrier_wait(bar, 0)
"""
    made = program(text, 32, 4104, tensor("a", "bf16", (40, 20), (32, 8), 32))
    assert run(made, [numbers("bf16", 20, 40)], check=False).of("layout")
