"""What becomes of a value that is stored in an array.

A number, an array or nested lists of them enter; a handle in the dtype of the array leaves.  NumPy casts arrays and its
own scalars, and takes a Python number only if the dtype can hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numstax.trace.array import TracedArray
from numstax.trace.python_numbers import assigned
from numstax.trace.selection import Selection
from numstax.trace.sizes import Size

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_SEQUENCES = (list, tuple)


def contains_traced(tree: object) -> bool:
    """Is there a traced array in the nested lists, tuples and dicts?"""
    kind = type(tree)
    if kind is np.ndarray:
        return False
    if kind is TracedArray or kind is Size or kind is Selection:
        return True
    if isinstance(tree, _SEQUENCES):
        return any(contains_traced(item) for item in tree)
    if isinstance(tree, dict):
        return any(contains_traced(item) for item in tree.values())
    return False


def stored(rec: Recorder, value: object, dtype: np.dtype) -> TracedArray:
    """The value as assignment, ``np.array`` and the `initial` of reductions take it.

    Raises OverflowError, TypeError or ValueError, as NumPy does, for a Python number that the dtype cannot hold.
    """
    if isinstance(value, _SEQUENCES):
        if contains_traced(value):
            return rec.call(np.stack, ([stored(rec, item, dtype) for item in value],), {})
        with np.errstate(all="ignore"):
            return rec.constant_array(np.array(value, dtype))
    lifted = rec.lift(value)
    return rec.fresh(assigned(rec, lifted, dtype), lifted.is_scalar)
