"""What the calls on one GPU share: memory pools, loaded programs, the disk cache of their code.

A `DeviceHost` is made from `Knobs` and a device, real or simulated.  `serving` binds it to the kinds of arrays that one
compiled function is called with; the result is the machine that `launch.launcher` asks for.  Work goes to the caller's
current stream.  Each stream has a pool: memory that is released there may be handed out again at once, since whatever
uses it next comes later in the same stream.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import DeviceMemoryError
from numstax.ir.values import map_tree
from numstax.knobs import Knobs
from numstax.program import Plan, Program, runs
from numstax.records import record
from numstax.requirements import CannotRunError
from numstax.runtime import libraries
from numstax.runtime.arrays import span, to_host
from numstax.runtime.cache import DiskCache
from numstax.runtime.cubin import Cubin
from numstax.runtime.device import AnyDevice, Launch, Loaded
from numstax.runtime.exchange import Exchange
from numstax.runtime.host import Counts
from numstax.runtime.interop import seen
from numstax.runtime.memory import Pool, memory_at
from numstax.runtime.wrapper_device import DeviceStyle, extent

COUNTERS = 1 << 16
Stream = int


class Pools(dict[Stream, Callable[..., np.ndarray]]):
    """For each stream what makes arrays of its pool."""

    def __init__(self, make: Callable[[], Pool]) -> None:
        super().__init__()
        self._make = make
        self.all: list[Pool] = []

    def __missing__(self, stream: Stream) -> Callable[..., np.ndarray]:
        pool = self._make()
        self.all.append(pool)
        return self.setdefault(stream, pool.empty)


class DeviceHost:
    def __init__(self, knobs: Knobs, device: AnyDevice) -> None:
        self.device = device
        self.cache: DiskCache[Cubin] = DiskCache(knobs.cache_dir if knobs.cache else None, knobs.code_key(), Cubin)
        self.counts = Counts()
        self.repeats: bool | None = None
        """Does the driver repeat parts of graphs?  None: it was not asked."""
        self._loaded: weakref.WeakValueDictionary[str, Loaded] = weakref.WeakValueDictionary()
        # all of the memory: what is kept is given back when it is short
        self.pools = Pools(lambda: Pool(device.memory_info()[1], self._root, 0, True))
        self._counters: dict[Stream, np.ndarray] = {}
        self._lock = threading.RLock()

    def serving(self, exchange: Exchange, plan: Plan) -> Serving:
        return Serving(self, exchange, DeviceStyle(plan, exchange, self.device.function, self.device.number))

    # --- programs -------------------------------------------------------------------------------------

    def launches(self, plan: Plan) -> dict[str, Launch]:
        """What launches the programs of a plan, by name.  Those that one is chosen of by the sizes of a call are loaded
        when they are launched first, and raise CompileError then."""
        called = list(runs(plan.steps))
        always = {run[0].program for run in called if len(run) == 1}
        loaded = self.programs([p for p in plan.programs if p.name in always])
        rest = {p.name: self._later(p) for p in plan.programs if p.name not in always}
        return rest | {name: program.run for name, program in loaded.items()}

    def _later(self, program: Program) -> Launch:
        loaded: Loaded | None = None

        def launch(*words: Any) -> None:
            nonlocal loaded
            if loaded is None:
                (loaded,) = self.loaded([program])
            loaded.run(*words)

        return launch

    def programs(self, programs: Sequence[Program]) -> dict[str, Loaded]:
        """Loaded programs by name.  Raises CompileError."""
        return {p.name: loaded for p, loaded in zip(programs, self.loaded(programs), strict=True)}

    def loaded(self, programs: Sequence[Program]) -> list[Loaded]:
        """Loaded programs.  Those that neither this process nor the disk has are compiled, several at once.
        Raises CompileError."""
        with self._lock:
            keys = [self.cache.key(p) for p in programs]
            found = {key: loaded for key in keys if (loaded := self._loaded.get(key)) is not None}
            self.counts.loaded += len(found)
            missing = {key: p for key, p in zip(keys, programs, strict=True) if key not in found}
            made = self.device.load(list(missing.values()), self.cache, self.counts)
            for key, loaded in zip(missing, made, strict=True):
                found[key] = self._loaded[key] = loaded
            return [found[key] for key in keys]

    # --- memory ---------------------------------------------------------------------------------------

    def _root(self, nbytes: int) -> np.ndarray:
        try:
            return self.device.root(nbytes)
        except DeviceMemoryError:
            for pool in self.pools.all:
                pool.trim()
        try:
            return self.device.root(nbytes)
        except DeviceMemoryError as error:
            raise DeviceMemoryError(self._shortage(nbytes), remedy="release arrays, or work on parts") from error

    def _shortage(self, nbytes: int) -> str:
        free, total = self.device.memory_info()
        live = sorted((n for pool in self.pools.all for n in pool.live()), reverse=True)
        largest = ", ".join(f"{n / 1e9:.2f}" for n in live[:5])
        return (
            f"{self.device.gpu.name} has no room for {nbytes / 1e9:.2f} GB: {free / 1e9:.2f} of {total / 1e9:.2f} GB "
            f"are free; numstax holds {len(live)} arrays in use, {sum(live) / 1e9:.2f} GB"
            + (f" (the largest: {largest} GB)" if live else "")
        )

    def counting(self, stream: Stream, count: int) -> int:
        """The address of so many uint32 that are zero."""
        counters = self._counters.get(stream)
        if counters is None or counters.size < count:
            fresh = self.pools[stream]((max(count, COUNTERS),), np.dtype(np.uint32))
            counters = self._counters[stream] = self.cleared(fresh, stream)
        return self.device.address(counters)

    def cleared(self, array: np.ndarray, stream: Stream) -> np.ndarray:
        self.device.clear(array, stream)
        return array

    def upload(
        self, array: np.ndarray, stream: Stream, pooled: Callable[..., np.ndarray], order: tuple[int, ...] = ()
    ) -> np.ndarray:
        """A dense copy of an array of NumPy, with the axes in `order` in memory."""
        outer_first = array.transpose(order) if order else array
        source = np.asarray(outer_first, array.dtype.newbyteorder("="), order="C")
        target = pooled(source.shape, source.dtype)
        self.device.write(target, source, stream)
        return target.transpose(np.argsort(order)) if order else target

    def download(self, source: np.ndarray, target: np.ndarray, stream: Stream) -> None:
        """Copy what `upload` made back to where it came from."""
        if target.flags.c_contiguous and source.flags.c_contiguous and target.dtype == source.dtype:
            self.device.read(target, source, stream)
        else:
            np.copyto(target, to_host(self.device, source, stream))

    def copyto(self, target: np.ndarray, source: np.ndarray, stream: Stream) -> None:
        """Copy within the device, between arrays of the same layout without gaps."""
        assert target.strides == source.strides
        assert target.nbytes == span(target)[0].nbytes
        self.device.copy(span(target)[0], span(source)[0], stream)

    def fetched(self, array: np.ndarray, stream: Stream) -> np.ndarray:
        """The values of a small array; waits for them."""
        return to_host(self.device, array, stream)

    def library_call(self, stream: Stream, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function of CuPy on memory of the device, any other on copies on the host."""
        if isinstance(function, libraries.OnDevice):
            return libraries.call(self.device.number, stream, function, args, kwargs)

        def given(leaf: Any) -> Any:
            return to_host(self.device, leaf, stream) if isinstance(leaf, np.ndarray) else leaf

        def taken(leaf: Any) -> Any:
            if not isinstance(leaf, np.ndarray | np.generic):
                return leaf
            return self.upload(np.asarray(leaf), stream, self.pools[stream])

        words = {key: map_tree(value, given) for key, value in kwargs.items() if key != "out"}
        result = map_tree(function(*map_tree(args, given), **words), taken)
        if "out" in kwargs:
            self.device.copy(kwargs["out"], result, stream)
        return result

    def check_shape(self, array: object, dtype: np.dtype, shape: tuple[int, ...], others: tuple = ()) -> np.ndarray:
        """A result of a library call.  Raises CannotRunError when it is not what was traced."""
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            raise CannotRunError(f"a library call gave {array!r:.40} where {dtype}{shape} was expected")
        return array

    def aligned(
        self, address: int, low: int, nbytes: int, stream: Stream, pooled: Callable[..., np.ndarray]
    ) -> tuple[int, tuple[np.ndarray, np.ndarray] | None]:
        """An address that programs take for an array, and, where that is a copy, copy and original."""
        if address % self.device.align == 0:
            return address, None
        original = memory_at(address + low, (nbytes,), dtypes.UINT8)
        room = pooled((nbytes + self.device.align,), dtypes.UINT8)
        copy = room[low % self.device.align :][:nbytes] if low else room[:nbytes]
        self.device.copy(copy, original, stream)
        return self.device.address(copy) - low, (copy, original)

    def restore(self, moved: tuple[np.ndarray, np.ndarray], stream: Stream) -> None:
        """Copy back what a program wrote to an aligned copy."""
        copy, original = moved
        self.device.copy(original, copy, stream)


@record
class Serving:
    """The machine for one compiled function."""

    host: DeviceHost
    exchange: Exchange
    style: DeviceStyle

    def namespace(self, plan: Plan) -> dict[str, object]:
        host, results = self.host, self.exchange.results
        families = [f for name, f in self.exchange.arguments if name not in self.exchange.constants]
        device = host.device

        def give(layout: np.ndarray, stream: Stream) -> Any:
            return to_host(device, layout, stream) if results is None else results.give(layout, device, stream)

        names: dict[str, object] = {
            "activate": device.activate,
            "active": device.active,
            "thread": get_ident,
            "pools": host.pools,
            "give": give,
            "seen": seen,
            "extent": extent,
            "address": device.address,
            "order": device.order,
            "synchronize": device.synchronize,
            **{n: getattr(host, n) for n in _HELPERS},
            **host.launches(plan),
        }
        if results is not None and results.empty is not None:
            names["fresh"] = results.empty(device)
        for family in families:
            if family is not None:
                names |= family.names()
        return names


_HELPERS = (
    "aligned",
    "check_shape",
    "cleared",
    "copyto",
    "counting",
    "download",
    "fetched",
    "library_call",
    "restore",
    "upload",
)
