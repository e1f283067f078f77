"""Instructions for programs that are written by hand: variants that no printed program calls."""

import numpy as np

from numstax.cuda_emit import lane_matrix as models
from numstax.program import Instruction


def _row(name, results=(), operands=(), text="", **more):
    return Instruction(name, text, results, operands, effect=True, **more)


def _rows():
    for size in (4, 8):
        operands = ("u32", "p_u8", "i64", "i32")
        yield _row(f"copy_async_{size}_u8", (), operands, model=models.copy_async(size))
    for count in (1, 2, 4):
        name, tile = f"_x{count}" if count < 4 else "", f"u32x{count}"
        if count < 4:
            for turned in (False, True):
                model = models.load_matrix(count, turned)
                suffix = "_turned" if turned else ""
                yield _row(f"load_matrix{name}{suffix}", (tile,), ("u32",), together=True, model=model)
        model = models.store_matrix(count)
        yield _row(f"store_matrix{name}", (), ("u32", tile), together=True, model=model)
    for n in (4, 32):
        text = " ".join(f"mov.f32 ${k}, 0f00000000;" for k in range(n))
        yield _row(f"zeros_f32x{n}", (f"f32x{n}",), text=text, model=lambda lanes, n=n: (np.float32(0),) * n)


ROWS = {row.name: row for row in _rows()}
