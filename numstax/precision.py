"""`matmul_precision` and `matmul_template`: how products of matrices are computed on a GPU."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import ClassVar

from numstax.errors import KnobError

PRECISIONS = ("highest", "high", "medium")
TEMPLATES = ("", "wgmma", "mma", "fma", "library")


class _Setting:
    """A choice that is set when it is made, and given back at the end of a ``with`` statement."""

    what: ClassVar[str]
    choices: ClassVar[tuple[str, ...]]
    chosen: ClassVar[ContextVar[str]]

    def __init__(self, choice: str) -> None:
        if choice not in self.choices:
            names = ", ".join(map(repr, self.choices))
            raise KnobError(f"there is no matmul {self.what} {choice!r}", remedy=f"choose one of {names}")
        self._before = self.chosen.set(choice)

    def __enter__(self) -> None:
        """It is set already."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.chosen.reset(self._before)


class matmul_precision(_Setting):  # noqa: N801 (called like a function)
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

    what, choices = "precision", PRECISIONS
    chosen = ContextVar("matmul_precision", default="highest")


class matmul_template(_Setting):  # noqa: N801 (called like a function)
    """Name the template that computes products of matrices on a GPU, from here on or in a ``with`` statement.

    ``""``, the default: that of the least predicted cost.  ``"wgmma"``: warpgroup instructions (Hopper).  ``"mma"``:
    instructions of one warp.  ``"fma"``: ordinary arithmetic.  ``"library"``: CuPy's product, with what follows in a
    kernel of its own.  A function with a product that the template cannot compute raises TemplateError, which says what
    prevents it.

    Raises
    ------
    KnobError : there is no such template.
    """

    what, choices = "template", TEMPLATES
    chosen = ContextVar("matmul_template", default="")


def settings() -> tuple[str, str]:
    """The precision and the template that hold here."""
    return matmul_precision.chosen.get(), matmul_template.chosen.get()
