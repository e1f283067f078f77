"""Tiles of softmax and attention in closed form (paper, sections 5.3 and 6; sections 9.5 and 9.10).

A `Gpu` row and sizes enter; tiles leave, or the constraint that binds.  How much attention reads from memory does not
depend on its tiles, since all blocks find K and V in the L2 cache.  So the step along the keys is the longest that
shared memory and registers allow (fewest corrections to a new maximum), and then as many rows of queries as fit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numstax.atoms import FORMATS, Atom
from numstax.hardware import Gpu
from numstax.records import record
from numstax.tiles.cost import compulsory
from numstax.tiles.feasibility import Infeasible, feasible
from numstax.tiles.tree import (
    ATOM,
    BLOCK,
    DEVICE,
    EDGES,
    REGISTERS,
    SHARED,
    WARP,
    Chain,
    Clear,
    Contract,
    Grid,
    Node,
    Operator,
    Rescale,
    Stream,
    Write,
    operand,
)


@record
class Attention:
    """softmax(Q K^T) V of `batch` heads: Q (queries, depth), K and V (keys, depth), all of one format."""

    queries: int
    keys: int
    depth: int
    operand: str
    batch: int = 1


@record
class AttentionTile:
    """How attention is cut.

    queries, keys : rows of Q of a block, and of K and V in one step.
    rows : of Q that a team (a warp; of wgmma, a warpgroup) owns, whole.
    scores, values : the atoms of Q K^T and of the product with V.
    chained : a thread's scores are in the registers where the second product wants them; else they go through shared
        memory (paper, section 6.1).
    stages : buffers of K and of V; 1: they take turns in one buffer.
    producers : warps that only load.
    """

    queries: int
    keys: int
    rows: int
    scores: Atom
    values: Atom
    chained: bool
    stages: int
    producers: int = 0

    @property
    def threads(self) -> int:
        return self.queries // self.rows * self.scores.threads + 32 * self.producers


@cache
def chains(scores: Atom, values: Atom) -> bool:
    """Does every thread hold, of the results of one product, just the elements of A that it gives to the next?"""
    beside = range(0, max(values.k, scores.n), scores.n)
    for held, given in zip(scores.c.positions(), values.a.positions(), strict=True):
        own = {(row, column + n) for row, column in held for n in beside if column + n < values.k}
        if own != set(given):
            return False
    return True


def attention_tree(problem: Attention, tile: AttentionTile) -> Operator:
    """Attention as an algorithm tree; the scores never leave a block."""
    scores = Chain((Clear("s"), _product("s", "q", "k", ("i", "j", "d"), tile.scores)))
    online = Rescale("s", "p", "maximum", "denominator", ("o",))
    values = _product("o", "p", "v", ("i", "e", "j"), tile.values)
    rows = (("i", tile.rows),)
    if tile.stages > 1:
        step: Node = Grid(WARP, rows, Chain((scores, online, values)))
        both: tuple[str, ...] = ("k", "v")
    else:
        step = Chain((Grid(WARP, rows, scores, ("k",)), Grid(WARP, rows, online), Grid(WARP, rows, values, ("v",))))
        both = ()
    kept = () if tile.chained else ("p",)
    stream = Stream(BLOCK, "j", tile.keys, step, (*both, *kept), tile.stages, tile.producers)
    start = (Clear("maximum", -float("inf")), Clear("denominator"), Clear("o"))
    whole = Chain((*start, stream, Write("out", "o", "denominator")))
    size = FORMATS[problem.operand]
    return Operator(
        "attention",
        (("b", problem.batch), ("i", problem.queries), ("j", problem.keys), ("d", problem.depth), ("e", problem.depth)),
        (
            operand("q", "b i d", size),
            operand("k", "b j d", size),
            operand("v", "b j e", size),
            operand("out", "b i e", size),
            operand("s", "b i j", 4, REGISTERS),
            operand("p", "b i j", size, REGISTERS if tile.chained else SHARED),
            operand("o", "b i e", 4, REGISTERS),
            operand("maximum", "b i", 4, REGISTERS),
            operand("denominator", "b i", 4, REGISTERS),
        ),
        Grid(BLOCK, (("b", 1), ("i", tile.queries)), whole, ("q",)),
    )


def _product(target: str, left: str, right: str, axes: tuple[str, str, str], atom: Atom) -> Node:
    """What a team does of one product: along (m, n, k), k by k."""
    m, n, k = axes
    return Stream(
        WARP,
        k,
        atom.k,
        Grid(ATOM, ((m, atom.m), (n, atom.n)), Stream(ATOM, k, atom.k, Contract(target, left, right, atom))),
    )


def attention_tile(
    gpu: Gpu, queries: int, keys: int, depth: int, operand: str, *, batch: int = 1, family: str = ""
) -> AttentionTile | Infeasible:
    """The tile of attention, in closed form.  `family` : of the atoms; '' for the fastest of the GPU."""
    problem = Attention(queries, keys, depth, operand, batch)
    atoms = [a for a in gpu.atoms if a.operand == operand and a.family == (family or a.family) and a.family != "fma"]
    if not atoms:
        return Infeasible(DEVICE, f"{family or 'matrix'} instructions for {operand}", 1, 0)
    fastest = max(gpu.rate(a) for a in atoms)
    tiles = _shapes(problem, gpu, [a for a in atoms if gpu.rate(a) == fastest])
    fits = feasible(((tile, attention_tree(problem, tile)) for tile in tiles), gpu)
    if isinstance(fits, Infeasible):
        return fits
    # fewer blocks than SMs: smaller ones
    full = [t for t, _ in fits if -(-queries // t.queries) * batch >= gpu.sms]
    least = min(t.queries for t, _ in fits)
    return max(full or [t for t, _ in fits if t.queries == least], key=lambda t: (t.keys, t.queries))


def _shapes(problem: Attention, gpu: Gpu, atoms: list[Atom]) -> list[AttentionTile]:
    deep = max(a.k for a in atoms)
    made = []
    for keys in EDGES:
        # one wgmma is as wide as the tile
        scores, values = (
            next((a for a in atoms if a.k == deep and (a.family != "wgmma" or a.n == n)), None)
            for n in (keys, problem.depth)
        )
        if scores is None or values is None:
            continue
        tile = AttentionTile(
            scores.m, keys, scores.m, scores, values,
            chained=chains(scores, values),
            stages=2 if gpu.asynchronous else 1,
            producers=4 if scores.family == "wgmma" else 0,
        )  # fmt: skip
        made += [replace(tile, queries=q) for q in EDGES if q % scores.m == 0]
    return made


def unfused_traffic(problem: Attention) -> int:
    """Bytes that attention moves as three kernels, which move their arrays once: Q K^T, softmax, product with V."""
    size = FORMATS[problem.operand]
    linear = 2 * (problem.queries + problem.keys) * problem.depth
    # the matrix of scores is written, read, written as weights, and read
    return problem.batch * size * (linear + 4 * problem.queries * problem.keys)


def fused_traffic(problem: Attention, tile: AttentionTile) -> int:
    """Bytes that the tree moves where the L2 cache serves what blocks read again."""
    return compulsory(attention_tree(problem, tile))
