"""Results written over operands that are read for the last time.

Enters: fused units, all buffers and the names of the outputs.  Leaves: the same with some temporaries replaced
by the buffer that a later kernel writes: at each outer point that kernel reads the old element before it stores
the new one there.  The epilogue of a matrix product so runs in the product's own memory, and a product of another
shape is the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numstax.ir.index import product, same
from numstax.ir.loops import Buffer, BufferView, Control, Extern, Kernel, Store, Unit
from numstax.ir.renaming import map_accesses
from numstax.schedule.kernels import make_kernel
from numstax.schedule.legality import point_of, writes_of


def write_in_place(units: Sequence[Unit], buffers: Mapping[str, Buffer]) -> list[Unit]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, unit in enumerate(units):
        for name in unit.reads() | unit.writes():
            first.setdefault(name, k)
            last[name] = k
    fixed = {name for unit in units if isinstance(unit, Extern) for name in unit.results}
    fixed |= {name for unit in units if isinstance(unit, Control) for name in unit.reads() | unit.writes()}
    held: dict[str, str] = {}
    for k, unit in enumerate(units):
        if not isinstance(unit, Kernel):
            continue
        ending = (n for n in unit.reads() - unit.writes() - fixed if last[n] == k and buffers[n].kind == "temp")
        old = [buffers[n] for n in sorted(ending)]
        starting = (n for n in unit.writes() - fixed if first[n] == k and buffers[n].kind in ("temp", "output"))
        for target in sorted(starting):
            fitting = (b.name for b in old if b.name not in held and _fits(unit, b, buffers[target]))
            source = next(fitting, None)
            if source is not None:
                held[source] = target
    # a target may itself be overwritten by a later kernel
    names = {source: _final(source, held) for source in held}
    renamed = (_renamed(unit, names, buffers) for unit in units) if names else units
    return [unit for unit in renamed if not _is_idle(unit)]


def _is_idle(unit: Unit) -> bool:
    """Does it put every element where it is already?  So does a copy of another shape, in place."""
    if not isinstance(unit, Kernel):
        return False
    effects = [(e, loop.body) for loop in unit.loops for e in loop.effects]
    stores = [(e, body[e.value]) for e, body in effects if isinstance(e, Store)]
    plain = all(i.op == "load" and not i.args and i.attr == (e.buffer, e.offset) for e, i in stores)
    return plain and len(stores) == len(effects)


def _final(name: str, held: Mapping[str, str]) -> str:
    while name in held:
        name = held[name]
    return name


def _fits(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """May every store to `new` go to the element of `old` at the same offset?"""
    if old.dtype != new.dtype or same(product(old.shape), product(new.shape)) is not True:
        return False
    loads = [(k, offset) for k, loop in enumerate(kernel.loops) for name, offset in loop.loads() if name == old.name]
    for k, loop in enumerate(kernel.loops):
        for offset in writes_of((loop,)).get(new.name, ()):
            point = point_of(offset, kernel.outer)
            if point is None or not all(isinstance(e, Store) for e in loop.effects if e.buffer == new.name):
                return False
            for j, read in loads:
                if j > k or (j == k and read is not offset) or point_of(read, kernel.outer) != point:
                    return False
    return True


def _renamed(unit: Unit, names: Mapping[str, str], buffers: Mapping[str, Buffer]) -> Unit:
    if isinstance(unit, Control):
        return unit
    if isinstance(unit, Kernel):
        if not names.keys() & (unit.reads() | unit.writes()):
            return unit
        loops = (map_accesses(loop, lambda n, at: (names.get(n, n), at)) for loop in unit.loops)
        return make_kernel(unit.outer, tuple(loops), buffers)

    def rename(tree: Any) -> Any:
        if isinstance(tree, BufferView):
            return replace(tree, buffer=names.get(tree.buffer, tree.buffer))
        if isinstance(tree, tuple | list):
            items = [rename(item) for item in tree]
            return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
        return tree

    kwargs = tuple((key, rename(tree)) for key, tree in unit.kwargs)
    return replace(unit, args=rename(unit.args), kwargs=kwargs, out=rename(unit.out))
