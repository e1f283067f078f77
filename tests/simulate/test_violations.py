"""A kernel that is right runs as NumPy does; each kind of mistake is reported."""

import numpy as np
import pytest

from numstax.errors import SimulationError
from numstax.runtime.simulate import run
from tests.simulate.handwritten import SOFTMAX, program


def kinds(report):
    return {v.kind for v in report.violations}


def test_softmax():
    x = np.random.default_rng(0).standard_normal((40, 1024)).astype(np.float32)
    out = np.full_like(x, np.nan)
    report = run(program(SOFTMAX, grid=("40",)), [x, out])
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=2e-6)
    assert report.sector_use() == 1.0


BLOCK_SUM = """
def per_sum(in0, out0):
    t = thread_x()
    s = shared_f32(0)
    v = in0[int64(block_x())*128 + t]
    s[t] = v
    barrier()
    n = 64
    while n > 0:
        if t < n:
            s[t] += s[t + n]
        barrier()
        n = n >> 1
    if t == 0:
        out0[block_x()] = s[0]
"""


def test_a_sum_through_shared_memory():
    x = np.arange(640, dtype=np.float32)
    out = np.zeros(5, np.float32)
    report = run(program(BLOCK_SUM, 128, ("5",), "512"), [x, out])
    assert out.tolist() == x.reshape(5, 128).sum(1).tolist()
    assert not report.violations


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("        barrier()\n", "", "race"),
        ("    barrier()\n    n", "    n", "race"),
        ("s[t] += s[t + n]", "s[t] += s[t + n + 1]", "bounds"),
        ("    n = 64", "    n = 128", "bounds"),
        ("in0[int64(block_x())*128 + t]", "in0[int64(block_x())*128 + t + 1]", "bounds"),
        ("    s[t] = v", "    if t != 5:\n        s[t] = v", "uninitialised"),
        ("s[t + n]\n        barrier()", "s[t + n]\n            barrier()", "divergence"),
        ("out0[block_x()] = s[0]", "out0[block_x() - 1] = s[0]", "bounds"),
        ("    if t == 0:\n        out0", "    if t < 2:\n        out0", "race"),
    ],
)
def test_a_seeded_mistake(before, after, kind):
    assert before in BLOCK_SUM
    text = BLOCK_SUM.replace(before, after)
    if kind == "race" and "t < 2" in after:
        text = text.replace("= s[0]", "= s[t]")
    x = np.arange(640, dtype=np.float32)
    with pytest.raises(SimulationError) as raised:
        run(program(text, 128, ("5",), "512"), [x, np.zeros(5, np.float32)])
    report = run(program(text, 128, ("5",), "512"), [x, np.zeros(5, np.float32)], check=False)
    assert kind in kinds(report), report.violations
    assert kind in str(raised.value)
