"""Counting handlers: what kernels and graphs cost, read off their recorded bodies.

A Kernel, Extern, Body or Graph enters; numbers leave.  `work` is an Index, for launch decisions at run time;
bytes are counted at the sizes seen at capture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from numstax.ir.graph import Graph
from numstax.ir.index import ZERO, Index, hint, product
from numstax.ir.loops import Body, Buffer, Control, Extern, Kernel, Unit, views_in
from numstax.ir.ops import ELEMENTWISE


def operations(body: Body) -> int:
    """Elementary operations of one evaluation: one for each load, and those of the table."""
    return sum(ELEMENTWISE[i.op].flops if i.op in ELEMENTWISE else i.op == "load" for i in body)


def work(kernel: Kernel) -> Index:
    """Elementary operations of the whole kernel, one for each effect included."""
    each = (
        product(v.extent for v in loop.inner) * (operations(loop.body) + len(loop.effects)) for loop in kernel.loops
    )
    return product(v.extent for v in kernel.outer) * sum(each, ZERO)


def bytes_moved(unit: Unit, buffers: Mapping[str, Buffer]) -> int:
    """Bytes that pass between the unit and memory, each element once for reading and once for writing.

    A load touches no more elements than its loop has points; locals stay in the cache.  Control flow moves what its
    bodies do, each as often as it has trips, once where that is not known before.
    """
    if isinstance(unit, Control):
        trips = max(hint(unit.head), 0) if unit.kind == "for" and isinstance(unit.head, Index) else 1
        inside = (
            (inner, {b.name: b for b in body.schedule.buffers}) for body in unit.bodies for inner in body.schedule.units
        )
        return trips * sum(bytes_moved(inner, own) for inner, own in inside)
    if isinstance(unit, Extern):
        views = [*views_in((unit.args, unit.kwargs)), *((unit.out,) if unit.out else ())]
        read = sum(_elements(v.shape, v.strides) * buffers[v.buffer].dtype.itemsize for v in views)
        return read + sum(_nbytes(buffers[name]) for name in unit.results)
    touched: Counter[tuple[str, bool]] = Counter()
    for loop in unit.loops:
        points = hint(product(v.extent for v in (*unit.outer, *loop.inner)))
        touched.update({(name, False): points for name in loop.reads()})
        touched.update({(name, True): points for name in loop.writes()})
    own = {b.name: b for b in unit.buffers if b.kind != "local"}
    return sum(min(n * own[b].dtype.itemsize, _nbytes(own[b])) for (b, _), n in touched.items() if b in own)


def bytes_needed(graph: Graph) -> int:
    """Bytes any program must move: the arguments used and the results, each once."""
    used = {node.attr("position") for node in graph.nodes() if node.op == "input"}
    arguments = [spec for k, spec in enumerate(graph.inputs) if k in used and spec.kind == "array"]
    results = [out.node for out in graph.outputs if out.alias is None] + [node for _, node in graph.writes]
    read = sum(_elements(spec.shape, spec.strides) * spec.dtype.itemsize for spec in arguments)
    return read + sum(hint(product(node.shape)) * node.dtype.itemsize for node in results)


def _elements(shape: Iterable[Index], strides: Iterable[Index]) -> int:
    """Elements in memory: broadcast axes count once."""
    return hint(product(n for n, s in zip(shape, strides, strict=True) if s is not ZERO))


def _nbytes(buffer: Buffer) -> int:
    return _elements(buffer.shape, buffer.strides) * buffer.dtype.itemsize
