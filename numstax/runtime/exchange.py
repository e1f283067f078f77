"""Whose arrays a call on a GPU takes and gives.

A file of its own: what makes use of it is imported when the first GPU is used.
"""

from __future__ import annotations

from numstax.records import record
from numstax.runtime.interop import Family


@record
class Exchange:
    """Whose arrays the arguments are, by name, and whose the results become; None: of NumPy, on the host.  `written` :
    arguments that programs change; `constants` : those that no caller gave."""

    arguments: tuple[tuple[str, Family | None], ...]
    results: Family | None
    written: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()

    def family(self, name: str) -> Family | None:
        return dict(self.arguments)[name]
