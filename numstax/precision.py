"""`matmul_precision`: how exactly products of float32 matrices are computed on a GPU."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType

from numstax.errors import KnobError

PRECISIONS = ("highest", "high", "medium")
_chosen: ContextVar[str] = ContextVar("matmul_precision", default="highest")


def current() -> str:
    """The precision that holds here."""
    return _chosen.get()


class matmul_precision:  # noqa: N801 (called like a function)
    """Set how exactly products of float32 matrices are computed on a GPU, from here on or in a ``with`` statement.

    ``"highest"``, the default: in float32.  ``"high"``: factors are taken apart into two numbers of 11 bits each, of
    which tensor cores multiply three pairs; errors are a few times those of float32.  ``"medium"``: factors are rounded
    to 11 bits (TF32), relative errors are about 5e-4.  Sums are float32 in each case.  Other dtypes and the CPU are not
    concerned.  The setting counts where a function is called, and inside of a compiled function for the products in the
    ``with`` statement; functions are compiled anew where it changes.

    Raises
    ------
    KnobError : there is no such precision.
    """

    def __init__(self, precision: str) -> None:
        if precision not in PRECISIONS:
            names = f"{', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}"
            raise KnobError(f"there is no matmul precision {precision!r}", remedy=f"choose {names}")
        self._before = _chosen.set(precision)

    def __enter__(self) -> None:
        """It is set already."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _chosen.reset(self._before)
