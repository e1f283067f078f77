"""The CUDA driver: found, started, and asked so that every failure is an error with a name.

Leaves: `start()`, the module `cuda.bindings.driver` with a driver behind it.  Whoever calls one of its functions
passes what it returns, ``(code, values..)``, through `checked`.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from numstax.errors import DeviceError, DeviceMemoryError
from numstax.records import record

INSTALL = "pip install '.[cuda]' in a checkout of numstax, on a machine with an NVIDIA GPU and its driver"


@cache
def start() -> Any:
    """The driver's functions, initialised.  Raises DeviceError where there is no driver or no device."""
    try:
        api = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DeviceError(f"the package cuda-python cannot be imported ({error})", remedy=INSTALL) from error
    try:
        (code,) = api.cuInit(0)
    except Exception as error:  # the bindings raise errors of their own where the driver's library is missing
        raise DeviceError("this machine has no NVIDIA driver", remedy=INSTALL) from error
    if code == api.CUresult.CUDA_ERROR_NO_DEVICE:
        raise DeviceError("the NVIDIA driver finds no GPU", remedy="see CUDA_VISIBLE_DEVICES and nvidia-smi")
    checked(api, (code,))
    return api


@record(eq=False)
class Queueing:
    """What calls of programs end in.

    handle : a kernel or executable graph, as the bindings name it -> what these functions take.
    kernel, graph : ``cuLaunchKernel`` and ``cuGraphLaunch``; they return the code alone.
    """

    handle: Callable[[Any], Any]
    kernel: Callable[..., int]
    graph: Callable[..., int]


def queueing(api: Any) -> Queueing:
    """Through the bindings."""
    return Queueing(lambda found: found, lambda *a: api.cuLaunchKernel(*a)[0], lambda *a: api.cuGraphLaunch(*a)[0])


def queueing_directly() -> Queueing | None:
    """Through the driver's library, where it has its usual name: the bindings make an object of every argument."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None
    number, pointer = ctypes.c_uint, ctypes.c_void_p
    kernel, graph = library.cuLaunchKernel, library.cuGraphLaunch
    kernel.argtypes = (pointer, *[number] * 7, pointer, pointer, pointer)
    graph.argtypes = (pointer, pointer)
    return Queueing(int, kernel, graph)


def checked(api: Any, returned: tuple) -> Any:
    """What a function of the driver gave: nothing, one value or a tuple.

    Raises
    ------
    DeviceMemoryError : the device has no memory left.
    DeviceError : any other failure.  Kernels run later than they are launched: a failure can be that of an earlier one.
    """
    code, *values = returned
    if code != api.CUresult.CUDA_SUCCESS:
        kind = DeviceMemoryError if code == api.CUresult.CUDA_ERROR_OUT_OF_MEMORY else DeviceError
        raise kind(f"the CUDA driver reports {_described(api, code)}")
    return values[0] if len(values) == 1 else tuple(values) or None


def _described(api: Any, code: Any) -> str:
    _, text = api.cuGetErrorString(code)
    name = getattr(code, "name", str(code))
    return f"{name} ({text.decode()})" if text else name
