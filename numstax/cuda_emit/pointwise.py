"""Pointwise kernels: every thread computes a few chunks of neighbouring points.

The points of the outer space are numbered along the lane variable first.  A block takes `unroll` times as many chunks
as it has threads; chunk c of a thread lies `threads` chunks behind chunk c - 1, so that the threads of a warp always
touch neighbouring memory.  All loads at known places come before the first computation.
"""

from __future__ import annotations

from numstax import dtypes
from numstax.cuda_emit.accesses import Chunk, Staged, early_loads
from numstax.cuda_emit.ahead import ask
from numstax.cuda_emit.passes import Pass, Span, stores_only
from numstax.cuda_emit.points import count
from numstax.emit.nest import BodyText, KernelText, Place
from numstax.emit.values import cast
from numstax.ir.index import ONE, Index, Var, as_index, divides
from numstax.ir.loops import NARROW, Accumulate, Effect


def _update(body: BodyText, effect: Effect, chunk: Chunk) -> bool:
    """An atomic update; other points may update the same element."""
    if not isinstance(effect, Accumulate):
        return False
    value = cast(body.value(effect.value), body.dtype(effect.value), effect.dtype)
    buffer = body.kernel.text.buffer(body.kernel.buffer(effect.buffer))
    name = f"atomic_{effect.op}_{dtypes.name(effect.dtype)}"
    with body.place(effect) as offset:
        body.kernel.text.line(f"{name}({buffer}, {offset}, {value})")
    return True


def print_points(kernel: KernelText) -> tuple[Index, ...]:
    """Print a kernel in pointwise form; the number of blocks."""
    text, loops, tiling = kernel.text, kernel.kernel.loops, kernel.kernel.tiling
    assert tiling is not None
    for buffer in kernel.kernel.buffers:
        if buffer.kind == "local":
            kernel.places[buffer.name] = Place(text.fresh("r"), array=False)
    lane = tiling.vector or Var("lane", ONE)
    variables = (*(v for v in kernel.kernel.outer if v != lane), lane)
    total, step = count(variables), tiling.threads * tiling.width
    block = step * tiling.unroll
    thread = "int64(thread_x())" if tiling.width == 1 else f"int64(thread_x())*{tiling.width}"
    first = text.assign("p", f"int64(block_x())*{block} + {thread}")
    limit = None if divides(block, total) is True else kernel.index(total)
    most = NARROW if tiling.narrow else None
    span = Span(variables, lane, tiling.width, tiling.unroll, first, step, limit, most=most)
    loads = early_loads(loops, {b.name: b for b in kernel.kernel.buffers})
    if tiling.ahead:
        later = text.assign("p", f"int64(block_x() + {tiling.ahead})*{block}")
        with text.block(f"if (thread_x() == 0) & ({later} + {block} <= {kernel.index(total)})"):
            ask(kernel, loads, variables, kernel.names, later, as_index(block))
    Pass(kernel, loops, span, Staged(kernel, loads, tiling.unroll, lane, tiling.width)).run(
        _update if tiling.form == "scatter" else stores_only
    )
    return ((total + (block - 1)) // block,)
