"""Variables that are not bound, or may not be: every use of one is an error."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

from numstax.errors import Origin, TraceError
from numstax.trace.origin import user_origin


class Unassigned:
    """The variable `name`; `why` : says why it may not be bound, '' where it certainly is not; `origin` : what assigns
    it, perhaps."""

    def __init__(self, name: str, why: str = "", origin: Origin | None = None, remedy: str = "") -> None:
        self.__dict__.update(_name=name, _why=why, _origin=origin, _remedy=remedy)

    def use(self, *args: Any, **words: Any) -> NoReturn:
        own = self.__dict__
        if not own["_why"]:
            name = own["_name"]
            raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")
        raise TraceError(own["_why"], own["_origin"], own["_remedy"])

    __getattr__ = __bool__ = __call__ = __getitem__ = __setitem__ = __iter__ = __len__ = __contains__ = use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = use
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __index__ = use
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __int__ = __float__ = use
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = use
    __hash__ = object.__hash__
    __repr__ = object.__repr__
    __str__ = object.__repr__


@lru_cache(maxsize=4096)
def unbound(name: str) -> Unassigned:
    """The variable holds nothing."""
    return Unassigned(name)


def one_sided(name: str) -> Unassigned:
    why = f"{name!r} is assigned in only one branch of an if on a traced value"
    return Unassigned(name, why, user_origin(), f"give {name!r} a value before the if")


def loop_only(name: str) -> Unassigned:
    why = f"{name!r} is assigned in a loop that may not run"
    return Unassigned(name, why, user_origin(), f"give {name!r} a value before the loop")


def after_loop(value: Unassigned, name: str) -> Unassigned:
    """What an iteration leaves unbound, perhaps, once the loop is over."""
    own = value.__dict__
    return Unassigned(name, own["_why"], own["_origin"], own["_why"] and f"give {name!r} a value before the loop")
