"""What NumPy is told to do on floating-point errors.  Compiled code does nothing on them, so it serves where they are
ignored, and where they are warned about, as NumPy does by default."""

from __future__ import annotations

import contextvars

import numpy as np
from numpy._core.umath import _extobj_contextvar as _settings

_DEFAULT = contextvars.Context().run(_settings.get)
_SILENT = {"ignore", "warn"}
MESSAGE = "NumPy is told to do more on floating-point errors than to warn (np.errstate, np.seterr)"


def are_reported() -> bool:
    """Does NumPy now raise, call a function, print or log on some of them?  Costs little under the default settings."""
    return _settings.get() is not _DEFAULT and not _SILENT.issuperset(np.geterr().values())
