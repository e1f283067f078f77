"""A CUDA driver that is not one: memory of the host, launches carried out by the interpreter.

It offers what `numstax.runtime` calls of `cuda.bindings.driver`, with the same arguments and results, and notes every
call by name.  A "cubin" is the text of a program that `known` holds.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from numstax import dtypes
from numstax.program import Program
from numstax.runtime import simulate
from numstax.runtime.cubin import Cubin


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100


OK, BAD, FULL = CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_INVALID_VALUE, CUresult.CUDA_ERROR_OUT_OF_MEMORY

ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 << 10,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "L2_CACHE_SIZE": 50 << 20,
    "MEMORY_CLOCK_RATE": 3201000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144,
    "CLOCK_RATE": 1980000,
}


class FakeDriver:
    """`total` : bytes of memory.  `facts` : attributes that differ from those of an H200."""

    known: ClassVar[dict[bytes, Program]] = {}
    CUresult = CUresult
    CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in ATTRIBUTES})
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self, total: int = 1 << 28, devices: int = 1, **facts: int) -> None:
        self.total, self.devices, self.facts = total, devices, {**ATTRIBUTES, **facts}
        self.memory: dict[int, np.ndarray] = {}
        self.calls: list[str] = []
        self.launched: list[tuple[str, int]] = []
        self.goes_on: list[int] = []
        """By handle: whether a loop in a graph is repeated once more."""
        self.changed = 0
        """Nodes of executable graphs that were given other parameters."""

    def __getattribute__(self, name: str) -> object:
        if name.startswith("cu"):
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)

    def cubin(self, program: Program) -> Cubin:
        code = repr(program).encode()
        self.known[code] = program
        return Cubin(code, program.entry)

    # --- devices and contexts -------------------------------------------------------------------------

    def cuInit(self, flags):
        return (OK if self.devices else CUresult.CUDA_ERROR_NO_DEVICE,)

    def cuGetErrorString(self, code):
        return OK, b"what it means"

    def cuDeviceGetCount(self):
        return OK, self.devices

    def cuDeviceGet(self, number):
        return OK, number

    def cuDeviceGetName(self, length, device):
        return OK, b"Imaginary H200\0\0\0"

    def cuDeviceGetAttribute(self, attribute, device):
        return OK, self.facts[attribute]

    def cuDeviceTotalMem(self, device):
        return OK, self.total

    def cuDevicePrimaryCtxRetain(self, device):
        return OK, 1000 + device

    def cuCtxSynchronize(self):
        return (OK,)

    def cuCtxSetCurrent(self, context):
        return (OK,)

    # --- memory ---------------------------------------------------------------------------------------

    def cuMemGetInfo(self):
        return OK, self.total - sum(m.nbytes for m in self.memory.values()), self.total

    def cuMemAlloc(self, nbytes):
        if self.cuMemGetInfo()[1] < nbytes:
            return FULL, 0
        block = np.full(nbytes + 256, 0xA5, np.uint8)
        address = -(-block.ctypes.data // 256) * 256
        self.memory[address] = block
        return OK, address

    def cuMemFree(self, address):
        del self.memory[int(address)]
        return (OK,)

    def cuMemcpyHtoDAsync(self, target, source, nbytes, stream):
        ctypes.memmove(target, source, nbytes)
        return (OK,)

    cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyHtoDAsync

    def cuMemsetD8Async(self, target, value, count, stream):
        ctypes.memset(target, value, count)
        return (OK,)

    def array_at(self, address, dtype):
        """Everything from an address to the end of the block it is in."""
        for start, block in self.memory.items():
            if start <= address < start + block.nbytes - 256:
                count = (start + block.nbytes - 256 - address) // dtype.itemsize
                return np.ndarray((count,), dtype, (ctypes.c_char * (count * dtype.itemsize)).from_address(address))
        raise AssertionError(f"{address:#x} is no device memory")

    # --- streams and events ---------------------------------------------------------------------------

    def cuStreamSynchronize(self, stream):
        return (OK,)

    def cuEventCreate(self, flags):
        return OK, 7

    def cuEventRecord(self, event, stream):
        return (OK,)

    def cuStreamWaitEvent(self, stream, event, flags):
        return (OK,)

    def cuEventDestroy(self, event):
        return (OK,)

    # --- programs -------------------------------------------------------------------------------------

    def cuModuleLoadData(self, code):
        return OK, self.known[code]

    def cuModuleGetFunction(self, module, symbol):
        return (OK, module) if symbol.decode() == module.entry else (BAD, None)

    def cuFuncSetAttribute(self, function, attribute, value):
        return (OK,)

    def cuLaunchKernel(self, function, x, y, z, bx, by, bz, shared, stream, params, extra):
        assert (bx, by, bz) == (function.block, 1, 1)
        self.launched.append((function.name, stream))
        self.run(
            function, [self.value_at(p, a) for p, a in zip(function.params, _table(params, function), strict=True)]
        )
        return (OK,)

    # --- graphs ---------------------------------------------------------------------------------------

    CUDA_KERNEL_NODE_PARAMS = CUDA_MEMCPY3D = SimpleNamespace
    CUmemorytype = SimpleNamespace(CU_MEMORYTYPE_DEVICE=2)

    def cuCtxGetCurrent(self):
        return OK, 1000

    def cuGraphCreate(self, flags):
        return OK, []

    def cuGraphAddKernelNode(self, graph, dependencies, count, params):
        assert list(dependencies) == ([len(graph) - 1] if graph else [])
        assert count == len(dependencies)
        graph.append(self.work(params))
        return OK, len(graph) - 1

    CUgraphNodeType = SimpleNamespace(CU_GRAPH_NODE_TYPE_CONDITIONAL=13)
    CUgraphConditionalNodeType = SimpleNamespace(CU_GRAPH_COND_TYPE_WHILE=1)
    CU_GRAPH_COND_ASSIGN_DEFAULT = 1

    @staticmethod
    def CUgraphNodeParams():
        return SimpleNamespace(conditional=SimpleNamespace())

    def cuGraphConditionalHandleCreate(self, graph, context, value, flags):
        assert flags == self.CU_GRAPH_COND_ASSIGN_DEFAULT
        self.goes_on.append(value)
        return OK, len(self.goes_on) - 1

    def cuGraphAddNode(self, graph, dependencies, data, count, params):
        assert params.type == self.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        assert list(dependencies) == [len(graph) - 1]
        assert count == params.conditional.size == params.conditional.type == 1
        body, handle = [], params.conditional.handle
        params.conditional.phGraph_out = [body]

        def repeat():
            while self.goes_on[handle]:
                for work in body:
                    work()

        graph.append(repeat)
        return OK, len(graph) - 1

    def cuGraphAddMemcpyNode(self, graph, dependencies, count, params, context):
        return self.cuGraphAddKernelNode(graph, dependencies, count, params)

    def work(self, params):
        """What a node does, with the arguments that it has now."""
        if hasattr(params, "srcDevice"):
            copied = (params.dstDevice, params.srcDevice, params.WidthInBytes)
            return lambda: ctypes.memmove(*copied)
        program = params.func
        assert params.blockDimX == program.block
        values = [
            self.value_at(p, a) for p, a in zip(program.params, _table(params.kernelParams, program), strict=True)
        ]
        return lambda: self.run(program, values)

    def cuGraphInstantiate(self, graph, flags):
        return OK, list(graph)

    def cuGraphExecKernelNodeSetParams(self, executable, node, params):
        self.changed += 1
        executable[node] = self.work(params)
        return (OK,)

    def cuGraphExecMemcpyNodeSetParams(self, executable, node, params, context):
        return self.cuGraphExecKernelNodeSetParams(executable, node, params)

    def cuGraphLaunch(self, executable, stream):
        for work in executable:
            work()
        return (OK,)

    def cuGraphExecDestroy(self, executable):
        return (OK,)

    cuGraphDestroy = cuGraphExecDestroy

    # --- arguments of launches ------------------------------------------------------------------------

    def value_at(self, param, address):
        """One argument, read where the table of arguments points."""
        if param.kind == "scalar":
            return np.frombuffer(ctypes.string_at(address, param.dtype.itemsize), param.dtype)[0]
        if param.kind == "size32":
            return struct.unpack("i", ctypes.string_at(address, 4))[0]
        word = struct.unpack("q", ctypes.string_at(address, 8))[0]
        if param.kind == "size":
            return word
        kinds = {"status": (dtypes.INT64, 4), "counters": (np.dtype(np.uint32), None)}
        dtype, count = kinds.get(param.kind) or (param.dtype, None)
        return self.array_at(word, dtype)[:count]

    def run(self, program, values):
        special = {p.kind: v for p, v in zip(program.params, values, strict=True) if p.kind in ("status", "counters")}
        if "counters" in special:
            special["counters"] = special["counters"][: eval(program.counters)]
        plain = [v for p, v in zip(program.params, values, strict=True) if p.kind not in special]
        simulate.run(program, plain, **special)
        if program.name == "decide":
            test, handle = values
            self.goes_on[handle] = bool(test[0])


def _table(address, program):
    return struct.unpack(f"{len(program.params)}Q", ctypes.string_at(address, 8 * len(program.params)))
