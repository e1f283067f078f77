"""The line of the user's code that is being traced: the innermost frame outside numstax, NumPy and SciPy.

Parts of a function that the rewriter made functions of (see `source`) count as the function.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
from functools import cache, lru_cache
from pathlib import Path
from types import FrameType

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
    frame = _user_frame()
    if frame is None:
        return None
    return _origin(frame.f_code.co_filename, frame.f_lineno, _name(frame.f_code.co_qualname))


def _user_frame() -> FrameType | None:
    frame = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return frame


def source_line() -> str:
    """The text of the line where the user's code stands; '' where it is not known."""
    origin = user_origin()
    return "" if origin is None else linecache.getline(origin.file, origin.line).strip()


def name_in_program(value: object) -> str:
    """A variable of the user's code that holds the value, where that stands; '' if there is none."""
    frame = _user_frame()
    names = () if frame is None else [n for n, v in frame.f_locals.items() if v is value and n.isidentifier()]
    return next((n for n in names if not n.endswith("_")), "")


@cache
def _name(qualified: str) -> str:
    return _PART.sub("", qualified).rpartition(".")[2]
