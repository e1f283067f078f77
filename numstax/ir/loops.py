"""Loops and Kernels: what lowering makes, fusion merges, tiling decorates and emitters print.

A Kernel iterates over its `outer` variables (the parallel iteration space); at each outer point it runs
its `loops` in order.  A Loop iterates over its own `inner` variables (last one fastest), evaluates its
`body` -- an SSA list recorded once -- and performs its effects.  softmax over rows is::

    Kernel outer=(i < 256)
      Loop inner=(j < 1000)   v0 = load x[1000*i + j]                      Reduce maximum(v0) -> m[0]
      Loop inner=(j < 1000)   v0 = load x[..]; v1 = load m[0]; v2 = v0 - v1; v3 = exp v2
                              Store e[j] = v3;                             Reduce add(v3) -> s[0]
      Loop inner=(j < 1000)   v0 = load e[j]; v1 = load s[0]; v2 = v0 / v1 Store out[1000*i + j] = v2

where m, s, e are *local* buffers (kind 'local'): they live within one outer point; rank 0 is a register,
rank 1 and more is scratch memory.  A kernel without inner loops is pointwise (`inner == ()`); then outer
is the whole iteration space.  Between row loops a Loop with ``inner == ()`` runs once per outer point (the
epilogue of a reduction: ``mean[0] = sum[0] / n``).  A column reduction has outer=(j,) and inner=(i,): which
variable becomes the vector is a decision of the Tiling, not of the Loop.

Offsets of loads and stores are flat, in elements from the start of the buffer.  A `Ref(k, n)` atom in an
offset is the value of SSA entry k of the same body (a gather).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace

import numpy as np

from numstax.errors import Origin
from numstax.ir.graph import Graph
from numstax.ir.index import Index, Var
from numstax.program import Emitted, Program
from numstax.records import record


@record
class Buffer:
    """A named array. kind: 'input' | 'scalar' (0-d run-time argument) | 'output' | 'temp' | 'local'.

    `shape` and `strides` (in elements) describe the memory; every kind but 'input' is C-contiguous.
    """

    name: str
    dtype: np.dtype
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]
    kind: str


@record
class Instr:
    """One SSA entry; its value is named by its position in the body.

    op, with `attr`:
      'load'    attr=(buffer name, Index offset); args=() or (mask,): masked-off reads give 0 and touch nothing
      'const'   attr=Python or NumPy scalar
      'index'   attr=Index, as an integer value of `dtype` (int64 or int32)
      'cast'    args=(x,): NumPy astype semantics to `dtype`
      'bitcast' args=(x,): the bits of x as `dtype`, of the same itemsize
      'wrap'    attr=Index n; args=(x,) or (x, mask): a user's integer index in -n <= x < n as 0 <= v < n;
                outside, the kernel reports OutOfBounds in its status word and the value is 0
      'require' attr=name of a requirement; args=(x, holds) or (x, holds, mask): x; where a bool does not hold (and
                the mask does), the kernel reports it in its status word
      otherwise a row of `ops.ELEMENTWISE`, args already of the row's operand dtype.
    A value of a low float dtype (float16, bfloat16, float8) is rounded to that dtype after each op.
    """

    op: str
    args: tuple[int, ...]
    dtype: np.dtype
    attr: object = None
    origin: Origin | None = field(default=None, compare=False)


def access(instr: Instr) -> tuple[str, Index]:
    """The buffer and offset of a load."""
    return instr.attr  # type: ignore[return-value]


Body = tuple[Instr, ...]
CHECKS = ("wrap", "require")
"""Instructions that can fail."""


@record
class Store:
    """buffer[offset] = value, where the optional mask holds."""

    buffer: str
    offset: Index
    value: int
    mask: int | None = None


@record
class Reduce:
    """Combine `value` over all inner variables; after the loop, buffer[offset] = result (offset over outer).

    op: 'add' | 'multiply' | 'maximum' | 'minimum' | 'fmax' | 'fmin' | 'logical_and' | 'logical_or' |
        'bitwise_and' | 'bitwise_or' | 'bitwise_xor' | 'argmax' | 'argmin' |
        'online_softmax' (pairs (m, d) of section 9.5; two results).
    For argmax/argmin `position` is the Index whose value at the winning element is the result (int64);
    ties go to the smallest position and NaN wins, as NumPy does; `value_buffer` optionally receives the
    winning value too (split reductions need it).  `position_in` (an SSA entry) combines partial results: the
    position is then read from that entry instead of the Index.
    online_softmax stores m = max(value) to `buffer` and d = sum(exp(value - m)) to `value_buffer`; with
    `position_in` the values are partial maxima and that entry the partial sums, so d = sum(exp(value - m) * entry).
    """

    op: str
    value: int
    buffer: str
    offset: Index
    dtype: np.dtype
    position: Index | None = None
    position_in: int | None = None
    value_buffer: str | None = None
    value_offset: Index | None = None


@record
class Scan:
    """Running combination along the last inner variable: buffer[offset] = op over all values up to here.
    op: 'add' | 'multiply' | 'maximum' | 'minimum' | 'logical_and' | 'logical_or'."""

    op: str
    value: int
    buffer: str
    offset: Index
    dtype: np.dtype


@record
class Accumulate:
    """buffer[offset] = op(buffer[offset], value), one inner iteration after another, in order: several may meet one
    element.  op: 'set' (the value replaces the element) or a binary row of `ops.ELEMENTWISE`, whose result is cast
    to `dtype`, that of the buffer.  Different outer points touch different elements."""

    op: str
    value: int
    buffer: str
    offset: Index
    dtype: np.dtype


@record
class Contract:
    """A matrix product: buffer[offset] = the sum over all inner variables of `value` times `other` (offset over outer).

    Sums of floats of at most 32 bits are taken in float32, of integers modulo their size; the result is of `dtype`.
    `precision` says how float32 factors may be rounded before they are multiplied: 'highest' not at all, 'high' to
    what three products of TF32 give, 'medium' to TF32.  Products of one `group`, if it has a name, are to be computed
    in one launch.  `template` is that which the user named, if any.
    """

    value: int
    other: int
    buffer: str
    offset: Index
    dtype: np.dtype
    precision: str = "highest"
    group: str = ""
    template: str = ""


Effect = Store | Reduce | Scan | Accumulate | Contract


@record
class Loop:
    inner: tuple[Var, ...]
    body: Body
    effects: tuple[Effect, ...]

    def loads(self) -> Iterator[tuple[str, Index]]:
        for instr in self.body:
            if instr.op == "load":
                yield access(instr)

    def reads(self) -> frozenset[str]:
        changed = (e.buffer for e in self.effects if isinstance(e, Accumulate))
        return frozenset((*(buffer for buffer, _ in self.loads()), *changed))

    def writes(self) -> frozenset[str]:
        extra = (e.value_buffer for e in self.effects if isinstance(e, Reduce) and e.value_buffer)
        return frozenset((*(e.buffer for e in self.effects), *extra))


@record
class MatrixTiling:
    """How a kernel computes a product of matrices; on the CPU the family is 'panels', `block` what a task works on,
    `warp` the tile in registers, and `resident` the number of tasks.

    family : the instructions, 'fma', 'mma' or 'wgmma'; operand : what they multiply, as `dtypes.name`, or 'tf32'.
    block : rows, columns and depth of the tile that a block works on at a time; warp : of a warp, or of a warpgroup
    ('wgmma').  stages : tiles of the factors in shared memory.
    group : rows of tiles that are numbered together (Proposition 9.4).  resident : so many blocks compute one tile
    after another; 0: there is a block for each tile.  producers : warps that only load.  turns : warpgroups
    have tiles of their own, so that one multiplies while another one writes results.  cost : predicted seconds.
    split : parts of k that are worth computing apart.  terms : products of TF32 that make one of float32.
    box : how many values of each variable that numbers rows a tile has, where there are several.
    """

    family: str
    operand: str
    block: tuple[int, int, int]
    warp: tuple[int, int]
    stages: int
    group: int = 8
    resident: int = 0
    producers: int = 0
    split: int = 1
    turns: bool = False
    terms: int = 1
    box: tuple[int, ...] = ()
    cost: float = field(default=0.0, compare=False)

    @property
    def warps(self) -> tuple[int, int]:
        """Warps or warpgroups down and along a tile."""
        return self.block[0] // self.warp[0], self.block[1] // self.warp[1]


NARROW = (1 << 32) - 1
"""What 32 bits hold."""


@record
class Tiling:
    """How a target runs a Kernel; made by `tiles`, read by emitters.

    form : 'pointwise', 'transpose', 'column', 'row' or 'scan': which loop nest is printed (see `tiles.cpu`).
    vector : the variable mapped to SIMD lanes (a loop variable with stride 1, or 0, in most accesses).
    block : for column form (vector is outer): elements of `vector` processed together; for 2-D tiles: the
            tile edge of `vector`.
    tile : a second, transposed variable and its tile edge, or None.
    unroll : independent accumulators or rows in flight; for column form: rows combined with each other before the
            accumulators, where any order will do; for pointwise form: elements of `vector` at a time.

    On a GPU (see `tiles.cuda`): `threads` a block, of which `team` share one outer point (more than a block has: a
    cluster of blocks does); `width` neighbouring elements
    of `vector` in one access of a thread, `unroll` such accesses in flight; `cache` : where rows stay between loops,
    'registers', 'shared' (but for `resident` groups of chunks at their start, which stay in registers) or '' (they are
    read again).  `blocks` are to share an SM.
    `ahead` : so many blocks run at a time; each asks for what the one so far behind it loads first.
    `narrow` : 32 bits hold the number of outer points.
    `matrix` : for form 'product'.
    """

    vector: Var | None = None
    block: int = 0
    tile: tuple[Var, int] | None = None
    unroll: int = 1
    form: str = "pointwise"
    threads: int = 0
    team: int = 1
    width: int = 1
    cache: str = ""
    resident: int = 0
    blocks: int = 1
    ahead: int = 0
    narrow: bool = False
    matrix: MatrixTiling | None = None


@record
class Limit:
    """`size` is at most `most` (None: as large as it may be), and a multiple of `multiple`."""

    size: Index
    most: int | None = None
    multiple: int = 1


@record
class Case:
    """`kernel` may be run where all `limits` hold; it counts on them."""

    limits: tuple[Limit, ...]
    kernel: Kernel


@record
class Kernel:
    """Fused loops over one outer space.  `buffers` holds every buffer named in the loops.

    `name` says form and ops (``per_maximum_exp_add_divide``); `origins` are the user's lines it came from.
    `cases` : kernels that do the same for sizes of which more is known.  The first that may be run is, else this one,
    which need not be right for sizes of theirs.
    """

    name: str
    outer: tuple[Var, ...]
    loops: tuple[Loop, ...]
    buffers: tuple[Buffer, ...]
    tiling: Tiling | None = None
    origins: tuple[Origin, ...] = field(default=(), compare=False)
    cases: tuple[Case, ...] = ()

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    def reads(self) -> frozenset[str]:
        return frozenset().union(*(loop.reads() for loop in self.loops))

    def writes(self) -> frozenset[str]:
        return frozenset().union(*(loop.writes() for loop in self.loops))

    def with_tiling(self, tiling: Tiling) -> Kernel:
        return replace(self, tiling=tiling)


@record
class BufferView:
    """A strided view of a buffer, as handed to an extern function: offset and strides in elements."""

    buffer: str
    offset: Index
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]


@record
class Extern:
    """An opaque library call between kernels (10.5, DESIGN decision 12).

    `function` is a dotted NumPy path or a callable; `args`/`kwargs` hold BufferView, Index, constants and
    nested tuples or lists.  `results` are the buffers it makes, or `out` the view it writes to.  `draws` : what a
    program draws instead (see `ir.draws.drawn`); the results are then memory like any other.
    """

    function: object
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...] = ()
    results: tuple[str, ...] = ()
    out: BufferView | None = None
    draws: str = ""
    origin: Origin | None = field(default=None, compare=False)

    def reads(self) -> frozenset[str]:
        return frozenset(v.buffer for v in views_in((self.args, self.kwargs)))

    def writes(self) -> frozenset[str]:
        return frozenset((*self.results, *((self.out.buffer,) if self.out else ())))


@record
class Nested:
    """One body of structured control flow: its Graph and what became of it.  Buffers of the schedule that stand for
    its inputs are those of the arguments of the `Control` around it, by position."""

    graph: Graph
    schedule: Schedule


@record
class Control:
    """Structured control flow between kernels; `kind` is 'for', 'while' or 'cond' (see `graph`).

    `bodies`: (body,), (test, body) or (then, orelse).  `args` are the buffers handed to every body, states first;
    states are updated in place.  `var` is the Symbol of a 'for'.  `head` is its number of trips or the predicate of a
    'cond': an Index, or the name of a 0-d buffer that holds it.

    `rotate`: pairs (k, j): after each iteration argument k is what argument j was, all at once -- the buffers change
    their roles instead of being copied.  They have one layout; those behind the captured values are spare: a body that
    reads one is right only if it holds the same as the state at first.  Afterwards the buffers ``args[k]`` of the
    states hold the results, the spare ones nothing.
    """

    kind: str
    bodies: tuple[Nested, ...]
    args: tuple[str, ...]
    states: int
    head: Index | str | None = None
    var: str = ""
    rotate: tuple[tuple[int, int], ...] = ()
    origin: Origin | None = field(default=None, compare=False)

    def reads(self) -> frozenset[str]:
        used = {n.attr("position") for body in self.bodies for n in body.graph.nodes() if n.op == "input"}
        head = (self.head,) if isinstance(self.head, str) else ()
        return frozenset((*(self.args[k] for k in used.union(range(self.states))), *head))

    def writes(self) -> frozenset[str]:
        written = (k for body in self.bodies for k, _ in body.graph.writes)
        return frozenset(self.args[k] for k in (*written, *(k for k, _ in self.rotate)))


Unit = Kernel | Extern | Control


def unit_name(unit: Unit) -> str:
    """What people call a unit."""
    if isinstance(unit, Control):
        return unit.kind
    return unit.name if isinstance(unit, Kernel) else unit.draws or str(unit.function)


@record
class EmittedControl:
    """A Control whose bodies were printed, each in the order of its units; `refusals`: why it is not one program."""

    control: Control
    bodies: tuple[tuple[EmittedUnit, ...], ...]
    refusals: tuple[Refusal, ...] = ()


@record
class EmittedLoop:
    """A Control that one program runs, all its iterations.  `calls` : the programs it calls; `memory` : what it needs
    besides the buffers around it."""

    control: Control
    emitted: Emitted
    calls: tuple[Program, ...] = ()
    memory: tuple[Buffer, ...] = ()


EmittedUnit = Emitted | Extern | EmittedControl | EmittedLoop


def views_in(tree: object) -> Iterator[BufferView]:
    """The BufferViews in nested tuples, lists and dicts."""
    if isinstance(tree, BufferView):
        yield tree
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from views_in(item)
    elif isinstance(tree, dict):
        yield from views_in(tuple(tree.values()))


@record
class Refusal:
    """Why something was not fused, tiled or chosen; shown by `explain`."""

    what: str
    reason: str


@record
class Schedule:
    """What the scheduler hands to tiling and planning: units in execution order and all buffers.

    Buffers of kind 'input' and 'scalar' stand in argument order, one for each argument, used or not.
    `outputs[k]` and `writes[p]` name the buffer holding the k-th graph output (None for an alias of an
    argument or of another output) and the new contents of argument p (the argument's own buffer when it is
    updated in place).  In a `private` schedule, a body of control flow, written arguments are nobody's who would see
    them half done when something fails.
    """

    units: tuple[Unit, ...]
    buffers: tuple[Buffer, ...]
    outputs: tuple[str | None, ...]
    writes: tuple[tuple[int, str], ...]
    refusals: tuple[Refusal, ...] = ()
    private: bool = False


def in_bodies(schedule: Schedule, run: Callable[[Schedule], Schedule]) -> Schedule:
    """`schedule` with `run` applied to the bodies of its control flow."""
    if not any(isinstance(unit, Control) for unit in schedule.units):
        return schedule
    return replace(schedule, units=tuple(_in_control(u, run) if isinstance(u, Control) else u for u in schedule.units))


def _in_control(control: Control, run: Callable[[Schedule], Schedule]) -> Control:
    return replace(control, bodies=tuple(replace(b, schedule=run(b.schedule)) for b in control.bodies))
