"""Programs written by hand, and the machine instructions they use."""

import numpy as np

from numstax.emit.scalars import find
from numstax.program import Instruction, Param, Program

FLOAT32 = np.dtype(np.float32)
THREAD = Instruction("thread_x", "llvm.nvvm.read.ptx.sreg.tid.x", ("i32",), model=lambda lanes: lanes.thread)
BLOCK = Instruction("block_x", "llvm.nvvm.read.ptx.sreg.ctaid.x", ("i32",), model=lambda lanes: lanes.block[0])
BARRIER = Instruction("barrier", "bar.sync 0;", effect=True, model=lambda lanes: lanes.barrier())
WARP_BARRIER = Instruction(
    "warp_barrier",
    "bar.warp.sync 0xffffffff;",
    effect=True,
    together=True,
    model=lambda lanes: lanes.barrier(warp=True),
)
FENCE = Instruction("fence", "membar.gl;", effect=True, model=lambda lanes: lanes.fence())


def _shuffled(lanes, value, distance):
    return np.take_along_axis(value, np.arange(32) ^ distance, axis=1)


SHUFFLE = Instruction(
    "shuffle_xor_f32",
    "shfl.sync.bfly.b32 $0, $1, $2, 0x1f, 0xffffffff;",
    ("f32",),
    ("f32", "i32"),
    True,
    True,
    model=_shuffled,
)
ADD = Instruction(
    "atomic_add_u32",
    "{ .reg .u64 at; mad.lo.s64 at, $2, 4, $1; atom.global.add.u32 $0, [at], $3; }",
    ("u32",),
    ("p_u32", "i64", "u32"),
    True,
    model=lambda lanes, pointer, offset, value: lanes.atomic(pointer, offset, np.add, value),
)
READ = Instruction(
    "read_u32",
    "{ .reg .u64 at; mad.lo.s64 at, $2, 4, $1; ld.relaxed.gpu.u32 $0, [at]; }",
    ("u32",),
    ("p_u32", "i64"),
    True,
    model=lambda lanes, pointer, offset: lanes.load(pointer, offset, weak=False),
)
ROWS = {row.name: row for row in (THREAD, BLOCK, BARRIER, WARP_BARRIER, FENCE, SHUFFLE, ADD, READ)}


def program(text, block=32, grid=("1",), shared="0", counters="0", **dtypes):
    """A program from its text; parameters without a dtype are of the kind that their name says, or pointers to
    float32."""
    lines = text.strip("\n").splitlines()
    name, _, params = lines[0].removeprefix("def ").removesuffix("):").partition("(")
    return Program(
        name,
        "sm_90a",
        "\n".join(lines) + "\n",
        name,
        tuple(_param(p.strip(), dtypes) for p in params.split(",")),
        intrinsics=tuple(row for row in map(_row, _names(text)) if row is not None),
        block=block,
        grid=grid,
        shared=shared,
        counters=counters,
    )


def _param(name, dtypes):
    if name in ("status", "counters"):
        return Param(name, name)
    if name.startswith("n"):
        return Param(name, "size")
    return Param(name, "pointer", np.dtype(dtypes.get(name, FLOAT32)))


def _names(text):
    return sorted({word.split("(")[0] for word in text.replace("(", "( ").split() if "(" in word})


def _row(name):
    return ROWS.get(name) or find(name)


SOFTMAX = """
def per_softmax(in0, out0):
    t = thread_x()
    row = int64(block_x())
    x = registers_f32(32)
    m = float32(-math.inf)
    for c in range(8):
        v = load4_f32(in0, row*1024 + int64(c*128 + t*4))
        for e in range(4):
            x[c*4 + e] = v[e]
            m = maximum_f32(m, x[c*4 + e])
    for k in range(5):
        m = maximum_f32(m, shuffle_xor_f32(m, int32(16) >> k))
    s = float32(0)
    for e in range(32):
        x[e] = exp_f32(x[e] - m)
        s += x[e]
    for k in range(5):
        s += shuffle_xor_f32(s, int32(16) >> k)
    for c in range(8):
        store4_f32(out0, row*1024 + int64(c*128 + t*4), (x[c*4]/s, x[c*4+1]/s, x[c*4+2]/s, x[c*4+3]/s))
"""
