"""Capturing a loop: its iteration is run on trial, on states, until it is known what the states are.

`Counted` is what a ``for`` runs over; a `Loop` makes the `for` or `while` node.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.ir.graph import Node
from numstax.ir.index import Index, as_index
from numstax.records import record
from numstax.trace.array import Storage, TracedArray
from numstax.trace.bodies import Bodies
from numstax.trace.scopes import (
    UNDEFINED,
    CannotCaptureError,
    Kind,
    Scope,
    description,
    is_number,
    joined,
    kind_of,
    leaves,
    lifted,
    placeholder,
    rebuilt,
    refuse,
    speculative,
    value_of,
)
from numstax.trace.sizes import Size

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

Thunk = Callable[[], Any]
Get = Callable[[], tuple]
Set = Callable[[tuple], None]
ATTEMPTS = 12
CONTROL_NAME = "__control__"
"""The global by which functions that are traced are known."""


class UnsettledError(CannotCaptureError):
    """A state has another type after an iteration than before."""


class SwappedError(CannotCaptureError):
    """Variables change places between arrays that are seen outside the loop too, and are written."""


@record
class TracedRange:
    """``range`` with ends that are sizes or traced integers; `step` is a number.  Outside of a ``for`` statement the
    ends have to be numbers."""

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


@record
class Counted:
    """A loop over positions: `start + k*step`, or items of something with a known length."""

    rec: Any
    trips: int | None
    length: Any
    start: Any
    step: int
    get: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, rec: Recorder, iterable: Any) -> Counted | None:
        if type(iterable) is range:
            return cls(rec, len(iterable), len(iterable), iterable.start, iterable.step)
        if type(iterable) is TracedRange:
            return cls._of_range(rec, iterable)
        if isinstance(iterable, TracedArray) and iterable.ndim:
            size = rec.shapes.resolve(iterable.sizes[0])
            if size.value is not None:
                return cls(rec, size.value, size.value, 0, 1, iterable.__getitem__)
            return cls(rec, None, rec.size(size), 0, 1, iterable.__getitem__)
        return None

    @classmethod
    def _of_range(cls, rec: Recorder, given: TracedRange) -> Counted:
        span = (given.stop - given.start) * (1 if given.step > 0 else -1)
        step = abs(given.step)
        length = span if step == 1 else (span + (step - 1)) // step
        return cls(rec, length if type(length) is int else None, length, given.start, given.step)

    def item(self, k: Any) -> Any:
        position = self.start + k * self.step
        return position if self.get is None else self.get(position)

    def after(self, count: int) -> Counted:
        """The loop without its first iterations."""
        trips = None if self.trips is None else self.trips - count
        return Counted(self.rec, trips, self.length - count, self.start + count * self.step, self.step, self.get)

    def pairs(self) -> Counted:
        """Two iterations at a time: the item is the first of the two.  Only for a known number of positions."""
        assert self.trips is not None
        return Counted(self.rec, self.trips // 2, self.trips // 2, self.start, 2 * self.step, self.get)

    def total(self) -> Any:
        return self.length


class Loop:
    """One attempt after another to capture a loop: with more states, or states of wider types, each time."""

    def __init__(
        self, rec: Recorder, op: str, body: Callable[..., Any], get: Get, put: Set, names: tuple[str, ...],
        test: Thunk | None = None, counted: Counted | None = None, functions: tuple[Callable[..., Any], ...] = (),
    ) -> None:  # fmt: skip
        self.rec, self.op, self.body, self.get, self.put, self.names = rec, op, body, get, put, names
        self.test, self.counted = test, counted
        self.functions: tuple[Callable[..., Any], ...] = functions or ((body,) if test is None else (body, test))
        self.entry = get()
        self.kinds: dict[tuple[int, int], Kind] = {}
        """(variable, leaf) -> what it is; only those that are states."""
        self.starts: dict[tuple[int, int], Node] = {}
        self.storages: dict[int, Storage] = {}
        """Arrays from before that are written inside."""
        for v, value in enumerate(self.entry):
            for j, leaf in enumerate(leaves(value)):
                if is_number(leaf) and not (type(leaf) is TracedArray and leaf.sizes):
                    self._be_state(v, j, lifted(rec, leaf))

    def _be_state(self, v: int, j: int, handle: TracedArray) -> None:
        self.kinds[v, j] = kind_of(handle)
        self.starts[v, j] = handle.node

    def restore(self) -> None:
        self.put(self.entry)

    def capture(self) -> None:
        for _ in range(ATTEMPTS):
            if self._attempt():
                return
        raise refuse("the variables of the loop keep changing their types")

    def _attempt(self) -> bool:
        """Run one iteration on states; False when more has to be a state.  The node is made when all fits."""
        rec = self.rec
        scope = Scope(rec, self.functions, is_body=True)
        first = scope.first_node
        try:
            places = {key: placeholder(rec, kind, self.starts[key]) for key, kind in self.kinds.items()}
            held = {key: handle.node for key, handle in places.items()}
            memory = {}
            for key, storage in self.storages.items():
                memory[key] = placeholder(rec, Kind(storage.node.dtype, storage.node.shape), storage.node).node
                scope.note(storage)
                storage.node = memory[key]
            self.put(tuple(self._variable(v, places) for v in range(len(self.names))))
            given = self.get()
            counter, asked = self._run(given)
            after = self.get()
            nodes_after = [[_node(rec, leaf) for leaf in leaves(value)] for value in after]
            stored = {key: storage.node for key, (storage, _) in scope.written.items()}
            changed = scope.changed_container()
            new = {key: s for key, (s, _) in scope.written.items() if key not in self.storages}
        finally:
            scope.undo()
            self.restore()
        if changed is not None:
            raise refuse("a list, dict or object is changed in a loop", "keep what it holds in arrays")
        if new:
            self.storages |= new
            return False
        ends = self._compare(given, after, nodes_after)
        if ends is None:
            return False
        self._finish(first, counter, asked, held, memory, ends, stored)
        return True

    def _run(self, given: tuple) -> tuple[Any, Node | None]:
        """One iteration; the counter's name and the node of the test."""
        rec = self.rec
        if self.counted is not None:
            with rec.shapes.counter(self._trips_index()) as symbol, speculative("a loop"):
                self.body(self.counted.item(Size(rec, symbol)))
            return str(symbol), None
        assert self.test is not None
        wanted = self.test()
        asked = lifted(rec, wanted)
        node = rec.nodes.cast(rec.nodes.reshape(asked.node, ()), dtypes.BOOL)
        self.put(given)
        with speculative("a loop"):
            self.body()
        return "", node

    def _trips_index(self) -> Index | None:
        assert self.counted is not None
        length = self.counted.length
        if type(length) is int:
            return as_index(length)
        return length.index if type(length) is Size else None

    def _variable(self, v: int, places: dict[tuple[int, int], TracedArray]) -> Any:
        value = self.entry[v]
        if (v, -1) in places:
            return places[v, -1]
        return rebuilt(value, (places.get((v, j), leaf) for j, leaf in enumerate(leaves(value))))

    def _compare(
        self, given: tuple, after: tuple, nodes: list[list[Node | None]]
    ) -> dict[tuple[int, int], Node] | None:
        """What each state holds after the iteration; None when states have to be added or widened.  `nodes` : the
        values of the leaves at its end."""
        settled = True
        ends: dict[tuple[int, int], Node] = {}
        for v, name in enumerate(self.names):
            if self.entry[v] is UNDEFINED and after[v] is UNDEFINED:
                continue
            if self.entry[v] is UNDEFINED and (v, -1) not in self.kinds:
                settled &= self._late(v, name, after[v])
                continue
            before, now = list(leaves(given[v])), list(leaves(after[v]))
            if len(before) != len(now):
                raise refuse(f"{name!r} has {len(before)} parts before an iteration and {len(now)} after it")
            for j, (a, b) in enumerate(zip(before, now, strict=True)):
                key = (v, -1) if (v, -1) in self.kinds else (v, j)
                settled &= self._compare_leaf(key, name, a, b, nodes[v][j], ends)
        return ends if settled else None

    def _late(self, v: int, name: str, value: Any) -> bool:
        """A variable that the loop is the first to assign: what it holds before does not matter."""
        if not is_number(value):
            raise refuse(f"{name!r} is first assigned in the loop, and is {description(value)}")
        handle = lifted(self.rec, value)
        kind = kind_of(handle)
        self.kinds[v, -1] = kind
        self.starts[v, -1] = self.rec.nodes.full(0, kind.dtype, kind.shape)
        return False

    def _compare_leaf(
        self, key: tuple[int, int], name: str, a: Any, b: Any, end: Node | None, ends: dict[tuple[int, int], Node]
    ) -> bool:
        if key not in self.kinds:
            if a is b or (
                type(a) is TracedArray and type(b) is TracedArray and a.storage is b.storage and a.views == b.views
            ):
                return True
            if not (is_number(a) and is_number(b)):
                raise refuse(f"{name!r} is {description(a)} before an iteration and {description(b)} after it")
            if type(a) is TracedArray and type(b) is TracedArray:
                self._check_alone(name, a, b)
            self._be_state(*key, lifted(self.rec, a))
            return False
        if not is_number(b):
            raise refuse(f"{name!r} is {self.kinds[key]} before an iteration and {description(b)} after it")
        handle, kind = lifted(self.rec, b), self.kinds[key]
        wide = joined(kind, kind_of(handle), np.result_type)
        if wide is None:
            raise UnsettledError(f"{name!r} is {kind} before an iteration and {kind_of(handle)} after it")
        if wide != kind:
            self.kinds[key] = wide
            self.starts[key] = self.rec.nodes.cast(self.starts[key], wide.dtype)
            return False
        assert end is not None
        ends[key] = self.rec.nodes.cast(end, kind.dtype)
        return True

    def _check_alone(self, name: str, a: TracedArray, b: TracedArray) -> None:
        """A variable that leaves the array `a` for `b`: from now on it stands for values.  That is not enough where
        arrays that others see are written under its name."""
        if not self.storages:
            return
        if id(a.storage) in self.storages or any(b.storage is s for s in self._entry_storages()):
            for array in (a, b):
                if array.storage.position is not None or _seen_elsewhere(array.storage, self.names):
                    raise SwappedError(f"{name!r} is another array after an iteration, and the arrays are written")

    def _entry_storages(self) -> list[Storage]:
        return [v.storage for value in self.entry for v in leaves(value) if type(v) is TracedArray and v.sizes]

    def _finish(
        self, first: int, counter: str, asked: Node | None, places: dict[tuple[int, int], Node],
        memory: dict[int, Node], ends: dict[tuple[int, int], Node], stored: dict[int, Node],
    ) -> None:  # fmt: skip
        rec, nodes = self.rec, self.rec.nodes
        keys: list[Any] = [*places, *memory]
        states = [*places.values(), *memory.values()]
        starts = [*(self.starts[k] for k in places), *(self.storages[k].node for k in memory)]
        finals = [*(ends[k] for k in places), *(stored[k] for k in memory)]
        bodies = Bodies(nodes, first, states, counter)
        writes = [(k, n) for k, n in enumerate(finals) if n is not states[k]]
        bodies.capture([n for _, n in writes] + ([] if asked is None else [asked]))
        graph = bodies.graph(writes)
        head: tuple[Node, ...] = ()
        if self.op == "for":
            head = (nodes.cast(lifted(rec, self.counted.length).node, dtypes.INT64),)  # type: ignore[union-attr]
            extra: dict[str, Any] = {"var": counter, "body": graph}
        else:
            extra = {"test": bodies.graph([], [asked]), "body": graph}  # type: ignore[list-item]
        node = nodes.make(self.op, (*head, *starts, *bodies.captured), (), dtypes.BOOL, states=len(states), **extra)
        changed = {k for k, _ in writes}
        results = {
            key: nodes.make("result", (node,), s.shape, s.dtype, k=k) if k in changed else starts[k]
            for k, (key, s) in enumerate(zip(keys, states, strict=True))
        }
        for key, storage in self.storages.items():
            rec.note(storage)
            storage.node = results[key]
        handles = {key: value_of(rec, results[key], self.kinds[key]) for key in places}
        self.put(tuple(self._variable(v, handles) for v in range(len(self.names))))


def _node(rec: Recorder, value: Any) -> Node | None:
    return lifted(rec, value).node if is_number(value) else None


def _seen_elsewhere(storage: Storage, names: tuple[str, ...]) -> bool:
    """Does a variable of the functions that are running, other than `names`, lead to this memory?"""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if CONTROL_NAME in frame.f_globals or CONTROL_NAME in getattr(frame.f_globals, "_seen", ()):
            for name, value in frame.f_locals.items():
                if name not in names and not name.endswith("_"):
                    found = (v for v in leaves(value) if type(v) is TracedArray)
                    if any(v.storage is storage for v in found):
                        return True
        frame = frame.f_back
    return False
