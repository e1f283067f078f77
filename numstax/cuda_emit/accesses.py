"""Accesses of several neighbouring elements at once, and loads that are made before they are needed.

A thread works on *chunks* of `width` points that are neighbours along the lane variable.  `Staged` holds what is loaded
of all chunks of a group before any is computed, so that the loads are under way together.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from numstax import dtypes
from numstax.emit.nest import BodyText, KernelText
from numstax.emit.values import stored, zero
from numstax.ir.index import ZERO, Atom, Index, Ref, Var, atoms, stride_of
from numstax.ir.loops import Buffer, Loop, Store, access
from numstax.records import record
from numstax.tiles.cuda_points import is_wide

Access = tuple[str, Index]


def early_loads(loops: Sequence[Loop], buffers: Mapping[str, Buffer]) -> list[Access]:
    """Loads that can be made before all others: of memory, unconditional, at known places, and not of what an earlier
    loop writes."""
    found: dict[Access, None] = {}
    written: set[str] = set()
    for loop in loops:
        for instr in loop.body:
            if instr.op != "load" or instr.args:
                continue
            name, offset = access(instr)
            known = not any(isinstance(a, Ref) for a in atoms(offset))
            if known and name not in written and buffers[name].kind not in ("scalar", "local"):
                found[name, offset] = None
        written |= loop.writes()
    return list(found)


@record
class Chunk:
    """Where a chunk lies: `names` of the variables, that of the lane at its first point; `point` is the number of that
    point, `number` that of the chunk in its group, `element` names the points of the chunk.  `flat` names the current
    point among all of the group, where one loop runs over those.  `unroll` : the compiler has to be told to write out
    the loop over its points."""

    names: Mapping[Atom, str]
    lane: Var
    width: int
    point: str
    number: str
    element: str
    flat: str = ""
    unroll: bool = False

    def at(self, element: str) -> str:
        """The lane variable at one of its points."""
        first = self.names[self.lane]
        return first if self.width == 1 else f"({first} + {element})"

    @property
    def slot(self) -> str:
        """The current point among all of the group."""
        if self.flat or self.width == 1:
            return self.flat or self.number
        return self.element if self.number == "0" else f"{self.number}*{self.width} + {self.element}"

    @contextmanager
    def elements(self, kernel: KernelText) -> Iterator[None]:
        """The loop over its points."""
        if self.width == 1:
            yield
            return
        with kernel.text.block(f"for {self.element} in range({self.width})"):
            yield
            if self.unroll:
                kernel.text.line("unroll()")


def storage_name(dtype: np.dtype) -> str:
    return dtypes.name(dtypes.storage(dtype))


@record
class Tile:
    """Points in shared memory: `pitch` elements from one value of `row` to the next, neighbours along the lane."""

    array: str
    row: Var
    pitch: int

    def element(self, chunk: Chunk) -> str:
        return f"{self.array}[{chunk.names[self.row]}*{self.pitch} + {chunk.at(chunk.element)}]"


@record
class Window:
    """Points in registers: for each chunk, `length` neighbours in memory, that at `first` belonging to its first
    point."""

    array: str
    length: int
    first: int

    def element(self, chunk: Chunk) -> str:
        return f"{self.array}[{chunk.number}*{self.length} + {self.first} + {chunk.element}]"


@record
class Shelf:
    """A row in shared memory, from the point of number `first` on."""

    array: str
    first: int

    def at(self, chunk: Chunk) -> str:
        return f"{chunk.point} - {self.first}" if self.first else chunk.point


class Staged:
    """Early loads of `count` chunks.

    keep : those that later passes use, too; known : what earlier passes kept; late : those that are near, as other
        teams load them too, and are loaded with the chunk that needs them.
    nested : may there be loops over the points of a chunk?
    """

    def __init__(
        self,
        kernel: KernelText,
        loads: Sequence[Access],
        count: int,
        lane: Var,
        width: int,
        keep: Container[Access] = (),
        known: Mapping[Access, str] = MappingProxyType({}),
        late: Container[Access] = (),
        nested: bool = True,
    ) -> None:
        self.kernel, self.text, self.count, self.lane, self.width = kernel, kernel.text, count, lane, width
        self.arrays = {x: known[x] for x in loads if x in known}
        loads = [x for x in loads if x not in known]
        wide = [x for x in loads if width > 1 and is_wide(kernel.buffer(x[0]), x[1], lane, width)]
        self.late = [x for x in wide if x not in keep and (count == 1 or (nested and x in late))]
        self.wide = [x for x in wide if x not in self.late]
        self.whole: dict[Access, str] = {}
        """Chunks as tuples."""
        self.tiles: dict[Access, Tile | Window] = {}
        """What was loaded otherwise."""
        self.saved: dict[Access, Shelf] = {}
        self.shelved: dict[Access, Shelf] = {}
        """Where rows are kept for later passes, and where earlier passes kept them."""
        # one chunk is computed right after its loads: others than wide ones stay where they are used
        early = [x for x in loads if x not in wide and count > 1 and _moves(x[1])]
        early = [x for x in early if nested or width == 1 or self._once(x[1])]
        self.others = [x for x in loads if x in early or (x in keep and x not in wide)]

    @property
    def pending(self) -> bool:
        """Is there anything to load?"""
        return bool(self.wide or self.others)

    def declare(self) -> None:
        """Registers for what is loaded, once."""
        for name, offset in (*self.wide, *self.others):
            if (name, offset) in self.arrays:
                continue
            size = self.count if self._once(offset) else self.count * self.width
            storage = storage_name(self.kernel.buffer(name).dtype)
            self.arrays[name, offset] = self.text.assign("x", f"registers_{storage}({size})")

    def _once(self, offset: Index) -> bool:
        """Is it one element for all points of a chunk?"""
        return stride_of(offset, self.lane) is ZERO

    def elements(self, chunk: Chunk) -> dict[Access, str]:
        """Where the current point of each load is."""
        found = {x: f"{a}[{chunk.number if self._once(x[1]) else chunk.slot}]" for x, a in self.arrays.items()}
        found |= {x: tile.element(chunk) for x, tile in self.tiles.items()}
        return found | {x: f"{whole}[{chunk.element}]" for x, whole in self.whole.items()}

    def clear(self) -> None:
        """Zeros for the chunks of one point that are not loaded, since they are behind the end."""
        c = self.text.fresh("c")
        with self.text.block(f"for {c} in range({self.count})"):
            for name, offset in self.others:
                nothing = zero(dtypes.storage(self.kernel.buffer(name).dtype))
                self.text.line(f"{self.arrays[name, offset]}[{c}] = {nothing}")

    def load(self, chunk: Chunk) -> None:
        """Load one chunk, in the loop before the computation."""
        for name, offset in self.wide:
            whole = self._load_whole(name, offset, chunk)
            places = (f"{self.arrays[name, offset]}[{chunk.number}*{self.width} + {e}]" for e in range(self.width))
            self.text.line(f"{', '.join(places)} = {whole}")
            if (name, offset) in self.saved:
                shelf, kind = self.saved[name, offset], dtypes.name(self.kernel.buffer(name).dtype)
                self.text.line(f"store{self.width}_{kind}({shelf.array}, {shelf.at(chunk)}, {whole})")
        for name, offset in self.others:
            target = self.arrays[name, offset]
            if self._once(offset):
                self.text.line(f"{target}[{chunk.number}] = {self._element(name, offset, chunk)}")
                continue
            with chunk.elements(self.kernel):
                self.text.line(f"{target}[{chunk.slot}] = {self._element(name, offset, chunk)}")
                if (name, offset) in self.saved:
                    shelf = self.saved[name, offset]
                    self.text.line(f"{shelf.array}[{shelf.at(chunk)}] = {target}[{chunk.slot}]")

    def load_late(self, chunk: Chunk) -> None:
        """Load what the chunk that is computed next needs."""
        self.whole = {(name, offset): self._load_whole(name, offset, chunk) for name, offset in self.late}

    def _load_whole(self, name: str, offset: Index, chunk: Chunk) -> str:
        if (name, offset) in self.shelved:
            shelf, kind = self.shelved[name, offset], dtypes.name(self.kernel.buffer(name).dtype)
            return self.text.assign("w", f"load{self.width}_{kind}({shelf.array}, {shelf.at(chunk)})")
        at = self.text.index(offset, chunk.names)
        return self.text.assign("w", load_text(self.kernel, name, at, self.width))

    def _element(self, name: str, offset: Index, chunk: Chunk) -> str:
        if (name, offset) in self.shelved and self.width == 1:
            shelf = self.shelved[name, offset]
            return f"{shelf.array}[{shelf.at(chunk)}]"
        return self.kernel.element(name, self.text.index(offset, {**chunk.names, self.lane: chunk.at(chunk.element)}))


def _moves(offset: Index) -> bool:
    return any(isinstance(a, Var) for a in atoms(offset))


def load_text(kernel: KernelText, name: str, offset: str, width: int) -> str:
    buffer = kernel.buffer(name)
    return f"load{width}_{dtypes.name(buffer.dtype)}({kernel.text.buffer(buffer)}, {offset})"


class WideStores:
    """The stores of `loops` that are made for a whole chunk at once."""

    def __init__(self, kernel: KernelText, loops: Sequence[Loop], lane: Var, width: int) -> None:
        self.kernel, self.width = kernel, width
        self.targets: dict[tuple[int, int], str] = {}
        self.effects: dict[tuple[int, int], Store] = {}
        read_later: set[str] = set()
        for k, loop in reversed(list(enumerate(loops))):
            for j, effect in enumerate(loop.effects):
                if isinstance(effect, Store) and effect.mask is None and width > 1:
                    outside = kernel.buffer(effect.buffer).kind != "local" and effect.buffer not in read_later
                    if outside and is_wide(kernel.buffer(effect.buffer), effect.offset, lane, width):
                        self.effects[k, j] = effect
            read_later |= loop.reads()

    def declare(self, chunks: int) -> None:
        """Registers for the values of so many chunks."""
        for key, effect in sorted(self.effects.items()):
            storage = storage_name(self.kernel.buffer(effect.buffer).dtype)
            self.targets[key] = self.kernel.text.assign("y", f"registers_{storage}({chunks * self.width})")

    def keep(self, key: tuple[int, int], body: BodyText, chunk: Chunk) -> bool:
        """Keep the value of a store for later; False when it is not one of these."""
        if key not in self.effects:
            return False
        effect = self.effects[key]
        value = stored(body.value(effect.value), self.kernel.buffer(effect.buffer).dtype)
        self.kernel.text.line(f"{self.targets[key]}[{chunk.flat or chunk.element}] = {value}")
        return True

    def store(self, chunk: Chunk) -> None:
        self.store_some(self.effects, chunk)

    def store_some(self, effects: Mapping[tuple[int, int], Store], chunk: Chunk) -> None:
        for key, effect in sorted(effects.items()):
            buffer = self.kernel.buffer(effect.buffer)
            offset = self.kernel.text.index(effect.offset, chunk.names)
            first = f"{chunk.number}*{self.width} + " if chunk.flat else ""
            values = ", ".join(f"{self.targets[key]}[{first}{e}]" for e in range(self.width))
            name = f"store{self.width}_{dtypes.name(buffer.dtype)}"
            self.kernel.text.line(f"{name}({self.kernel.text.buffer(buffer)}, {offset}, ({values}))")
