"""Capturing a loop: its iteration is run on trial, on states, until it is known what the states are.

A variable that is another array after an iteration stands for a value from then on.  Python's names share memory, and
values do not, so this is done only where nobody can tell: where a name is written whose array others see, the loop is
refused, or is asked for with its first iterations apart (`ApartError`) or several at a time (`RotatedError`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from numstax import dtypes
from numstax.ir.graph import Node
from numstax.ir.index import Atom, Index, as_index, atoms, substitute
from numstax.ir.values import map_tree
from numstax.records import record
from numstax.trace.array import Storage, TracedArray
from numstax.trace.bodies import Bodies, Sizes
from numstax.trace.counted import Counted
from numstax.trace.origin import user_origin
from numstax.trace.python_numbers import joined as joined_value
from numstax.trace.scopes import (
    CannotCaptureError,
    Kind,
    Scope,
    be_copy,
    description,
    is_mixed,
    is_number,
    is_seen,
    joined,
    kind_of,
    lifted,
    named,
    placeholder,
    refuse,
    speculative,
    unlike,
    value_of,
)
from numstax.trace.selection import pack
from numstax.trace.sizes import Size
from numstax.trace.trees import leaves, rebuilt
from numstax.trace.unassigned import Unassigned, after_loop, loop_only
from numstax.trace.views import PickView

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

Thunk = Callable[[], Any]
Get = Callable[[], tuple]
Set = Callable[[tuple], None]
Key = tuple[int, int]
"""The number of a variable, and of a leaf of its value."""
ATTEMPTS = 12


class ApartError(CannotCaptureError):
    """The first iteration is unlike the others."""


class RotatedError(CannotCaptureError):
    """Names change places between arrays, and are back after `period` iterations."""

    period = 0


@record
class _Run:
    """What an iteration on states did.  `given`, `after` : the variables before and after it.  `ends` : the nodes of
    their leaves.  `stored` : what written arrays from before hold.  `touched` : states whose memory was written."""

    given: tuple
    after: tuple
    ends: dict[Key, Node]
    stored: dict[int, Node]
    touched: frozenset[Key]
    counter: str
    asked: Node | None
    sizes: Sizes
    serial: int


class Loop:
    """One attempt after another to capture a loop: with more states, or states of wider types, each time."""

    def __init__(
        self, rec: Recorder, op: str, body: Callable[..., Any], get: Get, put: Set, names: tuple[str, ...],
        test: Thunk | None = None, counted: Counted | None = None, functions: tuple[Callable[..., Any], ...] = (),
    ) -> None:  # fmt: skip
        self.rec, self.op, self.body, self.get, self.put, self.names = rec, op, body, get, put, names
        self.test, self.counted = test, counted
        self.functions: tuple[Callable[..., Any], ...] = functions or ((body,) if test is None else (body, test))
        pack(get())
        self.first = rec.nodes.count
        self.runs = counted.runs if counted is not None else self._test_holds()
        """Is there certainly an iteration?"""
        self.entry = get()
        self.shape = list(self.entry)
        """The structure of each variable: its value before the loop, or the first that the loop gives it."""
        self.kinds: dict[Key, Kind] = {}
        """The leaves that are states."""
        self.starts: dict[Key, Node] = {}
        self.storages: dict[int, Storage] = {}
        """Arrays from before that are written inside."""
        for storage in rec.written_by.get(body.__code__, ()):
            # a loop around this one captures it again and again: each time it would find the same
            if storage.position is not None or rec.nodes.number(storage.node) >= 0:
                self.storages[id(storage)] = storage
        self.mixed: set[Key] = set()
        """States in `Recorder.mixed`."""
        self.sources: dict[Key, dict[int, Storage]] = {}
        """The arrays from before of which a state is a part."""
        for key, leaf in self._leaves(self.entry):
            if is_number(leaf) and not _is_array(leaf):
                self._be_state(key, lifted(rec, leaf))

    def _test_holds(self) -> bool:
        scope = Scope(self.rec, self.functions)
        try:
            return self.test is not None and self.test() is True
        finally:
            scope.undo()

    def _leaves(self, values: Sequence[Any]) -> Iterator[tuple[Key, Any]]:
        for v, value in enumerate(values):
            for j, leaf in enumerate(leaves(value)):
                yield (v, j), leaf

    def _be_state(self, key: Key, handle: TracedArray) -> None:
        self.kinds[key] = kind_of(handle)
        self.starts[key] = handle.node
        if handle.node in self.rec.mixed:
            self.mixed.add(key)

    def capture(self) -> None:
        try:
            for _ in range(ATTEMPTS):
                run, places, memory = self._attempt()
                if run is not None and self._agrees(run):
                    self._check_sharing(run, places)
                    self._finish(run, places, memory)
                    self.rec.written_by[self.body.__code__] = tuple(self.storages.values())
                    return
        except BaseException:
            self.rec.nodes.forget(self.first)
            raise
        raise refuse("the variables of the loop keep changing their types")

    # --- one attempt ------------------------------------------------------------------------------------

    def _attempt(self) -> tuple[_Run | None, dict[Key, TracedArray], dict[int, Node]]:
        """Run one iteration on states, and undo it; None when more arrays are written than was known."""
        rec = self.rec
        scope = Scope(rec, self.functions, is_body=True)
        places = {key: placeholder(rec, kind, self.starts[key]) for key, kind in self.kinds.items()}
        held = {key: handle.node for key, handle in places.items()}
        rec.mixed |= {held[key] for key in self.mixed}
        memory: dict[int, Node] = {}
        try:
            for place, storage in self.storages.items():
                memory[place] = placeholder(rec, Kind(storage.node.dtype, storage.node.shape), storage.node).node
                rec.write(storage, memory[place])
            for key, sources in self.sources.items():
                be_copy(places[key].storage, sources.values(), self.names[key[0]])
            self._put(places)
            given = self.get()
            scope.watch(given)
            counter, asked = self._run(given)
            after = self.get()
            ends = {key: lifted(rec, leaf).node for key, leaf in self._leaves(after) if is_number(leaf)}
            stored = {place: storage.node for place, (storage, _) in scope.written.items()}
            touched = frozenset(key for key, handle in places.items() if handle.storage.node is not held[key])
            changed = scope.changed_container()
            new = {place: s for place, (s, _) in scope.written.items() if place not in self.storages}
            sizes = scope.found()
        finally:
            scope.undo()
            self.put(self.entry)
        for key, node in held.items():
            places[key].storage.node = node
        if changed is not None:
            raise refuse(
                "a list, dict or object is changed in a loop",
                "keep what it holds in arrays: out = np.empty(n) before the loop, out[i] = ... in it",
            )
        self.storages |= new
        run = _Run(given, after, ends, stored, touched, counter, asked, sizes, scope.serial)
        return None if new else run, places, memory

    def _put(self, leaves_now: dict[Key, Any]) -> None:
        self.put(tuple(self._variable(v, leaves_now) for v in range(len(self.names))))

    def _variable(self, v: int, leaves_now: dict[Key, Any]) -> Any:
        if all(key[0] != v for key in leaves_now):
            return self.entry[v]
        shape = self.shape[v]
        return rebuilt(shape, (leaves_now.get((v, j), leaf) for j, leaf in enumerate(leaves(shape))))

    def _run(self, given: tuple) -> tuple[str, Node | None]:
        """One iteration; the counter's name and the node of the test."""
        rec = self.rec
        if self.counted is not None:
            length = self.counted.length
            trips = as_index(length) if type(length) is int else length.index if type(length) is Size else None
            with rec.shapes.counter(trips) as symbol, speculative("a loop"):
                self.body(self.counted.item(Size(rec, symbol)))
            return str(symbol), None
        assert self.test is not None
        asked = lifted(rec, self.test())
        node = rec.nodes.cast(rec.nodes.reshape(asked.node, ()), dtypes.BOOL)
        self.put(given)
        with speculative("a loop"):
            self.body()
        return "", node

    # --- do the states fit? -----------------------------------------------------------------------------

    def _agrees(self, run: _Run) -> bool:
        """Is each state after the iteration what it was before?  If not, states are added or widened."""
        settled = True
        for v, name in enumerate(self.names):
            before, now = run.given[v], run.after[v]
            if isinstance(now, Unassigned):
                if not isinstance(before, Unassigned):
                    raise refuse(*unlike(name, before, now, "before an iteration", "after it"))
                continue
            if isinstance(before, Unassigned):
                self._be_assigned(v, name, now)
                settled = False
                continue
            one, two = list(leaves(before)), list(leaves(now))
            if len(one) != len(two):
                raise refuse(f"{named(name)} has {len(one)} parts before an iteration and {len(two)} after it")
            for j, (a, b) in enumerate(zip(one, two, strict=True)):
                settled &= self._agrees_leaf((v, j), name, a, b, run)
        return settled

    def _be_assigned(self, v: int, name: str, value: Any) -> None:
        """A variable that the loop is the first to assign: what it holds before does not matter."""
        self.shape[v] = value
        for j, leaf in enumerate(leaves(value)):
            if not is_number(leaf):
                raise refuse(f"{named(name)} is first assigned in the loop, and is {description(leaf)}")
            kind = self.kinds[v, j] = kind_of(lifted(self.rec, leaf))
            self.starts[v, j] = self.rec.nodes.full(0, kind.dtype, kind.shape)

    def _agrees_leaf(self, key: Key, name: str, a: Any, b: Any, run: _Run) -> bool:
        if key not in self.kinds:
            if a is b or _same_view(a, b):
                return True
            if not (is_number(a) and is_number(b)):
                raise refuse(*unlike(name, a, b, "before an iteration", "after it"))
            self._be_state(key, lifted(self.rec, a))
            return False
        kind = self.kinds[key]
        if not is_number(b):
            raise refuse(*unlike(name, kind, b, "before an iteration", "after it"))
        handle = lifted(self.rec, b)
        if any(atom.name == run.counter for n in handle.sizes for atom in atoms(n) if hasattr(atom, "name")):
            raise refuse(f"the shape of {named(name)} is another in each iteration")
        wide, end = joined(kind, kind_of(handle)), kind_of(handle)
        if wide is None or (end.weak and wide == kind and end != kind):
            error = ApartError if not isinstance(self.entry[key[0]], Unassigned) else CannotCaptureError
            what, remedy = unlike(name, kind, end, "before an iteration", "after it")
            raise error(what, None, remedy)
        narrow = end.dtype != dtypes.INT64
        mixed = (is_mixed(kind, end) and narrow) or handle.node in self.rec.mixed
        if mixed and narrow and kind.weak and self.counted is not None and self.runs:
            raise ApartError(unlike(name, kind, end, "before an iteration", "after it")[0])
        is_known = not mixed or key in self.mixed
        self.mixed.update([key] * mixed)
        if wide != kind:
            self.kinds[key] = wide
            self.starts[key] = joined_value(self.rec, self.starts[key], wide.dtype)
            return False
        seen = self._seen_through(b, run)
        known = self.sources.setdefault(key, {})
        more = {id(s): s for s in seen if id(s) not in known}
        known |= more
        return is_known and not more

    def _seen_through(self, value: Any, run: _Run) -> list[Storage]:
        """The arrays from before that the value is a part of."""
        if not _is_array(value) or not isinstance(value, TracedArray):
            return []
        storage = value.storage
        if storage.born >= run.serial:
            return [source for source, _ in storage.copies if source.born < run.serial]
        return [storage]

    # --- does anyone see that names are values? -----------------------------------------------------------

    def _check_sharing(self, run: _Run, places: dict[Key, TracedArray]) -> None:
        arrays = {key: leaf for key, leaf in self._leaves(run.after) if _is_array(leaf)}
        period = _period(self._moves(run, places))
        lonely = {key: self._is_alone(key) for key in self.kinds if key in arrays}
        if period > 1 and not all(lonely.values()):
            error = RotatedError(
                "names change places between arrays that are seen elsewhere",
                user_origin(),
                "copy them before the loop (a, b = a.copy(), b.copy()), and write the results back after it",
            )
            error.period = period
            raise error
        for key in run.touched & arrays.keys():
            name = self.names[key[0]]
            storage = arrays[key].storage
            if any(other != key and leaf.storage is storage for other, leaf in arrays.items()):
                raise refuse(f"{named(name)} is written, and shares its array with another variable after an iteration")
            if not lonely[key]:
                raise ApartError(f"{name!r} is written, and is another array after an iteration")

    def _moves(self, run: _Run, places: dict[Key, TracedArray]) -> dict[Key, Key]:
        """Names that after the iteration have the array that another name had before."""
        owner = {id(handle.storage): key for key, handle in places.items() if _is_array(handle)}
        found = {}
        for key, leaf in self._leaves(run.after):
            if _is_array(leaf) and not leaf.views and id(leaf.storage) in owner:
                found[key] = owner[id(leaf.storage)]
        return found

    def _is_alone(self, key: Key) -> bool:
        """Is the name the only one that leads to the array it has before the loop?"""
        before = dict(self._leaves(self.entry)).get(key)
        if not isinstance(before, TracedArray) or before.is_scalar:
            return True
        storage = before.storage
        others = (leaf for other, leaf in self._leaves(self.entry) if other != key and _is_array(leaf))
        return (
            storage.position is None
            and not any(leaf.storage is storage for leaf in others)
            and not is_seen(storage, self.names)
        )

    # --- the node -----------------------------------------------------------------------------------------

    def _finish(self, run: _Run, places: dict[Key, TracedArray], memory: dict[int, Node]) -> None:
        rec, nodes = self.rec, self.rec.nodes
        keys: list[Any] = [*places, *memory]
        states = [*(handle.storage.node for handle in places.values()), *memory.values()]
        starts = [*(self.starts[k] for k in places), *(self.storages[k].node for k in memory)]
        finals = [
            *(joined_value(rec, run.ends[k], self.kinds[k].dtype) for k in places),
            *(run.stored[k] for k in memory),
        ]
        bodies = Bodies(nodes, self.first, states, run.counter, runs=self.runs)
        writes = [(k, n) for k, n in enumerate(finals) if n is not states[k]]
        asked = [] if run.asked is None else [run.asked]
        bodies.capture([*run.sizes[0], *(n for _, n in writes), *asked])
        graph = bodies.graph(writes, sizes=run.sizes)
        head: tuple[Node, ...] = ()
        if self.counted is not None:
            head = (nodes.cast(lifted(rec, self.counted.length).node, dtypes.INT64),)
            extra: dict[str, Any] = {"var": run.counter, "body": graph}
        else:
            extra = {"test": bodies.graph([], asked), "body": graph}
        node = nodes.make(self.op, (*head, *starts, *bodies.captured), (), dtypes.BOOL, states=len(states), **extra)
        nodes.forget(self.first, [node])
        changed = {k for k, _ in writes}
        results = {
            key: nodes.make("result", (node,), s.shape, s.dtype, k=k) if k in changed else starts[k]
            for k, (key, s) in enumerate(zip(keys, states, strict=True))
        }
        for key, storage in self.storages.items():
            rec.write(storage, results[key])
        rec.mixed |= {results[key] for key in self.mixed}
        self.put(self._left(run, _After(self, run, results).handles(places)))

    def _left(self, run: _Run, handles: dict[Key, Any]) -> tuple:
        """The variables after the loop."""
        values = (self._variable(v, handles) for v in range(len(self.names)))
        return tuple(
            after_loop(end, name) if isinstance(end, Unassigned) else value
            for value, end, name in zip(values, run.after, self.names, strict=True)
        )


class _After:
    """What the variables are after a loop whose states hold `results`."""

    def __init__(self, loop: Loop, run: _Run, results: dict[Any, Node]) -> None:
        self.loop, self.rec, self.run, self.results = loop, loop.rec, run, results
        self.made: dict[int, TracedArray] = {}
        """Handles of memory that was made in the loop, by the memory."""

    def handles(self, places: dict[Key, TracedArray]) -> dict[Key, Any]:
        after = dict(self.loop._leaves(self.run.after))
        return {key: self.leaf(key, after[key], places[key]) for key in places}

    def leaf(self, key: Key, end: Any, given: TracedArray) -> Any:
        loop, name = self.loop, self.loop.names[key[0]]
        if not loop.runs and isinstance(loop.entry[key[0]], Unassigned) and not name.endswith("_"):
            return loop_only(name)
        if end is given and key not in self.run.touched:
            return dict(loop._leaves(loop.entry))[key]
        if (known := self.known(end, given)) is not None:
            return known
        kind = loop.kinds[key]
        if not _is_array(end):
            return value_of(self.rec, self.results[key], kind)
        storage = end.storage
        if (same := self.made.get(id(storage))) is not None and not end.views:
            return TracedArray(self.rec, same.storage, same.storage.node, same.strides_in_elements)
        made = value_of(self.rec, self.results[key], kind)
        sources = dict(loop.sources.get(key, {}))
        if not loop.runs and not loop._is_alone(key):
            before = dict(loop._leaves(loop.entry))[key].storage
            sources[id(before)] = before
        if sources:
            be_copy(made.storage, sources.values(), name)
        elif end.views or same is not None:
            made.storage.fixed = f"{named(name)}, a view that a loop made,"
        self.made.setdefault(id(storage), made)
        return made

    def known(self, end: Any, given: TracedArray) -> Any:
        """The value, where it is known or the view of an array that it is; None otherwise."""
        if self.loop.runs and type(end) in (bool, int, float, complex):
            return end
        if self.loop.runs and type(end) is Size:
            return self.rec.size(self.last(end.index))
        asked = self.run.asked
        if asked is given.storage.node:
            return False  # the loop ends when its test does not hold
        if asked is not None and asked.op == "logical_not" and asked.args[0] is given.storage.node:
            return True
        if not _is_array(end) or end.storage.born >= self.run.serial or not self.loop.runs:
            return None
        if any(isinstance(view, PickView) for view in end.views):
            return None
        views = tuple(replace(v, **{f.name: self.last(getattr(v, f.name)) for f in fields(v)}) for v in end.views)
        node = end.storage.node
        for view in views:
            node = view.read(self.rec.nodes, node)
        return TracedArray(self.rec, end.storage, node, self.last(end.strides_in_elements), views)

    def last(self, tree: Any) -> Any:
        """What depends on the counter, as it is in the last iteration."""
        counted = self.loop.counted
        if counted is None:
            return tree
        end = counted.length - 1
        step: dict[Atom, Index] = {
            atom: end.index if type(end) is Size else as_index(end)
            for index in _indices(tree)
            for atom in atoms(index)
            if getattr(atom, "name", "") == self.run.counter
        }
        return map_tree(tree, lambda item: substitute(item, step) if isinstance(item, Index) else item)


def _indices(tree: Any) -> list[Index]:
    found: list[Index] = []
    map_tree(tree, lambda item: found.append(item) if isinstance(item, Index) else None)
    return found


def _is_array(value: Any) -> bool:
    return isinstance(value, TracedArray) and not value.is_scalar


def _same_view(a: Any, b: Any) -> bool:
    return type(a) is TracedArray and type(b) is TracedArray and a.storage is b.storage and a.views == b.views


def _period(moves: dict[Key, Key]) -> int:
    """After how many iterations names that exchange their arrays have them back; 1 when there are none."""
    period = 1
    for start in moves:
        length, at = 1, moves[start]
        while at != start and at in moves and length <= len(moves):
            at, length = moves[at], length + 1
        if at == start:
            period = math.lcm(period, length)
    return period
