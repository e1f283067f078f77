"""Whose code it is: the user's, which is traced, or that of a library, which runs as it is.

Names of modules, file names and classes enter; answers leave.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

LIBRARIES = ("numpy", "scipy")
_HEAP_TYPE = 1 << 9
"""The flag of classes written in Python."""
_STDLIB = os.path.dirname(os.__file__)
_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_FORMS = f"{_PACKAGE}forms.py"
"""Functions of this file hold loops, which are captured as the user's are."""
_PURE = set(
    "math cmath operator functools itertools collections typing types dataclasses enum numbers copy warnings string "
    "abc argparse contextlib fractions decimal statistics bisect heapq array builtins sys __future__ inspect textwrap "
    "re".split()
)
"""Modules of the standard library whose functions depend on nothing but their arguments."""


def root(module: str) -> str:
    return module.partition(".")[0]


def is_impure(module: str) -> bool:
    """A module of the standard library whose functions have effects, or give other values in each call."""
    return root(module) in sys.stdlib_module_names and root(module) not in _PURE


def is_library(file: str) -> bool:
    """A file of the standard library, NumPy, SciPy or numstax, whose functions run as they are."""
    if file.startswith(("<frozen", _PACKAGE)):
        return file != _FORMS
    if "site-packages" in file or "dist-packages" in file:
        return any(f"-packages/{name}/" in file for name in (*LIBRARIES, "numba", "ml_dtypes"))
    return file.startswith(_STDLIB)


def is_heap_type(cls: type) -> bool:
    """Is the class written in Python?"""
    return bool(cls.__flags__ & _HEAP_TYPE)


def is_own(cls: type) -> bool:
    """Is the class one of the user's?"""
    if cls.__module__ == "__main__":
        return True
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    return bool(file) and not is_library(file) and root(cls.__module__) not in LIBRARIES
