"""The line of the user's code that is being traced: the innermost frame outside numstax, NumPy and SciPy.

Parts of a function that the rewriter made functions of (see `source`) count as the function.
"""

from __future__ import annotations

import contextlib
import re
import sys
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from numstax.errors import Origin

_INTERNAL = (str(Path(__file__).parents[1]), str(Path(np.__file__).parent), contextlib.__file__)
_PART = re.compile(r"(\.<locals>\.\w+_\d+_)+$")


@cache
def _is_internal(file: str) -> bool:
    return file.startswith((*_INTERNAL, "<frozen", "<__array_function__")) or "/scipy/" in file


@lru_cache(maxsize=4096)
def _origin(file: str, line: int, function: str) -> Origin:
    return Origin(file, line, function)


def user_origin() -> Origin | None:
    """Where the user's code stands; None when no such frame is on the stack."""
    frame = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    return _origin(frame.f_code.co_filename, frame.f_lineno, _name(frame.f_code.co_qualname))


@cache
def _name(qualified: str) -> str:
    return _PART.sub("", qualified).rpartition(".")[2]
