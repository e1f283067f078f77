"""Where a call runs: on this CPU, on a GPU, or on a simulated one.

Enters: what was asked for, and where the arguments are.  Leaves: a `Place`, and for a GPU the `Exchange`: whose arrays
the arguments are, and whose the results become.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from numstax.errors import UnsupportedArgumentError
from numstax.ir.graph import Graph
from numstax.knobs import Knobs
from numstax.later import Later
from numstax.records import record
from numstax.runtime.exchange import Exchange
from numstax.runtime.host import Host
from numstax.runtime.interop import Family

if TYPE_CHECKING:
    from numstax.runtime import device, device_host
    from numstax.runtime import simulated as simulation
else:
    device, device_host = Later("numstax.runtime.device"), Later("numstax.runtime.device_host")
    simulation = Later("numstax.runtime.simulated")


ON_GPU = ("cuda", "simulate")


@record
class Place:
    """The name of a backend, and what calls there share."""

    backend: str
    host: Any

    @property
    def on_gpu(self) -> bool:
        return self.backend in ON_GPU


@cache
def gpu(knobs: Knobs, number: int) -> device_host.DeviceHost:
    """What the calls on one GPU share.  Raises DeviceError where it cannot be used."""
    return device_host.DeviceHost(knobs, device.device(number))


@cache
def simulated(knobs: Knobs) -> device_host.DeviceHost:
    """The same for the simulated GPU."""
    return device_host.DeviceHost(knobs, simulation.SimulatedDevice())


def place_of(there: set[int], wanted: str | None, backend: str | None, knobs: Knobs, host: Host) -> Place:
    """`there` : the numbers of the GPUs that arguments are on.  `wanted` : 'cpu', 'cuda', 'cuda:1'; None: where the
    arguments are.  Raises DeviceError, and UnsupportedArgumentError for arguments that are elsewhere."""
    if len(there) > 1:
        raise UnsupportedArgumentError(f"arguments are on devices {', '.join(f'cuda:{n}' for n in sorted(there))}")
    backend = backend or knobs.backend
    kind, _, number = (wanted or ("cuda" if there or backend in ON_GPU else "cpu")).partition(":")
    if kind == "cpu" or backend == "reference":
        if there:
            raise UnsupportedArgumentError("an argument is on a GPU", remedy='jit(device="cuda") runs there')
        return Place("cpu" if backend in ON_GPU else backend, host)
    if backend == "simulate":
        if there:
            raise UnsupportedArgumentError("the simulated GPU takes arrays of NumPy")
        return Place("simulate", simulated(knobs))
    chosen = int(number) if number else next(iter(there), 0)
    if there - {chosen}:
        raise UnsupportedArgumentError(f"an argument is on another device than cuda:{chosen}")
    return Place("cuda", gpu(knobs, chosen))


def exchange_of(graph: Graph, inputs: Sequence[str], leaves: Sequence[str], families: Mapping[str, Family]) -> Exchange:
    """`inputs` : the expressions of the inputs; `leaves` : those that are arguments; `families` : by expression.
    Results become arrays of the first argument's library."""
    arrays = [(f"x{k}", families.get(inputs[k])) for k, spec in enumerate(graph.inputs) if spec.kind == "array"]
    results = next((families[path] for path in leaves if path in families), None)
    constants = frozenset(f"x{k}" for k, path in enumerate(inputs) if path not in leaves)
    return Exchange(tuple(arrays), results, frozenset(f"x{position}" for position, _ in graph.writes), constants)
