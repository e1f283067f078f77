"""The errors a user of numstax can meet: one class for each kind of mistake.

Every message says what happened, at which line of the user's code, and what to do about it.  Classes
also derive from the built-in exception NumPy raises for the same mistake, so existing handlers keep
working.
"""

from __future__ import annotations

import re
import sys
from typing import Self

import numpy as np
from numpy._core._exceptions import UFuncTypeError  # NumPy has no public name for it

from numstax.records import record


@record
class Origin:
    """A line of the user's code: where a node of the graph comes from."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def parse(cls, text: str) -> Origin | None:
        """The line that has this text, ``file:line, in function``; None for other text."""
        found = re.fullmatch(r"(.*):(\d+)(?:, in (.*))?", text)
        return None if found is None else cls(found[1], int(found[2]), found[3] or "")


def is_asked_by_program() -> bool:
    """Was the method that asks called by code that is traced, and not by a debugger or for an error message?"""
    return type(sys._getframe(2).f_globals) is not dict


class NumstaxError(Exception):
    """Base of all numstax errors.

    Parameters
    ----------
    what : what happened, in one sentence.
    origin : the user's line, when one is known.
    remedy : what the user can do about it.
    """

    def __init__(self, what: str, origin: Origin | None = None, remedy: str = "") -> None:
        self.what, self.origin, self.remedy = what, origin, remedy
        parts = [what]
        if origin is not None:
            parts.append(f"  at {origin}" + (f", in {origin.function}" if origin.function else ""))
        if remedy:
            parts.append(f"  remedy: {remedy}")
        self._text = "\n".join(parts)
        super().__init__(self._text)

    def __str__(self) -> str:
        return self.what if is_asked_by_program() else self._text

    def worded(self, what: str) -> Self:
        """The same mistake in other words."""
        return type(self)(what, self.origin, self.remedy)


class UnsupportedDtypeError(NumstaxError, TypeError):
    """An argument has a dtype that cannot be compiled (object, structured, string, datetime)."""


class UnsupportedArgumentError(NumstaxError, TypeError):
    """An argument is of a Python type that numstax cannot take apart."""


class ArgumentCountError(NumstaxError, TypeError):
    """The call does not match the signature of the decorated function."""


class ShapeError(NumstaxError, ValueError):
    """Shapes do not fit: broadcasting, matmul, reshape, concatenate.  NumPy's wording is kept."""


class SizeError(NumstaxError, ValueError):
    """Sizes in a call break a condition that the compiled function was captured under."""


class DimensionError(NumstaxError, ValueError):
    """A declared dimension that makes no sense: a range without sizes, an argument or axis that does not exist."""


class ConstraintError(NumstaxError, ValueError):
    """An exported program holds for some of the declared sizes only."""


class SignatureError(NumstaxError, TypeError, ValueError):
    """An argument of an exported function is of another type, dtype or rank than it was exported for."""


class ArtifactError(NumstaxError, ValueError):
    """A saved function cannot be written, or not be read: damaged, incomplete, or of another version."""


class AxisError(NumstaxError, np.exceptions.AxisError):
    """An axis is out of range for the array."""


class OutOfBoundsError(NumstaxError, IndexError):
    """An index is out of bounds for the axis it indexes."""


class ReadOnlyError(NumstaxError, ValueError):
    """An assignment to an array that is not writeable."""


class CastError(NumstaxError, UFuncTypeError):
    """An implicit cast that NumPy's casting rule forbids (for example float into int in place)."""


class EmptyReductionError(NumstaxError, ValueError):
    """A reduction without identity over zero elements."""


class PythonNumberError(NumstaxError, ArithmeticError, ValueError):
    """Compiled code met Python numbers that it cannot compute with as Python does: an integer beyond 64 bits, say."""


class ZeroDivideError(PythonNumberError, ZeroDivisionError):
    """A function without its Python source, an exported one, divides a Python number by zero."""


class TraceError(NumstaxError):
    """Something in the function cannot be captured in a graph."""


class DataDependentError(TraceError, TypeError):
    """The program branches, sizes or converts on the value of a traced array."""


class StateError(TraceError, TypeError):
    """The state of `numstax.fori_loop`, `while_loop` or `scan`, or what `scan` and `vmap` collect, changes its
    structure, shape or dtype from one iteration to the next."""


class UnsupportedOperationError(TraceError, NotImplementedError):
    """A NumPy function that numstax can neither compile nor call as an extern."""


class SideEffectError(TraceError):
    """The function has an effect outside its result (a global is written, a traced value escapes)."""


class UnsupportedArrayError(NumstaxError, TypeError):
    """An ndarray subclass or memory layout that is refused (masked arrays, matrices)."""


class VerifyError(NumstaxError, AssertionError):
    """An internal value of the compiler is inconsistent: a bug in numstax, never the user's mistake."""


class SimulationError(VerifyError):
    """A kernel run by the interpreter did what a GPU does not define: a bug in numstax."""


class CompileError(NumstaxError, RuntimeError):
    """The generated source did not compile: a bug in numstax."""


class DeviceError(NumstaxError, RuntimeError):
    """A GPU that cannot be used: no driver, too old, or the driver reports a failure."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The GPU has too little memory left."""


class TemplateError(DeviceError):
    """The template that was named for a product of matrices cannot compute it."""


class KnobError(NumstaxError, ValueError):
    """A NUMSTAX_ environment variable that does not exist, or with a value that cannot be understood."""


class SpecialisationLimitError(NumstaxError, RuntimeError):
    """A function was compiled too often, each time for other arguments."""


class NumstaxWarning(UserWarning):
    """A call ran as plain NumPy, or a cache could not be used; the text says why."""


REFUSALS = (ArgumentCountError, DeviceError, UnsupportedArrayError, UnsupportedDtypeError)
"""Arrays, and numbers of arguments, that are refused, whether strict or not."""
MISTAKES = (AxisError, CastError, EmptyReductionError, OutOfBoundsError, ReadOnlyError, ShapeError)
"""Errors that NumPy reports as well, unless the program catches them: raised whether strict or not."""
