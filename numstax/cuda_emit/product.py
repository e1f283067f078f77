"""What kernels with a product of matrices have in common: their parts, the numbering of tiles, and the epilogue.

A kernel whose first loop contracts is taken apart into loops that give its factors and loops that follow element by
element (section 9.8).  These read the sum of products from registers: `Fragments` runs them over the chunks of
neighbours that a thread holds, wherever its instructions put those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk, Staged, WideStores, early_loads
from numstax.cuda_emit.passes import Pass, Span, stores_only
from numstax.cuda_emit.points import count, decode
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText, Place
from numstax.ir.contraction import Product, Tensor, product_of
from numstax.ir.index import ONE, ZERO, Atom, Index, Var, as_index, bounds, divides
from numstax.ir.loops import Buffer, Instr, Kernel, Loop, MatrixTiling, Store
from numstax.records import record
from numstax.schedule.record import Recorder, move_effect, prune
from numstax.tiles.cuda_points import access_width

SUM, LEFT, RIGHT = "sum of products", "left factor", "right factor"
"""Local buffers: what the parts hand to each other."""
Names = Mapping[Atom, str]


@record
class Parts:
    """`left`, `right` : loops that store one element of a factor; `rest` : what follows the product."""

    product: Product
    left: Loop
    right: Loop
    rest: tuple[Loop, ...]
    buffers: tuple[Buffer, ...]


def parts_of(kernel: Kernel, factor: np.dtype | None = None) -> Parts:
    """Take apart a kernel that begins with a product, whose factors are stored as `factor` (None: as they are added
    up)."""
    product = product_of(kernel)
    assert product is not None
    effect, body = product.effect, product.loop.body
    wide = dtypes.accumulator(effect.dtype)
    factor = factor or wide

    def side(name: str, entry: int) -> Loop:
        recorder = Recorder(body)
        value = recorder.cast(entry, factor, body[entry].origin)
        return Loop(product.along, *prune(recorder.body(), (Store(name, ZERO, value),)))

    rest = list(kernel.loops[1:])
    if kernel.buffer(effect.buffer).kind != "local":
        rest.insert(0, Loop((), (), ()))
    loops = tuple(_after(loop, kernel, product, k == 0) for k, loop in enumerate(rest))
    kinds = ((SUM, wide), (LEFT, factor), (RIGHT, factor))
    buffers = tuple(Buffer(name, kind, (), (), "local") for name, kind in kinds)
    return Parts(product, side(LEFT, effect.value), side(RIGHT, effect.other), loops, (*kernel.buffers, *buffers))


def _after(loop: Loop, kernel: Kernel, product: Product, first: bool) -> Loop:
    """A loop that reads the sum instead of the product's buffer; the first one stores what others need of it."""
    effect, recorder = product.effect, Recorder()
    total = recorder.load(SUM, ZERO, dtypes.accumulator(effect.dtype))
    value = recorder.cast(total, effect.dtype)

    def forward(instr: Instr) -> int | None:
        is_product = instr.op == "load" and instr.attr[0] == effect.buffer  # type: ignore[index]
        return value if is_product else None

    moved = recorder.append(loop.body, forward)
    effects = tuple(move_effect(e, moved) for e in loop.effects)
    if first and kernel.buffer(effect.buffer).kind != "local":
        effects = (Store(effect.buffer, effect.offset, value), *effects)
    return Loop(loop.inner, *prune(recorder.body(), effects))


class Tiles:
    """The tiles of the result: `number` counts them, batches slowest; inside of a batch so that tiles that run together
    share rows and columns (Proposition 9.4)."""

    def __init__(self, kernel: KernelText, parts: Parts, matrix: MatrixTiling) -> None:
        assert isinstance(kernel.text, DeviceText)
        self.kernel, self.text, self.parts, self.matrix = kernel, kernel.text, parts, matrix
        product = parts.product
        self.rows, self.columns, self.depth = map(count, (product.rows, product.columns, product.along))
        self.boxes = tuple(
            Var(f"{v.name}_box", (v.extent + (size - 1)) // size)
            for v, size in zip(product.rows if matrix.box else (), matrix.box, strict=True)
        )
        self.corner: dict[Atom, str] = {}
        self.down = count(self.boxes) if matrix.box else (self.rows + (matrix.block[0] - 1)) // matrix.block[0]
        self.across = (self.columns + (matrix.block[1] - 1)) // matrix.block[1]
        self.each = self.down * self.across
        self.count = count(product.batch) * self.each

    def locate(self, number: str) -> tuple[str, str]:
        """The first row and column of a tile; the batch variables get names.  Rows of a box are numbered within it, and
        `corner` has where it begins."""
        text, batch = self.text, self.parts.product.batch
        most = bounds(self.count - 1)[1]
        if batch:
            names, lines = decode(self.kernel, batch, text.assign("b", text.quotient(number, most, self.each)))
            for name, value in lines:
                text.line(f"{name} = {value}")
            self.kernel.names.update(names)
            number = text.assign("p", text.rest(number, most, self.each))
        group, wide = self.matrix.group, self.matrix.group * self.across
        most = bounds(self.each - 1)[1]
        first = text.assign("g", f"{text.quotient(number, most, wide)}*{group}")
        inside = text.assign("g", text.rest(number, most, wide))
        height = str(group)
        if divides(group, self.down) is not True:
            height = text.assign("g", f"min({self.kernel.index(self.down)} - {first}, {group})")
        down = f"{first} + int64(rest_u32({inside}, {height}))"
        row = "0" if self.boxes else text.assign("i", f"({down})*{self.matrix.block[0]}")
        if self.boxes:
            names = self._decoded(self.boxes, text.assign("i", down))
            for v, box, size in zip(self.parts.product.rows, self.boxes, self.matrix.box, strict=True):
                self.corner[v] = text.assign("i", f"{names[box]}*{size}")
        return row, text.assign("j", f"int64(quotient_u32({inside}, {height}))*{self.matrix.block[1]}")

    def width(self) -> int:
        """Neighbouring elements of the result that the epilogue may take at a time."""
        columns = self.parts.product.columns
        if not columns:
            return 1
        return access_width(self.kernel.kernel, self.parts.rest, columns[-1])

    def epilogue(self, fragment: Fragment, row: str, column: str, stores: FragmentStores | None = None) -> None:
        """What follows the product, for the elements that a thread holds; `row` and `column` are the first of the
        tile.  `stores` : how results are written, if not from each thread."""
        product, held = self.parts.product, fragment.width
        width = min(held, self.width())
        lane = product.columns[-1] if product.columns else Var("lane", ONE)
        piece = held // width
        for buffer in self.kernel.kernel.buffers:
            if buffer.kind == "local":
                self.kernel.places[buffer.name] = Place(self.text.fresh("r"), array=False)
        self.kernel.places[SUM] = Place(fragment.array, array=True, slot="?")

        boxed = product.rows if self.boxes else ()

        def place(number: str) -> tuple[Names, str]:
            chunk = number if piece == 1 else f"({number} // {piece})"
            within = "" if piece == 1 else f" + {number} % {piece}*{width}"
            i = self.text.assign("i", f"{row} + {fragment.row(chunk)}")
            j = self.text.assign("j", f"{column} + {fragment.column(chunk)}{within}")
            names: dict[Atom, str] = {lane: "0"}
            names |= {**self.named(product.rows, i), **self.named(product.columns, j)}
            rows = [(names[v], v.extent, size) for v, size in zip(boxed, self.matrix.box, strict=True)]
            rows = rows or [(i, self.rows, self.matrix.block[0])]
            return names, self.mask(*rows, (j, self.columns, self.matrix.block[1]))

        loops = self.parts.rest
        span = Span((*product.batch, *product.rows, *product.columns), lane, width, 1, "", 0, None, True)
        loads = [x for x in early_loads(loops, {b.name: b for b in self.kernel.kernel.buffers}) if x[0] != SUM]
        staged = Staged(self.kernel, loads, 1, lane, width)
        made = Fragments(self.kernel, loops, span, staged, fragment.count * piece, place)
        if stores is not None and piece == 1:
            made.stores = stores
        made.run(stores_only)

    def named(self, variables: tuple[Var, ...], number: str) -> dict[Atom, str]:
        """Names for the variables at the point of that number; of rows in a box, within it."""
        if not self.boxes or variables != self.parts.product.rows:
            return self._decoded(variables, number)
        inside = tuple(Var(v.name, as_index(size)) for v, size in zip(variables, self.matrix.box, strict=True))
        names = self._decoded(inside, number)
        pairs = zip(variables, inside, strict=True)
        return {v: self.text.assign("i", f"{self.corner[v]} + {names[w]}") for v, w in pairs}

    def in_order(self, tensor: Tensor) -> bool:
        """Do the rows of a tile lie in a box of the tensor in the order of their numbers?"""
        rows = self.parts.product.rows
        found = tuple(v for v, _ in reversed(tensor.dims) if v in rows)
        return found == rows if self.boxes else len(rows) == 1

    def rows_at(self, number: str) -> dict[Atom, str]:
        """Where the copy engine finds the row of that number, which may lie outside."""
        rows = self.parts.product.rows
        return self.named(rows, number) if self.boxes else {rows[-1]: number}

    def _decoded(self, variables: tuple[Var, ...], number: str) -> dict[Atom, str]:
        names, lines = decode(self.kernel, variables, number)
        for name, value in lines:
            self.text.line(f"{name} = {value}")
        return names

    def mask(self, *sides: tuple[str, Index, int]) -> str:
        """The condition under which places lie inside, for tiles of so many."""
        tests = (f"({at} < {self.kernel.index(n)})" for at, n, size in sides if divides(size, n) is not True)
        return " & ".join(tests)


@record
class Fragment:
    """The elements of a tile that a thread holds in `array`: `count` chunks of `width` neighbours in a row, of which
    the first is at `row` and `column` of the tile, given the number of the chunk."""

    array: str
    count: int
    width: int
    row: Callable[[str], str]
    column: Callable[[str], str]


class Fragments(Pass):
    """A pass over `number` chunks that lie where `place` says: from the number of a chunk it gives the names of the
    variables at its first point, and the condition under which there is one.  `otherwise` prints what is done where
    there is none."""

    def __init__(
        self,
        kernel: KernelText,
        loops: tuple[Loop, ...],
        span: Span,
        staged: Staged,
        number: int,
        place: Callable[[str], tuple[Names, str]],
        otherwise: Callable[[Chunk], None] | None = None,
    ) -> None:
        super().__init__(kernel, loops, span, staged)
        self.number, self.place, self.otherwise = number, place, otherwise

    @contextmanager
    def chunks(self) -> Iterator[Chunk]:
        stores = self.stores
        groups = stores.groups(self.number) if isinstance(stores, FragmentStores) else nullcontext((self.number, ""))
        with groups as (count, first):
            text, number = self.text, self.text.fresh("c")
            with text.block(f"for {number} in range({count})"):
                at = text.assign("c", f"{first} + {number}") if first else number
                names, mask = self.place(at)
                chunk = Chunk(
                    {**self.kernel.names, **names}, self.lane, self.span.width, "", at, text.fresh("e"), unroll=True
                )
                with text.block(f"if {mask}") if mask else nullcontext():
                    yield chunk
                if mask and self.otherwise is not None:
                    with text.block("else"):
                        self.otherwise(chunk)
                text.line("unroll()")


class FragmentStores(WideStores):
    """Stores of chunks that come in groups."""

    @contextmanager
    def groups(self, number: int) -> Iterator[tuple[int, str]]:
        """Inside of the loop over groups of `number` chunks: the chunks of one, and the number of its first."""
        yield number, ""


def begin(kernel: KernelText, factor: np.dtype | None = None) -> tuple[KernelText, Parts, MatrixTiling]:
    """The kernel with the buffers of its parts."""
    parts, tiling = parts_of(kernel.kernel, factor), kernel.kernel.tiling
    assert tiling is not None
    assert tiling.matrix is not None
    loops = (parts.left, parts.right, *parts.rest)
    return KernelText(kernel.text, replace(kernel.kernel, loops=loops, buffers=parts.buffers)), parts, tiling.matrix
