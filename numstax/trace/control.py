"""The operators that rewritten code calls for loops and branches (see `source`): run as Python, or captured.

A condition that is known while tracing runs as Python, and so do short loops.  A branch on a traced value, and a long
loop, is run on trial in a Scope; what it did becomes the bodies of a `cond`, `for` or `while` node.  States are the
arrays written inside and the variables that change; types of states are found by trying again until they agree.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from numstax import dtypes
from numstax.errors import DataDependentError, TraceError, UnsupportedArgumentError, VerifyError
from numstax.trace.array import TracedArray
from numstax.trace.choices import Choice
from numstax.trace.classes import StandIn
from numstax.trace.contents import reachable
from numstax.trace.counted import Counted
from numstax.trace.generators import TracedGenerator
from numstax.trace.loops import ApartError, Get, Loop, RotatedError, Set, Thunk
from numstax.trace.origin import user_origin
from numstax.trace.scopes import (
    CannotCaptureError,
    Scope,
    check_iterator,
    lifted,
    refuse,
    speculative,
    truth,
)
from numstax.trace.selection import pack
from numstax.trace.sizes import Condition, Size
from numstax.trace.unassigned import unbound

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

UNROLLED = 16
"""Loops of at most so many iterations run as Python,"""
UNROLLED_EFFORT = 400
"""unless it would take more than this to compile what they do, in additions."""
MOST_UNROLLED = 4096
"""Loops that cannot be captured run as Python up to this length."""
_CAUGHT = "catch it where the compiled function is called"
_ASSERTED = "move the check out of the compiled function, to where it is called"
MOST_APART = 3
"""Iterations that may run before a loop is captured."""


class LengthyError(CannotCaptureError):
    """A loop of few iterations makes much to compile."""


class Control:
    """What ``__control__`` is for the functions of one trace."""

    unbound = staticmethod(unbound)

    def __init__(self, rec: Recorder) -> None:
        self.rec = rec
        self._lengthy: set[types.CodeType] = set()
        """Bodies of loops that were found to be lengthy."""
        self._raised: Exception | None = None
        """What has left the body of a ``with``."""

    def caught(self) -> None:
        """An exception is handled by the program; what only tracing raises, or the values of this call, is not."""
        error = self._not_of_the_program()
        if error is not None:
            raise error

    def begins(self) -> None:
        """The body of a ``with`` begins."""
        self._raised = None

    def raised(self) -> None:
        """An exception leaves the body of a ``with``, which may suppress it."""
        self._raised = self._not_of_the_program()

    def ends(self) -> None:
        """The program goes on after a ``with``."""
        if self._raised is not None:
            raise self._raised

    def _not_of_the_program(self) -> Exception | None:
        """The exception under way, if only tracing raises it, or the values of this call."""
        error = sys.exception()
        if isinstance(error, TraceError | VerifyError | UnsupportedArgumentError):
            return error
        if error is not None and error is self.rec.library_error:
            refused = refuse(f"{type(error).__name__}, which depends on values, is caught", _CAUGHT)
            refused.__cause__ = error
            return refused
        return None

    # --- conditions -----------------------------------------------------------------------------------

    def _condition(self, value: Any) -> TracedArray | None:
        """The traced condition; None when it is known."""
        rec = self.rec
        if type(value) is Size:
            value = rec.condition("!=", value.index)
        if type(value) is Condition:
            known = rec.shapes.known(value.relation, value.index)
            return lifted(rec, value) if known is None else None
        if not isinstance(value, TracedArray):
            return None
        if value.ndim and value.size != 1:
            return None  # NumPy's own error
        node = rec.nodes.reshape(value.node, ())
        return None if rec.known(node) is not None else truth(rec, rec.fresh(node, True))

    def truth(self, value: Any) -> Any:
        condition = self._condition(value)
        return bool(value) if condition is None else condition

    def asserted(self, value: Any) -> Any:
        if isinstance(value, TracedArray) and self._condition(value) is not None:
            raise DataDependentError("an assert on the value of a traced array", user_origin(), _ASSERTED)
        return value

    def original(self, value: Any) -> Any:
        """A class in place of what stands for it."""
        return value.original if type(value) is StandIn else value

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
        held: list[Any] = [unbound("the conditional expression")]

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
        rec, entry = self.rec, get()
        pack(entry)
        first = rec.nodes.count
        chosen = Choice(rec, condition.node, first, names)
        try:
            for run in (then, orelse):
                scope = Scope(rec, functions, is_body=True)
                try:
                    with speculative("a branch on a traced value"):
                        run()
                    chosen.side(scope, get())
                finally:
                    scope.undo()
                    put(entry)
            places = [chosen.merge(v) for v in range(len(names))]
            chosen.finish()
        except BaseException:
            rec.nodes.forget(first)
            raise
        put(tuple(place() for place in places))

    # --- loops ----------------------------------------------------------------------------------------

    def for_(
        self, iterable: Any, body: Callable[[Any], None], more: Thunk | None, get: Get, put: Set, names: tuple[str, ...]
    ) -> None:
        counted = Counted.of(self.rec, iterable)
        trips = None if counted is None else counted.trips
        if counted is None or trips == 0:
            self._python_for(iterable, body, more)
            return

        def run(limit: int | None = None) -> None:
            self._python_for(self._counted_items(counted, limit), body, more)

        def capture() -> None:
            if more is None:
                self._captured_for(counted, body, get, put, names)
            else:
                self._captured_for_while(counted, body, more, get, put, names)

        if trips is None or (trips > MOST_UNROLLED and not self._is_plain((body,), get)):
            capture()
            return
        short = trips <= UNROLLED or self._is_plain((body,), get)
        if short and body.__code__ not in self._lengthy:
            failed = self._on_trial(lambda: run(UNROLLED_EFFORT), get, put, (body,))
            if failed is None:
                return
            if not isinstance(failed, LengthyError):
                capture()
                return
            # in loops around this one it will be so too: trying each time would take time exponential in their number
            self._lengthy.add(body.__code__)
        refused = self._on_trial(capture, get, put, (body,))
        if refused is not None:
            try:
                run()
            except TraceError:
                raise refused from None

    def _counted_items(self, counted: Counted, limit: int | None) -> Iterator[Any]:
        """The items; LengthyError where the first of them foretells more than `limit` effort, or it is reached."""
        nodes, trips = self.rec.nodes, counted.trips or 0
        first = nodes.effort
        for k in range(trips):
            so_far = nodes.effort - first
            if limit is not None and (so_far * trips if k == 1 else so_far) > limit:
                raise LengthyError("the loop is too long to run as Python", user_origin())
            yield counted.item(k)

    def _is_plain(self, functions: tuple[Callable[..., Any], ...], get: Get) -> bool:
        """Do the variables lead to nothing traced?  Such a loop runs as Python, whose integers have no limit."""
        return not any(isinstance(v, TracedArray | Size | TracedGenerator) for v in reachable((*functions, *get())))

    def _python_for(self, items: Iterable[Any], body: Callable[[Any], None], more: Thunk | None) -> None:
        check_iterator(self.rec, items)
        for item in items:
            body(item)
            if more is not None:
                wanted = more()
                if self._condition(wanted) is not None:
                    raise refuse("whether the loop goes on depends on a traced value")
                if not wanted:
                    break

    def _on_trial(self, run: Thunk, get: Get, put: Set, functions: tuple[Callable[..., Any], ...]) -> TraceError | None:
        """Run; where that cannot be, why, with everything as before."""
        scope, entry = Scope(self.rec, functions), get()
        try:
            run()
        except TraceError as error:
            scope.undo()
            put(entry)
            self.rec.nodes.forget(scope.first_node)
            return error
        except BaseException:
            scope.close()
            raise
        scope.close()
        return None

    def while_(self, test: Thunk, body: Thunk, get: Get, put: Set, names: tuple[str, ...]) -> None:
        scope, entry = Scope(self.rec, (test, body)), get()
        plain = self._is_plain((test, body), get)
        nodes, lengthy = self.rec.nodes, body.__code__ in self._lengthy
        first = nodes.effort
        changes = False
        """Does the test do more than compare?"""
        for _ in range(MOST_UNROLLED if plain else UNROLLED):
            asking, before = None if plain else Scope(self.rec, (test,)), get()
            wanted = test()
            if asking is not None:
                asking.close()
                changes |= asking.has_changed or any(a is not b for a, b in zip(before, get(), strict=True))
            if self._condition(wanted) is not None:
                break
            if not wanted:
                scope.close()
                return
            if lengthy or nodes.effort - first > UNROLLED_EFFORT:
                self._lengthy.add(body.__code__)
                self._from_the_start(scope, entry, test, body, get, put, names, changes)
                return
            try:
                body()
            except BaseException:
                scope.close()
                raise
        else:
            self._from_the_start(scope, entry, test, body, get, put, names, changes)
            return
        scope.close()
        self._captured_while(test, body, get, put, names, (wanted,) if changes else ())

    def _captured_while(
        self, test: Thunk, body: Thunk, get: Get, put: Set, names: tuple[str, ...], wanted: tuple[Any, ...]
    ) -> None:
        """`wanted` : what the test gave, where it changes something: then it runs once before each iteration, and what
        it gives is a state."""
        if not wanted:
            Loop(self.rec, "while", body, get, put, names, test=test).capture()
            return
        held = [self.truth(*wanted)]

        def step() -> None:
            body()
            held[0] = self.truth(test())

        def put_all(values: tuple) -> None:
            held[0] = values[-1]
            put(values[:-1])

        Loop(
            self.rec, "while", step, lambda: (*get(), held[0]), put_all, (*names, "its test"),
            test=lambda: held[0], functions=(body, test),
        ).capture()  # fmt: skip

    def _from_the_start(
        self, scope: Scope, entry: tuple, test: Thunk, body: Thunk, get: Get, put: Set, names: tuple[str, ...],
        changes: bool,
    ) -> None:  # fmt: skip
        """A while loop that is longer than was tried: captured, with its numbers as states."""
        scope.undo()
        put(entry)
        self.rec.nodes.forget(scope.first_node)
        try:
            self._captured_while(test, body, get, put, names, (test(),) if changes else ())
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
        self, counted: Counted, body: Callable[[Any], None], get: Get, put: Set, names: tuple[str, ...], apart: int = 0
    ) -> None:
        """One node; where types or sharing settle only after the first iterations, those run before (`apart` counts
        them); where names change places, an iteration of the node is several of the loop."""
        try:
            Loop(self.rec, "for", body, get, put, names, counted=counted).capture()
        except RotatedError as error:
            if counted.trips is None or counted.trips < error.period:
                raise refuse(str(error.what)) from None
            grouped = counted.grouped(error.period)

            def several(items: list[Any]) -> None:
                for item in items:
                    body(item)

            Loop(self.rec, "for", several, get, put, names, counted=grouped, functions=(body,)).capture()
            rest = range(counted.trips // error.period * error.period, counted.trips)
            self._python_for(map(counted.item, rest), body, None)
        except ApartError as error:
            if not counted.runs or apart == MOST_APART:
                raise refuse(error.what, error.remedy) from None
            body(counted.item(0))
            self._captured_for(counted.after(1), body, get, put, names, apart + 1)

    def _captured_for_while(
        self, counted: Counted, body: Callable[[Any], None], more: Thunk, get: Get, put: Set, names: tuple[str, ...]
    ) -> None:
        """A counted loop that may stop early."""
        position: list[Any] = [0]
        total = counted.length

        def test() -> Any:
            return self.and_(lambda: position[0] < total, more)

        def step() -> None:
            body(counted.item(position[0]))
            position[0] = position[0] + 1

        def put_all(values: tuple) -> None:
            position[0] = values[-1]
            put(values[:-1])

        Loop(
            self.rec, "while", step, lambda: (*get(), position[0]), put_all, (*names, "its counter"),
            test=test, functions=(body, more),
        ).capture()  # fmt: skip


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
