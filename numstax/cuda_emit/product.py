"""What kernels with a product of matrices have in common: the numbering of tiles, and the epilogue.

What follows the product element by element (section 9.8) reads the sum of products from registers: `Fragments` runs it
over the chunks of neighbours that a thread holds, wherever its instructions put those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import numpy as np

from numstax.cuda_emit.accesses import Chunk, Staged, WideStores, early_loads
from numstax.cuda_emit.passes import Pass, Span, stores_only
from numstax.cuda_emit.points import count, decode
from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText, Place
from numstax.emit.product_parts import SUM, Parts, taken_apart
from numstax.ir.contraction import Tensor
from numstax.ir.index import ONE, Atom, Index, Var, as_index, bounds, divides
from numstax.ir.loops import Loop, MatrixTiling
from numstax.records import record
from numstax.tiles.cuda_points import access_width

Names = Mapping[Atom, str]


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
            which = text.assign("b", text.division("quotient", number, most, self.each))
            names, lines = decode(self.kernel, batch, which)
            for name, value in lines:
                text.line(f"{name} = {value}")
            self.kernel.names.update(names)
            number = text.assign("p", text.division("rest", number, most, self.each))
        group, wide = self.matrix.group, self.matrix.group * self.across
        most = bounds(self.each - 1)[1]
        first = text.assign("g", f"{text.division('quotient', number, most, wide)}*{group}")
        inside = text.assign("g", text.division("rest", number, most, wide))
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
    tiling = kernel.kernel.tiling
    assert tiling is not None
    assert tiling.matrix is not None
    return *taken_apart(kernel, factor), tiling.matrix
