"""What orders accesses: barriers of blocks and warps, fences with atomics between blocks; and what does not."""

import numpy as np
import pytest

from numstax.runtime.simulate import run
from tests.simulate.handwritten import program

LAST_BLOCK = """
def red_sum(in0, out0, out1, counters):
    t = thread_x()
    b = int64(block_x())
    last = shared_u32(0)
    v = in0[b*32 + t]
    for k in range(5):
        v += shuffle_xor_f32(v, int32(16) >> k)
    if t == 0:
        out1[b] = v
        fence()
        last[0] = atomic_add_u32(counters, 0, uint32(1))
    barrier()
    if last[0] == 3:
        fence()
        w = out1[t] if t < 4 else float32(0)
        for k in range(5):
            w += shuffle_xor_f32(w, int32(16) >> k)
        if t == 0:
            out0[0] = w
            counters[0] = uint32(0)
"""
LOOK_BACK = """
def per_cumsum(in0, out0, out1, counters):
    t = thread_x()
    b = int64(block_x())
    v = in0[b*32 + t]
    carry = shared_f32(0)
    s = v
    for k in range(5):
        s += shuffle_xor_f32(s, int32(16) >> k)
    if t == 0:
        c = float32(0)
        if b > 0:
            while read_u32(counters, b - 1) == 0:
                pass
            fence()
            c = out1[b - 1]
        out1[b] = c + s
        fence()
        atomic_add_u32(counters, b, uint32(1))
        carry[0] = c
    barrier()
    out0[b*32 + t] = carry[0] + v
"""


def kinds(report):
    return {v.kind for v in report.violations}


def last_block(text):
    x, out, partial = np.arange(128, dtype=np.float32), np.zeros(1, np.float32), np.zeros(4, np.float32)
    made = program(text, 32, ("4",), "4", "1")
    report = run(made, [x, out, partial], fresh=frozenset({"out1"}), check=False)
    return report, out[0] == x.sum()


def test_the_last_block_finishes():
    report, right = last_block(LAST_BLOCK)
    assert right
    assert not report.violations


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("        fence()\n        last", "        last", "race"),
        ("    if last[0] == 3:\n        fence()\n", "    if last[0] == 3:\n", "race"),
        ("    barrier()\n    if last", "    if last", "race"),
        ("            counters[0] = uint32(0)\n", "", "counters"),
        ("== 3:", "== 2:", "race"),
        ("out1[t] if t < 4", "out1[t] if t < 5", "bounds"),
        ("            w += shuffle", "            if t < 16:\n                w += shuffle", "divergence"),
    ],
)
def test_what_the_last_block_needs(before, after, kind):
    assert before in LAST_BLOCK
    report, _ = last_block(LAST_BLOCK.replace(before, after))
    assert kind in kinds(report), report.violations


def test_a_block_waits_for_the_one_before():
    x, out, totals = np.arange(160, dtype=np.float32), np.zeros(160, np.float32), np.zeros(5, np.float32)
    given = [x, out, totals]
    flags = np.zeros(5, np.uint32)
    made = program(LOOK_BACK, 32, ("5",), "4", "5")
    report = run(made, given, counters=flags, check=False)
    assert kinds(report) == {"counters"}
    assert flags.tolist() == [1] * 5
    assert totals.tolist() == np.cumsum(x.reshape(5, 32).sum(1)).tolist()
    no_fence = LOOK_BACK.replace("        fence()\n        atomic", "        atomic")
    assert "race" in kinds(run(program(no_fence, 32, ("5",), "4", "5"), given, counters=np.zeros(5, "u4"), check=False))
    backwards = LOOK_BACK.replace("if b > 0", "if b < 4").replace("b - 1", "b + 1")
    report = run(program(backwards, 32, ("5",), "4", "5"), given, counters=np.zeros(5, "u4"), check=False)
    assert "endless" in kinds(report)


WARP = """
def per_turn(in0, out0):
    t = thread_x()
    s = shared_f32(0)
    s[t] = in0[t]
    warp_barrier()
    out0[t] = s[t ^ 1]
"""


def test_lanes_of_a_warp_are_ordered_by_its_barrier():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert not run(program(WARP, 64, shared="256"), [x, out]).violations
    assert out.tolist() == (np.arange(64) ^ 1).tolist()
    other = program(WARP.replace("t ^ 1", "t ^ 32"), 64, shared="256")
    assert kinds(run(other, [x, out], check=False)) == {"race"}
    without = program(WARP.replace("    warp_barrier()\n", ""), 64, shared="256")
    assert kinds(run(without, [x, out], check=False)) == {"race"}


def test_blocks_do_not_write_what_others_read():
    text = """
def poi_shift(out0):
    t = int64(block_x())*32 + thread_x()
    out0[t] = out0[t + 1] if t < 63 else float32(0)
"""
    assert kinds(run(program(text, 32, ("2",)), [np.arange(64, dtype="f4")], check=False)) == {"race"}
    alone = text.replace("t + 1", "t")
    assert not run(program(alone, 32, ("2",)), [np.arange(64, dtype="f4")]).violations


def test_a_write_after_reads_of_others():
    text = """
def per_shift(in0, out0):
    t = thread_x()
    s = shared_f32(0)
    s[t] = in0[t]
    barrier()
    v = s[63 - t]
    barrier()
    s[t] = v
    barrier()
    out0[t] = s[63 - t]
"""
    x, out = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    assert not run(program(text, 64, shared="256"), [x, out]).violations
    assert out.tolist() == x.tolist()
    missing = text.replace("    barrier()\n    s[t] = v", "    s[t] = v")
    assert kinds(run(program(missing, 64, shared="256"), [x, out], check=False)) == {"race"}


ATOMICS = """
def red_count(in0, out0):
    t = thread_x()
    v = in0[t]
    atomic_add_u32(out0, int64(v), uint32(1))
"""


def test_atomics_count_every_lane():
    x, out = (np.arange(96) % 5).astype(np.uint32), np.zeros(5, np.uint32)
    run(program(ATOMICS, 96, in0="u4", out0="u4"), [x, out])
    assert out.tolist() == np.bincount(x).tolist()
    plain = ATOMICS.replace("atomic_add_u32(out0, int64(v), uint32(1))", "out0[int64(v)] += uint32(t)")
    assert "race" in kinds(run(program(plain, 96, in0="u4", out0="u4"), [x, out], check=False))
