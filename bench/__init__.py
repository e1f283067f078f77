"""Microbenchmarks, run from a checkout: ``python -m bench.NAME --help``.

fused          rows of fused NumPy functions beside other compilers, in one process
op             single operations beside NumPy
overhead       what a call of a tiny function costs
compile_time   from call to first result: cold, from a warm disk cache, and before Numba
plot           draws the recorded results
"""
