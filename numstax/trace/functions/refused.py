"""NumPy functions that are not traced: their result has a size that values decide, or they call back or
have effects."""

from __future__ import annotations

import numpy as np

from numstax.trace.registry import DATA_DEPENDENT, REFUSED

DATA_DEPENDENT |= {
    getattr(np, name)
    for name in (
        "nonzero argwhere flatnonzero unique unique_all unique_counts unique_inverse unique_values extract compress "
        "setdiff1d intersect1d union1d setxor1d trim_zeros bincount "
        "array2string array_repr array_str mask_indices"
    ).split()
}

_CALLBACK = "calls a Python function for each part of an array"
_MUTATES = "changes its argument"
_EFFECT = "has an effect outside the function"

REFUSED |= {
    getattr(np, n): _CALLBACK for n in ("apply_along_axis", "apply_over_axes", "piecewise", "frompyfunc", "vectorize")
}
REFUSED |= {getattr(np, n): _MUTATES for n in ("place",)}
REFUSED |= {getattr(np, n): _EFFECT for n in ("save", "savez", "savez_compressed", "savetxt")}
