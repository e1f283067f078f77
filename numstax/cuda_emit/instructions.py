"""Machine instructions of GPUs as data: PTX or LLVM text, operands, and their NumPy model.

`find` gives the Instruction of a name that program text calls.  PTX names are those of the PTX ISA manual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from numstax import dtypes
from numstax.cuda_emit import instructions_matrix
from numstax.cuda_emit import lane_models as models
from numstax.program import Instruction

_HALVES = {"f64": "d", "i64": "l", "u64": "l"}
"""Types of 64 bits: moved between lanes as two halves."""
_SHUFFLES: dict[str, tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = {
    "xor": ("bfly", "0x1f", lambda operand: models.LANE ^ operand),
    "up": ("up", "0x0", lambda operand: models.LANE - operand),
    "down": ("down", "0x1f", lambda operand: models.LANE + operand),
    "at": ("idx", "0x1f", lambda operand: operand),
}
"""Name -> mode of shfl, clamp, and the lane that is read."""


def _registers() -> Iterator[Instruction]:
    yield Instruction("thread_x", "llvm.nvvm.read.ptx.sreg.tid.x", ("i32",), model=lambda lanes: lanes.thread)
    for k, axis in enumerate("xyz"):
        block, grid = f"llvm.nvvm.read.ptx.sreg.ctaid.{axis}", f"llvm.nvvm.read.ptx.sreg.nctaid.{axis}"
        yield Instruction(f"block_{axis}", block, ("i32",), model=lambda lanes, k=k: lanes.block[k])
        yield Instruction(f"grid_{axis}", grid, ("i32",), model=lambda lanes, k=k: lanes.grid[k])


def _shuffles() -> Iterator[Instruction]:
    for name, (mode, clamp, source) in _SHUFFLES.items():
        one = f"shfl.sync.{mode}.b32 $0, $1, $2, {clamp}, 0xffffffff;"
        half = f"shfl.sync.{mode}.b32 H, H, $2, {clamp}, 0xffffffff;"
        two = f"{{ .reg .b32 lo, hi; mov.b64 {{lo, hi}}, $1; {half.replace('H', 'lo')} {half.replace('H', 'hi')} "
        two += "mov.b64 $0, {lo, hi}; }"
        for dtype in ("f32", "i32", "u32", *_HALVES):
            text = two if dtype in _HALVES else one
            model = models.shuffle(source)
            yield Instruction(f"shuffle_{name}_{dtype}", text, (dtype,), (dtype, "i32"), together=True, model=model)


def _synchronisation() -> Iterator[Instruction]:
    yield Instruction("barrier", "bar.sync 0;", effect=True, together=True, model=lambda lanes: lanes.barrier())
    warp = "bar.warp.sync 0xffffffff;"
    yield Instruction("warp_barrier", warp, effect=True, together=True, model=lambda lanes: lanes.barrier(warp=True))
    yield Instruction("fence", "fence.acq_rel.gpu;", effect=True, model=lambda lanes: lanes.fence())
    vote = "vote.sync.ballot.b32 $0, p, 0xffffffff;"
    text = f"{{ .reg .pred p; setp.ne.u32 p, $1, 0; {vote} }}"
    yield Instruction(
        "ballot", text, ("u32",), ("u32",), together=True, model=lambda lanes, x: models.ballot(lanes, x != 0)
    )


_CLUSTER = {"f32": "f32", "f64": "f64", "i32": "b32", "u32": "b32", "i64": "b64", "u64": "b64"}
"""Types that travel between the blocks of a cluster, and how PTX stores them."""


def _clusters() -> Iterator[Instruction]:
    for name, part in (("start", "arrive.relaxed"), ("arrive", "arrive.release")):
        text = f"barrier.cluster.{part}.aligned;"
        yield Instruction(f"cluster_{name}", text, effect=True, together=True, model=lambda lanes: None)
    wait = "barrier.cluster.wait.acquire.aligned;"
    yield Instruction("cluster_wait", wait, effect=True, together=True, model=lambda lanes: lanes.cluster_barrier())
    # a mailbox is full once so many bytes as are expected have been sent to it
    at = "{ .reg .u64 at; cvta.to.shared.u64 at, $0; mad.lo.s64 at, $1, 8, at; "
    opened = "mbarrier.init.shared.b64 [at], 1; fence.mbarrier_init.release.cluster; }"
    yield Instruction("mailbox_open", at + opened, (), ("p_i64", "i64"), effect=True, model=lambda *_: None)
    expect = "mbarrier.arrive.expect_tx.shared.b64 _, [at], $2; }"
    yield Instruction("mailbox_expect", at + expect, (), ("p_i64", "i64", "u32"), effect=True, model=lambda *_: None)
    full = ".reg .pred p; wait: mbarrier.try_wait.parity.shared.b64 p, [at], 0; @!p bra wait; }"
    model = lambda lanes, *_: lanes.cluster_barrier()  # noqa: E731 -- all warps of the cluster have sent
    yield Instruction("mailbox_wait", at + full, (), ("p_i64", "i64"), effect=True, together=True, model=model)
    for dtype, kind in _CLUSTER.items():
        text = "{ .reg .u64 at; .reg .u32 slot, box; "
        for name, k, size in (("slot", 0, int(dtype[1:]) // 8), ("box", 4, 8)):
            text += f"cvta.to.shared.u64 at, ${k}; mad.lo.s64 at, ${k + 1}, {size}, at; cvt.u32.u64 {name}, at; "
            text += f"mapa.shared::cluster.u32 {name}, {name}, $3; "
        text += f"st.async.shared::cluster.mbarrier::complete_tx::bytes.{kind} [slot], $2, [box]; }}"
        operands = (f"p_{dtype}", "i64", dtype, "u32", "p_i64", "i64")
        yield Instruction(f"cluster_send_{dtype}", text, (), operands, effect=True, model=models.send)


_WHOLE = ("i32", "u32", "i64", "u64")
_ATOMICS: dict[str, tuple[str, tuple[str, ...], Callable[..., object]]] = {
    "add": ("add", ("f32", "f64", "i32", "u32", "i64", "u64"), lambda old, new: old + new),
    "maximum": ("max", _WHOLE, np.maximum),
    "minimum": ("min", _WHOLE, np.minimum),
    "bitwise_and": ("and", _WHOLE, lambda old, new: old & new),
    "bitwise_or": ("or", _WHOLE, lambda old, new: old | new),
    "bitwise_xor": ("xor", _WHOLE, lambda old, new: old ^ new),
    "exchange": ("exch", ("u32", "u64"), lambda old, new: new),
}
_PTX_TYPE = {"f": "f", "i": "s", "u": "u"}


def _atomics() -> Iterator[Instruction]:
    for name, (op, kinds, function) in _ATOMICS.items():
        for dtype in kinds:
            width = int(dtype[1:])
            kind = f"b{width}" if op in ("and", "or", "xor", "exch") else f"{_PTX_TYPE[dtype[0]]}{width}"
            if (op, dtype) == ("add", "i64"):
                kind = "u64"  # the same bits
            at = f"{{ .reg .u64 at; mad.lo.s64 at, $2, {width // 8}, $1; "
            text = f"{at}atom.{op}.{kind} $0, [at], $3; }}"
            yield Instruction(
                f"atomic_{name}_{dtype}",
                text,
                (dtype,),
                (f"p_{dtype}", "i64", dtype),
                True,
                model=models.atomic(function),
            )


def _fetches() -> Iterator[Instruction]:
    """Bytes from an element on, as many as a multiple of 16, are brought into the second-level cache."""
    for size in (1, 2, 4, 8, 16):
        at = f"{{ .reg .u64 at; mad.lo.s64 at, $1, {size}, $0; "
        text = at + "cp.async.bulk.prefetch.L2.global [at], $2; }"
        for dtype in (d for d in dtypes.SUPPORTED if d.itemsize == size):
            name = dtypes.name(dtype)
            yield Instruction(f"fetch_{name}", text, (), (f"p_{name}", "i64", "u32"), True, model=lambda *_: None)


def _arithmetic() -> Iterator[Instruction]:
    for dtype in ("f32", "f64"):
        yield Instruction(f"fma_{dtype}", f"llvm.fma.{dtype}", (dtype,), (dtype,) * 3, model=models.fma)


_MAKERS = (_registers, _shuffles, _synchronisation, _clusters, _atomics, _fetches, _arithmetic)
_ROWS = {i.name: i for make in _MAKERS for i in make()}


def find(name: str) -> Instruction | None:
    """The instruction called `name`; None when there is none."""
    return _ROWS.get(name) or instructions_matrix.find(name)
