"""Every form of kernel: sizes around multiples of warps and tiles, random layouts, large and small GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from numstax import dtypes
from numstax.errors import SimulationError
from numstax.pipeline import build
from tests.simulate.running import H200, simulate
from tests.support import layouts, normal

C = slice(1, -1)
FUNCTIONS: dict[str, Callable[[np.ndarray], object]] = {
    "pointwise": lambda x: x * 2 + 1,
    "transposed": lambda x: x.T + np.arange(x.shape[0]),
    "both ways": lambda x: (x + 1, x.T * 2),
    "rows": lambda x: x.sum(1),
    "columns": lambda x: x.sum(0),
    "all": lambda x: (x.sum(), x.max()),
    "softmax": lambda x: (
        np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
    ),
    "normed columns": lambda x: (x - x.mean(0)) / (x.std(0) + 1),
    "variance": lambda x: (x.var(1), x.var(0)),
    "positions": lambda x: (x.argmax(1), x.argmin(0), x.argmax()),
    "scan": lambda x: (np.cumsum(x, 1), np.cumsum(x, 0)),
    "stencil": lambda x: x[C, C] + x[:-2, C] + x[2:, C] + x[C, :-2] + x[C, 2:] if min(x.shape) > 2 else x * 1,
    "shift": lambda x: np.roll(x, 3, 1) - x[:, ::-1],
    "padded": lambda x: np.pad(x, 2) * 2,
    "joined": lambda x: np.concatenate([x, x * 2], 1),
    "gathered": lambda x: x[np.arange(x.shape[0])[::-1] // 2],
    "outer": lambda x: x[:, :1] * x[:1] + x.any(),
}
SIZES = st.one_of(
    st.integers(1, 9), st.sampled_from([31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 256, 257, 300]), st.integers(1, 150)
)
MACHINES = (
    H200,
    replace(H200, sms=1),
    replace(H200, sms=4, shared_block=4096, shared_sm=8192, threads_sm=256, threads_block=256),
)
DTYPES = [*map(np.dtype, ("f4", "f8", "i4", "u1", "?", "i8", "f2")), dtypes.BFLOAT16]


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(FUNCTIONS)),
    rows=SIZES,
    columns=SIZES,
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(["C", "C", "F", "sliced", "reversed", "one axis reversed", "rows repeated", "offset"]),
    machine=st.integers(0, len(MACHINES) - 1),
)
@example(name="normed columns", rows=7, columns=127, dtype=np.dtype("f4"), layout="C", machine=0)
def test_forms(name: str, rows: int, columns: int, dtype: np.dtype, layout: str, machine: int) -> None:
    function = FUNCTIONS[name]
    assume(dtype.kind != "b" or name not in ("softmax", "shift"))
    x = dict(layouts(normal((rows, columns), dtype)))[layout]
    with np.errstate(all="ignore"):
        want = function(x)
        exact = function(x.astype(np.float64)) if dtypes.kind(dtype) == "f" else want
    region = build(function, (x,), machine=MACHINES[machine])
    assert region.schedule is not None
    try:
        got, *_ = simulate(region.schedule, [x], machine=MACHINES[machine])
    except SimulationError as error:
        error.add_note("\n".join(item.program.text for item in region.emitted))  # type: ignore[union-attr]
        raise
    wants, exacts = ((r if isinstance(r, tuple) else (r,)) for r in (want, exact))
    for g, w, e in zip(got, wants, exacts, strict=True):
        assert g is not None
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        _agree(g, np.asarray(e))


def _agree(got: np.ndarray, want: np.ndarray) -> None:
    if dtypes.kind(got.dtype) != "f":
        np.testing.assert_array_equal(got, want)
        return
    tolerance = {1: 0.2, 2: 2e-2, 4: 1e-4, 8: 1e-9}[got.dtype.itemsize]
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), tolerance, tolerance * scale)
