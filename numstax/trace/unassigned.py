"""Variables that are not bound, or may not be: every use of one is an error."""

from __future__ import annotations

from typing import Any, NoReturn

from numstax.errors import TraceError
from numstax.trace.origin import user_origin


class Unassigned:
    """`why` : says that, and why, the variable may not be bound; '' where it certainly is not."""

    def __init__(self, why: str = "", remedy: str = "") -> None:
        self.__dict__.update(_why=why, _remedy=remedy)

    def use(self, *args: Any, **words: Any) -> NoReturn:
        if not self.__dict__["_why"]:
            raise UnboundLocalError("a variable is read before it is assigned")
        raise TraceError(self.__dict__["_why"], user_origin(), self.__dict__["_remedy"])

    __getattr__ = __bool__ = __call__ = __getitem__ = __setitem__ = __iter__ = __len__ = __contains__ = use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = use
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __index__ = use
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __int__ = __float__ = use
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = use
    __hash__ = object.__hash__
    __repr__ = object.__repr__
    __str__ = object.__repr__


UNDEFINED = Unassigned()


def one_sided(name: str) -> Unassigned:
    return Unassigned(f"{name!r} is assigned in only one branch of an if on a traced value", "assign it before the if")


def loop_only(name: str) -> Unassigned:
    return Unassigned(f"{name!r} is assigned in a loop that may not run", "assign it before the loop")
