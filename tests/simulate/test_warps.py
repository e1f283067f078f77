"""Warps that run by themselves, in any order, and what programs need whose warps wait for each other."""

from dataclasses import replace

import numpy as np
import pytest

from numstax.errors import CompileError, SimulationError
from numstax.runtime.simulate import run
from tests.simulate.matrix_programs import pointers, program, specialised_product, stored_tiles


def reported(case, seed=None):
    return run(case.program, case.values, seed=seed, check=False)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make", [specialised_product, stored_tiles])
def test_any_order_is_right(make, seed):
    case = make()
    assert not reported(case, seed).violations
    assert np.array_equal(case.out, case.want)


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


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", [None, 1])
def test_what_a_product_needs(name, seed):
    *change, kind = WRONG[name]
    report = reported(specialised_product().with_text(*change), seed)
    assert report.of(kind), report.violations


@pytest.mark.parametrize("swizzle", [0, 64])
def test_another_swizzle_than_that_of_the_copy(swizzle):
    report = reported(specialised_product(swizzle=swizzle))
    assert report.of("layout"), report.violations


def test_another_distance_of_rows_is_another_product():
    case = specialised_product().with_text("8192, 16, 1024)", "8192, 16, 512)")
    reported(case)
    assert not np.array_equal(case.out, case.want)


def test_all_that_wait_are_named():
    first, second = reported(specialised_product().with_text("(empty + 8*s, 4)", "(empty + 8*s, 5)")).of("deadlock")
    assert "warps 0, 1, 2, 3: parity 1 of the mbarrier at 33792 (phase 1 runs, 1 threads and 0 bytes" in first.detail
    assert "warps 4: parity 0 of the mbarrier at 33808 (phase 0 runs, 1 threads" in second.detail
    assert "mbarrier_wait(empty" in second.text


def test_an_error_in_one_warp_ends_all():
    case = specialised_product()
    with pytest.raises(SimulationError, match="uninitialised"):
        run(case.program, case.values, fresh=frozenset("a"))


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("        async_fence()\n", "", "race"),
        ("        if t & 63 == 0:\n            tensor_wait_read_0()\n", "", "race"),
        ("    if t & 63 == 0:\n        tensor_wait_read_0()\n", "", "flight"),
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
    report = reported(stored_tiles().with_text(before, after), seed)
    assert report.of(kind), report.violations


def exchanged(more, less):
    text = f"""
def tem_exchange(out):
    t = thread_x()
    if uniform_i32(t >> 7) == 0:
        registers_less_{less}()
    else:
        registers_more_{more}()
    out[t] = float32(1)
"""
    return run(program(text, 384, 0, *pointers(out="f4")), [np.zeros(384, "f4")], check=False)


def test_registers_are_exchanged():
    assert not exchanged(232, 40).violations
    assert "warps 11: 240 registers in each thread" in exchanged(240, 40).of("deadlock")[0].detail
    assert exchanged(228, 40).of("launch")
    assert exchanged(232, 16).of("launch")


def test_clusters_of_waiting_warps_are_refused():
    case = specialised_product()
    with pytest.raises(CompileError, match="cluster"):
        run(replace(case.program, cluster=2), case.values, check=False)


def test_a_fence_of_the_storing_lane_after_the_barrier():
    case = stored_tiles().with_text("        async_fence()\n", "")
    case = case.with_text("            tensor_store", "            async_fence()\n            tensor_store")
    assert not reported(case).violations
