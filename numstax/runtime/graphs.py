"""CUDA graphs: the launches of a `Recording`, submitted as a whole (section 9.9).

A launch costs the host about 4 us and a whole graph less than that.  Results are new memory in every call, as without
graphs, so addresses differ between calls: for each combination of addresses and scalars there is an executable graph,
up to `VARIANTS` of them; another combination changes those launches of the oldest one that are concerned, or takes its
place where there are loops that the GPU repeats.  Temporaries are the graph's own, one set for each stream.  The first
call of a plan runs it directly.  When the driver refuses anything, this and all later calls do so too.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numstax.errors import CompileError, DeviceError
from numstax.program import Allocate, Plan, all_steps
from numstax.records import record
from numstax.runtime.device import Device, Loaded
from numstax.runtime.device_host import DeviceHost, Serving
from numstax.runtime.driver import checked
from numstax.runtime.exchange import Exchange
from numstax.runtime.graph_nodes import add_steps, counts, decide
from numstax.runtime.launch import Launcher, launcher
from numstax.runtime.memory import address_of
from numstax.runtime.recording import (
    CannotReplayError,
    Inside,
    Launched,
    Outside,
    Recording,
    Repeated,
    Word,
    recorded,
)
from numstax.runtime.wrapper import Style, Writer
from numstax.runtime.wrapper_device import DeviceStyle

VARIANTS = 8
Values = tuple[Any, ...]
"""What a call gives for the outside words of a recording."""


def launch(plan: Plan, host: DeviceHost, exchange: Exchange, observe: Callable[[str], None] | None = None) -> Launcher:
    """The plan on a GPU, by a graph where that is possible; an observer sees single launches.  Raises CompileError."""
    serving = host.serving(exchange, plan)
    direct = launcher(plan, serving, observe)
    if observe is not None:
        return direct
    try:
        if not isinstance(host.device, Device):
            raise CannotReplayError("the GPU is simulated")
        recording = recorded(plan, host.programs, host.device)
        if recording.repeats and not repeats(host, host.device):
            raise CannotReplayError("a loop depends on a value that the GPU computes, and the driver repeats none")
    except CannotReplayError as reason:
        return Launcher(direct.call, direct.source, f"no CUDA graph: {reason}")
    replay = Replay(host, host.device, recording)
    graphed = launcher(plan, _Replaying(serving, replay, direct.call))
    return Launcher(
        graphed.call,
        f"{graphed.source}\n# the first call, or where there is no graph:\n{direct.source}",
        str(recording),
    )


def repeats(host: DeviceHost, device: Device) -> bool:
    """Does the driver repeat parts of graphs?  It has to count to three first."""
    if host.repeats is None:
        try:
            host.repeats = _counted(host, device) == 3
        except (CompileError, DeviceError):
            host.repeats = False
    return host.repeats


def _counted(host: DeviceHost, device: Device) -> int:
    """How far a loop in a graph counts that is to count to three."""
    (counting,) = host.loaded([counts(device.gpu.target)])
    steps = (Repeated(Inside(1), (Launched(counting, (1, 1, 1), 0, (Inside(0), Inside(1))),)),)
    made = _Stream.on(host, device, Recording(steps, (), (), (), (8, 1), 0), device.stream())
    count, test = made.memory[0].view(np.int64), made.memory[1]
    device.write(count, np.zeros(1, np.int64), made.stream)
    device.write(test, np.ones(1, np.uint8), made.stream)
    made.run(())
    return int(host.fetched(count, made.stream)[0])


@record
class _Replaying:
    """The machine of a plan that has a graph."""

    serving: Serving
    replay: Replay
    direct: Callable[..., Any]

    @property
    def style(self) -> Style:
        given = self.serving.style
        return _ReplayStyle(given.plan, given.exchange, given.library, given.number, recording=self.replay.recording)

    def namespace(self, plan: Plan) -> dict[str, object]:
        return {**self.serving.namespace(plan), "replay": self.replay, "directly": self.direct}


@dataclass
class _ReplayStyle(DeviceStyle):
    """Allocate the results and replay."""

    recording: Recording | None = None

    def steps(self, writer: Writer) -> Iterator[str]:
        assert self.recording is not None
        made = set(self.recording.made)
        for step in all_steps(self.plan.steps):
            if isinstance(step, Allocate) and step.name in made:
                yield f"{step.name} = {self.allocate(writer, step)}"
                yield f"{step.name}_at = {self.address(writer, step.name)}"
        yield f"if not replay(stream, ({', '.join(self.recording.outside)},)):"
        given = (self.given(a.name) for a in self.plan.arguments)
        yield f"    return directly({', '.join(given)})"


@dataclass
class Replay:
    """Runs a recording: (stream, what the call gives) -> was it run?  `failure` : why it never will again."""

    host: DeviceHost
    device: Device
    recording: Recording
    failure: str = ""
    _streams: dict[int, _Stream | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, stream: int, values: Values) -> bool:
        if self.failure:
            return False
        with self._lock:
            found = self._streams.get(stream)
            if found is None:
                if stream not in self._streams:
                    self._streams[stream] = None  # the first call: there may be no other
                    return False
                found = self._streams[stream] = _Stream.on(self.host, self.device, self.recording, stream)
            try:
                found.run(values)
            except DeviceError as error:
                self.failure = str(error)
                return False
        return True


@dataclass
class _Stream:
    """The graphs of one stream.  `memory` : the graph's own blocks, and the counters as the last; `deciding` : the
    program `decide`, where there are loops."""

    device: Device
    stream: int
    recording: Recording
    memory: list[np.ndarray]
    deciding: Loaded | None = None
    variants: dict[Values, _Variant] = field(default_factory=dict)

    @classmethod
    def on(cls, host: DeviceHost, device: Device, recording: Recording, stream: int) -> _Stream:
        empty = host.pools[stream]
        memory = [empty((n,), np.dtype(np.uint8)) for n in recording.blocks]
        counters = np.dtype(np.uint32)
        memory.append(host.cleared(empty((max(recording.counters, 1),), counters), stream))
        deciding = host.loaded([decide(device.gpu.target)])[0] if recording.repeats else None
        return cls(device, stream, recording, memory, deciding)

    def run(self, values: Values) -> None:
        floats = self.recording.floats
        key = (*values, *(math.copysign(1, values[k]) for k in floats)) if floats else values  # -0.0 equals 0.0
        found = self.variants.get(key)
        if found is None:
            found = self.variants[key] = self._variant(values)
        code = self.device.queue.graph(found.handle, self.stream)
        if code:
            api = self.device.api
            checked(api, (api.CUresult(code),))

    def _variant(self, values: Values) -> _Variant:
        oldest = self.variants.pop(next(iter(self.variants))) if len(self.variants) == VARIANTS else None
        if oldest is not None and not self.recording.repeats:
            oldest.change(values)
            return oldest
        return _Variant(self.device, self.recording, self.deciding, [address_of(m) for m in self.memory], values)


class _Variant:
    """An executable graph for one combination of outside words."""

    def __init__(
        self, device: Device, recording: Recording, deciding: Loaded | None, blocks: Sequence[int], values: Values
    ) -> None:
        self.api, self.blocks, self.values = device.api, blocks, values
        api = self.api
        self.graph = checked(api, api.cuGraphCreate(0))
        self.nodes = add_steps(api, self.graph, recording.steps, self._word, deciding)
        self.executable = checked(api, api.cuGraphInstantiate(self.graph, 0))
        self.handle = device.queue.handle(self.executable)

    def _word(self, word: Word) -> Any:
        if isinstance(word, Outside):
            value = self.values[word.k]
            return value + word.offset if word.offset else value
        return self.blocks[word.k] + word.offset if isinstance(word, Inside) else word

    def change(self, values: Values) -> None:
        pairs = zip(self.values, values, strict=True)
        changed = {k for k, (a, b) in enumerate(pairs) if a != b or isinstance(b, float)}
        self.values = values
        for node in self.nodes:
            if node.uses & changed:
                node.fill(self._word)
                node.update(self.executable)

    def __del__(self) -> None:
        if hasattr(self, "executable"):
            self.api.cuGraphExecDestroy(self.executable)
        if hasattr(self, "graph"):
            self.api.cuGraphDestroy(self.graph)
