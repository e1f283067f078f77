"""Arrays of other libraries: what memory they show, how a guard recognises them, and how results become theirs.

`family_of(value)` gives the `Family` of an array on a GPU, None for everything else; those of
NumPy are on the host.  No library is imported here: an array of one can only come from a caller who has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import UnsupportedArgumentError, UnsupportedDtypeError
from numstax.later import Later
from numstax.records import record
from numstax.runtime import dlpack
from numstax.runtime.arrays import DeviceArray
from numstax.runtime.libraries import cupy_view
from numstax.runtime.memory import memory_at

if TYPE_CHECKING:
    from numstax.runtime import device as devices
    from numstax.runtime.device import AnyDevice
else:
    devices = Later("numstax.runtime.device")

Test = tuple[str, str, object]
"""Expression with ``{}`` for the array, ``is`` or ``==``, the value that it has."""


@record
class Family:
    """Arrays of one library.

    seen : an array -> the memory it shows, on its device; it is kept alive by the array alone.
    device : an array -> the number of its device.
    kind, layout : an array -> what tells it from arrays that need other code, and from those of other shapes.
    address : an expression for the address of an array ``{}``; '' where only `seen` tells.
    give : memory, its device, the stream it is made on -> an array of the library.
    empty : device -> (shape, dtype -> a new array of the library); None where `give` of our own memory is as good.
    stream : an expression for the caller's current stream, with an array ``{}``, ``{number}``, that of its device, and
        what `names` gives.
    """

    name: str
    seen: Callable[[Any], np.ndarray]
    device: Callable[[Any], int]
    kind: Callable[[Any], tuple[Test, ...]]
    layout: Callable[[Any], tuple[Test, ...]]
    give: Callable[[np.ndarray, AnyDevice, int], Any]
    stream: str
    names: Callable[[], dict[str, object]] = dict
    address: str = ""
    empty: Callable[[AnyDevice], Callable[[tuple[int, ...], np.dtype], Any]] | None = None
    writeable: bool = True


def family_of(value: Any) -> Family | None:
    """Raises UnsupportedArgumentError for an array on a GPU that is none of the kinds known."""
    kind = type(value)
    if kind is DeviceArray:
        return OWN
    find = _BY_LIBRARY.get(kind.__module__.partition(".")[0])
    if find is not None:
        return find(value)
    if isinstance(value, np.ndarray | np.generic) or kind.__module__ == "builtins":
        return None
    if hasattr(kind, "__dlpack_device__"):
        if value.__dlpack_device__()[0] != dlpack.CUDA:
            return None
        namespace = getattr(value, "__array_namespace__", None)
        return _foreign(None if namespace is None else namespace())
    return INTERFACE if hasattr(kind, "__cuda_array_interface__") else None


def seen(array: Any) -> np.ndarray:
    """The memory that an array on a GPU shows."""
    family = family_of(array)
    assert family is not None
    return family.seen(array)


# --- our own ----------------------------------------------------------------------------------------


OWN = Family(
    "numstax",
    seen=lambda array: array.layout,
    device=lambda array: array.device.number,
    kind=lambda array: (("{}.layout.dtype", "is", array.dtype), ("{}.device", "is", array.device)),
    layout=lambda array: (("{}.layout.shape", "==", array.shape), ("{}.layout.strides", "==", array.strides)),
    give=DeviceArray,
    stream="{}.stream",
    address="address({}.layout)",
)


# --- torch ------------------------------------------------------------------------------------------


@cache
def _torch_dtypes() -> dict[Any, np.dtype]:
    torch = sys.modules["torch"]
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
    found = {getattr(torch, n): np.dtype(n) for n in (*names, "complex64", "complex128")}
    found |= {getattr(torch, n): np.dtype(n) for n in ("uint16", "uint32", "uint64") if hasattr(torch, n)}
    lows = {"bfloat16": dtypes.BFLOAT16, "float8_e4m3fn": dtypes.FLOAT8_E4M3, "float8_e5m2": dtypes.FLOAT8_E5M2}
    return found | {getattr(torch, n): d for n, d in lows.items() if hasattr(torch, n)}


@cache
def _to_torch() -> dict[np.dtype, Any]:
    return {ours: theirs for theirs, ours in _torch_dtypes().items()}


def _torch_seen(tensor: Any) -> np.ndarray:
    dtype = _torch_dtypes().get(tensor.dtype)
    if dtype is None:
        raise UnsupportedDtypeError(f"tensors of {tensor.dtype} cannot be compiled")
    return memory_at(tensor.data_ptr(), tuple(tensor.shape), dtype, tuple(dtype.itemsize * s for s in tensor.stride()))


def _torch_kind(tensor: Any) -> tuple[Test, ...]:
    return (
        ("{}.dtype", "is", tensor.dtype),
        ("{}.get_device()", "==", tensor.get_device()),
        ("{}.requires_grad", "is", False),
    )


def _torch_give(layout: np.ndarray, device: AnyDevice, stream: int) -> Any:
    return sys.modules["torch"].from_dlpack(DeviceArray(layout, device, stream))


def _torch_empty(device: AnyDevice) -> Callable[[tuple[int, ...], np.dtype], Any]:
    torch, kinds = sys.modules["torch"], _to_torch()
    # what torch's own compiled code calls; it takes the current device
    strided = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None) if torch.cuda.device_count() == 1 else None
    if strided is not None:
        return lambda shape, dtype: strided(shape, _contiguous(shape), kinds[dtype])
    there = torch.device("cuda", device.number)
    return lambda shape, dtype: torch.empty(shape, dtype=kinds[dtype], device=there)


@lru_cache(maxsize=1 << 12)
def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements, as torch gives them."""
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * max(n, 1))
    return tuple(reversed(strides)) if shape else ()


def _torch_names() -> dict[str, object]:
    torch = sys.modules["torch"]
    # what torch's own compiled code asks; the public function takes ten times as long
    found = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return {"torch_stream": found or (lambda number: torch.cuda.current_stream(number).cuda_stream)}


TORCH = Family(
    "torch",
    seen=_torch_seen,
    device=lambda tensor: tensor.get_device(),
    kind=_torch_kind,
    layout=lambda tensor: (("{}.shape", "==", tuple(tensor.shape)), ("{}.stride()", "==", tensor.stride())),
    give=_torch_give,
    stream="torch_stream({number})",
    names=_torch_names,
    address="{}.data_ptr()",
    empty=_torch_empty,
)


def _torch_family(value: Any) -> Family | None:
    if not isinstance(value, sys.modules["torch"].Tensor) or not value.is_cuda:
        return None
    if value.requires_grad:
        raise UnsupportedArgumentError("a tensor that requires grad cannot be compiled", remedy="pass x.detach()")
    return TORCH


# --- CuPy -------------------------------------------------------------------------------------------


def _cupy_kind(array: Any) -> tuple[Test, ...]:
    return ("{}.dtype", "==", array.dtype), ("{}.data.device_id", "==", array.data.device_id)


def _cupy_empty(device: AnyDevice) -> Callable[[tuple[int, ...], np.dtype], Any]:
    cupy = sys.modules["cupy"]
    if cupy.cuda.runtime.getDeviceCount() == 1:
        return cupy.empty  # type: ignore[no-any-return]

    def empty(shape: tuple[int, ...], dtype: np.dtype) -> Any:
        with cupy.cuda.Device(device.number):
            return cupy.empty(shape, dtype)

    return empty


CUPY = Family(
    "cupy",
    seen=lambda array: memory_at(array.data.ptr, array.shape, array.dtype, array.strides),
    device=lambda array: array.data.device_id,
    kind=_cupy_kind,
    layout=lambda array: (("{}.shape", "==", array.shape), ("{}.strides", "==", array.strides)),
    give=lambda layout, on, _: cupy_view(layout, on.number),
    stream="cupy_stream({number}).ptr",
    names=lambda: {"cupy_stream": sys.modules["cupy"].cuda.get_current_stream},
    address="{}.data.ptr",
    empty=_cupy_empty,
)


def _cupy_family(value: Any) -> Family | None:
    return CUPY if isinstance(value, sys.modules["cupy"].ndarray) else None


_BY_LIBRARY: dict[str, Callable[[Any], Family | None]] = {"torch": _torch_family, "cupy": _cupy_family}


# --- whoever speaks a protocol ----------------------------------------------------------------------


def _seen_kind(array: Any) -> tuple[Test, ...]:
    return (("seen({}).dtype", "==", seen(array).dtype),)


def _seen_layout(array: Any) -> tuple[Test, ...]:
    layout = seen(array)
    return ("seen({}).shape", "==", layout.shape), ("seen({}).strides", "==", layout.strides)


def _interface_seen(array: Any) -> np.ndarray:
    shown = array.__cuda_array_interface__
    if shown.get("stream", 1) not in (None, 1):
        devices.device(0).order(shown["stream"], 0)
    dtype, shape = np.dtype(shown["typestr"]), tuple(shown["shape"])
    return memory_at(shown["data"][0], shape, dtype, shown.get("strides"))


INTERFACE = Family(
    "__cuda_array_interface__",
    seen=_interface_seen,
    device=lambda array: 0,
    kind=_seen_kind,
    layout=_seen_layout,
    give=DeviceArray,
    stream="0",
)


@cache
def _foreign(namespace: Any) -> Family:
    """A library whose arrays speak DLPack, such as JAX.  They may share memory, so they are not written to."""
    take = getattr(namespace, "from_dlpack", None)

    def give(layout: np.ndarray, device: AnyDevice, stream: int) -> Any:
        array = DeviceArray(layout, device, stream)
        return array if take is None else take(array)

    return Family(
        "DLPack",
        seen=lambda array: dlpack.imported(array.__dlpack__(stream=1)),
        device=lambda array: array.__dlpack_device__()[1],
        kind=_seen_kind,
        layout=_seen_layout,
        give=give,
        stream="0",
        writeable=False,
    )
