"""Accesses of several neighbouring elements at once, and loads that are made before they are needed.

A thread works on *chunks* of `width` points that are neighbours along the lane variable.  `Staged` holds what is loaded
of all chunks of a group before any is computed, so that the loads are under way together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from numstax import dtypes
from numstax.emit.nest import BodyText, KernelText
from numstax.emit.values import stored
from numstax.ir.index import ZERO, Atom, Index, Ref, Var, atoms, stride_of
from numstax.ir.loops import Buffer, Loop, Store
from numstax.records import record
from numstax.tiles.cpu import access
from numstax.tiles.cuda import is_wide

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
    """Where a chunk lies: `names` of the variables, that of the lane at its first point."""

    names: Mapping[Atom, str]
    lane: Var
    width: int

    def at(self, element: str) -> str:
        """The lane variable at one of its points."""
        first = self.names[self.lane]
        return first if self.width == 1 else f"({first} + {element})"


class Staged:
    """Early loads of `count` chunks."""

    def __init__(self, kernel: KernelText, loads: Sequence[Access], count: int, lane: Var, width: int) -> None:
        self.kernel, self.text, self.count, self.lane, self.width = kernel, kernel.text, count, lane, width
        self.wide = [x for x in loads if width > 1 and is_wide(x[1], lane, width)]
        # one chunk is computed right after its loads: others than wide ones stay where they are used
        others = [] if count == 1 else [x for x in loads if x not in self.wide]
        self.each = [x for x in others if stride_of(x[1], lane) is not ZERO]
        self.once = [x for x in others if stride_of(x[1], lane) is ZERO]
        self.elements: dict[Access, str] = {}

    def declare(self, chunk: str, element: str) -> None:
        """Registers for what is loaded; an element is read at number `chunk` and place `element`."""
        spread = f"{chunk}*{self.width} + {element}" if self.width > 1 else chunk
        for loads, size, at in (
            (self.wide, self.count * self.width, spread),
            (self.each, self.count * self.width, spread),
            (self.once, self.count, chunk),
        ):
            for name, offset in loads:
                if self.count > 1:
                    self.elements[name, offset] = f"{self._registers(name, size)}[{at}]"

    def _registers(self, name: str, size: int) -> str:
        storage = dtypes.name(dtypes.storage(self.kernel.buffer(name).dtype))
        return self.text.assign("x", f"registers_{storage}({size})")

    def load(self, chunk: Chunk, number: str, element: str) -> None:
        """Load one chunk."""
        for name, offset in self.wide:
            at = self.text.index(offset, chunk.names)
            whole = self.text.assign("w", load_text(self.kernel, name, at, self.width))
            if self.count == 1:
                self.elements[name, offset] = f"{whole}[{element}]"
                continue
            with self._places(number) as (place, e):
                self.text.line(f"{self._target(name, offset)}[{place}] = {whole}[{e}]")
        for name, offset in self.each:
            with self._places(number) as (place, e):
                self.text.line(f"{self._target(name, offset)}[{place}] = {self._element(name, offset, chunk, e)}")
        for name, offset in self.once:
            self.text.line(f"{self._target(name, offset)}[{number}] = {self._element(name, offset, chunk, '0')}")

    def _target(self, name: str, offset: Index) -> str:
        return self.elements[name, offset].partition("[")[0]

    @contextmanager
    def _places(self, number: str) -> Iterator[tuple[str, str]]:
        """Place in the registers and number of each element of a chunk."""
        if self.width == 1:
            yield number, "0"
            return
        e = self.text.fresh("e")
        with self.text.block(f"for {e} in range({self.width})"):
            yield f"{number}*{self.width} + {e}", e

    def _element(self, name: str, offset: Index, chunk: Chunk, element: str) -> str:
        names = {**chunk.names, self.lane: chunk.at(element)}
        return self.kernel.element(name, self.text.index(offset, names))


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
                whole = isinstance(effect, Store) and effect.mask is None and width > 1
                if whole and effect.buffer not in read_later and is_wide(effect.offset, lane, width):
                    assert isinstance(effect, Store)
                    if kernel.buffer(effect.buffer).kind != "local":
                        self.effects[k, j] = effect
            read_later |= loop.reads()

    def declare(self) -> None:
        for key, effect in sorted(self.effects.items()):
            storage = dtypes.name(dtypes.storage(self.kernel.buffer(effect.buffer).dtype))
            self.targets[key] = self.kernel.text.assign("y", f"registers_{storage}({self.width})")

    def keep(self, key: tuple[int, int], body: BodyText, element: str) -> bool:
        """Keep the value of a store for later; False when it is not one of these."""
        if key not in self.effects:
            return False
        effect = self.effects[key]
        value = stored(body.value(effect.value), self.kernel.buffer(effect.buffer).dtype)
        self.kernel.text.line(f"{self.targets[key]}[{element}] = {value}")
        return True

    def store(self, chunk: Chunk) -> None:
        for key, effect in sorted(self.effects.items()):
            buffer = self.kernel.buffer(effect.buffer)
            offset = self.kernel.text.index(effect.offset, chunk.names)
            values = ", ".join(f"{self.targets[key]}[{e}]" for e in range(self.width))
            name = f"store{self.width}_{dtypes.name(buffer.dtype)}"
            self.kernel.text.line(f"{name}({self.kernel.text.buffer(buffer)}, {offset}, ({values}))")
