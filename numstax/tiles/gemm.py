"""Tiles of matrix products in closed form (paper, sections 4 and 5.1; sections 9.6 and 9.8).

A `Gpu` row and the sizes of a product enter; a `GemmTile` leaves, or the constraint that binds.  The rules, from the
multiprocessor outwards and inwards:

  block    as much reuse (m n / (m + n)) as shared memory and registers allow; a row of a k step is one line of memory
  warp     the arrangement that reads least from shared memory.  Where copies are not asynchronous only other warps hide
           their latency, so a block has as many as it may; else stages hide it and warps are few and large
  device   a smaller tile where there would be fewer blocks than SMs (nearly), or where the last round of blocks leaves
           SMs idle
  stages   as many as shared memory holds, two at least, and three where copies are asynchronous
  order    groups of rows such that blocks that run together read least (Proposition 9.4)
  split    of k, where k >= 128 max(m, n) or tiles are fewer than SMs (section 9.8)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product as pairs

from numstax.atoms import FORMATS, Atom
from numstax.hardware import LATENCY, Gpu
from numstax.records import record
from numstax.tiles.cost import cost_of
from numstax.tiles.feasibility import Infeasible, Usage, feasible
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
    Operator,
    Stream,
    Write,
    operand,
)

BUSY = 0.9
"""Of the SMs: a tile is too large where fewer have a block."""
MARGIN = 1.02
"""How much faster a smaller tile must be predicted to be: predictions are no better than that."""
SUSTAINED = 0.78
"""Of the rate of matrix instructions: what power lets a chip keep up."""
HIDDEN = 0.05
"""What is left of the time of something that goes on beside something longer."""
GROUPS = (1, 2, 4, 8)
"""Rows of tiles numbered together.  Sixteen read less, by Proposition 9.4, and were measured to be 1% slower."""
BARRIERS = 1024
"""Bytes of shared memory for the barriers of the stages, and what the system takes of each block."""
STAGING = 1 << 14
"""Bytes of shared memory through which the results of a warpgroup leave."""
MOST_STAGES = 8


@record
class Product:
    """C (batch, m, n) = A (batch, m, k) B (batch, k, n).

    operand : format of A and B, see `atoms.FORMATS`; out : bytes of an element of C.
    """

    m: int
    n: int
    k: int
    operand: str
    out: int
    batch: int = 1

    @property
    def itemsize(self) -> int:
        return FORMATS[self.operand]


@record
class GemmTile:
    """How a product is cut.

    block : m, n and k of a block's tile and of one stage.
    warp : of a team's tile; its k is what registers hold of A and B at a time.
    stages : buffers in shared memory for A and B.
    group : rows of tiles that are numbered together (GROUP_M).
    split : parts of k, each computed by blocks of its own.
    persistent : a block for each SM computes several tiles; else there is a block for each tile.
    producers : warps that only load.
    staging : bytes of shared memory that results pass through.
    cost : predicted seconds.
    """

    atom: Atom
    block: tuple[int, int, int]
    warp: tuple[int, int, int]
    stages: int
    group: int = 1
    split: int = 1
    persistent: bool = False
    producers: int = 0
    staging: int = 0
    cost: float = 0.0

    @property
    def teams(self) -> tuple[int, int]:
        """Warps (warpgroups for wgmma) that compute, along m and n."""
        return self.block[0] // self.warp[0], self.block[1] // self.warp[1]

    @property
    def threads(self) -> int:
        down, across = self.teams
        return down * across * self.atom.threads + 32 * self.producers

    @property
    def accumulators(self) -> int:
        """Elements of C in one thread."""
        return self.warp[0] * self.warp[1] // self.atom.threads

    @property
    def stage_bytes(self) -> int:
        m, n, k = self.block
        return (m + n) * k * self.atom.itemsize

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return self.stages * self.stage_bytes + self.staging + (BARRIERS if self.producers else 0)

    def tiles(self, m: int, n: int) -> int:
        """Tiles of C, the last ones clipped."""
        return -(-m // self.block[0]) * -(-n // self.block[1])


def gemm_tree(product: Product, tile: GemmTile) -> Operator:
    """The product as an algorithm tree: device, block, warp, atom."""
    (bm, bn, bk), (wm, wn, wk), atom = tile.block, tile.warp, tile.atom
    steps = Stream(ATOM, "k", atom.k, Contract("acc", "a", "b", atom))
    atoms = Grid(ATOM, (("m", atom.m), ("n", atom.n)), steps)
    warps = Grid(WARP, (("m", wm), ("n", wn)), Stream(WARP, "k", wk, atoms))
    stages = Stream(BLOCK, "k", bk, warps, ("a", "b"), tile.stages, tile.producers)
    whole = Chain((Clear("acc"), stages, Write("c", "acc", adds=tile.split > 1)))
    block = Grid(BLOCK, (("batch", 1), ("m", bm), ("n", bn)), whole, ("staging",) if tile.staging else ())
    part = -(-product.k // (bk * tile.split)) * bk
    size = product.itemsize
    return Operator(
        "gemm",
        (("batch", product.batch), ("m", product.m), ("n", product.n), ("k", product.k)),
        (
            operand("a", "batch m k", size),
            operand("b", "batch k n", size),
            operand("acc", "batch m n", max(4, size), REGISTERS),
            operand("c", "batch m n", product.out),
            operand("staging", "m", tile.staging // bm, SHARED),
        ),
        Chain((Clear("c"), Grid(DEVICE, (("k", part),), block))) if tile.split > 1 else block,
    )


def gemm_tile(
    gpu: Gpu, m: int, n: int, k: int, operand: str, *, out: int = 0, batch: int = 1, family: str = ""
) -> GemmTile | Infeasible:
    """The tile of a product, in closed form.

    m, n, k, batch : sizes (of symbols, their hints).  operand : the format of A and B, see `atoms.FORMATS`.
    out : bytes of an element of the result; as an accumulator if 0.  family : of the atoms; '' for the fastest.
    """
    found = gemm_tiles(gpu, m, n, k, operand, out=out, batch=batch, family=family)
    return found if isinstance(found, Infeasible) else found[0]


@cache
def gemm_tiles(
    gpu: Gpu, m: int, n: int, k: int, operand: str, *, out: int = 0, batch: int = 1, family: str = ""
) -> tuple[GemmTile, ...] | Infeasible:
    """Every feasible tile: the one of the rules first, the others by predicted cost.  Arguments as of `gemm_tile`."""
    size = FORMATS[operand]
    problem = Product(max(m, 1), max(n, 1), max(k, 1), operand, out or max(4, size), max(batch, 1))
    atoms = [a for a in gpu.atoms if a.operand == operand and a.family == (family or a.family)]
    if not atoms:
        return Infeasible(DEVICE, f"{family or 'matrix'} instructions for {operand}", 1, 0)
    fits = feasible(((tile, gemm_tree(problem, tile)) for tile in _shapes(problem, gpu, atoms)), gpu)
    if isinstance(fits, Infeasible):
        return fits
    splits = ((replace(tile, split=s), needs) for tile, needs in fits for s in _splits(problem, tile, gpu))
    priced = [_priced(problem, tile, needs, gpu) for tile, needs in splits]
    priced.sort(key=lambda tile: tile.cost)
    default = _default(problem, priced, gpu)
    return tuple(replace(t, group=_group(problem, t, gpu)) for t in (default, *(t for t in priced if t is not default)))


def _shapes(problem: Product, gpu: Gpu, atoms: list[Atom]) -> Iterator[GemmTile]:
    """Tiles that may be feasible, each with as many stages as there is room for."""
    bk = gpu.line // problem.itemsize
    for bm, bn in pairs(EDGES, EDGES):
        whole = [a for a in atoms if bm % a.m == 0 and bn % a.n == 0 and (a.family != "wgmma" or a.n == bn)]
        # of the atoms that divide the tile, those of the fastest family, and the deepest
        for atom in sorted(whole, key=lambda a: (gpu.rate(a), a.k))[-1:]:
            alone = atom.family == "wgmma"
            for wm, wn in _teams(bm, bn, atom, gpu):
                tile = GemmTile(
                    atom,
                    (bm, bn, bk),
                    # a step of fragments is loaded while another is multiplied
                    (wm, wn, bk if alone else 2 * atom.k),
                    stages=1,
                    persistent=alone,
                    producers=4 if alone else 0,
                    staging=bm // wm * STAGING if alone else 0,
                )
                yield replace(tile, stages=_stages(tile, gpu))


def _teams(bm: int, bn: int, atom: Atom, gpu: Gpu) -> Iterator[tuple[int, int]]:
    """Tiles of the teams among which a block's may be divided; for a number of teams, those with the least rim."""
    if atom.family == "wgmma":  # one instruction each, as wide as the tile
        yield atom.m, bn
        return
    for teams in (4, 8) if gpu.asynchronous else (gpu.threads_block // atom.threads,):
        tiles = [(bm // down, bn * down // teams) for down in (1, 2, 4, 8, 16) if teams % down == 0]
        whole = [(wm, wn) for wm, wn in tiles if wm and wn and wm % atom.m == 0 and wn % atom.n == 0]
        yield from sorted(whole, key=sum)[:1]


def _stages(tile: GemmTile, gpu: Gpu) -> int:
    """Buffers: what fits, and no more than there are steps of k; two, even where they do not fit."""
    least = 3 if gpu.asynchronous else 2
    most = MOST_STAGES if gpu.asynchronous else least
    room = gpu.shared_block - replace(tile, stages=0).shared
    return max(least, min(room // tile.stage_bytes, most))


def _splits(problem: Product, tile: GemmTile, gpu: Gpu) -> list[int]:
    """Into how many parts k may be cut."""
    tiles, steps = problem.batch * tile.tiles(problem.m, problem.n), -(-problem.k // tile.block[2])
    long = problem.k >= 128 * max(problem.m, problem.n)
    if not long and tiles >= gpu.sms:
        return [1]
    most = max(1, min(gpu.sms // tiles, steps // tile.stages))
    return sorted({1, most // 2 or 1, most})


def _group(problem: Product, tile: GemmTile, gpu: Gpu) -> int:
    """Rows of tiles numbered together: G rows of A and W / G columns of B are least for W blocks at a time."""
    (bm, bn, _), together = tile.block, min(gpu.sms, tile.tiles(problem.m, problem.n))
    rows = -(-problem.m // bm)
    groups = [g for g in GROUPS if g <= rows]
    return min(groups, key=lambda g: g * bm + -(-together // g) * bn)


def _default(problem: Product, priced: list[GemmTile], gpu: Gpu) -> GemmTile:
    """The tile with most reuse that gives the SMs a block each, unless another is predicted to be clearly faster."""

    def fills(tile: GemmTile) -> bool:
        return problem.batch * tile.split * tile.tiles(problem.m, problem.n) >= BUSY * gpu.sms

    family = priced[0].atom.family
    full = [t for t in priced if t.atom.family == family and t.split == 1 and fills(t)]
    if not full:
        return priced[0]
    largest = max(full, key=lambda t: (_reuse(problem, t), -t.cost))
    return largest if largest.cost <= MARGIN * priced[0].cost else priced[0]


def _reuse(problem: Product, tile: GemmTile) -> float:
    """Multiplications for each element that a block loads, what is padding left out."""
    m, n = min(tile.block[0], problem.m), min(tile.block[1], problem.n)
    return m * n / (m + n)


def _priced(problem: Product, tile: GemmTile, needs: Usage, gpu: Gpu) -> GemmTile:
    """With the predicted seconds: of the SM with most tiles, or of memory, whichever is busy longer."""
    cost = cost_of(gemm_tree(problem, tile))
    tiles = problem.batch * tile.split * tile.tiles(problem.m, problem.n)
    steps = -(-problem.k // (tile.block[2] * tile.split))
    room = gpu.shared_sm // (needs.shared + BARRIERS), gpu.registers_sm // (needs.threads * needs.registers_thread)
    resident = max(1, min(*room, -(-tiles // gpu.sms)))
    # clock cycles: of the SM with most tiles, multiplying, reading fragments, and waiting for the next stage; of all,
    # loading, since the cache is theirs together
    turns = -(-tiles // gpu.sms) * steps
    times = (
        turns * cost.multiplications / (tiles * steps * SUSTAINED * gpu.rate(tile.atom)),
        turns * cost.read / (tiles * steps * gpu.shared_rate),
        turns * LATENCY * gpu.clock / ((tile.stages - 1) * resident),
        cost.loaded / (min(gpu.sms, 2 * tiles) * gpu.l2_rate),
    )
    write = -(-tiles // gpu.sms) * cost.stored / (tiles * gpu.l2_rate)
    busy = (max(times) + HIDDEN * (sum(times) - max(times)) + write) / gpu.clock
    nbytes = problem.batch * (problem.m + problem.n) * problem.k * problem.itemsize + cost.stored
    memory = nbytes / (gpu.bandwidth * min(1.0, tiles / (BUSY * gpu.sms)))
    # partial results are read once more, by a kernel of its own
    elements = problem.batch * problem.m * problem.n * tile.split if tile.split > 1 else 0
    parts = 8 * elements / gpu.bandwidth + 2 * LATENCY * (tile.split > 1)
    return replace(tile, cost=max(busy, memory) + HIDDEN * min(busy, memory) + 2 * LATENCY + parts)
