"""Instructions for programs that are written by hand: variants that no printed program calls."""

from numstax.cuda_emit import lane_matrix as models
from numstax.program import Instruction


def _row(name, results=(), operands=(), text="", **more):
    return Instruction(name, text, results, operands, effect=True, **more)


def _rows():
    for size in (4, 8, 16):
        operands, cached = ("u32", "p_u8", "i64", "i32"), "cg" if size == 16 else "ca"
        text = f"{{ .reg .u64 at; add.s64 at, $2, $1; cp.async.{cached}.shared.global [$0], [at], {size}, $3; }}"
        yield _row(f"copy_async_{size}_u8", (), operands, text, model=models.copy_async(size))
    for count in (1, 2, 4):
        name, tile = f"_x{count}" if count < 4 else "", f"u32x{count}"
        if count < 4:
            for turned in (False, True):
                model = models.load_matrix(count, turned)
                suffix = "_turned" if turned else ""
                yield _row(f"load_matrix{name}{suffix}", (tile,), ("u32",), together=True, model=model)
        model = models.store_matrix(count)
        yield _row(f"store_matrix{name}", (), ("u32", tile), together=True, model=model)


ROWS = {row.name: row for row in _rows()}
