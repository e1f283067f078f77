"""Node and Graph: the frozen, interned value graph that the tracer records and autodiff transforms.

A Node is an operation on nodes; its shape is a tuple of Index, its dtype explicit.  Operands of elementwise
nodes have exactly the node's shape and the dtype the operation's loop works in: broadcasts and casts are
nodes of their own, inserted by the tracer.  Nodes are made by a `Builder`, which interns them: within one
Graph equal nodes are the same object.

Node operations (besides the rows of `ops.ELEMENTWISE`); attrs in parentheses:

  input (position)                 an argument; its InputSpec is graph.inputs[position]
  constant (value)                 0-d; value is a hashable `Literal`
  size (index)                     0-d int64, the value of an Index over size symbols
  iota (axis)                      int64, position along `axis`
  empty ()                         contents undefined
  cast ()                          astype
  bitcast ()                       ndarray.view(dtype), same itemsize
  reshape ()                       C order
  transpose (axes)
  broadcast_to ()                  NumPy rules
  slice (starts, steps)            out[k0, ..] = x[starts[0] + k0*steps[0], ..]; rank kept, steps may be negative
  roll (starts)                    out[k0, ..] = x[(starts[0] + k0) % n0, ..] for 0 <= starts[0] <= n0, ..
  diagonal (axis1, axis2, offset)  diagonal appended as the last axis
  window (axes)                    sliding_window_view: window axes appended, one for each of `axes`
  reduce_<op> (axes)               op of loops.Reduce ('reduce_add', ...); reduced axes are dropped; argmax/argmin
                                   take one axis and give int64
  scan_<op> (axis)
  gather (axes)                    args (x, i0, i1, ..): the index arrays have one common shape S (negative
                                   indices allowed, bounds checked); out shape = S + the axes of x not in `axes`
  update (starts, steps)           args (base, value): base with base[starts + k*steps] replaced by value[k]
  matmul (precision, group, template)
                                   args of rank >= 2, equal batch shapes; attributes as in loops.Contract
  scatter (axes, op)               args (base, value, i0, ..): base after ``base[.., i0, i1, ..] = value`` (op 'set':
                                   of several values for one element the last, in C order, stays) or after ``ufunc.at``
                                   (op: name of a ufunc); shapes and index rules as for gather
  for (var, body, states)          args (trips, *states, *captured); trips is 0-d int64, none when it is <= 0.  The
                                   counter 0 <= k < trips is the Symbol named `var` inside `body`
  while (test, body, states)       args (*states, *captured)
  cond (then, orelse, states)      args (predicate, *states, *captured); predicate is 0-d bool
  require (requirement)            args (value, holds), of one shape: `value`; unless `holds` everywhere, the call is
                                   done by NumPy instead (see `requirements`)
  extern (function, args, kwargs, results)
                                   opaque NumPy call; `args`/`kwargs` are trees in which `Arg(k)` is the node's
                                   k-th argument; `results` the (shape, dtype) of each result
  result (k)                       k-th result of an extern node; k-th state after a control node

Control nodes hold Graphs over the size symbols of the Graph around them.  The inputs of each are the states and the
captured values, in order, all of kind 'array' (also 0-d) and C-contiguous; its `writes` say what the states hold
afterwards (a state that is not written stays).  States have one shape and dtype throughout, which does not
depend on `var`.  `test` writes nothing; its one output is a 0-d bool.  `states` is the number of states.  The node
itself, which stands for all states, is a 0-d bool.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from numstax.errors import Origin
from numstax.ir.index import Index
from numstax.records import record

CONTROL = ("for", "while", "cond")
"""Operations on Graphs."""


@record
class Literal:
    """A hashable scalar constant: equal only when dtype and bits are equal (NaN equals itself, -0.0 not 0.0)."""

    dtype: np.dtype
    bits: bytes

    @classmethod
    def of(cls, value: object, dtype: np.dtype | None = None) -> Literal:
        array = np.asarray(value, dtype)
        return cls(array.dtype, array.tobytes())

    @property
    def value(self) -> np.generic:
        return np.frombuffer(self.bits, self.dtype)[0]  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return str(self.value)


@record
class Arg:
    """Stands for the k-th argument of an extern node inside its argument tree, and for input k in views of outputs."""

    k: int


@record(eq=False, weakref_slot=True)
class Node:
    """One operation; compared by identity (the Builder interns)."""

    op: str
    args: tuple[Node, ...] = field(repr=False)  # a tree of text would grow without bound where nodes are shared
    attrs: tuple[tuple[str, Hashable], ...]
    shape: tuple[Index, ...]
    dtype: np.dtype
    origin: Origin | None = field(default=None, repr=False)

    def attr(self, name: str) -> Any:
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(name)

    @property
    def ndim(self) -> int:
        return len(self.shape)


@record
class InputSpec:
    """An argument: kind 'array' (with strides in elements) or 'scalar' (0-d run-time value)."""

    kind: str
    dtype: np.dtype
    shape: tuple[Index, ...] = ()
    strides: tuple[Index, ...] = ()
    name: str = ""


@record
class Output:
    """One result. alias None: a fresh array holding `node`.  alias ('input', p) or ('output', k): the views
    (host-side NumPy operations in order, see program.Result) applied to that argument or earlier output.
    scalar: a NumPy scalar rather than a 0-d array."""

    node: Node
    scalar: bool = False
    alias: tuple[str, int] | None = None
    views: tuple[tuple[str, object], ...] = ()


@record
class Graph:
    """inputs, outputs, and `writes`: (argument position, node) -- what the argument holds afterwards.  ``str`` of a
    Graph is the text of `show`.

    `asserts` are (kind, Index a, Index b, message) checked at run time; kind 'eq' or 'le'.  `sizes` are symbols
    whose values the caller passes after the inputs; others are read off the inputs and the results of externs:
    `binders` are results whose shapes show sizes that depend on data.  Nodes may use such a size without using the
    result, so binders are live, and come first.
    """

    inputs: tuple[InputSpec, ...]
    outputs: tuple[Output, ...]
    writes: tuple[tuple[int, Node], ...] = ()
    asserts: tuple[tuple[str, Index, Index, str], ...] = ()
    sizes: tuple[str, ...] = ()
    binders: tuple[Node, ...] = ()

    def nodes(self) -> Iterator[Node]:
        """Every live node, arguments before users."""
        outputs = (o.node for o in self.outputs if o.alias is None)
        return iter(topological([*self.binders, *outputs, *(node for _, node in self.writes)]))

    def named(self) -> list[Node]:
        """Every node, those that only aliases name too, arguments before users."""
        outputs = (o.node for o in self.outputs)
        return topological([*self.binders, *outputs, *(node for _, node in self.writes)])


def control_args(node: Node) -> tuple[Node | None, tuple[Node, ...], tuple[Node, ...]]:
    """The trips or predicate (None of a while), the states and the captured values of a control node."""
    first = 0 if node.op == "while" else 1
    end: int = first + node.attr("states")
    return node.args[0] if first else None, node.args[first:end], node.args[end:]


def control_bodies(node: Node) -> tuple[Graph, ...]:
    names = {"for": ("body",), "while": ("test", "body"), "cond": ("then", "orelse")}[node.op]
    return tuple(node.attr(name) for name in names)


def is_state(node: Node) -> bool:
    """Is this what control flow leaves in one of its states?"""
    return node.op == "result" and node.args[0].op in CONTROL


def can_fail(nodes: Iterable[Node]) -> bool:
    """May one of the nodes, or of the bodies that they hold, find an index out of bounds or a requirement unmet, or a
    library function complain?"""
    return any(
        node.op in ("extern", "gather", "scatter", "require")
        or (node.op in CONTROL and any(can_fail(body.nodes()) for body in control_bodies(node)))
        for node in nodes
    )


def topological(roots: list[Node]) -> list[Node]:
    """The nodes reachable from `roots`, arguments before users; iterative, so depth is no limit."""
    seen: set[Node] = set()
    order: list[Node] = []
    for root in roots:
        stack: list[tuple[Node, int]] = [(root, 0)]
        while stack:
            node, k = stack.pop()
            if k == 0:
                if node in seen:
                    continue
                seen.add(node)
            if k < len(node.args):
                stack.append((node, k + 1))
                if node.args[k] not in seen:
                    stack.append((node.args[k], 0))
            else:
                order.append(node)
    return order


class Builder:
    """Makes and interns nodes; one for each Graph under construction."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[object, ...], Node] = {}

    def node(
        self,
        op: str,
        args: tuple[Node, ...],
        shape: tuple[Index, ...],
        dtype: np.dtype,
        /,
        origin: Origin | None = None,
        **attrs: Hashable,
    ) -> Node:
        items = tuple(sorted(attrs.items()))
        key = (op, args, items, shape, dtype)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Node(op, args, items, shape, dtype, origin)
        return found
