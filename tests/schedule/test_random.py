"""Every stage of the scheduler gives what the graph gives, on random graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from numstax.ir.loops import Schedule
from numstax.ir.reference import evaluate_graph, evaluate_schedule
from numstax.schedule.lower import lower
from tests.schedule.programs import Program, programs

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def check(program: Program, schedule: Schedule) -> None:
    expected, expected_writes = evaluate_graph(program.graph, program.inputs, {})
    got, got_writes = evaluate_schedule(schedule, program.inputs, {})
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
    assert [p for p, _ in got_writes] == [p for p, _ in expected_writes]
    for (_, a), (_, b) in zip(expected_writes, got_writes, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)


@settings(max_examples=200, suppress_health_check=SLOW)
@given(programs())
def test_lowered(program: Program) -> None:
    check(program, lower(program.graph))
