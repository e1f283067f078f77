"""Modules that are imported when they are first needed, so that ``import numstax`` is quick.

The name of a module enters; a `Later` leaves, which has what is in the module.  Where types matter, the importing file
imports the module itself under TYPE_CHECKING, and type checkers and the rules for layers see nothing else.
"""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for a module."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value
