"""Running intrinsics: compiled into a loop over arrays."""

from collections.abc import Callable

import numpy as np
import pytest

from numstax import dtypes
from numstax.program import Intrinsic, Param, Program
from numstax.runtime.compile_cpu import compile_program
from numstax.runtime.load import RETURN_SLOTS, load


@pytest.fixture(scope="session")
def compiled() -> Callable[..., np.ndarray]:
    """compiled(intrinsic, *arrays): its values, computed by machine code."""

    def run(intrinsic: Intrinsic, *arrays: np.ndarray) -> np.ndarray:
        names = [f"x{k}" for k in range(len(arrays))]
        call = f"{intrinsic.name}({', '.join(f'{n}[i]' for n in names)})"
        text = f"def k({', '.join(names)}, out, n):\n    for i in range(n):\n        out[i] = {call}\n"
        pointers = (*zip(names, intrinsic.params, strict=True), ("out", intrinsic.result))
        params = (*(Param(n, "pointer", dtypes.by_name(d)) for n, d in pointers), Param("n", "size"))
        program = Program(f"each_{intrinsic.name}", "cpu", text, "k", params, intrinsics=(intrinsic,))
        arrays = tuple(map(np.ascontiguousarray, arrays))
        out = np.empty(arrays[0].shape, dtypes.storage(dtypes.by_name(intrinsic.result)))
        assert [a.dtype for a in arrays] == [dtypes.storage(dtypes.by_name(d)) for d in intrinsic.params]
        load(compile_program(program), params)(*RETURN_SLOTS, *(a.ctypes.data for a in (*arrays, out)), out.size)
        return out

    return run
