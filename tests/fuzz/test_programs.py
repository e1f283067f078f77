"""Random programs give NumPy's values, dtypes, shapes and side effects."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

import numstax
from numstax import dtypes
from tests.fuzz.programs import Program, programs
from tests.support import copy


def _agree(got: object, want: object, where: str) -> None:
    g, w = np.asarray(got), np.asarray(want)
    assert (g.dtype, g.shape) == (w.dtype, w.shape), where
    if dtypes.kind(w.dtype) != "f":
        np.testing.assert_array_equal(g, w, where)
        return
    tolerance = {2: 1e-2, 4: 1e-4, 8: 1e-10}[w.dtype.itemsize]
    np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, err_msg=where)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(programs())
def test_random_programs(program: Program) -> None:
    theirs = [copy(a) for a in program.inputs]
    with np.errstate(all="ignore"):
        want = program.run(*theirs)
        for dynamic in (False, True):
            ours = [copy(a) for a in program.inputs]
            got = numstax.jit(program.run, strict=True, dynamic=dynamic)(*ours)
            for k, (g, w) in enumerate(zip([*ours, *got], [*theirs, *want], strict=True)):
                _agree(g, w, f"v{k}, {dynamic=}, of\n{program!r}")
