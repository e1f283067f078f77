"""Conversions between all dtypes, out of range and special values included, as NumPy makes them."""

from __future__ import annotations

import numpy as np
import pytest

from numstax import dtypes
from numstax.ir.index import as_index
from numstax.ir.loops import Schedule, Store
from numstax.ir.reference import cast
from tests.cpu_emit.running import BodyBuilder, buffer, kernel, loop, run, schedule, var
from tests.support import specials


def casts(source: np.dtype, n: int, op: str, targets: list[np.dtype]) -> Schedule:
    i = var("i", n)
    x = buffer("x", source, (n,), "input")
    outs = [buffer(f"out{k}", d, (n,), "output") for k, d in enumerate(targets)]
    b = BodyBuilder()
    value = b.load(x, i)
    stores = [Store(o.name, as_index(i), b(op, value, dtype=o.dtype)) for o in outs]
    return schedule(kernel("poi_cast", [i], [loop([], b, *stores)], [x, *outs]))


@pytest.mark.parametrize("source", dtypes.SUPPORTED, ids=dtypes.name)
def test_casts(source: np.dtype) -> None:
    x = specials(source)
    if dtypes.kind(source) == "f" and not dtypes.is_low(source):
        edges = [1e10, 3e9, 2.0**31, 2.0**32, 2.0**63, 1.8e19, 300.7, 127.5, 255.9, 65504, 65519.9, 65520, 1e-8, 3e-41]
        x = np.concatenate([x, np.array(edges, source), -np.array(edges, source)])
    targets = list(dtypes.SUPPORTED)
    got = run(casts(source, x.size, "cast", targets), [x], 1 << 40)
    with np.errstate(all="ignore"):
        for target, mine in zip(targets, got, strict=True):
            want = cast(x, target)
            bad = mine != want
            if dtypes.is_low(source) and dtypes.kind(target) in "iu":  # what does not fit has no one answer in NumPy
                bad &= np.isfinite(x.astype(float)) & (np.abs(x.astype(float)) < 127)
                bad &= (x.astype(float) >= 0) | (dtypes.kind(target) == "i")
            if dtypes.kind(target) in "fc":
                bad &= ~(np.isnan(mine) & np.isnan(want))
            assert not bad.any(), f"{x[bad][0]} as {target} is {mine[bad][0]}, not {want[bad][0]}"


def test_double_to_half_rounds_once() -> None:
    near = np.float64(np.float16(1.001)) + np.float64(2.0**-11) + np.array([-(2.0**-40), 0, 2.0**-40])
    x = np.concatenate([near, -near, near * 2.0**-16])
    got = run(casts(dtypes.FLOAT64, x.size, "cast", [dtypes.FLOAT16]), [x], 1 << 40)[0]
    np.testing.assert_array_equal(got, x.astype(np.float16))


@pytest.mark.parametrize(
    ("source", "target"),
    [("f4", "i4"), ("i8", "f8"), ("u2", "i2"), ("f2", "u2"), ("i2", "f2"), ("u1", "?"), ("u4", "f4")],
)
def test_bits(source: str, target: str) -> None:
    x = np.array([0, 1], source) if target == "?" else specials(np.dtype(source))
    got = run(casts(x.dtype, x.size, "bitcast", [np.dtype(target)]), [x], 1 << 40)[0]
    np.testing.assert_array_equal(got, x.view(target))
