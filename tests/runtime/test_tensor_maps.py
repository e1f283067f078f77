"""Tensor maps: what the driver is asked for, and when."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from numstax.program import Param, TensorMap
from numstax.runtime.device import ArgumentBuffer
from numstax.runtime.tensor_maps import ENCODED

PARAMS = (
    Param("n0", "size"),
    Param(
        "map0", "tensor_map", np.dtype(np.uint16), TensorMap("bf16", ("n0*2", "32"), ("n0 + 8",), (64, 32), 128, "4")
    ),
    Param("map1", "tensor_map", np.dtype(np.float32), TensorMap("tf32", ("64", "32"), ("64",), (32, 32))),
)


class Driver:
    """Notes what it is asked to encode."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0)
    cuuint64_t = cuuint32_t = int

    def __init__(self) -> None:
        self.asked: list[tuple] = []

    def __getattr__(self, name: str) -> Any:
        return self._encode if name == "cuTensorMapEncodeTiled" else _Names()

    def _encode(self, *arguments: object) -> tuple[int, object]:
        self.asked.append(arguments)
        block = ctypes.create_string_buffer(bytes([len(self.asked)]) * ENCODED, ENCODED)
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(block), block=block)


class _Names:
    def __getattr__(self, name: str) -> str:
        return name.removeprefix("CU_TENSOR_MAP_")


def test_words_of_maps_are_addresses_and_each_map_is_encoded_once() -> None:
    driver = Driver()
    buffer = ArgumentBuffer(driver, PARAMS)
    for address in (1024, 1024, 4096):
        buffer.pack(100, address, 512)
    assert [asked[2] for asked in driver.asked] == [1024 + 8, 512, 4096 + 8]
    kind, rank, _, sizes, strides, box, *_, swizzle, _, _ = driver.asked[0]
    assert (kind, rank, sizes, strides, box) == ("DATA_TYPE_UINT16", 2, [200, 32], [216], [64, 32])
    assert swizzle == "SWIZZLE_128B"
    assert driver.asked[1][0] == "DATA_TYPE_TFLOAT32"
    packed = bytes(buffer.memory)[: 8 + 2 * ENCODED]
    assert packed == (100).to_bytes(8, "little") + bytes([3]) * ENCODED + bytes([2]) * ENCODED
