"""The table of NumPy functions that tracing knows: how each is expressed, or why it is refused.

A handler takes the Recorder and NumPy's own arguments.  To add a function, write a handler in the file of
its topic under `functions/` and decorate it with `implements`; a NumPy function without a handler becomes an
extern node.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from numstax.records import record

xp: Any = np
"""NumPy called on traced arrays: they come out traced, which NumPy's type stubs do not know."""


@record
class Handler:
    """`creates`: gives a traced array even when no argument is traced.  `keywords`: what the handler accepts;
    a call with another keyword becomes an extern node."""

    run: Callable[..., Any]
    creates: bool
    keywords: frozenset[str]


HANDLERS: dict[Callable[..., Any], Handler] = {}
DATA_DEPENDENT: set[Callable[..., Any]] = set()
"""Functions whose result has a size that depends on values, or that give Python values."""
REFUSED: dict[Callable[..., Any], str] = {}
"""Functions that cannot be traced, with the reason."""


def implements(
    *functions: Callable[..., Any] | None, creates: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated handler for the NumPy functions; None stands for one this NumPy lacks."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        keywords = frozenset(list(inspect.signature(run).parameters)[1:])
        for function in filter(None, functions):
            HANDLERS[function] = Handler(run, creates, keywords)
        return run

    return register
