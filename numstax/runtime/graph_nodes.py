"""Nodes of CUDA graphs: launches, copies, and loops that the GPU repeats by itself.

The steps of a `Recording` enter; nodes of a graph leave, one after another.  Whether a loop goes on is read from memory
by a launch of `decide` in front of its node and at the end of its body, which tells the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numstax.dtypes import BOOL, INT64
from numstax.program import Instruction, Param, Program
from numstax.runtime.device import ArgumentBuffer, Loaded
from numstax.runtime.driver import checked
from numstax.runtime.recording import Copied, Launched, Outside, Repeated, Step, Word

Value = Callable[[Word], Any]
"""What stands for a word."""

_TELL = Instruction("tell", "cudaGraphSetConditional", (), ("i64", "u32"), effect=True, model=lambda *_: None)


def decide(target: str) -> Program:
    """Tells the driver whether a loop goes on."""
    params = (Param("test", "pointer", BOOL), Param("loop", "size"))
    text = "def decide(test, loop):\n    tell(loop, uint32(test[0] != 0))\n"
    return Program("decide", target, text, "decide", params, intrinsics=(_TELL,), block=1, grid=("1",))


def counts(target: str) -> Program:
    """Counts to three."""
    params = (Param("count", "pointer", INT64), Param("test", "pointer", BOOL))
    text = "def counts(count, test):\n    count[0] = count[0] + 1\n    test[0] = count[0] < 3\n"
    return Program("counts", target, text, "counts", params, block=1, grid=("1",))


def add_steps(api: Any, graph: Any, steps: Sequence[Step], value: Value, deciding: Loaded | None) -> list[Node]:
    """Add nodes to a graph, each after the one before it.  `deciding` : the program `decide`, where there are loops."""
    nodes: list[Node] = []
    last: list[Any] = []
    for step in steps:
        if isinstance(step, Repeated):
            assert deciding is not None
            last = [_add_loop(api, graph, step, value, deciding, last)]
            continue
        node = Launch(api, step) if isinstance(step, Launched) else Copy(api, step)
        node.fill(value)
        last = [node.add(graph, last)]
        nodes.append(node)
    return nodes


def _add_loop(api: Any, graph: Any, step: Repeated, value: Value, deciding: Loaded, after: list[Any]) -> Any:
    """A node that repeats a graph.  What nobody told it is that the loop is over."""
    context = checked(api, api.cuCtxGetCurrent())
    handle = checked(api, api.cuGraphConditionalHandleCreate(graph, context, 0, api.CU_GRAPH_COND_ASSIGN_DEFAULT))
    tell = Launched(deciding, (1, 1, 1), 0, (step.test, int(handle)))
    first = Launch(api, tell)
    first.fill(value)
    params = api.CUgraphNodeParams()
    params.type = api.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    loop = params.conditional
    loop.handle, loop.type = handle, api.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
    loop.size, loop.ctx = 1, context
    node = checked(api, api.cuGraphAddNode(graph, [first.add(graph, after)], None, 1, params))
    add_steps(api, params.conditional.phGraph_out[0], (*step.steps, tell), value, deciding)
    return node


class Launch:
    """A launch in a graph.  `uses` : the outside words it takes."""

    def __init__(self, api: Any, step: Launched) -> None:
        self.api, self.words = api, step.words
        self.uses = {w.k for w in step.words if isinstance(w, Outside)}
        self.buffer = ArgumentBuffer(api, step.loaded.program.params)
        self.params = params = api.CUDA_KERNEL_NODE_PARAMS()
        params.func = step.loaded.function
        params.gridDimX, params.gridDimY, params.gridDimZ = step.grid
        params.blockDimX, params.blockDimY, params.blockDimZ = step.loaded.program.block, 1, 1
        params.sharedMemBytes = step.shared
        params.kernelParams = self.buffer.address

    def fill(self, value: Value) -> None:
        self.buffer.pack(*map(value, self.words))

    def add(self, graph: Any, after: list[Any]) -> Any:
        self.node = checked(self.api, self.api.cuGraphAddKernelNode(graph, after, len(after), self.params))
        return self.node

    def update(self, executable: Any) -> None:
        checked(self.api, self.api.cuGraphExecKernelNodeSetParams(executable, self.node, self.params))


class Copy:
    """A copy in a graph."""

    def __init__(self, api: Any, step: Copied) -> None:
        self.api, self.step = api, step
        self.uses = {w.k for w in (step.target, step.source) if isinstance(w, Outside)}
        self.params = params = api.CUDA_MEMCPY3D()
        params.srcMemoryType = params.dstMemoryType = api.CUmemorytype.CU_MEMORYTYPE_DEVICE
        params.WidthInBytes, params.Height, params.Depth = step.nbytes, 1, 1

    def fill(self, value: Value) -> None:
        self.params.srcDevice, self.params.dstDevice = value(self.step.source), value(self.step.target)

    def add(self, graph: Any, after: list[Any]) -> Any:
        context = checked(self.api, self.api.cuCtxGetCurrent())
        self.node = checked(self.api, self.api.cuGraphAddMemcpyNode(graph, after, len(after), self.params, context))
        return self.node

    def update(self, executable: Any) -> None:
        context = checked(self.api, self.api.cuCtxGetCurrent())
        checked(self.api, self.api.cuGraphExecMemcpyNodeSetParams(executable, self.node, self.params, context))


Node = Launch | Copy
