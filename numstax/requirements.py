"""What compiled code requires of numbers, and what becomes of a call in which it does not hold.

Compiled code holds Python's integers in 64 bits and raises none of the exceptions that Python's operators, and a few
of NumPy's, raise for some values.  Where a value would show that, the program reports it, and the call is done again
by Python.
"""

from __future__ import annotations

from numstax.records import record


@record
class Requirement:
    """`what` happened where it does not hold, and the `remedy`; '' where Python raises an exception itself."""

    what: str
    remedy: str = ""


REQUIREMENTS = {
    "zero": Requirement("a Python number is divided by zero"),
    "raises": Requirement("Python raises an exception"),
    "power": Requirement("an integer is raised to a negative integer power"),
    "scale": Requirement("the scale of a distribution is negative or not finite"),
    "weights": Requirement("the weights of an average sum to zero"),
    "empty": Requirement("zero-size array to a reduction operation which has no identity"),
    "range": Requirement(
        "a Python integer is beyond 64 bits",
        "use NumPy integers, such as np.int64 or np.uint32, where they are to wrap around",
    ),
    "exact": Requirement(
        "a Python integer beyond 2**53 is divided by, compared with or stored as a float", "convert it with float()"
    ),
    "type": Requirement(
        "the type of a result depends on a value", "convert the operands: float(x), complex(x) or np.int64(n)"
    ),
}


class CannotRunError(Exception):
    """This call needs NumPy.  Nothing that the caller can see was written.

    requirement : the name of the requirement that does not hold; '' for another reason, which the message says.
    mistake : an exception of the program, which NumPy may raise as well, or catch.
    """

    def __init__(self, message: str, requirement: str = "", mistake: Exception | None = None) -> None:
        super().__init__(message)
        self.requirement, self.mistake = requirement, mistake

    @classmethod
    def unmet(cls, requirement: str, line: str) -> CannotRunError:
        where = f"\n  at {line}" if line else ""
        return cls(f"{REQUIREMENTS[requirement].what}{where}", requirement)
