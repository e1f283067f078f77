"""One GPU, through the CUDA driver: its memory, its streams, and programs that run on it.

Enters: the driver's functions (`driver.start`) and the number of a device.  Memory is described by NumPy arrays whose
addresses are the device's: nothing here or above reads through them.  A stream is the number of a handle; 0 is the
stream that waits for all others.  The device's primary context is used, which CuPy and torch use too.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from threading import get_ident
from typing import Any, Protocol

import numpy as np

from numstax import dtypes
from numstax.errors import DeviceError
from numstax.hardware import Gpu, rates_of
from numstax.program import Param, Program
from numstax.records import record
from numstax.runtime import libraries
from numstax.runtime.cache import DiskCache
from numstax.runtime.compile_together import compile_together
from numstax.runtime.cubin import Cubin
from numstax.runtime.driver import Queueing, checked, queueing, queueing_directly, start
from numstax.runtime.host import Counts
from numstax.runtime.memory import address_of
from numstax.runtime.tensor_maps import ENCODED, Encoder

OLDEST = (8, 0)
ALIGNED = 16
"""Programs take arrays that begin at multiples of so many bytes."""

Launch = Callable[..., None]
"""(stream, blocks along x, y and z, bytes of shared memory, a word or two for each parameter) -> nothing."""


class AnyDevice(Protocol):
    """What is asked of a device: of a `Device`, or of a simulated one."""

    gpu: Gpu
    number: int
    align: int
    address: Callable[[np.ndarray], int]
    active: set[int]

    def activate(self) -> None: ...
    def root(self, nbytes: int) -> np.ndarray: ...
    def memory_info(self) -> tuple[int, int]: ...
    def write(self, target: np.ndarray, source: np.ndarray, stream: int) -> None: ...
    def read(self, target: np.ndarray, source: np.ndarray, stream: int) -> None: ...
    def copy(self, target: np.ndarray, source: np.ndarray, stream: int) -> None: ...
    def clear(self, array: np.ndarray, stream: int) -> None: ...
    def stream(self) -> int: ...
    def order(self, first: int, second: int) -> None: ...
    def synchronize(self, stream: int) -> None: ...
    def function(self, path: str) -> Any: ...
    def load(self, programs: Sequence[Program], cache: DiskCache[Cubin], counts: Counts) -> list[Loaded]: ...


class Device:
    """`gpu` : what it can do; `api` : the driver's functions; `queue` : those that every call needs."""

    align = ALIGNED

    def __init__(self, api: Any, number: int = 0, queue: Queueing | None = None) -> None:
        self.api, self.number, self.address = api, number, address_of
        self.queue = queue or queueing(api)
        count = self._ask(api.cuDeviceGetCount())
        if not 0 <= number < count:
            raise DeviceError(f"there is no device cuda:{number}", remedy=f"this machine has {count}")
        self._handle = self._ask(api.cuDeviceGet(number))
        self.gpu = gpu_of(api, self._handle)
        if self.gpu.capability < OLDEST:
            have, need = (".".join(map(str, c)) for c in (self.gpu.capability, OLDEST))
            raise DeviceError(f"{self.gpu.name} has compute capability {have}; {need} or newer is needed")
        self._single = count == 1
        self._context: Any = None
        self._lock = threading.Lock()
        self.active: set[int] = set()
        """Threads that need not choose this device before they work with it."""

    def _ask(self, returned: tuple) -> Any:
        return checked(self.api, returned)

    def activate(self) -> None:
        """Let this thread work with the device."""
        # where there are several devices, others may have chosen another one since
        thread = get_ident()
        if thread not in self.active:
            self._open()
            self._ask(self.api.cuCtxSetCurrent(self._context))
            if self._single:
                self.active.add(thread)

    def _open(self) -> None:
        with self._lock:
            if self._context is None:
                self._context = self._ask(self.api.cuDevicePrimaryCtxRetain(self._handle))

    def open_early(self) -> None:
        """Make the context, which takes 0.3 s, while something else goes on."""

        def opening() -> None:
            with contextlib.suppress(DeviceError):  # whoever needs it tries again
                self._open()

        threading.Thread(target=opening, daemon=True).start()

    # --- memory ---------------------------------------------------------------------------------------

    def root(self, nbytes: int) -> np.ndarray:
        """New memory, freed when the last array that uses it is gone.  Raises DeviceMemoryError."""
        self.activate()
        address = int(self._ask(self.api.cuMemAlloc(max(nbytes, 1))))
        held: Any = (ctypes.c_char * nbytes).from_address(address)
        weakref.finalize(held, self._free, address).atexit = False
        return np.frombuffer(held, np.uint8)

    def _free(self, address: int) -> None:
        self.activate()
        self.api.cuMemFree(address)

    def memory_info(self) -> tuple[int, int]:
        """Bytes that are free, and all."""
        self.activate()
        free, total = self._ask(self.api.cuMemGetInfo())
        return int(free), int(total)

    def write(self, target: np.ndarray, source: np.ndarray, stream: int) -> None:
        """Copy from the host; both are contiguous in the same order of axes.  `source` may change afterwards."""
        if source.nbytes:
            self._ask(self.api.cuMemcpyHtoDAsync(address_of(target), address_of(source), source.nbytes, stream))
            self.synchronize(stream)

    def read(self, target: np.ndarray, source: np.ndarray, stream: int) -> None:
        """Copy to the host, after all work of the stream; both are contiguous in the same order of axes."""
        if source.nbytes:
            self._ask(self.api.cuMemcpyDtoHAsync(address_of(target), address_of(source), source.nbytes, stream))
        self.synchronize(stream)

    def copy(self, target: np.ndarray, source: np.ndarray, stream: int) -> None:
        """Copy within the device; both are contiguous in the same order of axes."""
        if source.nbytes:
            self._ask(self.api.cuMemcpyDtoDAsync(address_of(target), address_of(source), source.nbytes, stream))

    def clear(self, array: np.ndarray, stream: int) -> None:
        if array.nbytes:
            self._ask(self.api.cuMemsetD8Async(address_of(array), 0, array.nbytes, stream))

    # --- streams --------------------------------------------------------------------------------------

    def stream(self) -> int:
        """The stream of calls that name none."""
        return 0

    def synchronize(self, stream: int) -> None:
        """Wait for all work of a stream.  Raises DeviceError for what went wrong on the way."""
        self.activate()
        self._ask(self.api.cuStreamSynchronize(stream))

    def wait(self) -> None:
        """Wait for all work of all streams."""
        self.activate()
        self._ask(self.api.cuCtxSynchronize())

    def order(self, first: int, second: int) -> None:
        """What `second` is given from now on waits for what `first` has been given."""
        if first != second:
            self.activate()
            api = self.api
            event = self._ask(api.cuEventCreate(api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
            self._ask(api.cuEventRecord(event, first))
            self._ask(api.cuStreamWaitEvent(second, event, 0))
            self._ask(api.cuEventDestroy(event))

    # --- programs -------------------------------------------------------------------------------------

    def function(self, path: str) -> Any:
        """The library function for a dotted path of NumPy.  Raises UnsupportedOperationError."""
        return libraries.function(path)

    def load(self, programs: Sequence[Program], cache: DiskCache[Cubin], counts: Counts) -> list[Loaded]:
        """Programs ready to run, from the disk or compiled.  Raises CompileError."""
        keys = list(map(cache.key, programs))
        codes = [cache.read(p, key) for p, key in zip(programs, keys, strict=True)]
        missing = [p for p, code in zip(programs, codes, strict=True) if code is None]
        compiled = iter(compile_together(missing) if missing else ())
        self.activate()
        counts.compiled += len(missing)
        counts.read += len(programs) - len(missing)
        loaded = []
        for program, key, code in zip(programs, keys, codes, strict=True):
            if code is None:
                code = next(compiled)
                cache.write(program, key, code)
            loaded.append(self._load(program, code))
        return loaded

    def _load(self, program: Program, cubin: Cubin) -> Loaded:
        """Its arguments lie in one buffer, packed anew for each launch."""
        api = self.api
        module = self._ask(api.cuModuleLoadData(cubin.code))
        function = self._ask(api.cuModuleGetFunction(module, cubin.symbol.encode()))
        if program.shared != "0":
            most = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._ask(api.cuFuncSetAttribute(function, most, self.gpu.shared_block - cubin.shared))
        return Loaded(program, _launch(api, self.queue, function, program), function, cubin.stack)


@record(eq=False, weakref_slot=True)
class Loaded:
    """A program on a device.  `run` launches it; `function` is the driver's handle, None where there is no driver;
    `stack` as of its `Cubin`."""

    program: Program
    run: Launch
    function: Any = None
    stack: int = 0


def _launch(api: Any, queue: Queueing, function: Any, program: Program) -> Launch:
    buffer = ArgumentBuffer(api, program.params)
    pack, params = buffer.pack, buffer.address
    block, launch = program.block, partial(queue.kernel, queue.handle(function))
    lock = threading.Lock()  # the driver reads the buffer during the call, without Python's lock

    def run(stream: int, x: int, y: int, z: int, shared: int, *words: object) -> None:
        with lock:
            pack(*words)
            code = launch(x, y, z, block, 1, 1, shared, stream, params, 0)
        if code:
            checked(api, (api.CUresult(code),))

    run.buffer = buffer  # type: ignore[attr-defined]  # `params` is an address in it
    return run


class ArgumentBuffer:
    """The arguments of one program as the driver reads them: `address` of a table of addresses of the values."""

    def __init__(self, api: Any, params: tuple[Param, ...]) -> None:
        formats = [_slot(p) for p in params]
        self.struct = struct.Struct("=" + "".join(formats))
        self.memory = ctypes.create_string_buffer(max(self.struct.size, 1))
        first = ctypes.addressof(self.memory)
        starts = [struct.calcsize("=" + "".join(formats[:k])) for k in range(len(formats))]
        self.table = (ctypes.c_void_p * max(len(starts), 1))(*(first + s for s in starts))
        self.address = ctypes.addressof(self.table)
        plain = partial(self.struct.pack_into, self.memory, 0)
        self.pack: Callable[..., None] = plain
        if any(p.kind == "tensor_map" for p in params):
            encoder = Encoder(api, params)
            self.pack = lambda *words: plain(*encoder.words(words))


def _slot(param: Param) -> str:
    """How `struct` spells one argument: 8 or 16 bytes."""
    if param.kind == "size32":
        return "i4x"
    if param.kind == "tensor_map":
        return f"{ENCODED}s"
    if param.kind != "scalar":
        return "q"
    assert param.dtype is not None
    storage = dtypes.storage(param.dtype)
    if storage.kind == "c":
        return "ff" if storage.itemsize == 8 else "dd"
    letter = {"f4": "f", "f8": "d"}.get(storage.str[1:]) or "bhiq"[storage.itemsize.bit_length() - 1]
    if storage.kind == "u":
        letter = letter.upper()
    return letter + ("" if storage.itemsize == 8 else f"{8 - storage.itemsize}x")


def gpu_of(api: Any, handle: Any) -> Gpu:
    """The row of a device, from the driver."""

    def ask(name: str) -> int:
        return int(checked(api, api.cuDeviceGetAttribute(getattr(api.CUdevice_attribute, _PREFIX + name), handle)))

    name = checked(api, api.cuDeviceGetName(128, handle))
    capability = ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")
    return Gpu(
        name=name.split(b"\0")[0].decode(),
        capability=capability,
        target=target_of(capability),
        sms=ask("MULTIPROCESSOR_COUNT"),
        shared_block=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_sm=ask("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        registers_sm=ask("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        threads_sm=ask("MAX_THREADS_PER_MULTIPROCESSOR"),
        l2=ask("L2_CACHE_SIZE"),
        # two transfers a cycle
        bandwidth=2 * 1000 * ask("MEMORY_CLOCK_RATE") * ask("GLOBAL_MEMORY_BUS_WIDTH") // 8,
        clock=1000 * ask("CLOCK_RATE"),
        rates=rates_of(capability),
    )


def describe_gpus(api: Any) -> Iterator[str]:
    """A line for each device: name, target, multiprocessors, memory, cache."""
    for number in range(checked(api, api.cuDeviceGetCount())):
        handle = checked(api, api.cuDeviceGet(number))
        gpu, total = gpu_of(api, handle), checked(api, api.cuDeviceTotalMem(handle))
        yield f"{gpu.name}, {gpu.target}, {gpu.sms} SMs, {int(total) / 2**30:.0f} GiB, {gpu.l2 >> 20} MiB of cache"


_PREFIX = "CU_DEVICE_ATTRIBUTE_"


def target_of(capability: tuple[int, int]) -> str:
    """``sm_90a``: with the instructions that only this generation has, where there are any."""
    major, minor = capability
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@cache
def device(number: int = 0) -> Device:
    """A GPU of this machine.  Raises DeviceError."""
    made = Device(start(), number, queueing_directly())
    made.open_early()
    return made
