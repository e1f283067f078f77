"""Innermost loops of a nest: what the compiler has to be told before it finds vectors in them.

Enters: a counted loop in whose body nothing but kernels and branches runs.  Leaves: the body as it is to be printed,
the elements to be held in registers meanwhile, and where to cut the loop.

An element that the loop reads again and again (a pivot) may be written in one of the iterations: nothing shows the
compiler that it stays as it is in the others.  It is read before the loop, and once more after that iteration.
A sum is a sum however it is written: what is only added to may be added in any order, as `np.sum` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from numstax import dtypes
from numstax.cpu_emit.cells import Body, Called, Inner
from numstax.ir.index import ZERO, Index, Ref, Symbol, Var, as_index, atoms, less, stride_of
from numstax.ir.loops import Buffer, Instr, Kernel, Loop, Reduce, Store, access
from numstax.ir.overlap import apart
from numstax.records import record

IN_ANY_ORDER = {"add": "add_in_any_order", "subtract": "subtract_in_any_order", "multiply": "multiply_in_any_order"}

Element = tuple[str, Index]
"""A cell and an offset in it."""


@record
class Innermost:
    """held : name -> the element that the body knows by it; `cut` : the iterations before it come first, then the
    elements are read again."""

    body: Body
    held: Mapping[str, Element]
    cut: Index | None


@record
class _Access:
    """`time` : when in an iteration; `sure` : in every iteration; `loop` and `entry` : of a read."""

    element: Element
    time: int
    sure: bool
    loop: Loop
    entry: int = -1


def innermost(inner: Inner, buffers: Mapping[str, Buffer]) -> Innermost | None:
    """`inner` : a 'for'.  None where loops or programs run inside, or buffers exchange their parts."""
    if inner.rotate or not _is_innermost(inner.bodies[0]):
        return None
    (body,) = inner.bodies
    reads, writes = _accesses(body)
    counter = _counter(inner, (*reads, *writes))
    if counter is None:
        return Innermost(body, {}, None)
    sums = {
        id(r.loop): (r.entry, op)
        for r in reads
        if (op := _summed(r, reads, writes, counter, buffers[r.element[0]])) is not None
    }
    held, cut = _held(reads, writes, counter, buffers)
    return Innermost(_rewritten(body, sums, {e: name for name, e in held.items()}), held, cut)


def _is_innermost(body: Body) -> bool:
    return all(
        isinstance(item, Kernel)
        or (isinstance(item, Inner) and item.kind == "cond" and all(map(_is_innermost, item.bodies)))
        for item in body.items
    )


# --- accesses -------------------------------------------------------------------------------------


def _kernels(body: Body, sure: bool = True) -> Iterator[tuple[Kernel, Mapping[str, str], bool]]:
    for item in body.items:
        if isinstance(item, Kernel):
            yield item, body.cells, sure
        elif isinstance(item, Inner):
            for branch in item.bodies:
                yield from _kernels(branch, False)


def _accesses(body: Body) -> tuple[list[_Access], list[_Access]]:
    """Reads and writes of cells; one loop of a kernel reads before it writes."""
    reads: list[_Access] = []
    writes: list[_Access] = []
    time = 0
    for kernel, cells, sure in _kernels(body):
        for loop in kernel.loops:
            time += 1
            once = sure and not loop.inner
            for k, instr in enumerate(loop.body):
                if instr.op == "load" and access(instr)[0] in cells:
                    name, offset = access(instr)
                    reads.append(_Access((cells[name], offset), time, once and not instr.args, loop, k))
            for effect in loop.effects:
                targets = [(effect.buffer, effect.offset)]
                if isinstance(effect, Reduce) and effect.value_buffer is not None:
                    assert effect.value_offset is not None
                    targets.append((effect.value_buffer, effect.value_offset))
                certain = once and isinstance(effect, Store) and effect.mask is None
                writes += [_Access((cells[n], o), time, certain, loop) for n, o in targets if n in cells]
    return reads, writes


def _counter(inner: Inner, accesses: Sequence[_Access]) -> Symbol | None:
    """None where nothing depends on the iteration."""
    found = (a for access in accesses for a in atoms(access.element[1]))
    return next((a for a in found if isinstance(a, Symbol) and a.name == inner.counter), None)


def _is_fixed(offset: Index, counter: Symbol) -> bool:
    """Is the offset the same in every iteration?"""
    return not any(atom == counter or isinstance(atom, Var | Ref) for atom in atoms(offset))


# --- sums -----------------------------------------------------------------------------------------


def _summed(
    read: _Access, reads: Sequence[_Access], writes: Sequence[_Access], counter: Symbol, buffer: Buffer
) -> str | None:
    """The operation, where all that happens to a float is that each iteration adds to it (or subtracts, or
    multiplies)."""
    if not read.sure or not _is_fixed(read.element[1], counter) or not _is_plain_float(buffer):
        return None
    near = [
        a for a in (*reads, *writes) if a.element[0] == buffer.name and not apart(a.element[1], read.element[1], buffer)
    ]
    written = [a for a in near if a.entry < 0]
    if len(near) != 2 or len(written) != 1 or written[0].element != read.element or not written[0].sure:
        return None
    loop = read.loop
    if written[0].loop is not loop or len(loop.effects) != 1:
        return None
    value = next(e.value for e in loop.effects)
    instr = loop.body[value]
    uses = sum(instr.args.count(read.entry) for instr in loop.body)
    first = instr.args[:1] == (read.entry,)
    fits = first or (instr.args[1:] == (read.entry,) and instr.op != "subtract")
    again = any(value in other.args for other in loop.body)
    return IN_ANY_ORDER.get(instr.op) if fits and uses == 1 and not again else None


def _is_plain_float(buffer: Buffer) -> bool:
    return dtypes.kind(buffer.dtype) == "f" and not dtypes.is_low(buffer.dtype)


# --- elements in registers ------------------------------------------------------------------------


def _held(
    reads: Sequence[_Access], writes: Sequence[_Access], counter: Symbol, buffers: Mapping[str, Buffer]
) -> tuple[dict[str, Element], Index | None]:
    cut: Index | None = None
    held: dict[str, Element] = {}
    for element in dict.fromkeys(r.element for r in reads if r.sure):
        cell, offset = element
        written = [w for w in writes if w.element[0] == cell]
        if not written or not buffers[cell].shape or not _is_fixed(offset, counter):
            continue
        last = max(r.time for r in reads if r.element == element)
        ends = {_end(w, last, offset, counter, buffers[cell]) for w in written} - {ZERO}
        if len(ends | ({cut} if cut is not None else set())) > 1 or None in ends:
            continue
        cut = next(iter(ends), cut)
        held[f"held{len(held)}"] = element
    return held, cut


def _end(write: _Access, last: int, offset: Index, counter: Symbol, buffer: Buffer) -> Index | None:
    """Up to which iteration an element, last read at that time of each, is what it was before the loop; ZERO: it
    stays; None: unknown."""
    if apart(offset, write.element[1], buffer):
        return ZERO
    way = write.element[1] - offset
    step = stride_of(way, counter)
    if step is None or last > write.time:
        return None
    if less(step, ZERO):
        way, step = -way, -step
    if not less(ZERO, step) or (way % step) is not ZERO:
        return None
    end = as_index(counter) - way // step + 1
    return end if _is_fixed(end, counter) else None


# --- the body -------------------------------------------------------------------------------------


def _rewritten(body: Body, sums: Mapping[int, tuple[int, str]], held: Mapping[Element, str]) -> Body:
    items: list[Kernel | Called | Inner] = []
    for item in body.items:
        if isinstance(item, Kernel):
            items.append(_kernel(item, body.cells, sums, held))
        elif isinstance(item, Inner):
            items.append(replace(item, bodies=tuple(_rewritten(b, sums, held) for b in item.bodies)))
    return replace(body, items=tuple(items), cells={**body.cells, **{name: name for name in held.values()}})


def _kernel(
    kernel: Kernel, cells: Mapping[str, str], sums: Mapping[int, tuple[int, str]], held: Mapping[Element, str]
) -> Kernel:
    buffers = {b.name: b for b in kernel.buffers}

    def changed(loop: Loop, instr: Instr) -> Instr:
        summed = sums.get(id(loop))
        if summed is not None and summed[0] in instr.args:
            return replace(instr, op=summed[1])
        if instr.op == "load":
            name, offset = access(instr)
            place = held.get((cells.get(name, ""), offset))
            if place is not None:
                buffers[place] = replace(buffers[name], name=place, shape=(), strides=(), kind="temp")
                return replace(instr, attr=(place, ZERO))
        return instr

    loops = tuple(replace(loop, body=tuple(changed(loop, instr) for instr in loop.body)) for loop in kernel.loops)
    return replace(kernel, loops=loops, buffers=tuple(buffers.values()))
