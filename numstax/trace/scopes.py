"""Scopes: running a part of the user's function so that what it does can be undone, or become the body of a node.

A Scope is entered before the part runs.  While it is open, it notes every array that existed before and is written,
and copies of the containers that the part can reach; `undo` puts all of them back.  Values that the part starts from
are *placeholders*: nodes that stand for a state of a loop (or for what a branch finds), with the value they have in
the call that is traced for an example.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import NumstaxError, TraceError, VerifyError
from numstax.ir.graph import Node
from numstax.ir.index import contiguous_strides
from numstax.records import record
from numstax.trace.array import Storage, TracedArray
from numstax.trace.bodies import is_before
from numstax.trace.contents import contents, position, reachable
from numstax.trace.origin import user_origin
from numstax.trace.sizes import Condition, Shape, Size
from numstax.trace.source_jumps import RESULT
from numstax.trace.unassigned import Unassigned

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

serial = count(1).__next__
_ADVANCES = "an iterator from outside a loop or branch advances inside", "use an index, or a list"
CONTROL_NAME = "__control__"
"""The global by which functions that are traced are known."""


class CannotCaptureError(TraceError):
    """The part cannot become the body of a node; it may still run as Python, if it is short."""


class Scope:
    """One run of a part of the program.  `functions` : what runs; their variables lead to the containers to watch.
    `is_body` : does it become the body of a node?"""

    def __init__(self, rec: Recorder, functions: tuple[Callable[..., Any], ...], is_body: bool = False) -> None:
        self.rec = rec
        self.serial = rec.storage_serial = serial()
        self.first_node = rec.nodes.count
        self.written: dict[int, tuple[Storage, Node]] = {}
        """Arrays from before that were written, and what they held."""
        self.first_binder, self.first_assert = len(rec.binders), len(rec.shapes.asserts)
        self.outer = rec.scope
        self.is_body: bool = is_body or (self.outer is not None and self.outer.is_body)
        self._undone = False
        rec.scope = self
        found = list(reachable(functions))
        self._contents = contents(found)
        self._iterators = [(v, position(v)) for v in found if hasattr(type(v), "__next__")]

    def note(self, storage: Storage) -> None:
        """The storage is about to be written."""
        if storage.born < self.serial:
            self.written.setdefault(id(storage), (storage, storage.node))
        if self.outer is not None:
            self.outer.note(storage)

    def watch(self, values: Iterable[Any]) -> None:
        """Notice changes of the containers among these values, too."""
        self._contents += contents(reachable(values))

    def changed_container(self) -> Any:
        """A container that the part has changed, or None."""
        return next((c.holder for c in self._contents if not c.is_as_before), None)

    @property
    def has_changed(self) -> bool:
        """Has the part changed anything that was there before?"""
        return bool(self.written) or self.changed_container() is not None

    @property
    def is_undone(self) -> bool:
        """Does nothing that was done in it count any more?"""
        return self._undone or (self.outer is not None and self.outer.is_undone)

    def watches(self, iterator: Any) -> bool:
        """Was the iterator there before?"""
        return any(iterator is known for known, _ in self._iterators)

    def found(self) -> tuple[tuple[Node, ...], tuple[Any, ...]]:
        """The results that show sizes, and the statements about sizes, of this part (see Graph)."""
        return tuple(self.rec.binders[self.first_binder :]), tuple(self.rec.shapes.asserts[self.first_assert :])

    def close(self) -> None:
        self.rec.scope = self.outer

    def undo(self) -> None:
        """Everything as it was before.  Raises CannotCaptureError where an iterator has advanced, which stays so."""
        for storage, node in self.written.values():
            storage.node = node
        for content in self._contents:
            content.restore()
        self._undone = True
        known = self.rec.written_by
        known.update({code: tuple(s for s in found if s.born < self.serial) for code, found in known.items()})
        del self.rec.binders[self.first_binder :]
        del self.rec.shapes.asserts[self.first_assert :]
        self.close()
        if any(position(iterator) != before for iterator, before in self._iterators):
            raise refuse(*_ADVANCES)


# --- iterators ---------------------------------------------------------------------------------------


def check_iterator(rec: Recorder, iterator: Any) -> None:
    """Raise where an item would be taken on trial: it cannot be put back."""
    scope = rec.scope
    while scope is not None:
        if scope.watches(iterator):
            raise refuse(*_ADVANCES)
        scope = scope.outer


# --- values of variables --------------------------------------------------------------------------------


@record
class Kind:
    """What a state is: its dtype and shape; `scalar` a NumPy scalar, `weak` the type of a Python number."""

    dtype: np.dtype
    shape: Shape
    scalar: bool = False
    weak: type | None = None

    def __str__(self) -> str:
        if self.weak is not None:
            return f"a Python {self.weak.__name__}"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def is_number(value: Any) -> bool:
    """Something that can be a state: an array, a NumPy scalar, or a Python number."""
    return type(value) in (bool, int, float, complex, Size, Condition) or isinstance(
        value, TracedArray | np.generic | np.ndarray
    )


def lifted(rec: Recorder, value: Any) -> TracedArray:
    """The handle of a number or array."""
    if type(value) is Condition:
        return truth(rec, value)
    return rec.lift(value)


def truth(rec: Recorder, value: TracedArray | Condition) -> TracedArray:
    """``bool(value)`` of a 0-d value or a comparison of sizes, traced."""
    if isinstance(value, Condition):
        op = {">=": "greater_equal", "==": "equal", "!=": "not_equal"}[value.relation]
        value = rec.elementwise(op, rec.lift(Size(rec, value.index)), 0)
    node = value.node
    if node.dtype != dtypes.BOOL:
        node = rec.nodes.elementwise("not_equal", (node, rec.nodes.full(0, node.dtype, node.shape)), dtypes.BOOL)
    return rec.fresh(node, True, weak=bool)


def kind_of(handle: TracedArray) -> Kind:
    shape = tuple(map(handle.recorder.shapes.resolve, handle.sizes))
    return Kind(handle.dtype, shape, handle.is_scalar, handle.weak)


def joined(a: Kind, b: Kind) -> Kind | None:
    """A kind that holds values of both, one of which is a Python number; None: there is none."""
    if a == b:
        return a
    if a.shape != b.shape:
        return None
    order = {bool: 0, int: 1, float: 2, complex: 3}
    if a.weak and b.weak:
        return max(a, b, key=lambda k: order[k.weak])  # type: ignore[index]
    if a.weak or b.weak:
        weak, strong = (a, b) if a.weak else (b, a)
        holds = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}[strong.dtype.kind]
        return strong if order[weak.weak] <= holds else None  # type: ignore[index]
    return None


def is_mixed(a: Kind, b: Kind) -> bool:
    """Do operations on numbers of the two kinds differ, though one kind holds both?"""
    weak, strong = (a, b) if a.weak else (b, a)
    return weak.weak is int and strong.weak is None and strong.dtype.kind in "iu"


def placeholder(rec: Recorder, kind: Kind, entry: Node | None) -> TracedArray:
    """A handle whose value is a state; `entry` is what it starts from."""
    key = serial()
    node = rec.nodes.make("placeholder", (), kind.shape, kind.dtype, key=key)
    if entry is not None:
        rec.entries[node] = entry
    return value_of(rec, node, kind)


def value_of(rec: Recorder, node: Node, kind: Kind) -> TracedArray:
    strides = contiguous_strides(kind.shape)
    storage = Storage(node, born=rec.storage_serial)
    return TracedArray(rec, storage, node, strides, (), kind.scalar or kind.weak is not None, kind.weak)


def is_seen(storage: Storage, names: tuple[str, ...]) -> bool:
    """Does a variable of the functions that are running, the loop's own `names` aside, lead to this memory?"""
    own = set(names)
    frame: Any = sys._getframe(1)
    while frame is not None:
        if CONTROL_NAME in frame.f_globals or CONTROL_NAME in getattr(frame.f_globals, "_seen", ()):
            others = [value for name, value in frame.f_locals.items() if name not in own and not name.endswith("_")]
            if any(type(v) is TracedArray and v.storage is storage for v in reachable(others)):
                return True
            own -= set(frame.f_code.co_cellvars)
        frame = frame.f_back
    return False


def be_copy(storage: Storage, sources: Iterable[Storage], name: str) -> None:
    """The memory stands for a part of the sources: it cannot be written, nor read when they have been."""
    storage.stand_for(sources, f"{named(name)}, a view that a loop or branch made,")


def refuse(message: str, remedy: str = "") -> CannotCaptureError:
    return CannotCaptureError(message, user_origin(), remedy)


def in_body(rec: Recorder) -> bool:
    """Will what runs now be the body of a node?"""
    return rec.scope is not None and rec.scope.is_body


def before_bodies(rec: Recorder, sources: Sequence[Node]) -> AbstractContextManager[None]:
    """What is made of the sources inside is made before the bodies that are being captured, where that can be."""
    scope = rec.scope
    if scope is None or not scope.is_body:
        return nullcontext()
    inner = [scope]
    while scope.outer is not None and scope.outer.is_body:
        scope = scope.outer
        inner.append(scope)
    if not all(is_before(node, rec.nodes, scope.first_node, rec.shapes.counters) for node in sources):
        return nullcontext()
    return _moved(rec, inner)


@contextmanager
def _moved(rec: Recorder, inner: Sequence[Scope]) -> Iterator[None]:
    """Nodes, memory and sizes made inside are none of these scopes', the last of which is the outermost."""
    count, born = rec.nodes.count, rec.storage_serial
    binders, asserts = len(rec.binders), len(rec.shapes.asserts)
    rec.scope, rec.storage_serial = inner[-1].outer, inner[-1].serial - 1
    try:
        yield
    finally:
        rec.nodes.forget(count)
        _move(rec.binders, binders, inner[-1].first_binder)
        _move(rec.shapes.asserts, asserts, inner[-1].first_assert)
        for scope in inner:
            scope.first_binder += len(rec.binders) - binders
            scope.first_assert += len(rec.shapes.asserts) - asserts
        rec.scope, rec.storage_serial = inner[0], born


def _move(items: list[Any], first: int, place: int) -> None:
    """The items from the first on, to this place."""
    items[:] = [*items[:place], *items[first:], *items[place:first]]


def outside_bodies(rec: Recorder) -> None:
    """Raise where the sizes that a library call gives would not be known outside of a body."""
    if in_body(rec):
        raise refuse(
            "a size depends on data inside a loop or branch that is captured",
            "select before the loop, or keep the full size: np.where(mask, a, 0)",
        )


def description(value: Any) -> str:
    if isinstance(value, Unassigned):
        return "not assigned"
    if isinstance(value, Size | Condition):
        return "an integer" if isinstance(value, Size) else "a comparison of integers"
    if isinstance(value, TracedArray):
        value = kind_of(value)
    return str(value) if isinstance(value, Kind) else repr(value)


def named(name: str) -> str:
    """A variable as messages name it."""
    return "the returned value" if name == RESULT else name if " " in name else repr(name)


def unlike(name: str, a: Any, b: Any, first: str, second: str) -> tuple[str, str]:
    """The message that the variable is `a` at the `first` time and `b` at the `second`, and the remedy."""
    what = f"{named(name)} is {description(a)} {first} and {description(b)} {second}"
    if a is None or b is None:
        return what, "use a number in place of None, such as -1 or np.nan"
    return what, "make both arrays or numbers of one dtype and shape"


@contextmanager
def speculative(what: str) -> Iterator[None]:
    """For code that might never run with these values: its errors only say that it cannot be captured."""
    try:
        yield
    except (TraceError, VerifyError):
        raise
    except Exception as error:
        remedy, text, origin = "check before or after the call, out of the compiled function", str(error), user_origin()
        if isinstance(error, NumstaxError):
            remedy, text, origin = error.remedy or remedy, error.what, error.origin or origin
        raise CannotCaptureError(f"{what} raises {type(error).__name__}: {text}", origin, remedy) from error
