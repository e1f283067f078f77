"""Hand-built kernels through tiling, emission and the compiler, and their values in the NumPy evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from numstax import dtypes
from numstax.cpu_emit.emit import emit
from numstax.ir.index import Index, Var, as_index, contiguous_strides
from numstax.ir.loops import Body, Buffer, Effect, Instr, Kernel, Loop, Schedule
from numstax.ir.reference_loops import evaluate_schedule
from numstax.program import Emitted, Program
from numstax.runtime.compile_cpu import compile_program
from numstax.runtime.load import RETURN_SLOTS, load
from numstax.tiles.cpu import tile


def var(name: str, extent: int) -> Var:
    return Var(name, as_index(extent))


def buffer(
    name: str, dtype: np.dtype | str, shape: Sequence[int], kind: str, strides: Sequence[int] | None = None
) -> Buffer:
    sizes = tuple(as_index(n) for n in shape)
    steps = contiguous_strides(sizes) if strides is None else tuple(as_index(s) for s in strides)
    return Buffer(name, np.dtype(dtype), sizes, steps, kind)


class BodyBuilder:
    """An SSA list being written down."""

    def __init__(self) -> None:
        self.instrs: list[Instr] = []

    def __call__(self, op: str, *args: int, dtype: np.dtype | str, attr: object = None) -> int:
        self.instrs.append(Instr(op, args, np.dtype(dtype), attr))
        return len(self.instrs) - 1

    def load(self, b: Buffer, offset: Index | int, *mask: int) -> int:
        return self("load", *mask, dtype=b.dtype, attr=(b.name, as_index(offset)))

    def const(self, value: object, dtype: np.dtype | str) -> int:
        return self("const", dtype=dtype, attr=np.asarray(value, dtype)[()])

    def body(self) -> Body:
        return tuple(self.instrs)


def kernel(name: str, outer: Sequence[Var], loops: Sequence[Loop], buffers: Sequence[Buffer]) -> Kernel:
    return Kernel(name, tuple(outer), tuple(loops), tuple(buffers))


def loop(inner: Sequence[Var], body: BodyBuilder, *effects: Effect) -> Loop:
    return Loop(tuple(inner), body.body(), effects)


def schedule(*kernels: Kernel) -> Schedule:
    buffers: dict[str, Buffer] = {}
    for k in kernels:
        buffers |= {b.name: b for b in k.buffers if b.kind != "local"}
    outputs = tuple(b.name for b in buffers.values() if b.kind == "output")
    return Schedule(kernels, tuple(buffers.values()), outputs, ())


@cache
def entry(program: Program):  # type: ignore[no-untyped-def]
    return load(compile_program(program), program.params)


def run(
    sched: Schedule, inputs: Sequence[np.ndarray], parallel_threshold: int = 0, pieces: int = 3
) -> list[np.ndarray]:
    """Outputs of the compiled programs; parallel ones are called for `pieces` shares of their tasks."""
    arguments = iter(inputs)
    memory: dict[str, np.ndarray] = {}
    for b in sched.buffers:
        if b.kind in ("input", "scalar"):
            memory[b.name] = next(arguments)
        else:
            memory[b.name] = np.full([n.value for n in b.shape], 0x5A).astype(b.dtype)
    tiled = tile(sched)
    for item in emit(tiled, parallel_threshold):
        assert isinstance(item, Emitted)
        call(item, memory, pieces)
    return [memory[name] for name in sched.outputs if name is not None]


def call(item: Emitted, memory: dict[str, np.ndarray], pieces: int) -> None:
    program = item.program
    scratch = np.empty(eval(program.scratch) + 64, np.uint8)
    status = np.zeros(4, np.int64)
    special = {"scratch": -(-scratch.ctypes.data // 64) * 64, "status": status.ctypes.data}
    tasks = eval(program.tasks) if program.tasks else 1
    cuts = [tasks * k // pieces for k in range(pieces + 1)] if program.tasks else [0, 1]
    for lo, hi in pairwise(cuts):
        args = iter(item.args)
        words: list[object] = []
        for p in program.params:
            if p.kind in ("lo", "hi"):
                words.append(lo if p.kind == "lo" else hi)
            elif p.kind in special:
                words.append(special[p.kind])
            elif p.kind == "scalar":
                words += scalar_words(memory[next(args)])
            elif p.kind == "size":
                words.append(int(memory[next(args)]))
            else:
                words.append(memory[next(args)].ctypes.data)
        entry(program)(*RETURN_SLOTS, *words)
    assert status[0] == 0, "an index was reported out of bounds"


def scalar_words(value: np.ndarray) -> list[object]:
    if value.dtype.kind == "c":
        return [float(value.real), float(value.imag)]
    return [value.view(dtypes.storage(value.dtype)).item()]


def check(sched: Schedule, *inputs: np.ndarray, ulps: float = 0, threshold: int = 0) -> None:
    """The compiled programs give what the NumPy evaluator gives."""
    want, _ = evaluate_schedule(sched, inputs, {})
    got = run(sched, inputs, threshold)
    for w, g in zip((w for w in want if w is not None), got, strict=True):
        same(g, np.asarray(w), ulps)


def same(got: np.ndarray, want: np.ndarray, ulps: float) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    with np.errstate(all="ignore"):
        if dtypes.kind(want.dtype) in "fc" and ulps:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            step = float(np.finfo(want.dtype).eps) if want.dtype.kind in "fc" else 2.0**-7
            np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=ulps * step, atol=ulps * 1e-7)
        else:
            np.testing.assert_array_equal(got, want)


def emitted_text(sched: Schedule, parallel_threshold: int = 0) -> str:
    return "\n".join(e.program.text for e in emit(tile(sched), parallel_threshold) if isinstance(e, Emitted))
