"""Emitters of GPU programs: kernels in, readable Numba CUDA source out."""
