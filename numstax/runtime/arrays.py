"""`DeviceArray`: results on a GPU for callers who use no library of their own for such arrays.

It shows its memory to CuPy, torch, JAX and others through ``__dlpack__`` and ``__cuda_array_interface__``, and copies
it to the host for NumPy.  It has no arithmetic: functions under `jit` do that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.later import Later
from numstax.runtime import dlpack
from numstax.runtime.memory import address_of, memory_at

if TYPE_CHECKING:
    from numstax.runtime import device as devices
    from numstax.runtime.device import AnyDevice
else:
    devices = Later("numstax.runtime.device")


class DeviceArray:
    """An array on a GPU.  `layout` describes its memory, `stream` is where it is made, and where functions under `jit`
    work on it."""

    __slots__ = ("__weakref__", "device", "layout", "stream")

    def __init__(self, layout: np.ndarray, device: AnyDevice, stream: int) -> None:
        self.layout, self.device, self.stream = layout, device, stream

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype:
        return self.layout.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.layout.strides

    @property
    def ndim(self) -> int:
        return self.layout.ndim

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    def on(self, stream: Any) -> DeviceArray:
        """The same memory, for work in another stream: a handle, or an object that has ``__cuda_stream__``.  What that
        stream is given from now on comes after what this array's has been given."""
        handle = stream_handle(stream)
        self.device.order(self.stream, handle)
        return DeviceArray(self.layout, self.device, handle)

    def numpy(self) -> np.ndarray:
        """A copy on the host."""
        return to_host(self.device, self.layout, self.stream)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on a GPU has to be copied to the host")
        return self.numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def __len__(self) -> int:
        return len(self.layout)

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __repr__(self) -> str:
        return f"<DeviceArray of {dtypes.name(self.dtype)}{list(self.shape)} on cuda:{self.device.number}>"

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device.number

    def __dlpack__(self, *, stream: int | None = None, **asked: Any) -> Any:
        """`stream`: the consumer's; -1: it takes care by itself.  `asked`: what newer versions ask for; copies on
        other devices are refused."""
        where = asked.get("dl_device")
        if where not in (None, self.__dlpack_device__()) or asked.get("copy"):
            raise BufferError("a DeviceArray is shared as it is, on its own device")
        if stream != -1:
            self.device.order(self.stream, 0 if stream in (None, 1) else int(stream))
        return dlpack.export(self.layout, address_of(self.layout), self.device.number)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Raises AttributeError for dtypes that it has no name for: bfloat16 and float8."""
        if self.dtype in dtypes.ML_FLOATS:
            raise AttributeError(f"__cuda_array_interface__ cannot describe {self.dtype}; DLPack can")
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (address_of(self.layout) if self.size else 0, False),
            "version": 3,
            "stream": self.stream or 1,
        }


def to_host(device: AnyDevice, layout: np.ndarray, stream: int) -> np.ndarray:
    """A copy on the host of memory of a device; the order of axes stays."""
    order = sorted(range(layout.ndim), key=lambda k: -abs(layout.strides[k]))
    outer_first = layout.transpose(order)
    if not outer_first.flags.c_contiguous:
        whole, start = span(layout)
        copy = np.empty(whole.shape, np.uint8)
        device.read(copy, whole, stream)
        return np.ndarray(layout.shape, layout.dtype, copy, start, layout.strides).copy()
    host = np.empty(outer_first.shape, layout.dtype)
    device.read(host, outer_first, stream)
    return host.transpose(np.argsort(order)) if layout.ndim > 1 else host


def contents(layout: np.ndarray, number: int) -> np.ndarray:
    """A copy on the host of memory of a device, after all work of all streams."""
    there = devices.device(number)
    there.wait()
    return to_host(there, layout, there.stream())


def span(array: np.ndarray) -> tuple[np.ndarray, int]:
    """All bytes from the lowest to the highest that the array touches, and where its first element is among them."""
    start = address_of(array)
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (start, start)
    return memory_at(low, (high - low,), dtypes.UINT8), start - low


def stream_handle(stream: Any) -> int:
    """The handle of a stream: of ``__cuda_stream__``, of CuPy's, of torch's, or the number itself."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return int(getattr(stream, "ptr", getattr(stream, "cuda_stream", stream)))


def to_device(array: Any, number: int = 0, stream: Any = None) -> DeviceArray:
    """A copy of an array on a GPU.  Functions under `jit` work on it in `stream`: a handle, or an object that has
    ``__cuda_stream__``; None: the default stream.

    Raises
    ------
    DeviceError : there is none that can be used.
    DeviceMemoryError : it is full.
    """
    gpu = devices.device(number)
    source = np.asarray(array, order="C")
    layout = np.ndarray(source.shape, source.dtype, gpu.root(max(source.nbytes, 1)))
    handle = gpu.stream() if stream is None else stream_handle(stream)
    gpu.write(layout, source, handle)
    return DeviceArray(layout, gpu, handle)
