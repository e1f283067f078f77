"""Instructions for tensor cores and copies, for programs that only the interpreter runs."""

import numpy as np

from numstax.cuda_emit import lane_matrix as models
from numstax.program import Instruction


def _row(name, results=(), operands=(), text="", **more):
    return Instruction(name, text, results, operands, effect=True, **more)


def _rows():
    yield _row("uniform_i32", ("i32",), ("i32",), together=True, model=models.uniform)
    yield _row("mbarrier_init", (), ("u32", "i32"), waits=True, model=models.mbarrier_init)
    yield _row("mbarrier_fence", (), (), waits=True, model=models.mbarrier_fence)
    yield _row("mbarrier_arrive", (), ("u32",), waits=True, model=models.mbarrier_arrive)
    yield _row("mbarrier_expect", (), ("u32", "i32"), waits=True, model=models.mbarrier_expect)
    yield _row("mbarrier_wait", (), ("u32", "i32"), waits=True, model=models.mbarrier_wait)
    for number in range(4):
        for threads in (64, 128):
            model = models.named_barrier(number, threads)
            yield _row(f"barrier_{number}_{threads}", together=True, waits=True, model=model)
    yield _row("async_fence", model=models.async_fence)
    for rank in (2, 3):
        at = ("i32",) * rank
        load = ("u32", "tensor", *at, "u32")
        yield _row(f"tensor_load_{rank}d", (), load, waits=True, model=models.tensor_load)
        yield _row(f"tensor_store_{rank}d", (), ("tensor", *at, "u32"), waits=True, model=models.tensor_store)
    yield _row("tensor_commit", model=models.tensor_commit)
    yield _row("tensor_wait_read_0", model=models.tensor_wait(0))
    yield _row("copy_commit", model=models.copy_commit)
    for size in (4, 8, 16):
        operands = ("u32", "p_u8", "i64", "i32")
        yield _row(f"copy_async_{size}_u8", (), operands, model=models.copy_async(size))
    for left in range(3):
        yield _row(f"copy_wait_{left}", model=models.copy_wait(left))
    for count in (1, 2, 4):
        for turned in (False, True):
            name = f"load_matrix{f'_x{count}' if count < 4 else ''}{'_turned' if turned else ''}"
            yield _row(name, (f"u32x{count}",), ("u32",), together=True, model=models.load_matrix(count, turned))
        operands = ("u32", f"u32x{count}")
        yield _row(
            f"store_matrix{f'_x{count}' if count < 4 else ''}",
            (),
            operands,
            together=True,
            model=models.store_matrix(count),
        )
    yield _row("descriptor", ("i64",), ("u32", "i32", "i32"), model=models.descriptor)
    for kind, dtype in models.KINDS.items():
        accumulator = "i32x4" if kind in ("i8", "u8") else "f32x4"
        operands, model = (accumulator, "u32x4", "u32x2"), models.mma(kind, 32 // dtype.itemsize)
        yield _row(f"mma_{kind}", (accumulator,), operands, tied=1, together=True, model=model)
        for n in (32, 64, 128):
            yield from _wgmma(kind, n)
    for left in range(3):
        yield _row(f"wgmma_wait_{left}", together=True, model=models.wgmma_wait(left))
    for n in (4, 16, 32, 64):
        kind = f"f32x{n}"
        text = " ".join(f"mov.f32 ${k}, 0f00000000;" for k in range(n))
        yield _row(f"zeros_{kind}", (kind,), text=text, model=lambda lanes, n=n: (np.float32(0),) * n)
        yield _row(f"wgmma_settle_{kind}", (kind,), (kind,), tied=1, together=True, model=models.wgmma_settle)


def _wgmma(kind, n):
    accumulator = f"{'i' if kind in ('i8', 'u8') else 'f'}32x{n // 2}"
    for first in (True, False):
        for a, b in ("kk", "mk", "km", "mm"):
            name = f"wgmma_{'first_' if first else ''}{kind}_n{n}_{a}{b}"
            model = models.wgmma(kind, n, a, b, first)
            operands = ("i64", "i64") if first else (accumulator, "i64", "i64")
            yield _row(name, (accumulator,), operands, tied=0 if first else 1, together=True, model=model)


ROWS = {row.name: row for row in _rows()}
