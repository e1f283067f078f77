"""Printed products of matrices: right in any order of warps and copies; no wait, barrier or fence can be left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from numstax.ir.loops import MatrixTiling
from numstax.program import Program
from numstax.runtime.simulate import run
from numstax.tiles import cuda_products
from tests.simulate.running import launches

SMALL = {
    "wgmma": MatrixTiling("wgmma", "bf16", (64, 32, 64), (64, 32), 2, 2, 2, 4),
    "wgmma of two groups": MatrixTiling("wgmma", "bf16", (128, 32, 64), (64, 32), 2, 2, 2, 4),
    "wgmma in turns": MatrixTiling("wgmma", "bf16", (64, 32, 64), (64, 32), 2, 2, 1, 4, turns=True),
    "mma": MatrixTiling("mma", "bf16", (32, 32, 64), (16, 16), 2),
}
"""Tiles so small that every buffer is used again."""
ORDERS = ("barrier", "mbarrier", "wgmma_wait", "wgmma_settle", "copy_", "async_fence", "tensor_commit", "tensor_wait")
"""Calls that order what others do begin like this."""


def product(family: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Program, list[Any], np.ndarray]:
    """A product of 4 tiles and 5 steps, its program and arguments, the last of which is the result."""
    monkeypatch.setattr(cuda_products, "_wgmma", lambda *_: (SMALL[family],))
    rng = np.random.default_rng(0)
    rows, columns = (2 * size for size in SMALL[family].block[:2])
    a, b = (rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((rows, 320), (320, columns)))
    item, values = next(iter(launches(lambda a, b: np.maximum(a @ b, -8), [a, b])))
    return item.program, values, np.maximum(a.astype("f4") @ b.astype("f4"), -8).astype(a.dtype)


@pytest.mark.parametrize("family", SMALL)
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_any_order_is_right(family: str, seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    program, values, want = product(family, monkeypatch)
    run(program, values, seed=seed)
    assert np.array_equal(values[-1].reshape(want.shape), want)


@pytest.mark.parametrize("family", SMALL)
def test_all_that_orders_is_needed(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, values, _ = product(family, monkeypatch)
    lines = program.text.splitlines()
    needless = []
    for k, line in enumerate(lines):
        _, assigned, call = line.strip().rpartition(" = ")
        if not call.startswith(ORDERS):
            continue
        left_out = line.replace(call, call[call.index("(") + 1 : -1]) if assigned else line.replace(call, "pass")
        text = "\n".join([*lines[:k], left_out, *lines[k + 1 :]]) + "\n"
        report = run(replace(program, text=text), values, check=False)
        if not report.violations:
            needless.append(f"{k + 1}: {line.strip()}")
    assert not needless
