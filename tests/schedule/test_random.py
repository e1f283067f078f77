"""Every stage of the scheduler gives what the graph gives, on random graphs and under costs that force each choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from numstax.hardware import host
from numstax.ir.loops import Schedule
from numstax.ir.reference import evaluate_graph
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.verify_loops import verify_schedule
from numstax.schedule import fuse as fusion
from numstax.schedule import split as splitting
from numstax.schedule import storage, updates
from numstax.schedule.lower import lower
from tests.schedule.programs import Program, programs

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
MANY_CORES = replace(host(), cores=1000)


def check(program: Program, schedule: Schedule) -> None:
    verify_schedule(schedule)
    expected, expected_writes = evaluate_graph(program.graph, program.inputs, {})
    got, got_writes = evaluate_schedule(schedule, program.inputs, {})
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
    assert [p for p, _ in got_writes] == [p for p, _ in expected_writes]
    for (_, a), (_, b) in zip(expected_writes, got_writes, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("store", [8, -1000, 1 << 20], ids=["by-cost", "store-all", "recompute-all"])
@pytest.mark.parametrize("small", [0, 1 << 14], ids=["parts", "select"])
@settings(max_examples=40, suppress_health_check=SLOW)
@given(program=programs())
def test_lowered_and_fused(program: Program, store: int, small: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "STORE", store)
        patch.setattr(storage, "KERNEL", 0)
        patch.setattr(updates, "SMALL", small)
        lowered = lower(program.graph)
        check(program, lowered)
        check(program, fusion.fuse(lowered))


@settings(max_examples=100, suppress_health_check=SLOW)
@given(program=programs())
def test_split(program: Program) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "PART", 1)
        patch.setattr(splitting, "SMALL_WORK", 0)
        fused = fusion.fuse(lower(program.graph), MANY_CORES)
        check(program, splitting.split(fused, MANY_CORES))
