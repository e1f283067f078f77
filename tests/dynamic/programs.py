"""Random small graphs over size symbols, and values for the symbols near and far from their hints."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from numstax.ir.graph import Graph, Node
from numstax.ir.index import ONE, ZERO, Index, as_index, bounds, evaluate, product, same, symbol
from numstax.ir.show import show
from tests.dynamic.symbolic import Symbolic

HINTS = (2, 5, 64, 5000)
VALUES = (2, 3, 4, 7, 16, 33)
MOST = 1 << 16
"""Elements of a node at the largest values."""


class Program:
    def __init__(self, graph: Graph, symbols: list[dict[str, int]]) -> None:
        self.graph, self.symbols = graph, symbols

    def __repr__(self) -> str:
        return f"{show(self.graph)}\nat {self.symbols}"


@st.composite
def programs(draw: st.DrawFn, steps: int = 8, values: int = 3) -> Program:
    g = Symbolic()
    names = ("s0", "s1")
    symbols = [symbol(name, hint=draw(st.sampled_from(HINTS))) for name in names]
    sizes = (*symbols, *symbols, ONE, as_index(3))
    pool: list[Node] = []
    for _ in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.lists(st.sampled_from(sizes), max_size=3)))
        strides = None
        if len(shape) == 2 and draw(st.booleans()):
            strides = draw(st.sampled_from(((1, shape[0]), (2 * shape[1], 2), (-shape[1], -1), (shape[1], 0))))
        pool.append(g.input(*shape, dtype="float64", strides=strides))
    # so that both sizes can be read off the arguments
    g.input(*symbols)
    for _ in range(draw(st.integers(1, steps))):
        made = draw(st.sampled_from(STEPS))(draw, g, pool)
        if made is not None and _largest(made.shape) <= MOST:
            pool.append(made)
    outputs = [draw(st.sampled_from(pool)) for _ in range(draw(st.integers(0, 2)))] + [pool[-1]]
    writes = []
    for p, spec in enumerate(g.inputs[:-1]):
        fitting = [n for n in pool if n.shape == spec.shape]
        repeated = any(n is not ONE and s is ZERO for n, s in zip(spec.shape, spec.strides, strict=True))
        if fitting and not repeated and draw(st.booleans()):
            writes.append((p, draw(st.sampled_from(fitting))))
    chosen = [{name: draw(st.sampled_from(VALUES)) for name in names} for _ in range(values)]
    return Program(g.graph(*outputs, writes=writes), chosen)


def _largest(shape: tuple[Index, ...]) -> int:
    return evaluate(product(shape), {"s0": max(VALUES), "s1": max(VALUES)})


Step = Callable[[st.DrawFn, Symbolic, list[Node]], Node | None]


def _pick(draw: st.DrawFn, pool: list[Node], rank: int = 0) -> Node | None:
    """A node of at least that rank; recent ones more often, so that chains grow long."""
    fitting = [n for n in pool[-3:] + pool if n.ndim >= rank]
    return draw(st.sampled_from(fitting)) if fitting else None


def _axis(draw: st.DrawFn, x: Node) -> int:
    return draw(st.integers(0, x.ndim - 1))


def _at_least(n: Index, least: int) -> bool:
    low = bounds(n)[0]
    return low is not None and low >= least


def _along(x: Node, axis: int, start: object, step: object, size: object) -> list[tuple[object, object, object]]:
    """A slice of one axis."""
    return [(start, step, size) if k == axis else (0, 1, n) for k, n in enumerate(x.shape)]


def _unary(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    return g(draw(st.sampled_from(("tanh", "negative", "absolute", "cos"))), draw(st.sampled_from(pool)))


def _binary(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = draw(st.sampled_from(pool[-3:] + pool))
    y = draw(st.sampled_from([n for n in pool if _broadcasts(n, x)]))
    return g(draw(st.sampled_from(("add", "subtract", "maximum", "multiply"))), x, y)


def _broadcasts(a: Node, b: Node) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(m is ONE or n is ONE or same(m, n) is True for m, n in pairs)


def _reduce(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    if x is None:
        return None
    op, axis = draw(st.sampled_from(("add", "maximum", "argmax"))), _axis(draw, x)
    axes = (axis,) if op == "argmax" or draw(st.booleans()) else tuple(range(x.ndim))
    out = g.reduce(op, x, *axes, keepdims=draw(st.booleans()))
    return g("divide", g.cast(out, "float64"), g("add", g.cast(g.size(product(x.shape)), "float64"), 1))


def _scan(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    return None if x is None else g("divide", g.scan("add", x, _axis(draw, x)), 16)


def _transpose(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 2)
    return None if x is None else g.transpose(x, *draw(st.permutations(range(x.ndim))))


def _reshape(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    if x is None:
        return None
    if x.ndim == 1:
        return g.reshape(x, *draw(st.sampled_from(((1, x.shape[0]), (x.shape[0], 1)))))
    shape = draw(st.permutations(x.shape))
    return g.reshape(x, *draw(st.sampled_from((shape, (product(shape),), (product(shape[:-1]), shape[-1])))))


def _slice(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    if x is None:
        return None
    axis = _axis(draw, x)
    n = x.shape[axis]
    cuts = [(n - 1, -1, n), (n // 2, 1, n - n // 2), (0, 2, (n + 1) // 2), (0, 1, (n + 1) // 2)]
    if _at_least(n, 2):
        cuts += [(1, 1, n - 1), (0, 1, n - 1), (n - 1, 1, 1), (n - 2, 1, 2), (n - 2, -1, n - 1)]
    return g.cut(x, *_along(x, axis, *draw(st.sampled_from(cuts))))


def _update(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    if x is None:
        return None
    axis = _axis(draw, x)
    n = x.shape[axis]
    if not _at_least(n, 2):
        return None
    halves = [(0, 1, n // 2), (n - n // 2, 1, n // 2), (n - 1, -1, n // 2)], (n % 2, 1, n // 2)
    to, come = draw(st.sampled_from((halves, ([(1, 1, n - 1), (0, 1, n - 1)], (0, 1, n - 1)))))
    source = draw(st.sampled_from([m for m in pool if m.shape == x.shape]))
    value = g.cut(source, *_along(x, axis, *come))
    where = _along(x, axis, *draw(st.sampled_from(to)))
    return g.put(x, g("add", value, 0.25) if draw(st.booleans()) else value, *(w[:2] for w in where))


def _join(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    if x is None:
        return None
    axis = _axis(draw, x)
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    y = draw(st.sampled_from([m for m in pool if m.ndim == x.ndim and (*m.shape[:axis], *m.shape[axis + 1 :]) == rest]))
    shape = [n + y.shape[axis] if k == axis else n for k, n in enumerate(x.shape)]
    out = g.put(g.empty(*shape, dtype="float64"), x, *((0, 1) for _ in shape))
    return g.put(out, y, *((x.shape[axis], 1) if k == axis else (0, 1) for k in range(x.ndim)))


def _gather(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    if x is None:
        return None
    axis = _axis(draw, x)
    size = g.size(x.shape[axis])
    line = g.iota((draw(st.sampled_from([n for m in pool for n in m.shape])),), 0)
    index = g("remainder", g("multiply", line, draw(st.integers(1, 5))), size)
    return g.gather(x, (axis,), g("subtract", index, size) if draw(st.booleans()) else index)


def _iota(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 1)
    return None if x is None else g("divide", g.cast(g.iota(x.shape, _axis(draw, x)), "float64"), 8)


def _matmul(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = _pick(draw, pool, 2)
    if x is None:
        return None
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return g("divide", g.matmul(x, g.transpose(x, *axes)), 64)


def _extern(draw: st.DrawFn, g: Symbolic, pool: list[Node]) -> Node | None:
    x = draw(st.sampled_from(pool))
    return g.extern("numpy.negative", (x,), x.shape, x.dtype)


STEPS: tuple[Step, ...] = (
    _unary, _binary, _binary, _binary, _reduce, _reduce, _scan, _transpose, _reshape, _reshape, _slice, _slice,
    _update, _update, _join, _gather, _iota, _matmul, _extern,
)  # fmt: skip
