"""Costs counted by hand."""

from __future__ import annotations

from numstax.ir.handlers import bytes_moved, bytes_needed, operations, work
from numstax.ir.index import as_index, symbol
from numstax.ir.loops import Kernel
from numstax.ir.ops import ELEMENTWISE
from numstax.ir.parse import parse_graph, parse_schedule

SCHEDULE = parse_schedule("""\
schedule
symbol n hint=100
buffer x input f32[8, n] strides [n, 1]
buffer b input f64[n] strides [0]
buffer t temp f32[8, n]
buffer s output f32[8]
kernel rows (i < 8)
  buffer m local f32[]
  uses x, b, t, m, s
  loop (j < n)
    v0 = load f32 x[i*n + j]
    reduce maximum f32 m[0] = v0
  loop (j < n)
    v0 = load f32 x[i*n + j]
    v1 = load f32 m[0]
    v2 = load f64 b[0]
    v3 = subtract f32 v0, v1
    v4 = exp f32 v3
    v5 = cast f32 v2
    v6 = multiply f32 v4, v5
    store t[i*n + j] = v6
    reduce add f32 s[i] = v6
extern 'numpy.sort' {args=(BufferView('x', Index(0), [8, n], [n, 1]),), results=('t',)}
outputs ('s',)
writes ()""")


def test_work_is_symbolic() -> None:
    kernel = SCHEDULE.units[0]
    assert isinstance(kernel, Kernel)
    exp = ELEMENTWISE["exp"].flops
    assert operations(kernel.loops[1].body) == 3 + 1 + exp + 1
    assert work(kernel) is symbol("n", hint=100) * 8 * ((1 + 1) + (3 + 2 + exp + 2))
    assert work(Kernel("none", (), (), ())) is as_index(0)


def test_each_element_moves_once_and_broadcast_axes_count_once() -> None:
    buffers = {b.name: b for b in SCHEDULE.buffers}
    x, t, s, b = 8 * 100 * 4, 8 * 100 * 4, 8 * 4, 8
    assert bytes_moved(SCHEDULE.units[0], buffers) == x + b + t + s
    assert bytes_moved(SCHEDULE.units[1], buffers) == x + t


def test_bytes_needed_are_arguments_used_and_results() -> None:
    graph = parse_graph("""\
graph
input 0 array f32[10] strides [0] 'x'
input 1 array f64[10] strides [1] 'unused'
input 2 scalar f64[] 'a'
%0 = input f32[10] {position=0}
%1 = exp f32[10] %0
%2 = reduce_add f32[] %1 {axes=(0,)}
write 0 = %1
return %2
return %0 alias input 0 views ()""")
    assert bytes_needed(graph) == 4 + 10 * 4 + 4
