"""numstax compiles NumPy functions to fused loops and GPU kernels.  Start with `jit`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from numstax.check import check
from numstax.errors import NumstaxError, NumstaxWarning
from numstax.jit import Jitted, get_num_threads, jit, make_graph, set_num_threads
from numstax.precision import matmul_precision, matmul_template

if TYPE_CHECKING:
    from numstax.convolution import conv2d
    from numstax.explanation import Explanation, explain
    from numstax.exported import Exported, load
    from numstax.exporting import export
    from numstax.forms import cond, fori_loop, scan, vmap, while_loop
    from numstax.grouped import grouped_matmul
    from numstax.runtime.arrays import DeviceArray, to_device
    from numstax.trace.declared import Dim

_LATER = {
    "DeviceArray": "numstax.runtime.arrays",
    "Dim": "numstax.trace.declared",
    "Explanation": "numstax.explanation",
    "Exported": "numstax.exported",
    "cond": "numstax.forms",
    "conv2d": "numstax.convolution",
    "explain": "numstax.explanation",
    "export": "numstax.exporting",
    "fori_loop": "numstax.forms",
    "grouped_matmul": "numstax.grouped",
    "load": "numstax.exported",
    "scan": "numstax.forms",
    "to_device": "numstax.runtime.arrays",
    "vmap": "numstax.forms",
    "while_loop": "numstax.forms",
}
"""Names that most programs do not use: their modules are imported at first use, so that `import numstax` is quick."""

__all__ = [
    "DeviceArray",
    "Dim",
    "Explanation",
    "Exported",
    "Jitted",
    "NumstaxError",
    "NumstaxWarning",
    "check",
    "cond",
    "conv2d",
    "explain",
    "export",
    "fori_loop",
    "get_num_threads",
    "grouped_matmul",
    "jit",
    "load",
    "make_graph",
    "matmul_precision",
    "matmul_template",
    "scan",
    "set_num_threads",
    "to_device",
    "vmap",
    "while_loop",
]


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'numstax' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
