"""Backends: what runs a graph.

A Graph enters, and whose arrays its inputs are; a `Compiled` leaves: a function of the graph's inputs and `sizes`, in
order, that gives the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numstax.ir.graph import Graph
from numstax.ir.reference import evaluate_graph
from numstax.knobs import Knobs
from numstax.later import Later
from numstax.pipeline import Machine, Region, compile_graph
from numstax.records import record
from numstax.runtime.exchange import Exchange
from numstax.runtime.host import Host
from numstax.runtime.launch import Launcher, launcher

if TYPE_CHECKING:
    from numstax import tuning
    from numstax.runtime import graphs
    from numstax.runtime.device_host import DeviceHost
else:
    graphs, tuning = Later("numstax.runtime.graphs"), Later("numstax.tuning")


@record
class Compiled:
    """`source` : the text of `call`, where it was generated.  `observed` makes the same call again, for an observer of
    kernels (see `launch.launcher`).  `note` : what else is to be said about how it runs."""

    region: Region
    call: Callable[..., tuple[object, ...]]
    source: str = ""
    observed: Callable[[Callable[[str], None]], Launcher] | None = None
    note: str = ""


@record
class Backend:
    """supports_symbolic_shapes : may a function that asks for sizes be compiled for all of them (10.4)?"""

    compile: Callable[[Graph, Knobs, Any, Exchange], Compiled]
    supports_symbolic_shapes: bool


def _region(graph: Graph, knobs: Knobs, machine: Machine | None, bench: Callable[[], tuning.Bench]) -> Region:
    """The passes, with measured tilings where these are asked for."""
    if knobs.tune == "off":
        return compile_graph(graph, knobs, machine)
    tuner = tuning.Tuner(knobs, bench())
    region = compile_graph(graph, knobs, machine, tuner.schedule)
    return replace(region, tuned=tuple(tuner.found))


def _cpu(graph: Graph, knobs: Knobs, host: Host, exchange: Exchange) -> Compiled:
    region = _region(graph, knobs, None, lambda: tuning.CpuBench(host))
    plan = region.plan
    assert plan is not None
    made = launcher(plan, host)
    return Compiled(region, made.call, made.source, lambda observe: launcher(plan, host, observe))


def _gpu(graph: Graph, knobs: Knobs, host: DeviceHost, exchange: Exchange) -> Compiled:
    region = _region(graph, knobs, host.device.gpu, lambda: tuning.GpuBench(host))
    plan = region.plan
    assert plan is not None

    made = graphs.launch(plan, host, exchange)

    def observed(observe: Callable[[str], None]) -> Launcher:
        return graphs.launch(plan, host, exchange, observe)

    return Compiled(region, made.call, made.source, observed, made.note)


def _simulated(graph: Graph, knobs: Knobs, host: DeviceHost, exchange: Exchange) -> Compiled:
    """Nothing is measured: the times of an interpreter say nothing of a GPU's."""
    return _gpu(graph, replace(knobs, tune="off"), host, exchange)


def _reference(graph: Graph, knobs: Knobs, host: Host, exchange: Exchange) -> Compiled:
    """Runs the graph op by op with NumPy: nothing is compiled."""
    count = len(graph.inputs)

    def call(*given: Any) -> tuple[object, ...]:
        inputs, sizes = given[:count], dict(zip(graph.sizes, given[count:], strict=True))
        outputs, writes = evaluate_graph(graph, inputs, sizes)
        for position, value in writes:
            inputs[position][...] = value
        return tuple(outputs)

    return Compiled(Region(graph), call)


BACKENDS = {
    "cpu": Backend(_cpu, True),
    "reference": Backend(_reference, False),
    "cuda": Backend(_gpu, True),
    "simulate": Backend(_simulated, True),
}
