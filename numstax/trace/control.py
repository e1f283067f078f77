"""The operators that rewritten code calls for loops and branches (see `source`): run as Python, or captured.

A condition that is known while tracing runs as Python, and so do short loops.  A branch on a traced value, and a long
loop, is run on trial in a Scope; what it did becomes the bodies of a `cond`, `for` or `while` node.  States are the
arrays written inside and the variables that change; types of states are found by trying again until they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import TraceError
from numstax.trace.array import TracedArray
from numstax.trace.choices import Choice
from numstax.trace.loops import Counted, Get, Loop, Set, SwappedError, Thunk, UnsettledError
from numstax.trace.scopes import (
    UNDEFINED,
    Scope,
    description,
    is_number,
    joined,
    kind_of,
    leaves,
    lifted,
    rebuilt,
    refuse,
    speculative,
    value_of,
)
from numstax.trace.sizes import Condition

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

UNROLLED = 16
"""Loops of at most so many iterations run as Python."""
MOST_UNROLLED = 4096
"""Loops that cannot be captured run as Python up to this length."""


class Control:
    """What ``__control__`` is for the functions of one trace."""

    UNDEFINED = UNDEFINED

    def __init__(self, rec: Recorder) -> None:
        self.rec = rec

    # --- conditions -----------------------------------------------------------------------------------

    def _condition(self, value: Any) -> TracedArray | None:
        """The traced condition; None when it is known."""
        rec = self.rec
        if type(value) is Condition:
            known = rec.shapes.known(value.relation, value.index)
            return lifted(rec, value) if known is None else None
        if not isinstance(value, TracedArray):
            return None
        if value.ndim and value.size != 1:
            return None  # NumPy's own error
        node = rec.nodes.reshape(value.node, ())
        if rec.known(node) is not None:
            return None
        if node.dtype != dtypes.BOOL:
            node = rec.nodes.elementwise("not_equal", (node, rec.nodes.full(0, node.dtype, ())), dtypes.BOOL)
        return rec.fresh(node, True, weak=bool)

    def not_(self, value: Any) -> Any:
        condition = self._condition(value)
        if condition is None:
            return not value
        node = self.rec.nodes.elementwise("logical_not", (condition.node,), dtypes.BOOL)
        return self.rec.fresh(node, True, weak=bool)

    def and_(self, *thunks: Thunk) -> Any:
        value = thunks[0]()
        if len(thunks) == 1:
            return value
        return self.if_exp(value, lambda: self.and_(*thunks[1:]), lambda: value)

    def or_(self, *thunks: Thunk) -> Any:
        value = thunks[0]()
        if len(thunks) == 1:
            return value
        return self.if_exp(value, lambda: value, lambda: self.or_(*thunks[1:]))

    def compare(self, signs: tuple[str, ...], first: Thunk, *thunks: Thunk) -> Any:
        """``a < b < c``: each operand is computed once, and only when it is needed."""
        return self._chain(first(), list(zip(signs, thunks, strict=True)))

    def _chain(self, a: Any, rest: list[tuple[str, Thunk]]) -> Any:
        (sign, thunk), *others = rest
        b = thunk()
        value = _COMPARISONS[sign](a, b)
        if not others:
            return value
        return self.if_exp(value, lambda: self._chain(b, others), lambda: value)

    def if_exp(self, condition: Any, then: Thunk, orelse: Thunk) -> Any:
        traced = self._condition(condition)
        if traced is None:
            return then() if condition else orelse()
        held = [UNDEFINED]

        def put(values: tuple) -> None:
            held[0] = values[0]

        def run(thunk: Thunk) -> Thunk:
            return lambda: put((thunk(),))

        self._branch(
            traced, run(then), run(orelse), lambda: (held[0],), put, ("the conditional expression",), (then, orelse)
        )
        return held[0]

    # --- branches -------------------------------------------------------------------------------------

    def if_(self, condition: Any, then: Thunk, orelse: Thunk, get: Get, put: Set, names: tuple[str, ...]) -> None:
        traced = self._condition(condition)
        if traced is None:
            (then if condition else orelse)()
        else:
            self._branch(traced, then, orelse, get, put, names, (then, orelse))

    def _branch(
        self, condition: TracedArray, then: Thunk, orelse: Thunk, get: Get, put: Set, names: tuple[str, ...],
        functions: tuple[Callable[..., Any], ...],
    ) -> None:  # fmt: skip
        rec, entry, predicate = self.rec, get(), condition.node
        first = rec.nodes.count
        ends = []
        for run in (then, orelse):
            scope = Scope(rec, functions, is_body=True)
            try:
                with speculative("a branch on a traced value"):
                    run()
                after = get()
                if scope.changed_container() is not None:
                    raise refuse("a list, dict or object is changed in a branch on a traced value")
                stored = {key: (storage, storage.node) for key, (storage, _) in scope.written.items()}
                ends.append((after, stored))
            finally:
                scope.undo()
                put(entry)
        (after_then, stored_then), (after_else, stored_else) = ends
        chosen = Choice(rec, predicate, first)
        places = [self._merge(a, b, name, chosen) for a, b, name in zip(after_then, after_else, names, strict=True)]
        storages = {**stored_then, **stored_else}
        written = []
        for key, (storage, _) in storages.items():
            a, b = (s[key][1] if key in s else storage.node for s in (stored_then, stored_else))
            if a is not b:
                written.append((storage, chosen.add(a, b, storage.node)))
        chosen.finish()
        for storage, k in written:
            rec.note(storage)
            storage.node = chosen.result(k)
        put(tuple(place() for place in places))

    def _merge(self, a: Any, b: Any, name: str, chosen: Choice) -> Callable[[], Any]:
        """What a variable holds after a branch: made when the node is."""
        if a is b or (
            type(a) is type(b) and type(a) in (int, bool, str, float, type(None)) and a == b and str(a) == str(b)
        ):
            return lambda: a
        if type(a) is TracedArray and type(b) is TracedArray and a.storage is b.storage and a.views == b.views:
            return lambda: a
        if a is UNDEFINED or b is UNDEFINED:
            known = b if a is UNDEFINED else a
            if not name.endswith("_") or not all(map(is_number, leaves(known))):
                return lambda: Poison(name)
            parts = [self._leaf(v, v, name, chosen) for v in leaves(known)]
            return lambda: rebuilt(known, iter([part() for part in parts]))
        one, two = list(leaves(a)), list(leaves(b))
        if type(a) is not type(b) and not (is_number(a) and is_number(b)):
            raise refuse(f"{name!r} is {description(a)} after one branch and {description(b)} after the other")
        if len(one) != len(two):
            raise refuse(f"{name!r} has {len(one)} parts after one branch and {len(two)} after the other")
        parts = [self._leaf(x, y, name, chosen) for x, y in zip(one, two, strict=True)]
        return lambda: rebuilt(a, iter([part() for part in parts]))

    def _leaf(self, a: Any, b: Any, name: str, chosen: Choice) -> Callable[[], Any]:
        if a is b and not is_number(a):
            return lambda: a
        if not is_number(a) or not is_number(b):
            raise refuse(f"{name!r} is {description(a)} after one branch and {description(b)} after the other")
        x, y = lifted(self.rec, a), lifted(self.rec, b)
        kind = joined(kind_of(x), kind_of(y), np.result_type)
        if kind is None:
            raise refuse(f"{name!r} is {kind_of(x)} after one branch and {kind_of(y)} after the other")
        left, right = (self.rec.nodes.cast(v.node, kind.dtype) for v in (x, y))
        k = chosen.add(left, right, None)
        shared = any(s.born < self.rec.storage_serial and v.sizes for v in (x, y) for s in [v.storage])

        def make() -> TracedArray:
            handle = value_of(self.rec, chosen.result(k), kind)
            if shared:
                handle.storage.fixed = f"{name!r}, which is one of two arrays"
            return handle

        return make

    # --- loops ----------------------------------------------------------------------------------------

    def for_(
        self, iterable: Any, body: Callable[[Any], None], more: Thunk | None, get: Get, put: Set, names: tuple[str, ...]
    ) -> None:
        counted = Counted.of(self.rec, iterable)
        if counted is None:
            self._python_for(iterable, body, more)
            return
        trips = counted.trips
        if trips is not None and trips <= UNROLLED:

            def run() -> None:
                self._python_for(map(counted.item, range(trips)), body, more)

            if self._on_trial(run, get, put, (body,)):
                return
        if trips == 0:
            return

        def capture() -> None:
            if more is None:
                self._captured_for(counted, body, get, put, names)
            else:
                self._captured_for_while(counted, body, more, get, put, names)

        last = trips is None or trips > MOST_UNROLLED
        if last:
            capture()
        elif not self._on_trial(capture, get, put, (body,)):
            self._python_for(map(counted.item, range(trips or 0)), body, more)

    def _python_for(self, items: Iterable[Any], body: Callable[[Any], None], more: Thunk | None) -> None:
        for item in items:
            if more is not None:
                wanted = more()
                if self._condition(wanted) is not None:
                    raise refuse("whether the loop goes on depends on a traced value")
                if not wanted:
                    break
            body(item)

    def _on_trial(self, run: Thunk, get: Get, put: Set, functions: tuple[Callable[..., Any], ...]) -> bool:
        """Run; False, with everything as before, when that cannot be as Python."""
        scope, entry = Scope(self.rec, functions), get()
        try:
            run()
        except TraceError:
            scope.undo()
            put(entry)
            return False
        except BaseException:
            scope.close()
            raise
        scope.close()
        return True

    def while_(self, test: Thunk, body: Thunk, get: Get, put: Set, names: tuple[str, ...]) -> None:
        scope, entry = Scope(self.rec, (test, body)), get()
        for _ in range(UNROLLED):
            wanted = test()
            if self._condition(wanted) is not None:
                break
            if not wanted:
                scope.close()
                return
            try:
                body()
            except BaseException:
                scope.close()
                raise
        else:
            # longer: from the start, with its numbers as states
            late = Scope(self.rec, (test, body))
            late.close()
            scope.undo()
            put(entry)
            self._long_while(test, body, get, put, names)
            return
        scope.close()
        Loop(self.rec, "while", body, get, put, names, test=test).capture()

    def _long_while(self, test: Thunk, body: Thunk, get: Get, put: Set, names: tuple[str, ...]) -> None:
        try:
            Loop(self.rec, "while", body, get, put, names, test=test).capture()
        except TraceError:
            for _ in range(MOST_UNROLLED):
                wanted = test()
                if self._condition(wanted) is not None:
                    raise
                if not wanted:
                    return
                body()
            raise

    def _captured_for(
        self, counted: Counted, body: Callable[[Any], None], get: Get, put: Set, names: tuple[str, ...]
    ) -> None:
        """One node; where types settle only after the first iteration, that runs before; where arrays swap their
        names, an iteration of the node is two of the loop."""
        try:
            Loop(self.rec, "for", body, get, put, names, counted=counted).capture()
        except SwappedError as error:
            if counted.trips is None or counted.trips < 2:
                raise refuse(str(error)) from None
            pairs = counted.pairs()

            def twice(item: Any) -> None:
                body(item)
                body(item + counted.step)

            Loop(self.rec, "for", twice, get, put, names, counted=pairs, functions=(body,)).capture()
            self._python_for(map(counted.item, range(counted.trips // 2 * 2, counted.trips)), body, None)
        except UnsettledError as error:
            if counted.trips is None:
                raise refuse(str(error)) from None
            body(counted.item(0))
            Loop(self.rec, "for", body, get, put, names, counted=counted.after(1)).capture()

    def _captured_for_while(
        self, counted: Counted, body: Callable[[Any], None], more: Thunk, get: Get, put: Set, names: tuple[str, ...]
    ) -> None:
        """A counted loop that may stop early."""
        position: list[Any] = [0]
        total = counted.total()

        def test() -> Any:
            return self.and_(lambda: position[0] < total, more)

        def step() -> None:
            body(counted.item(position[0]))
            position[0] = position[0] + 1

        def put_all(values: tuple) -> None:
            position[0] = values[-1]
            put(values[:-1])

        loop = Loop(self.rec, "while", step, lambda: (*get(), position[0]), put_all, (*names, "its counter"), test=test)
        loop.functions = (body, more)
        loop.capture()


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": lambda a, b: a < b,
    "LtE": lambda a, b: a <= b,
    "Gt": lambda a, b: a > b,
    "GtE": lambda a, b: a >= b,
    "Eq": lambda a, b: a == b,
    "NotEq": lambda a, b: a != b,
    "Is": lambda a, b: a is b,
    "IsNot": lambda a, b: a is not b,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


class Poison:
    """A variable that only one branch assigns."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        raise TraceError(
            f"{self._name!r} is assigned in only one branch of an if on a traced value", None, "assign it before the if"
        )

    def __bool__(self) -> bool:
        return bool(self.anything)
