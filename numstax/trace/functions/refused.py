"""NumPy functions that are not traced: their result has a size that values decide, or they work in another way
than on arrays of numbers."""

from __future__ import annotations

import numpy as np

from numstax.trace.registry import DATA_DEPENDENT, REFUSED

DATA_DEPENDENT.add(np.trim_zeros)

_REASONS = {
    "calls a Python function for each element": "frompyfunc",
    "has an effect outside the function": (
        "save savez savez_compressed savetxt info show_config show_runtime set_printoptions printoptions seterr "
        "seterrcall setbufsize test"
    ),
    "reads a file or a setting": (
        "load loadtxt genfromtxt fromfile fromregex geterr geterrcall getbufsize get_printoptions"
    ),
    "gives text": "array2string array_repr array_str",
    "gives a matrix": "asmatrix bmat",
    "goes through an array one element at a time": "nested_iters",
}
REFUSED |= {getattr(np, name): reason for reason, names in _REASONS.items() for name in names.split()}
