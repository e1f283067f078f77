"""Tensor maps: descriptions of matrices in memory for the copy engine of a GPU, made when their address is known.

An `Encoder` has the parameters of one program; the words of a launch enter, and leave with the 128 bytes of a map in
place of the address of an array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from numstax.program import Param
from numstax.runtime.driver import checked

ENCODED = 128
"""Bytes of a map."""
KEPT = 64
"""Maps of one parameter that are kept."""
_ROUNDED = {"tf32": "TFLOAT32"}
_WHOLE = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}
"""By bytes of an element: copies do not change elements, but for those that are rounded."""

_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


class Encoder:
    def __init__(self, api: Any, params: Sequence[Param]) -> None:
        self.api = api
        self._sizes = [(k, p.name) for k, p in enumerate(params) if p.kind in ("size", "size32")]
        self._maps = [(k, p, dict[tuple[int, ...], bytes]()) for k, p in enumerate(params) if p.map is not None]

    def words(self, words: Sequence[Any]) -> list[Any]:
        """The words with maps in place of addresses."""
        out, sizes = list(words), {name: words[k] for k, name in self._sizes}
        for k, param, known in self._maps:
            key = (words[k], *sizes.values())
            if key not in known:
                if len(known) == KEPT:
                    known.clear()
                known[key] = self._encoded(param, words[k], sizes)
            out[k] = known[key]
        return out

    def _encoded(self, param: Param, address: int, sizes: dict[str, int]) -> bytes:
        described, dtype = param.map, param.dtype
        assert described is not None
        assert dtype is not None

        def value(expression: str) -> int:
            return int(eval(expression, {"__builtins__": {}}, sizes))

        api, itemsize = self.api, dtype.itemsize
        kind = _ROUNDED.get(described.format) or _WHOLE[itemsize]
        made = checked(
            api,
            api.cuTensorMapEncodeTiled(
                getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
                len(described.box),
                address + value(described.offset) * itemsize,
                [api.cuuint64_t(value(n)) for n in described.sizes],
                [api.cuuint64_t(value(n) * itemsize) for n in described.strides],
                [api.cuuint32_t(n) for n in described.box],
                [api.cuuint32_t(1)] * len(described.box),
                api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[described.swizzle]}"),
                api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            ),
        )
        return ctypes.string_at(made.getPtr(), ENCODED)
