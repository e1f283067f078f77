"""Products of matrices in tiles that the registers hold, and what follows them element by element.

A task has some rows of the result.  It copies the left factor's to scratch memory, the rows of a tile side by side, and
then goes through the panels of the right factor: `add_products` computes a tile, which lies in scratch memory while
what follows reads it.
"""

from __future__ import annotations

from numstax import dtypes
from numstax.cpu_emit.space import points, print_tile, task_count
from numstax.cpu_emit.transpose import square
from numstax.emit.nest import Axis, BodyText, KernelText, Place
from numstax.emit.product_parts import LEFT, SUM, taken_apart
from numstax.emit.text import factor
from numstax.ir.contraction import loads
from numstax.ir.index import ONE, ZERO, Index, Var, as_index, divides, less, stride_of, substitute


def print_product(kernel: KernelText, parallel: bool) -> Index:
    """Print a product in tiles; the number of parallel tasks."""
    return _Product(kernel).run(parallel)


class _Product:
    """`rows`, `columns` : of a tile; `parts` : of the rows of the result, a task each (times batches)."""

    def __init__(self, kernel: KernelText) -> None:
        tiling = kernel.kernel.tiling
        assert tiling is not None
        assert tiling.matrix is not None
        (self.rows, self.columns), depth = tiling.matrix.warp, tiling.matrix.block[2]
        self.parts, self.depth = tiling.matrix.resident, depth
        self.kernel, taken = taken_apart(kernel)
        self.text, self.product, self.left, self.rest = kernel.text, taken.product, taken.left, taken.rest
        self.row = self.product.rows[-1] if self.product.rows else Var("row", ONE)
        self.column = self.product.columns[-1] if self.product.columns else Var("column", ONE)
        self.batch = tuple(v for v in kernel.kernel.outer if v not in (self.row, self.column))
        (self.along,) = self.product.along
        self.dtype = dtypes.accumulator(self.product.effect.dtype)
        self.panels = (self.row.extent + (self.rows - 1)) // self.rows

    def run(self, parallel: bool) -> Index:
        text, part = self.text, Var("part", as_index(self.parts))
        most, terms = (self.panels + (self.parts - 1)) // self.parts, self.kernel.index(self.along.extent)
        edge = square(self.dtype.itemsize)
        left = text.array("rows", self.dtype, most * self.rows * self.along.extent + edge)
        sums = text.array("sums", self.dtype, self.rows * self.columns)
        with points(self.kernel, (*self.batch, part), parallel):
            here, panels = self.kernel.names[part], self.kernel.index(self.panels)
            first = text.assign("r", f"{here}*{factor(panels)} // {self.parts}")
            last = text.assign("r", f"({here} + 1)*{factor(panels)} // {self.parts}")
            panel = text.fresh("r")
            with text.block(f"for {panel} in range({first}, {last})"):
                self._copy_rows(left, panel, first, terms)
            across, beside = Var("panel", (self.column.extent + (self.columns - 1)) // self.columns), text.fresh("r")
            with text.block(f"for {self.kernel.bind(across, 'c')} in range({self.kernel.index(across.extent)})"):
                name, at = self._panel(across)
                base = text.assign("b", at)
                with text.block(f"for {beside} in range({first}, {last})"):
                    self._multiply(sums, left, f"({beside} - {first})*{factor(terms)}", name, base, terms)
                    self._follow(sums, beside, self.kernel.names[across])
        return task_count((*self.batch, part))

    def _panel(self, across: Var) -> tuple[str, str]:
        """The buffer of the right factor's panels, and where one begins."""
        ((name, offset),) = loads(self.product.loop.body, self.product.effect.other)
        first = substitute(offset, {self.column: self.columns * as_index(across), self.along: ZERO})
        return self.text.buffer(self.kernel.buffer(name)), self.kernel.index(first)

    # --- the left factor

    def _copy_rows(self, left: str, panel: str, first: str, terms: str) -> None:
        """The rows of a tile: where they lie one after another, squares are turned in registers, and what is written
        beyond a row is overwritten by the next."""
        text = self.text
        top = text.assign("i", f"{self.rows}*{panel}")
        to = text.assign("b", f"{self.rows}*{factor(terms)}*({panel} - {first})")
        edge = square(self.dtype.itemsize)
        squares = -(-self.rows // edge)
        start = "0"
        if self._lies_in_rows() and 2 * self.rows > squares * edge:
            start = text.assign("end", "0")
            size = self.kernel.index(self.row.extent)
            with text.block(f"if {top} + {squares * edge} <= {size}"):
                text.line(f"{start} = {terms}//{edge}*{edge}")
                self._turn_squares(left, to, top, start, squares)
        i, p = text.fresh("i"), text.fresh("p")
        stop = self._end(top, self.row.extent, self.rows)
        axes = [Axis(self.row, i, top, stop), Axis(self.along, p, start, terms, part=True)]
        kernel = self.kernel.copy({})
        kernel.places[LEFT] = Place(left, array=True, slot=f"{to} + {self.rows}*{p} + {i} - {top}")
        body = BodyText(kernel, self.left, axes)
        body.enter(0)
        with text.block(axes[0].header):
            body.enter(1)
            with text.block(axes[1].header):
                body.enter(2)
                body.print_stores()

    def _lies_in_rows(self) -> bool:
        ((name, offset),) = loads(self.product.loop.body, self.product.effect.value)
        strided = stride_of(offset, self.row) is not None and stride_of(offset, self.along) is ONE
        return strided and self.kernel.buffer(name).dtype == self.dtype

    def _turn_squares(self, left: str, to: str, top: str, end: str, squares: int) -> None:
        text, name = self.text, dtypes.name(self.dtype)
        ((buffer, offset),) = loads(self.product.loop.body, self.product.effect.value)
        source, edge = text.buffer(self.kernel.buffer(buffer)), square(self.dtype.itemsize)
        stride = stride_of(offset, self.row)
        assert stride is not None
        pitch = factor(self.kernel.index(stride))
        at = self.kernel.copy({self.row: top}).index(substitute(offset, {self.along: ZERO}))
        base, p = text.assign("b", at), text.fresh("p")
        with text.block(f"for {p} in range(0, {end}, {edge})"):
            for k in reversed(range(squares)):
                below = f" + {edge * k}" if k else ""
                come = f"{base} + {p}{f' + {edge * k}*{pitch}' if k else ''}"
                text.line(
                    f"transpose_{name}(offset_{name}({left}, {to} + {self.rows}*{p}{below}), {self.rows}, "
                    f"offset_{name}({source}, {come}), {pitch})"
                )

    # --- the product and what follows

    def _multiply(self, sums: str, left: str, row: str, right: str, base: str, terms: str) -> None:
        name = dtypes.name(self.dtype)

        def add(call: str, first: str, count: str) -> None:
            come = f"offset_{name}({left}, {self.rows}*({row}{first}))"
            beside = f"offset_{name}({right}, {base}{first and f'{first}*{self.columns}'})"
            self.text.line(f"{call}_{name}_{self.rows}x{self.columns}({sums}, {come}, {beside}, {count})")

        if less(as_index(self.depth), self.along.extent) is False:
            add("products", "", terms)
            return
        add("products", "", f"min({self.depth}, {terms})")
        p = self.text.fresh("p")
        with self.text.block(f"for {p} in range({self.depth}, {terms}, {self.depth})"):
            add("add_products", f" + {p}", f"min({self.depth}, {terms} - {p})")

    def _follow(self, sums: str, panel: str, across: str) -> None:
        text = self.text
        top, start = text.assign("i", f"{self.rows}*{panel}"), text.assign("j", f"{self.columns}*{across}")
        bottom = self._end(top, self.row.extent, self.rows)
        for buffer in self.kernel.kernel.buffers:
            if buffer.kind == "local" and buffer.name not in (LEFT, SUM):
                self.kernel.places[buffer.name] = Place(text.fresh("r"), array=False)
        # of whole panels the compiler is to know that no columns are left over
        whole, end = f"{start} + rolled({self.columns})", self._end(start, self.column.extent, self.columns)
        if divides(self.columns, self.column.extent) is True:
            self._pass(sums, (top, bottom), (start, whole))
            return
        with text.block(f"if {end} == {start} + {self.columns}"):
            self._pass(sums, (top, bottom), (start, whole))
        with text.block("else"):
            self._pass(sums, (top, bottom), (start, end))

    def _pass(self, sums: str, down: tuple[str, str], along: tuple[str, str]) -> None:
        kernel, i, j = self.kernel.copy({}), self.text.fresh("i"), self.text.fresh("j")
        kernel.places[SUM] = Place(sums, array=True, slot=f"{self.columns}*({i} - {down[0]}) + {j} - {along[0]}")
        axes = [Axis(self.row, i, *down), Axis(self.column, j, *along)]
        bodies = [BodyText(kernel, loop, axes, self.rest) for loop in self.rest]
        print_tile(self.text, axes, bodies)

    def _end(self, start: str, extent: Index, size: int) -> str:
        """Where a tile ends that begins at `start`."""
        whole = divides(size, extent) is True
        return (
            f"{start} + {size}"
            if whole
            else self.text.assign("end", f"min({start} + {size}, {self.kernel.index(extent)})")
        )
