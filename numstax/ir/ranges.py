"""Requirements that certainly hold, by the ranges of integers, and Graphs without them.

A Graph enters; an equal one leaves, without the `require` nodes whose condition is true for every value.  What holds in
between: each integer lies in the interval that is kept for its node, as far as the requirements before it hold.

States of loops are widened until the body leaves them inside, or else start as anything and are narrowed (a body gives
`x & 255` whatever x was before); and a state that each iteration changes by at most d lies within d times the number
of iterations of its start.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.ir.graph import CONTROL, Builder, Graph, Node, control_args, control_bodies, is_state
from numstax.ir.index import Index, Quotient, Remainder, Symbol, Var, as_index, bounds
from numstax.ir.ops import VIEWS
from numstax.records import record

Interval = tuple[int, int]
MOST_TRIPS = 1 << 46
"""Iterations of Python that nobody waits for, weeks of them."""
NARROWINGS = 2
_WIDTHS = (8, 16, 32, 53, 62)
"""A state that grows is tried with so many bits."""
_ANY = (-(1 << 63), (1 << 63) - 1)
_BOTH, _YES, _NO = (0, 1), (1, 1), (0, 0)


def without_certain(graph: Graph) -> Graph:
    """The graph without requirements that hold for every value."""
    if not _requires(graph):
        return graph
    return _Ranges(graph, tuple(_full(spec.dtype) for spec in graph.inputs), {}).rebuilt()


def index_interval(index: Index) -> Interval | None:
    """The values of an Index; None when they, or those inside of it, may lie beyond 64 bits."""
    low, high = 0, 0
    for monomial, coefficient in index.terms:
        term = (coefficient, coefficient)
        for atom in monomial:
            factor = _atom_interval(atom)
            if factor is None:
                return None
            term = _times(term, factor)
        low, high = low + term[0], high + term[1]
    least, most = bounds(index)
    found = max(low, low if least is None else least), min(high, high if most is None else most)
    return found if _inside(found, _ANY) else None


def _atom_interval(atom: object) -> Interval | None:
    if isinstance(atom, Quotient | Remainder):
        parts = index_interval(atom.value), index_interval(atom.divisor)
        return None if None in parts else _hull(*parts)  # type: ignore[arg-type]
    if isinstance(atom, Var):
        inside = index_interval(atom.extent)
        return None if inside is None else (0, inside[1])
    if isinstance(atom, Symbol):
        # what has no hint counts elements or iterations
        most = atom.hi if atom.hi is not None else MOST_TRIPS if atom.hint is None else _ANY[1]
        return atom.lo, most
    return _ANY


def _requires(graph: Graph) -> bool:
    return any(n.op == "require" or any(map(_requires, _bodies(n))) for n in graph.nodes())


def _bodies(node: Node) -> tuple[Graph, ...]:
    return control_bodies(node) if node.op in CONTROL else ()


# --- intervals ------------------------------------------------------------------------------------------


def _full(dtype: np.dtype) -> Interval:
    """All values of a dtype; of others than integers nothing is known, and nothing asked."""
    kind = dtypes.kind(dtype)
    if kind == "b":
        return _BOTH
    if kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return _ANY


def _inside(a: Interval, b: Interval) -> bool:
    return b[0] <= a[0] and a[1] <= b[1]


def _hull(*parts: Interval) -> Interval:
    return min(p[0] for p in parts), max(p[1] for p in parts)


def _meet(a: Interval, b: Interval) -> Interval:
    """What lies in both; where nothing does, the value is not reached."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def _widened(old: Interval, new: Interval) -> Interval:
    """An interval of a round size around both; `old` when nothing is outside of it."""
    low, high = _hull(old, new)
    sizes = [1 << bits for bits in (*_WIDTHS, 63, 64)]
    if high > old[1]:
        high = next(n for n in sizes if high < n) - 1
    if low < old[0]:
        low = -next(n for n in sizes if -low <= n)
    return low, high


def _times(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _mask_below(top: int) -> int:
    """The number of ones that covers `top`."""
    return int((1 << top.bit_length()) - 1)


def _and(a: Interval, b: Interval) -> Interval | None:
    tops = [x[1] for x in (a, b) if x[0] >= 0]
    if tops:
        return 0, min(tops)
    return _or(a, b)


def _or(a: Interval, b: Interval) -> Interval | None:
    """Of `or`, `xor` and `and`: no bit above those of the operands, signs included."""
    top = _mask_below(max(max(x[1], ~x[0]) for x in (a, b)))
    return (0 if a[0] >= 0 and b[0] >= 0 else ~top), top


def _left_shift(a: Interval, b: Interval) -> Interval | None:
    return _hull(*((x << k, x << k) for x in a for k in b)) if b[0] >= 0 and b[1] < 64 else None


def _right_shift(a: Interval, b: Interval) -> Interval | None:
    return _hull(*((x >> k, x >> k) for x in a for k in b)) if b[0] >= 0 and b[1] < 64 else _hull(a, (-1, 0))


def _floor_divide(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0 <= b[1]:
        return -max(map(abs, a)), max(map(abs, a))
    ends = [x // y for x in a for y in b]
    return min(ends), max(ends)


def _remainder(a: Interval, b: Interval) -> Interval | None:
    low, high = min(b[0] + 1, 0), max(b[1] - 1, 0)
    return (low, min(high, a[1])) if a[0] >= 0 and b[0] > 0 else (low, high)


def _negative(a: Interval) -> Interval:
    return -a[1], -a[0]


def _absolute(a: Interval) -> Interval:
    low = 0 if a[0] <= 0 <= a[1] else min(map(abs, a))
    return low, max(map(abs, a))


_EXACT: dict[str, Callable[..., Interval | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _times,
    "negative": _negative,
    "positive": lambda a: a,
    "absolute": _absolute,
    "invert": lambda a: (~a[1], ~a[0]),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _or,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "bitwise_count": lambda a: (0, 64),
}
"""Intervals of the results before they wrap around; None: nothing is known."""
_FITTING = {"add_fits": "add", "subtract_fits": "subtract", "multiply_fits": "multiply"}


def _compared(sign: Callable[[int, int], bool], a: Interval, b: Interval) -> Interval:
    """Of an order: it is decided where it is the same for the nearest and the farthest values."""
    answers = {sign(x, y) for x in a for y in b}
    return _BOTH if len(answers) == 2 else _YES if True in answers else _NO


def _equal(a: Interval, b: Interval) -> Interval:
    if a[1] < b[0] or b[1] < a[0]:
        return _NO
    return _YES if a[0] == a[1] == b[0] == b[1] else _BOTH


def _not(a: Interval) -> Interval:
    return 1 - a[1], 1 - a[0]


_CONDITIONS: dict[str, Callable[..., Interval]] = {
    "less": lambda a, b: _compared(operator.lt, a, b),
    "less_equal": lambda a, b: _compared(operator.le, a, b),
    "greater": lambda a, b: _compared(operator.gt, a, b),
    "greater_equal": lambda a, b: _compared(operator.ge, a, b),
    "equal": _equal,
    "not_equal": lambda a, b: _not(_equal(a, b)),
}
_LOGIC: dict[str, Callable[..., Interval]] = {
    "logical_and": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "logical_or": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "logical_not": _not,
}


@record
class _Step:
    """By how much a state changes at most: `down` and `up` (both at least 0), `times` as often."""

    down: int
    up: int
    times: int = 1

    def plus(self, other: _Step) -> _Step:
        return _Step(self.down + other.down, self.up + other.up, max(self.times, other.times))

    def after(self, trips: int) -> _Step:
        return _Step(self.down, self.up, min(self.times * max(trips, 1), MOST_TRIPS))


class _Ranges:
    """The intervals of the nodes of one graph, for inputs in the given intervals."""

    def __init__(self, graph: Graph, inputs: tuple[Interval, ...], known: dict[object, _Ranges]) -> None:
        """`known` : those of bodies that were looked at before."""
        self.graph, self.inputs, self.known = graph, inputs, known
        self.of: dict[Node, Interval] = {}
        self.states: dict[Node, list[Interval]] = {}
        self.bodies: dict[Node, list[_Ranges]] = {}
        for node in graph.named():
            self.of[node] = self._interval(node)

    def _body(self, graph: Graph, inputs: Sequence[Interval]) -> _Ranges:
        key = id(graph), tuple(inputs)
        if key not in self.known:
            self.known[key] = _Ranges(graph, key[1], self.known)
        return self.known[key]

    def _interval(self, node: Node) -> Interval:
        if node.op in CONTROL:
            self.states[node] = self._control(node)
            return _BOTH
        full = _full(node.dtype)
        if node.op == "input":
            return _meet(full, self.inputs[node.attr("position")])
        if is_state(node):
            return _meet(full, self.states[node.args[0]][node.attr("k")])
        args = [self.of[a] for a in node.args]
        if node.op == "require":
            return _meet(full, self._required(node))
        if node.op in _LOGIC and all(a.dtype == dtypes.BOOL for a in node.args):
            return _LOGIC[node.op](*args)
        if dtypes.kind(node.dtype) not in "biu":
            return full
        found = self._value(node, args)
        return full if found is None or not _inside(found, full) else found

    def _value(self, node: Node, args: list[Interval]) -> Interval | None:
        integers = all(dtypes.kind(a.dtype) in "biu" for a in node.args)
        if node.op == "constant":
            value = int(node.attr("value").value)
            return value, value
        if node.op == "size":
            return index_interval(node.attr("index"))
        if node.op == "iota":
            extent = index_interval(as_index(node.shape[node.attr("axis")]))
            return None if extent is None else (0, max(extent[1] - 1, 0))
        if node.op in ("isfinite", "isnan") and node.args[0].op == "cast" and self._is_integer(node.args[0].args[0]):
            return _YES if node.op == "isfinite" else _NO
        if not integers:
            return None
        if node.op == "where":
            return _hull(*args[1:])
        if node.op in ("update", "scatter"):
            return _hull(*args[:2]) if node.op == "update" or node.attr("op") == "set" else None
        if node.op in ("cast", "gather", "copy", *VIEWS):
            return args[0]
        if node.op in _FITTING:
            exact = _EXACT[_FITTING[node.op]](*args)
            return _YES if exact is not None and _inside(exact, _ANY) else _BOTH
        if node.op in _CONDITIONS:
            return _CONDITIONS[node.op](*args)
        return self._exact(node, args)

    @staticmethod
    def _is_integer(node: Node) -> bool:
        return dtypes.kind(node.dtype) in "biu"

    @staticmethod
    def _exact(node: Node, args: list[Interval]) -> Interval | None:
        if node.op == "square":
            return 0, max(x * x for x in args[0])
        rule = _EXACT.get(node.op)
        return None if rule is None or node.dtype == dtypes.BOOL else rule(*args)

    def _required(self, node: Node) -> Interval:
        """The value where what is required holds."""
        value, holds = node.args
        found = self.of[value]
        if node.attr("requirement") == "range" and self._is_integer(value):
            exact = self._exact(value, [self.of[a] for a in value.args])
            found = found if exact is None else _meet(exact, _ANY)
        return self._under(value, holds, found)

    def _under(self, value: Node, holds: Node, found: Interval) -> Interval:
        if holds.op == "logical_and":
            return self._under(value, holds.args[1], self._under(value, holds.args[0], found))
        if holds.op in ("less_equal", "greater_equal") and holds.args[0] is value and self._is_integer(value):
            low, high = self.of[holds.args[1]]
            return _meet(found, (_ANY[0], high) if holds.op == "less_equal" else (low, max(_ANY[1], found[1])))
        return found

    # --- control flow -----------------------------------------------------------------------------------

    def _control(self, node: Node) -> list[Interval]:
        """What the states hold during a loop, and after a branch."""
        head, states, captured = control_args(node)
        starts, given = [self.of[s] for s in states], [self.of[c] for c in captured]
        graphs = control_bodies(node)
        if node.op == "cond":
            runs = self.bodies[node] = [self._body(body, [*starts, *given]) for body in graphs]
            return [_hull(*(run.after(k) for run in runs)) for k in range(len(states))]
        trips = self.of[head][1] if node.op == "for" and head is not None else MOST_TRIPS
        written = [k for k, _ in graphs[-1].writes]
        held = list(starts)
        for _ in _WIDTHS:
            run = self._body(graphs[-1], [*held, *given])
            wider = [_widened(h, run.after(k)) for k, h in enumerate(held)]
            if wider == held:
                break
            held = wider
        else:
            held = [_full(s.dtype) if k in written else starts[k] for k, s in enumerate(states)]
        for _ in range(NARROWINGS):
            run = self._body(graphs[-1], [*held, *given])
            for k in written:
                held[k] = _meet(held[k], _hull(starts[k], run.after(k)))
                if (step := run.step(k)) is not None:
                    step = step.after(trips)
                    near = starts[k][0] - step.down * step.times, starts[k][1] + step.up * step.times
                    held[k] = _meet(held[k], near)
        self.bodies[node] = [self._body(body, [*held, *given]) for body in graphs]
        return held

    def after(self, k: int) -> Interval:
        """What argument k holds after a body."""
        return next((self.of[node] for position, node in self.graph.writes if position == k), self.inputs[k])

    def step(self, k: int) -> _Step | None:
        """How a body changes argument k, an integer."""
        return self._end(k, {k: _Step(0, 0)})

    def _end(self, k: int, near: Mapping[int, _Step | None]) -> _Step | None:
        """How much argument k differs after a body from what `near` is given for: arguments, by how much they do."""
        written = next((node for position, node in self.graph.writes if position == k), None)
        return near.get(k) if written is None else self._step(written, near)

    def _step(self, node: Node, near: Mapping[int, _Step | None]) -> _Step | None:
        """How much `node` differs from that; None when it is not known."""
        if not self._is_integer(node):
            return None
        if node.op == "input":
            return near.get(node.attr("position"))
        if node.op == "require":
            return self._step(node.args[0], near)
        if node.op == "where":
            return _either(self._step(node.args[1], near), self._step(node.args[2], near))
        if is_state(node):
            return self._step_of_state(node.args[0], node.attr("k"), near)
        if node.op not in ("add", "subtract"):
            return None
        a, b = node.args
        if (step := self._step(a, near)) is not None:
            low, high = self.of[b] if node.op == "add" else _negative(self.of[b])
            return step.plus(_Step(max(-low, 0), max(high, 0)))
        if node.op == "add" and (step := self._step(b, near)) is not None:
            low, high = self.of[a]
            return step.plus(_Step(max(-low, 0), max(high, 0)))
        return None

    def _step_of_state(self, node: Node, state: int, near: Mapping[int, _Step | None]) -> _Step | None:
        head, states, captured = control_args(node)
        if node.op == "cond":
            inner = {p: self._step(arg, near) for p, arg in enumerate((*states, *captured))}
            return _either(*(run._end(state, inner) for run in self.bodies[node]))
        before, change = self._step(states[state], near), self.bodies[node][-1].step(state)
        if before is None or change is None:
            return None
        return before.plus(change.after(self.of[head][1] if node.op == "for" and head is not None else MOST_TRIPS))

    # --- the graph without what is certain --------------------------------------------------------------

    def rebuilt(self) -> Graph:
        builder, made = Builder(), dict[Node, Node]()
        for node in self.graph.named():
            args = tuple(made[a] for a in node.args)
            if node.op == "require" and self.of[node.args[1]] == _YES:
                made[node] = args[0]
                continue
            attrs: dict[str, Any] = dict(node.attrs)
            if node.op in CONTROL:
                attrs |= self._rebuilt_bodies(node)
            made[node] = builder.node(node.op, args, node.shape, node.dtype, node.origin, **attrs)
        return replace(
            self.graph,
            outputs=tuple(replace(out, node=made[out.node]) for out in self.graph.outputs),
            writes=tuple((k, made[n]) for k, n in self.graph.writes),
            binders=tuple(made[n] for n in self.graph.binders),
        )

    def _rebuilt_bodies(self, node: Node) -> Mapping[str, Graph]:
        names = [name for name, value in node.attrs if isinstance(value, Graph)]
        runs = {id(run.graph): run for run in self.bodies[node]}
        return {name: runs[id(node.attr(name))].rebuilt() for name in names}


def _either(*steps: _Step | None) -> _Step | None:
    known = [s for s in steps if s is not None]
    if len(known) < len(steps):
        return None
    return _Step(max(s.down for s in known), max(s.up for s in known), max(s.times for s in known))
