"""Random graphs: fused, split, tiled and printed for a GPU, they give what the graph gives."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

from numstax.ir.loops import Kernel
from numstax.ir.reference import evaluate_graph
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.tiles.cuda import tile
from tests.schedule.programs import Program, programs
from tests.simulate.running import H200, simulate

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=60, suppress_health_check=SLOW)
@given(program=programs())
def test_random_graphs(program: Program) -> None:
    want, writes = evaluate_graph(program.graph, program.inputs, {})
    schedule = tile(fuse(lower(program.graph)), H200)
    assume(all(isinstance(u, Kernel) for u in schedule.units))
    got, changed, _ = simulate(schedule, program.inputs)
    for g, w in zip(got, want, strict=True):
        if g is not None:
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
    for (_, g), (_, w) in zip(changed, writes, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
