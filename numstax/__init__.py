"""numstax compiles NumPy functions to fused, parallel loops.  Start with `jit`."""

from numstax.check import check
from numstax.errors import NumstaxError, NumstaxWarning
from numstax.explain import Explanation, explain
from numstax.jit import Jitted, get_num_threads, jit, make_graph, set_num_threads

__all__ = [
    "Explanation",
    "Jitted",
    "NumstaxError",
    "NumstaxWarning",
    "check",
    "explain",
    "get_num_threads",
    "jit",
    "make_graph",
    "set_num_threads",
]
