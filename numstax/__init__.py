"""numstax compiles NumPy functions to fused, parallel loops.  Start with `jit`."""

from numstax.check import check
from numstax.errors import NumstaxError, NumstaxWarning
from numstax.explain import Explanation, explain
from numstax.export import export
from numstax.exported import Exported, load
from numstax.jit import Jitted, get_num_threads, jit, make_graph, set_num_threads
from numstax.trace.declared import Dim

__all__ = [
    "Dim",
    "Explanation",
    "Exported",
    "Jitted",
    "NumstaxError",
    "NumstaxWarning",
    "check",
    "explain",
    "export",
    "get_num_threads",
    "jit",
    "load",
    "make_graph",
    "set_num_threads",
]
