"""Functions and objects of SciPy as traced code sees them: called as they are, by an extern node where an argument
is traced."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numstax.trace import extern
from numstax.trace.elements import contains_traced

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


def library_function(rec: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if contains_traced(args) or contains_traced(kwargs):
            return extern.call(rec, function, args, kwargs)
        return function(*args, **kwargs)

    return call


class LibraryObject:
    """An object from outside, such as a distribution, an interpolator or a sparse matrix: its methods."""

    __array_ufunc__ = None  # NumPy leaves the operators to this class

    def __init__(self, recorder: Recorder, original: Any) -> None:
        self._recorder, self._original = recorder, original

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._original)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        return library_function(self._recorder, found) if isinstance(found, types.MethodType) else found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return library_function(self._recorder, self._original)(*args, **kwargs)

    def __matmul__(self, other: Any) -> Any:
        return library_function(self._recorder, self._original.__matmul__)(other)

    def __rmatmul__(self, other: Any) -> Any:
        return library_function(self._recorder, self._original.__rmatmul__)(other)
