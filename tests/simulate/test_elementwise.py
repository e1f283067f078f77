"""Every operation, for every dtype it takes, printed for a GPU: NumPy's values on special values."""

from __future__ import annotations

import numpy as np
import pytest

from numstax import dtypes
from numstax.emit.spelling import template
from numstax.ir.ops import ELEMENTWISE
from numstax.tiles.cuda import tile
from tests.emit.test_spelling import calls, close, compiled, tolerance
from tests.simulate.running import H200, simulate


@pytest.mark.parametrize("dtype", dtypes.SUPPORTED, ids=dtypes.name)
def test_operations(dtype: np.dtype) -> None:
    group = [c for c in calls(dtype) if template(c[0], dtypes.kind(dtype)) is not None]
    got, *_ = simulate(tile(compiled(group), H200), [a for *_, arrays in group for a in arrays])
    with np.errstate(all="ignore"):
        for (op, _, result, arrays), mine in zip(group, got, strict=True):
            want = np.asarray(ELEMENTWISE[op].reference(*arrays))
            assert mine is not None
            assert mine.dtype == result
            bad = ~close(mine, want, tolerance(op, result))
            first = int(np.argmax(bad))
            assert not bad.any(), f"{op}{tuple(a[first] for a in arrays)} is {mine[first]}, not {want[first]}"
