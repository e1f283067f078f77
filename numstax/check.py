"""`check`: a condition on sizes that the user vouches for."""

from __future__ import annotations

from typing import Any

from numstax.trace.origin import source_line
from numstax.trace.sizes import Condition


def check(condition: Any, message: str = "numstax.check failed") -> None:
    """Assert that a condition holds.

    In a traced function a comparison of sizes that depend on data (``numstax.check(u <= n)``) is checked when the
    compiled code runs, and taken for granted in what follows.  Everywhere else this is an assert.

    Raises
    ------
    AssertionError : the condition does not hold.
    SizeError : the same, in compiled code; the text is the message, by default with the line of the program.
    """
    if isinstance(condition, Condition):
        line = source_line()
        message = f"{message}: {line}" if line and message == "numstax.check failed" else message
        condition.recorder.shapes.state(condition.relation, condition.index, message)
    elif not condition:
        raise AssertionError(message)
