"""What a ``for`` runs over, when it can be captured: a number of positions, and the item at each.

Ranges, arrays, and what ``enumerate``, ``zip`` and ``reversed`` make of them.  The position may be a number, a Size or
a traced integer.  `TracedRange` and `Iteration` stand for what the builtins of these names give; outside of a ``for``
statement they are iterated as in Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from numstax.records import record
from numstax.trace.array import TracedArray
from numstax.trace.sizes import Size

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


@record
class TracedRange:
    """``range`` with ends that are sizes or traced integers; `step` is a number."""

    start: Any
    stop: Any
    step: int

    def _numbers(self) -> range:
        return range(operator.index(self.start), operator.index(self.stop), self.step)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers())

    def __reversed__(self) -> Iterator[int]:
        return reversed(self._numbers())

    def __len__(self) -> int:
        return len(self._numbers())

    def __contains__(self, value: object) -> bool:
        return value in self._numbers()

    def __getitem__(self, key: Any) -> Any:
        return self._numbers()[key]


class Iteration:
    """What ``enumerate(*args)``, ``zip(*args)`` or ``reversed(*args)`` gives (`function`)."""

    def __init__(self, function: Callable[..., Any], *args: Any, **words: Any) -> None:
        self.function, self.args, self.words = function, args, words
        self._items: Iterator[Any] | None = None

    @property
    def is_fresh(self) -> bool:
        """Has no item been taken?"""
        return self._items is None

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        if self._items is None:
            self._items = iter(self.function(*self.args, **self.words))
        return next(self._items)


@record
class Counted:
    """`length` : the number of positions, an int, a Size or a traced integer.  `item` : position -> item."""

    rec: Any
    length: Any
    item: Callable[[Any], Any]

    @classmethod
    def of(cls, rec: Recorder, iterable: Any) -> Counted | None:
        if type(iterable) is range:
            return cls(rec, len(iterable), lambda k: iterable.start + k * iterable.step)
        if type(iterable) is TracedRange:
            span = (iterable.stop - iterable.start) * (1 if iterable.step > 0 else -1)
            step = abs(iterable.step)
            length = span if step == 1 else (span + (step - 1)) // step
            return cls(rec, length, lambda k: iterable.start + k * iterable.step)
        if isinstance(iterable, TracedArray) and iterable.ndim:
            return cls(rec, rec.size(iterable.sizes[0]), iterable.__getitem__)
        if type(iterable) is Iteration and iterable.is_fresh:
            return cls._of_iteration(rec, iterable)
        return None

    @classmethod
    def _of_iteration(cls, rec: Recorder, given: Iteration) -> Counted | None:
        start, sources = given.words.get("start", 0), list(given.args)
        if given.function is enumerate and len(sources) > 1:
            start = sources.pop()
        parts = [cls.of(rec, source) for source in sources]
        inner = [part for part in parts if part is not None]
        if len(inner) < len(parts) or not inner or given.words.keys() - {"start"}:
            return None
        first = inner[0]
        if given.function is enumerate:
            return cls(rec, first.length, lambda k: (start + k, first.item(k)))
        if given.function is reversed:
            last = first.length - 1
            return cls(rec, first.length, lambda k: first.item(last - k))
        length = _shortest([part.length for part in inner])
        return None if length is None else cls(rec, length, lambda k: tuple(part.item(k) for part in inner))

    @property
    def trips(self) -> int | None:
        """The number of positions, where it is known."""
        return self.length if type(self.length) is int else None

    @property
    def runs(self) -> bool:
        """Is there certainly one?"""
        if self.trips is not None:
            return self.trips > 0
        return type(self.length) is Size and self.rec.shapes.known(">=", self.length.index - 1) is True

    def after(self, count: int) -> Counted:
        """The loop without its first iterations."""
        return Counted(self.rec, self.length - count, lambda k: self.item(k + count))

    def grouped(self, count: int) -> Counted:
        """So many iterations at a time: the item is the list of their items."""
        return Counted(self.rec, self.length // count, lambda k: [self.item(k * count + j) for j in range(count)])


def _shortest(lengths: list[Any]) -> Any:
    """The least; None when it is not known which is."""
    if all(type(n) is int for n in lengths):
        return min(lengths)
    first = lengths[0]
    same = all(type(n) is Size and type(first) is Size and n.index is first.index for n in lengths)
    return first if same else None
