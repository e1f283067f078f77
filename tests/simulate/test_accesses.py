"""How accesses use memory: sectors, bank conflicts, alignment; and other checks of single accesses."""

from dataclasses import replace

import numpy as np
import pytest

from numstax.runtime.simulate import run
from tests.simulate.handwritten import program

COPY = """
def poi_copy(in0, out0):
    t = int64(thread_x())
    out0[t] = in0[t*1]
"""
SHARED = """
def per_copy(in0, out0):
    t = int64(thread_x())
    s = shared_f32(0)
    s[t*1] = in0[t]
    out0[t] = s[t*1]
"""
WIDE = """
def poi_copy(in0, out0):
    t = int64(thread_x())
    store4_f32(out0, t*4, load4_f32(in0, t*4))
"""


def only(report, space, action):
    (site,) = (s for s in report.sites.values() if (s.space, s.action) == (space, action))
    return site


@pytest.mark.parametrize(("stride", "share"), [(1, 1), (2, 0.5), (8, 0.125), (33, 0.125), (0, 0.125)])
def test_the_share_of_sectors(stride, share):
    x, out = np.arange(2112, dtype="f4"), np.zeros(64, "f4")
    report = run(program(COPY.replace("t*1", f"t*{stride}"), 64), [x, out])
    assert only(report, "global", "load").sector_use == share
    assert only(report, "global", "store").sector_use == 1


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_shifted_array_takes_another_sector(offset):
    x = np.arange(80, dtype="f4")[offset:]
    assert only(run(program(COPY, 64), [x, np.zeros(64, "f4")]), "global", "load").sectors == (8 if not offset else 10)


@pytest.mark.parametrize(("stride", "conflicts"), [(1, 0), (2, 1), (32, 31), (33, 0), (0, 0), (3, 0), (4, 3)])
def test_bank_conflicts(stride, conflicts):
    x, out = np.ones(32, "f4"), np.zeros(32, "f4")
    text = SHARED.replace("s[t*1] = in0[t]", f"s[t*{stride}] = in0[t]").replace("s[t*1]", f"s[t*{stride}]")
    report = run(program(text, 32, shared="8192"), [x, out], check=False)
    assert only(report, "shared", "load").conflicts == conflicts


def test_wide_accesses():
    x, out = np.arange(256, dtype="f4"), np.zeros(256, "f4")
    report = run(program(WIDE, 64), [x, out])
    assert (out == x).all()
    assert only(report, "global", "load").sector_use == 1
    for shift in (1, 2, 3):
        report = run(program(WIDE.replace("in0, t*4", f"in0, t*4 + {shift}"), 63), [x, out], check=False)
        assert [v.kind for v in report.violations] == ["alignment"]
        views = run(program(WIDE, 63), [x[shift:], out], check=False)
        assert [v.kind for v in views.violations] == ["alignment"]
    beyond = run(program(WIDE, 64), [x[:-4], out], check=False)
    assert [v.kind for v in beyond.violations] == ["bounds"]


def test_negative_strides_and_gaps():
    x = np.arange(128, dtype="f4")
    out = np.zeros(64, "f4")
    run(program(COPY.replace("t*1", "-t"), 64), [x[::-1][:64][::-1][::-1], out])
    assert out.tolist() == x[:63:-1].tolist()
    run(program(COPY.replace("t*1", "2*t"), 64), [x[::2], out])
    assert out.tolist() == x[::2].tolist()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("v = float32(int32(in0[t] * float32(1e30)))", "conversion"),
        ("v = float32(uint8(-in0[t]))", "conversion"),
        ("if t < 3:\n        v = in0[t]", "undefined"),
        ("r = registers_f32(4)\n    r[0] = in0[t]\n    v = r[1]", "uninitialised"),
        ("r = registers_f32(4)\n    r[t] = in0[t]\n    v = r[t]", "bounds"),
        ("s = shared_f32(0)\n    v = s[t]", "uninitialised"),
        ("s = shared_f32(2)\n    s[t] = in0[t]\n    v = s[t]", "alignment"),
        ("n = 0\n    while n < 1:\n        n = n * 1\n    v = in0[n]", "endless"),
    ],
)
def test_other_mistakes(line, kind):
    text = f"def k(in0, out0):\n    t = thread_x()\n    {line}\n    out0[t] = v\n"
    report = run(program(text, 32, shared="256"), [np.arange(32, dtype="f4"), np.zeros(32, "f4")], check=False)
    assert kind in {v.kind for v in report.violations}


def test_conversions_that_are_guarded_are_none_that_overflow():
    text = (
        "def k(in0, out0):\n    t = thread_x()\n    v = in0[t]\n    out0[t] = int32(v) if abs(v) < 1e9 else int32(7)\n"
    )
    x, out = np.array([1.5, -2.5, np.nan, np.inf, 1e20] * 10, "f4"), np.zeros(50, "i4")
    run(program(text, 50, out0="i4"), [x, out])
    assert out.tolist() == [1, -2, 7, 7, 7] * 10


def test_registers_by_lane():
    text = """
def k(in0, out0):
    t = thread_x()
    r = registers_f32(4)
    for k in range(4):
        r[k] = in0[t] + float32(k)
    r[t % 4] = float32(100)
    out0[t] = r[(t + 1) % 4] + r[t % 4]
"""
    x, out = np.arange(32, dtype="f4"), np.zeros(32, "f4")
    run(program(text, 32), [x, out])
    assert out.tolist() == (x + (np.arange(32) + 1) % 4 + 100).tolist()


def test_launches_that_no_machine_makes():
    x, out = np.ones(64, "f4"), np.zeros(64, "f4")
    for made in (
        program(COPY, 2048),
        program(COPY, 64, shared=str(1 << 20)),
        program(COPY, 64, ("1", "70000")),
    ):
        report = run(replace(made, text=made.text.replace("t = int64", "return\n    t = int64")), [x, out], check=False)
        assert [v.kind for v in report.violations] == ["launch"]


def test_parameters_that_share_memory():
    x = np.arange(128, dtype="f4")
    report = run(program(COPY, 64), [x[:64], x[1:65]], check=False)
    assert "alias" in {v.kind for v in report.violations}
    assert not run(program(COPY, 64), [x[:64], x[64:]]).violations
    assert not run(
        program(COPY.replace("out0[t]", "out0[t*2]").replace("t*1", "t*2"), 64), [x[::2], x[1::2]]
    ).violations
