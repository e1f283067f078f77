"""Random graphs: fused, split, tiled and printed for a GPU, they give what the graph gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from numstax.hardware import Gpu
from numstax.ir.loops import Kernel
from numstax.ir.reference import evaluate_graph
from numstax.schedule import split as splitting
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.tiles.cuda import tile
from tests.schedule.programs import Program, programs
from tests.simulate.running import H200, simulate

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


SMALL = replace(H200, sms=1, shared_block=2048, shared_sm=4096, threads_sm=128, threads_block=128)


@pytest.mark.parametrize("part", [splitting.BLOCK_PART, 1], ids=["whole", "parts"])
@pytest.mark.parametrize("gpu", [H200, SMALL], ids=["large", "small"])
@settings(max_examples=40, suppress_health_check=SLOW)
@given(program=programs())
def test_random_graphs(program: Program, gpu: Gpu, part: int) -> None:
    want, writes = evaluate_graph(program.graph, program.inputs, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "BLOCK_PART", part)
        schedule = tile(splitting.split(fuse(lower(program.graph), gpu), gpu), gpu)
    assume(all(isinstance(u, Kernel) for u in schedule.units))
    got, changed, _ = simulate(schedule, program.inputs, machine=gpu)
    for g, w in zip(got, want, strict=True):
        if g is not None:
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
    for (_, g), (_, w) in zip(changed, writes, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
