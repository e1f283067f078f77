"""The programs of `examples/` as a Numba user writes them by hand: explicit loops, parallel where the method allows it.

The arithmetic is that of the NumPy program; intermediate arrays that a fused loop does not need are gone.
`KERNELS` holds them by the name of the example.
"""

from __future__ import annotations

from bench.programs_numba import arrays, grids, scalars
from bench.programs_numba.transformer import transformer

KERNELS = {
    **{
        name: getattr(grids, name)
        for name in (
            "heat shallow_water lattice_boltzmann mandelbrot julia_masks life wave jacobi reaction_diffusion".split()
        )
    },
    **{
        name: getattr(scalars, name)
        for name in "floyd_warshall cholesky crc32 gauss_seidel crank_nicolson alignment ising".split()
    },
    **{
        name: getattr(arrays, name)
        for name in "nbody kmeans black_scholes monte_carlo image_filters turbulence".split()
    },
    "transformer": transformer,
}
