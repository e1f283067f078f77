"""Products of matrices on Hopper: asynchronous copies by the tensor memory accelerator, and warpgroup instructions.

One warpgroup of a block only loads: it keeps a ring of stages in shared memory full, each with a slice of 128 bytes of
k of both factors.  The others multiply: each has 64 rows of the tile, whose sums stay in registers until the epilogue.
Barriers in shared memory count the bytes that arrive in a stage, and the warps that are done with it.  Blocks stay for
several tiles, so that the loads for the next one go on during an epilogue; where two warpgroups take turns, each with
tiles of its own, the products of one do, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numstax import dtypes
from numstax.cuda_emit.outlets import Outlets
from numstax.cuda_emit.product import Fragment, Names, Tiles, begin
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText
from numstax.ir.contraction import Tensor, factor_of
from numstax.ir.index import Index, Var, as_index
from numstax.program import TensorMap
from numstax.records import record

WARP, GROUP, ROWS = 32, 128, 64
"""Threads of a warp and of a warpgroup; rows of one of its instructions."""
TURNS = 2
"""Warpgroups that take turns."""
SPAN = 128
"""Bytes of a row of a box: what is swizzled."""
BARRIER = 8
FEW, MANY = {2: 40, 3: 32}, {2: 232, 3: 160}
"""Registers of a thread that loads, and of one that multiplies, by warpgroups that do; one alone has enough."""


def print_wgmma(kernel: KernelText) -> tuple[Index, ...]:
    """Print a product in warpgroup instructions; the number of tiles."""
    return _Wgmma(kernel).run()


@record
class _Side:
    """A factor in shared memory: `size` rows (columns) of a tile from byte `start` of a stage on, in `boxes`."""

    tensor: Tensor
    along_k: bool
    map: str
    size: int
    start: int
    boxes: int
    nbytes: int

    @property
    def mode(self) -> str:
        return "k" if self.along_k else "m"


class _Wgmma:
    def __init__(self, kernel: KernelText) -> None:
        self.kernel, self.parts, self.matrix = begin(kernel)
        assert isinstance(self.kernel.text, DeviceText)
        self.tiles, self.text = Tiles(self.kernel, self.parts, self.matrix), self.kernel.text
        product, (rows, columns, _) = self.parts.product, self.matrix.block
        self.left = self._side(product.effect.value, product.rows, rows, 0)
        self.right = self._side(product.effect.other, product.columns, columns, self.left.nbytes)
        self.stage = self.left.nbytes + self.right.nbytes
        self.teams = TURNS if self.matrix.turns else self.matrix.warps[0]
        self.parts_of_team = self.matrix.warp[0] // ROWS
        self.stages = self.matrix.stages * self.stage
        self.readers = 1 if self.matrix.turns else self.teams
        """Warpgroups that read a stage."""
        self.outlets = Outlets(self.kernel, self.tiles, self.stages, self.teams * GROUP // WARP)
        self.barriers = self.stages + self.outlets.nbytes
        self.text.shared = as_index(self.barriers + BARRIER * (2 * self.matrix.stages + TURNS * self.matrix.turns))
        depth = self.matrix.block[2]
        self.steps = self.kernel.index((self.tiles.depth + (depth - 1)) // depth)

    def _side(self, entry: int, own: tuple[Var, ...], size: int, start: int) -> _Side:
        found = factor_of(self.kernel.kernel, self.parts.product, entry, own)
        assert isinstance(found, Tensor), found
        along = self.parts.product.along
        along_k, formula = found.inner in along, self.text.formula
        unit, depth = SPAN // found.buffer.dtype.itemsize, self.matrix.block[2]
        box = (
            dict(zip(own, self.matrix.box if len(own) > 1 else (size,), strict=True)) if along_k else {along[-1]: depth}
        )
        described = TensorMap(
            self.matrix.operand,
            tuple(formula(v.extent) for v in (found.inner, *(v for v, _ in found.dims))),
            tuple(formula(stride) for _, stride in found.dims),
            (unit, *(box.get(v, 1) for v, _ in found.dims)),
            SPAN,
            formula(found.offset),
        )
        boxes, other = (1, size) if along_k else (-(-size // unit), depth)
        to = self.text.tensor(found.buffer, described)
        return _Side(found, along_k, to, size, start, boxes, boxes * other * SPAN)

    def run(self) -> tuple[Index, ...]:
        text, stages = self.text, self.matrix.stages
        thread = text.assign("t", "int64(thread_x())")
        group = text.assign("w", f"uniform_i32(thread_x() // {GROUP})")
        base = text.assign("s", "shared_address()")
        self.full = text.assign("f", f"{base} + {self.barriers}")
        self.empty = text.assign("f", f"{self.full} + {BARRIER * stages}")
        self.base = base
        if self.matrix.turns:
            self.turn = text.assign("f", f"{self.empty} + {BARRIER * stages}")
        with text.block(f"if {thread} == 0"):
            text.line(f"tensor_prefetch({self.left.map})")
            text.line(f"tensor_prefetch({self.right.map})")
            with text.block(f"for k in range({stages})"):
                text.line(f"mbarrier_init({self.full} + k*{BARRIER}, 1)")
                text.line(f"mbarrier_init({self.empty} + k*{BARRIER}, {self.readers * GROUP // WARP})")
            if self.matrix.turns:
                for k in range(TURNS):
                    text.line(f"mbarrier_init({self.turn} + {k * BARRIER}, {GROUP // WARP})")
            text.line("mbarrier_fence()")
        text.line("barrier()")
        with text.block(f"if {group} == 0"):
            if self.teams in FEW:
                text.line(f"registers_less_{FEW[self.teams]}()")
            with text.block(f"if {thread} == 0"):
                self._load()
        with text.block("else"):
            if self.teams in MANY:
                text.line(f"registers_more_{MANY[self.teams]}()")
            self._multiply(thread, text.assign("w", f"int64({group}) - 1"))
        return (self.tiles.count,)

    @contextmanager
    def _each_tile(self, parity: int, team: str = "") -> Iterator[tuple[str, str]]:
        """Inside of the loop over the tiles of a block, or of a team that takes turns: the first row and column.
        `slot` is the current stage, and `phase` the parity of the barriers that are waited for."""
        text, count = self.text, self.kernel.index(self.tiles.count)
        text.line("slot = 0")
        text.line(f"phase = {parity}")
        text.line(f"p = int64(block_x()) + {team}*int64(grid_x())" if team else "p = int64(block_x())")
        if team:
            # the other team's stages come first, and a barrier cannot be waited for ahead of its phase
            text.line(f"turn = 1 - {team}")
            with text.block(f"if {team} == 1"):
                self._skip()
        with text.block(f"while p < {count}"):
            yield self.tiles.locate("p")
            if team:
                self._skip()
            text.line(f"p += int64(grid_x())*{TURNS}" if team else "p += int64(grid_x())")

    def _skip(self) -> None:
        """Leave out the stages of a tile of the other team."""
        stages = self.matrix.stages
        self.text.line(f"slot += {self.steps} % {stages}")
        self.text.line(f"phase = phase ^ ({self.steps} // {stages} + slot // {stages}) % 2")
        self.text.line(f"slot = slot % {stages}")

    def _advance(self) -> None:
        self.text.line("slot += 1")
        with self.text.block(f"if slot == {self.matrix.stages}"):
            self.text.line("slot = 0")
            self.text.line("phase = phase ^ 1")

    # --- loading --------------------------------------------------------------------------------------

    def _load(self) -> None:
        text, product = self.text, self.parts.product
        with self._each_tile(1) as (row, column), text.block(f"for k in range({self.steps})"):
            text.line(f"mbarrier_wait({self.empty} + slot*{BARRIER}, phase)")
            text.line(f"full = {self.full} + slot*{BARRIER}")
            text.line(f"mbarrier_expect(full, {self.stage})")
            text.line(f"at = {self.base} + slot*{self.stage}")
            terms = self.tiles.named(product.along, text.assign("k", f"k*{self.matrix.block[2]}"))
            rows = self.tiles.corner if self.tiles.boxes else self.tiles.rows_at(row)
            self._copy(self.left, {**terms, **rows}, row)
            self._copy(self.right, {**terms, product.columns[-1]: column}, column)
            self._advance()

    def _copy(self, side: _Side, names: Names, first: str) -> None:
        """The slice of a factor whose variables begin there; `first` : its row or column."""
        found = side.tensor
        unit = SPAN // found.buffer.dtype.itemsize
        names = {**self.kernel.names, **names}
        for box in range(side.boxes):
            inner = names[found.inner] if side.along_k else f"{first} + {box * unit}"
            at = [inner, *(names[v] for v, _ in found.dims)]
            to = side.start + box * (side.nbytes // side.boxes)
            self.text.line(f"tensor_load_{len(at)}d(at + {to}, {side.map}, {', '.join(at)}, full)")

    # --- multiplying ----------------------------------------------------------------------------------

    def _multiply(self, thread: str, team: str) -> None:
        text, columns, parts = self.text, self.matrix.block[1], range(self.parts_of_team)
        name = f"{self.matrix.operand}_n{columns}_{self.left.mode}{self.right.mode}"
        tile = f"{dtypes.name(dtypes.accumulator(self.parts.product.effect.dtype))}x{columns // 2}"
        warp, lane = text.assign("w", f"{thread} % {GROUP} // {WARP}"), text.assign("l", f"{thread} % {WARP}")
        top = "0" if self.matrix.turns else text.assign("i", f"{team}*{self.matrix.warp[0]}")
        with self._each_tile(0, team if self.matrix.turns else "") as (row, column):
            if self.matrix.turns:
                text.line(f"mbarrier_wait({self.turn} + {team}*{BARRIER}, turn)")
                text.line("turn = turn ^ 1")
            self._wait()
            for part in parts:
                text.line(f"acc{part} = wgmma_first_{name}({self._factors(top, part)})")
            text.line("last = slot")
            self._advance()
            with text.block(f"for k in range(1, {self.steps})"):
                self._wait()
                for part in parts:
                    text.line(f"acc{part} = wgmma_{name}(acc{part}, {self._factors(top, part)})")
                text.line(f"wgmma_wait_{len(parts)}()")
                self._release(thread)
                text.line("last = slot")
                self._advance()
            if self.matrix.turns:
                with text.block(f"if {lane} == 0"):
                    text.line(f"mbarrier_arrive({self.turn} + (1 - {team})*{BARRIER})")
            for part in parts:
                text.line(f"acc{part} = wgmma_settle_{tile}(acc{part})")
            self._release(thread)
            self._finish(tile, f"{row} + {top} + {warp}*16", column, f"{team}*{GROUP // WARP} + {warp}", lane)
        self.outlets.finish(lane)

    def _finish(self, tile: str, row: str, column: str, warp: str, lane: str) -> None:
        """What follows the product, for the sums of a warp from that row on."""
        text, columns = self.text, self.matrix.block[1]
        element, _, count = tile.partition("x")
        held = text.assign("r", f"registers_{element}({self.parts_of_team * int(count)})")
        for part in range(self.parts_of_team):
            text.line(f"spread_{tile}({held}, acc{part}, {part * int(count)})")
        each = int(count) // 2
        i, j = text.assign("i", f"{lane} // 4"), text.assign("j", f"{lane} % 4*2")

        def down(number: str) -> str:
            below = f" + {number} // {each}*{ROWS}" if self.parts_of_team > 1 else ""
            return f"{i} + {number} % 2*8{below}"

        def along(number: str) -> str:
            return f"{j} + {number} % {each} // 2*8" if self.parts_of_team > 1 else f"{j} + {number} // 2*8"

        first = text.assign("i", row)
        self.outlets.begin(warp, lane, first, column, columns)
        fragment = Fragment(held, each * self.parts_of_team, 2, down, along)
        self.tiles.epilogue(fragment, first, column, self.outlets)

    def _wait(self) -> None:
        """Until the current stage is there."""
        self.text.line(f"mbarrier_wait({self.full} + slot*{BARRIER}, phase)")
        self.text.line(f"at = {self.base} + slot*{self.stage}")

    def _factors(self, top: str, part: int) -> str:
        """Descriptors of both factors in the current stage."""
        own = f" + {top}*{SPAN}" if top != "0" else ""
        return ", ".join(
            f"descriptor(at + {start}, {16 if side.along_k else side.nbytes // side.boxes}, 1024)"
            for side, start in (
                (self.left, f"{self.left.start + part * ROWS * SPAN}{own}"),
                (self.right, str(self.right.start)),
            )
        )

    def _release(self, thread: str) -> None:
        """This warp is done with the stage before the current one."""
        with self.text.block(f"if {thread} % {WARP} == 0"):
            self.text.line(f"mbarrier_arrive({self.empty} + last*{BARRIER})")
