"""Random graphs over size symbols give NumPy's results at random sizes, as schedules and as compiled code."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from numstax.hardware import host
from numstax.ir.reference import evaluate_graph
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.rewrite import simplify
from numstax.ir.verify import verify_graph
from numstax.ir.verify_loops import verify_schedule
from numstax.schedule import split as splitting
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.schedule.split import split
from tests.dynamic.programs import Program, programs
from tests.dynamic.symbolic import alike, arguments, check, held

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.mark.parametrize("cores", [2, 1000])
@settings(max_examples=60, suppress_health_check=SLOW)
@given(program=programs())
def test_schedules(program: Program, cores: int) -> None:
    hardware = replace(host(), cores=cores)
    verify_graph(program.graph)
    fused = fuse(lower(simplify(program.graph)), hardware)
    with pytest.MonkeyPatch.context() as patch:
        if cores > 2:
            patch.setattr(splitting, "PART", 1)
            patch.setattr(splitting, "SMALL_WORK", 0)
        schedules = [fused, split(fused, hardware)]
    for schedule in schedules:
        verify_schedule(schedule)
        for symbols in program.symbols:
            given_ = arguments(program.graph, symbols)
            outputs, writes = evaluate_graph(program.graph, given_, symbols)
            got, got_writes = evaluate_schedule(schedule, given_, symbols)
            alike([o for o in got if o is not None], outputs, 1e-9, symbols)
            alike(held(got_writes, writes, given_), [w for _, w in writes], 1e-9, symbols)


@settings(max_examples=30, suppress_health_check=SLOW)
@given(program=programs())
def test_compiled(program: Program) -> None:
    check(program.graph, program.symbols, 1e-9)
