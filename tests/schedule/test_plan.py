"""Plans: arrays exist while they are used, and memory is taken over when it is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

from numstax.cpu_emit.emit import emit
from numstax.ir.graph import Graph
from numstax.program import Allocate, ArrayExpr, Call, ExternCall, Name, Plan, Release
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.schedule.plan import plan
from numstax.schedule.split import split
from numstax.tiles.cpu import tile
from numstax.trace.tracer import trace
from tests.schedule.programs import Program, programs


def planned(graph: Graph) -> Plan:
    schedule = tile(split(fuse(lower(graph))))
    return plan(graph, schedule, emit(schedule))


def traced(function: Callable, *args: Any) -> Plan:
    return planned(trace(function, args, {}).graph)


def used(step: object) -> Iterator[str]:
    """The arrays a step touches."""
    if isinstance(step, Call):
        yield from step.args
    elif isinstance(step, ExternCall):
        yield from used((step.args, step.kwargs, step.out))
    elif isinstance(step, ArrayExpr):
        yield step.array
    elif isinstance(step, Name):
        yield step.text
    elif isinstance(step, tuple | list):
        for item in step:
            yield from used(item)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(program=programs())
def test_arrays_live_from_first_to_last_use(program: Program) -> None:
    result = planned(program.graph)
    alive = {a.name for a in result.arguments}
    last: dict[str, int] = {}
    for k, step in enumerate(result.steps):
        if isinstance(step, Allocate):
            assert step.name not in alive
            alive.add(step.name)
        elif isinstance(step, Release):
            alive.remove(step.name)
            assert last[step.name] == max(i for i in range(k) if not isinstance(result.steps[i], Allocate | Release))
        else:
            names = set(used(step))
            assert names <= alive
            made = step.results if isinstance(step, ExternCall) else ()
            last.update(dict.fromkeys((*names, *made), k))
            alive.update(made)
    kept = {r.source for r in result.results} | {a.name for a in result.arguments}
    assert alive == kept | {a.name for a in result.arguments}


def test_temporaries_take_over_memory() -> None:
    def chain(a: np.ndarray) -> np.ndarray:
        for _ in range(6):
            a = a @ a
        return a

    result = traced(chain, np.eye(16))
    made = [s for s in result.steps if isinstance(s, Allocate)]
    assert len(made) == 3
    assert result.results[0].source == made[-1].name


def test_results_are_views_and_scalars() -> None:
    def several(x: np.ndarray) -> tuple:
        return x.sum(), x[1:], x

    result = traced(several, np.ones(8))
    assert [(r.source, r.scalar, len(r.views)) for r in result.results][1:] == [("x0", False, 1), ("x0", False, 0)]
    assert result.results[0].scalar


def test_constants_and_scalars_reach_library_functions() -> None:
    def sort(x: np.ndarray, y: float) -> np.ndarray:
        return np.sort(x + y, axis=0)

    (call,) = [s for s in traced(sort, np.ones((4, 3)), 2.0).steps if isinstance(s, ExternCall)]
    assert call.results
    assert call.expected == ((np.dtype("float64"), ("4", "3")),)
    assert "test_plan.py" in call.origin
