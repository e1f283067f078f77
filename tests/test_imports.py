"""What importing numstax costs: nothing of the compiler and the code generator until something compiles."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LATER = (
    "numstax.cuda_emit",
    "numstax.tiles.cuda",
    "numstax.runtime.device",
    "numstax.runtime.graphs",
    "numstax.runtime.simulate",
    "numstax.runtime.simulated",
)


@pytest.mark.parametrize("module", ["numba", "llvmlite", "sympy", "scipy", "matplotlib", "cuda", "numpy.ma", *LATER])
def test_import_loads_no(module: str) -> None:
    assert run(f"import sys, numstax; print({module!r} in sys.modules)") == "False"


def test_a_warm_cache_needs_no_numba() -> None:
    code = (
        "import sys, numpy as np, numstax\n"
        "x = np.ones((40, 50), np.float32)\n"
        "assert numstax.jit(lambda x: (x * 2.0).sum(1))(x)[0] == 100\n"
        "print('numba' in sys.modules)"
    )
    run(code)
    assert run(code) == "False"


def test_star_import_gives_the_public_names() -> None:
    names = set(run("import numstax; print(*numstax.__all__)").split())
    assert {"jit", "explain", "make_graph"} <= names
