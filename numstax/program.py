"""Program and Plan: all that passes from emitters and planner to the runtime.

Everything here is text, integers and dtypes, so that it can be hashed, cached on disk and read.
Sizes are Python expressions over size symbols (``"s0*128"``); a number is a special case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from numstax.records import record


@record
class Intrinsic:
    """A scalar function as data: straight-line code that any runtime can bind and NumPy can evaluate.

    `code` is an SSA list; row k is ``(opcode, dtype_name, *operands)``.  Operands are row numbers, except
    for ``("param", dtype, i)`` and ``("const", dtype, value)``.  The last row is the result.  Opcodes and
    their NumPy lane model are listed in `numstax/emit/vecmath.py`.
    """

    name: str
    params: tuple[str, ...]
    result: str
    code: tuple[tuple[object, ...], ...]


@record
class Instruction:
    """A machine instruction as data, for GPU targets.

    text : a PTX template (operands ``$0``, ``$1``, .. results first), or the name of a function: an LLVM intrinsic
    (``llvm...``), or one that the driver provides.
    results, operands : names of dtypes (``f32``, ``u32``, .. as in `dtypes.name`; ``b1`` a truth value; ``p_f32`` a
    pointer to float32; ``f32x128`` a tuple of so many registers; ``tensor`` a parameter of kind 'tensor_map'); several
    results make a tuple.
    effect : it may not be dropped, repeated or moved across memory accesses.
    together : the threads of a warp must execute it together (``convergent``).
    tied : so many first operands are replaced by the results, in the same registers.
    waits : it waits for what other warps or copies do, or is what they wait for: warps are in different places.
    model : what it does to all threads of a warp or block at once, with NumPy, for the interpreter
        (`runtime/simulate.py` says what it is called with).
    """

    name: str
    text: str
    results: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    effect: bool = False
    together: bool = False
    tied: int = 0
    waits: bool = False
    model: Callable[..., Any] | None = field(default=None, compare=False, repr=False)


@record
class TensorMap:
    """A matrix in memory, and the box of it that one instruction copies to shared memory.

    format : of the elements, as `dtypes.name`, or 'tf32'.  sizes, strides : expressions over the sizes of the program,
    innermost first, in elements; the innermost stride is 1 and left out.  offset : of the first element.
    box : elements of a box, innermost first, at most `swizzle` bytes along the innermost; its rows of 128 bytes have
    their pieces of 16 bytes in another order (PTX ISA, "Swizzling Modes").
    """

    format: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    box: tuple[int, ...]
    swizzle: int = 128
    offset: str = "0"


@record
class Param:
    """One parameter of an entry function.

    kind is 'pointer' (typed, to `dtype`'s storage type), 'size' (int64), 'scalar' (`dtype`), 'scratch'
    (uint8 pointer private to one worker), 'status' (pointer to four int64: 0 when all went well; 1, an index out
    of bounds, the number of its check, and the size; or 2, nothing, and the number of an unmet requirement), 'lo' or
    'hi' (int64: the half-open range of parallel tasks of this call), 'calls' (pointer to the addresses of the programs
    it calls: for each, entry, entry for worker threads, and its own such table) or 'team' (pointer to what the runtime
    needs to share out tasks from inside).  For GPU targets also 'size32' (int32), 'counters' (pointer to uint32, see
    `Program.counters`), and 'tensor_map' (an array, passed as `map` describes it).
    """

    name: str
    kind: str
    dtype: np.dtype | None = None
    map: TensorMap | None = None

    @property
    def is_array(self) -> bool:
        """Is it given the address of an array?"""
        return self.kind in ("pointer", "tensor_map")


@record
class Callee:
    """What a program that calls another one needs to know of it."""

    name: str
    params: tuple[Param, ...]


@record
class Program:
    """One compilable unit: printed text and what is needed to compile and launch it.

    name : stable, readable, unique in its Plan (``per_max_exp_sum_divide_0``).
    target : 'cpu', 'sm_90a', ...
    text : Python source defining `entry`; free names are Numba types, math names and `intrinsics`.
    tasks : expression for the number of parallel tasks; '' when the program has no lo/hi.
    work : expression estimating elementary operations, against the threshold for going parallel.
    scratch : expression for the bytes of scratch memory one worker needs.
    grain : expression for the smallest number of tasks worth handing to a worker.
    calls : the programs of the plan that `text` calls, as ``run_<name>(calls, arguments..)`` with an argument for each
        of their params, or ``share_<name>(calls, team, tasks, grain, arguments..)`` without lo, hi and scratch.

    For GPU targets: `block` threads a block, `grid` expressions for the number of blocks along x, y, z, `shared` for
    the bytes of dynamic shared memory, and `counters` for the number of uint32 that are zero before and after each run;
    `resident` blocks fit on an SM together, for which the compiler keeps within the registers.  `cluster` blocks that
    follow each other run at the same time and can reach each other's shared memory.
    """

    name: str
    target: str
    text: str
    entry: str
    params: tuple[Param, ...]
    tasks: str = ""
    work: str = "0"
    scratch: str = "0"
    grain: str = "1"
    intrinsics: tuple[Intrinsic | Instruction, ...] = ()
    calls: tuple[Callee, ...] = ()
    block: int = 0
    grid: tuple[str, ...] = ()
    shared: str = "0"
    counters: str = "0"
    resident: int = 1
    cluster: int = 1


Checked = tuple[str, str]
"""The name of a requirement, or 'index', and the user's line."""


@record
class Emitted:
    """Printed kernels: a Program and what to pass, by position in ``program.params`` without
    lo/hi/scratch/status: buffer names, and size expressions for 'size' parameters.

    `units` : how many consecutive units of the Schedule the program runs.  `checks` : what is checked and where, for
    each check that can be reported through 'status', by number.  `cases` : conditions on the sizes of the region, and
    what is run instead where one holds, the first of them.
    """

    program: Program
    args: tuple[str, ...]
    units: int = 1
    checks: tuple[Checked, ...] = ()
    cases: tuple[tuple[str, Emitted], ...] = ()


@record
class ArrayExpr:
    """A strided view of a named array: shape, strides in elements, offset in elements."""

    array: str
    dtype: np.dtype
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    offset: str = "0"


@record
class Allocate:
    """Make a new C-contiguous array."""

    name: str
    dtype: np.dtype
    shape: tuple[str, ...]


@record
class Call:
    """Run a Program. `args` matches its params without lo/hi/scratch/status: array names, scalar names
    or size expressions; `checks` as in `Emitted`."""

    program: str
    args: tuple[str, ...]
    checks: tuple[Checked, ...] = ()


@record
class ExternCall:
    """Call a library function on arrays.

    `function` is a dotted NumPy path (``numpy.matmul``) or ``constant:k`` for the k-th object of the
    Plan's `constants`.  `args` and `kwargs` hold ArrayExpr, scalar names (``Name``), or constants; nested
    tuples and lists are allowed.  With `out` the result is written there; otherwise `results` names the
    arrays it returns, whose shape and dtype must be those in `expected` (an ExternShapeChanged is raised
    otherwise, before anything visible to the caller was written); `sizes` binds size symbols that nothing before
    the call had to expressions over the results.
    """

    function: str
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...] = ()
    out: ArrayExpr | None = None
    results: tuple[str, ...] = ()
    expected: tuple[tuple[np.dtype, tuple[str, ...]], ...] = ()
    sizes: tuple[tuple[str, str], ...] = ()
    origin: str = ""


@record
class Name:
    """A scalar or size expression inside ExternCall arguments."""

    text: str


@record
class Release:
    """The named array is not read any more."""

    name: str


@record
class Check:
    """Raise SizeError with the message, unless the size expressions are equal (kind 'eq') or
    ``a <= b`` ('le')."""

    kind: str
    a: str
    b: str
    message: str


@record
class ControlStep:
    """Structured control flow run by the wrapper: `kind` and `bodies` as in `loops.Control`, or 'choice': a 'cond' on
    sizes, of which both bodies do the same, so that no program need be there before it is run.

    The steps of all bodies use the arrays of the plan, and names of their own.  `head` is an expression: the number of
    trips, the predicate, or what the first body of a 'while' leaves, for whether to go on.  `var` is the counter of a
    'for'.  `rotate`: pairs (a, b) of arrays: after each iteration a is what b was, all at once; `spare` : those of them
    that hold nothing afterwards.
    """

    kind: str
    bodies: tuple[tuple[Step, ...], ...]
    head: str
    var: str = ""
    rotate: tuple[tuple[str, str], ...] = ()
    spare: tuple[str, ...] = ()


Step = Allocate | Call | ExternCall | Release | Check | ControlStep


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, and those in bodies of control flow."""
    for step in steps:
        yield step
        if isinstance(step, ControlStep):
            for body in step.bodies:
                yield from all_steps(body)


def runs(steps: Iterable[Step]) -> Iterator[tuple[Call, ...]]:
    """The calls of programs in the steps and in bodies of control flow; together those of which one is chosen."""
    for step in steps:
        if isinstance(step, Call):
            yield (step,)
        elif isinstance(step, ControlStep):
            inside = (run for body in step.bodies for run in runs(body))
            if step.kind == "choice":
                yield tuple(call for run in inside for call in run)
            else:
                yield from inside


def _open_diagonal(a: np.ndarray, places: tuple[int, int, int]) -> np.ndarray:
    """A diagonal that can be written where the array can."""
    found = np.diagonal(a, *places)
    found.flags.writeable = a.flags.writeable
    return found


VIEWS: dict[str, Callable[[np.ndarray, Any], np.ndarray]] = {
    "index": lambda a, key: a[key],
    "reshape": lambda a, shape: a.reshape(shape),
    "transpose": lambda a, axes: a.transpose(axes),
    "dtype": lambda a, name: a.view(name),
    "real": lambda a, _: a.real,
    "imag": lambda a, _: a.imag,
    "broadcast_to": np.broadcast_to,
    "diagonal": lambda a, places: np.diagonal(a, *places),
    "open_diagonal": _open_diagonal,
    "window": lambda a, detail: sliding_window_view(a, *detail),
}
"""NumPy's view operations by name: (array, detail) -> view."""


@record
class Result:
    """One output of the plan.

    source : name of an array, or of an argument for an alias.
    views : NumPy operations that turn it into what the user gets, applied on the host in order: pairs of a
            name in `VIEWS` and its detail.
    scalar : give a NumPy scalar (``a[()]``), as NumPy's reductions do.
    """

    source: str
    views: tuple[tuple[str, object], ...] = ()
    scalar: bool = False


@record
class Argument:
    """One argument of the plan: 'array' (with the layout it was specialised for), 'scalar', or 'size' (an int that is
    the value of the symbol of that name)."""

    name: str
    kind: str
    dtype: np.dtype
    shape: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()


@record
class Plan:
    """A whole region: arguments, programs, steps, results. `sizes` binds size symbols to expressions
    over the arguments (``("s0", "x0.shape[0]")``)."""

    name: str
    arguments: tuple[Argument, ...]
    programs: tuple[Program, ...]
    steps: tuple[Step, ...]
    results: tuple[Result, ...]
    sizes: tuple[tuple[str, str], ...] = ()
    constants: tuple[object, ...] = field(default=(), compare=False)
