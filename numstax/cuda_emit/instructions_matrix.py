"""Instructions that multiply matrices and that copy their tiles to shared memory, as data.

`find` gives the Instruction of a name, most of which say what it works on: ``wgmma_bf16_n256_km`` multiplies a stage of
128 bytes of k, where the first factor lies along k and the second along its columns (m).  Addresses of shared memory
are uint32.  PTX names and layouts are those of the PTX ISA manual, "Asynchronous warpgroup-level matrix instructions",
"Data movement and conversion instructions" and "Parallel synchronization: mbarrier".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

from numstax.cuda_emit import lane_matrix as models
from numstax.program import Instruction

STEPS = 4
"""Matrix instructions in a stage of 128 bytes of k."""
_KINDS = {"bf16": "bf16", "f16": "f16", "tf32": "tf32", "f8e4m3": "e4m3", "f8e5m2": "e5m2", "i8": "s8", "u8": "u8"}
_DEPTH = {"bf16": 16, "f16": 16, "tf32": 8}
"""k of one instruction; 32 for elements of 8 bits."""
_ADVANCE = {"k": 32 >> 4, "m": 2048 >> 4}
"""From one instruction to the next, in units of 16 bytes, as descriptors count."""
_LANES = "0xffffffff"


def _effect(name: str, text: str, operands: tuple[str, ...] = (), **more: object) -> Instruction:
    return Instruction(name, text, (), operands, effect=True, **more)  # type: ignore[arg-type]


def _single() -> list[Instruction]:
    wait = (
        "{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; @done bra DONE; bra AGAIN; "
        "DONE: }"
    )
    arrive = "mbarrier.arrive.shared::cta.b64 _, [$0];"
    expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    address = ("u32",)
    return [
        Instruction(
            "uniform_i32", f"shfl.sync.idx.b32 $0, $1, 0, 0x1f, {_LANES};", ("i32",), ("i32",), together=True,
            model=models.uniform,
        ),
        _effect(
            "mbarrier_init", "mbarrier.init.shared::cta.b64 [$0], $1;", ("u32", "i32"), model=models.mbarrier_init
        ),
        _effect("mbarrier_fence", "fence.mbarrier_init.release.cluster;", model=models.mbarrier_fence),
        _effect("mbarrier_arrive", arrive, address, model=models.mbarrier_arrive),
        _effect("mbarrier_expect", expect, ("u32", "i32"), model=models.mbarrier_expect),
        _effect("mbarrier_wait", wait, ("u32", "i32"), waits=True, model=models.mbarrier_wait),
        _effect("async_fence", "fence.proxy.async.shared::cta;", model=models.async_fence),
        _effect("tensor_prefetch", "prefetch.tensormap [$0];", ("tensor",), model=models.nothing),
        _effect("tensor_commit", "cp.async.bulk.commit_group;", model=models.tensor_commit),
        _effect("copy_commit", "cp.async.commit_group;", model=models.copy_commit),
        Instruction(
            "descriptor",
            "{ .reg .b32 lo, hi; shr.u32 lo, $1, 4; and.b32 lo, lo, 0x3fff; shl.b32 hi, $2, 12; or.b32 lo, lo, hi; "
            "shr.u32 hi, $3, 4; or.b32 hi, hi, 0x40000000; mov.b64 $0, {lo, hi}; }",
            ("i64",), ("u32", "i32", "i32"), model=models.descriptor,
        ),
    ]  # fmt: skip


_ROWS = {i.name: i for i in _single()}

# --- families -------------------------------------------------------------------------------------


def _named_barrier(name: str, number: str, threads: str) -> Instruction:
    model = models.named_barrier(int(number), int(threads))
    return _effect(name, f"bar.sync {number}, {threads};", together=True, waits=True, model=model)


def _registers(name: str, direction: str, count: str) -> Instruction:
    """Registers of a thread, given to or taken from the others of the block."""
    mode = {"less": "dec", "more": "inc"}[direction]
    text = f"setmaxnreg.{mode}.sync.aligned.u32 {count};"
    return _effect(name, text, together=True, waits=True, model=models.registers(int(count)))


def _tensor_load(name: str, rank: str) -> Instruction:
    """A box of a tensor map, innermost coordinate first, to shared memory; a barrier counts its bytes."""
    n = int(rank)
    at = ", ".join(f"${2 + k}" for k in range(n))
    mode = "shared::cluster.global.mbarrier::complete_tx::bytes"
    text = f"cp.async.bulk.tensor.{n}d.{mode} [$0], [$1, {{{at}}}], [${n + 2}];"
    return _effect(name, text, ("u32", "tensor", *["i32"] * n, "u32"), model=models.tensor_load)


def _tensor_store(name: str, rank: str) -> Instruction:
    """A box from shared memory to where a tensor map says; what lies outside is left out."""
    n = int(rank)
    at = ", ".join(f"${1 + k}" for k in range(n))
    text = f"cp.async.bulk.tensor.{n}d.global.shared::cta.bulk_group [$0, {{{at}}}], [${n + 1}];"
    return _effect(name, text, ("tensor", *["i32"] * n, "u32"), model=models.tensor_store)


def _tensor_wait(name: str, read: str | None, count: str) -> Instruction:
    """Wait until all but so many groups of copies from shared memory are done, or have read it."""
    return _effect(
        name, f"cp.async.bulk.wait_group{'.read' if read else ''} {count};", model=models.tensor_wait(int(count))
    )


def _wgmma_wait(name: str, count: str) -> Instruction:
    return _effect(name, f"wgmma.wait_group.sync.aligned {count};", together=True, model=models.wgmma_wait(int(count)))


def _wgmma_settle(name: str, tile: str) -> Instruction:
    """Wait for all products; what they gave is used after this only."""
    text = "wgmma.wait_group.sync.aligned 0;"
    return Instruction(name, text, (tile,), (tile,), effect=True, together=True, tied=1, model=models.wgmma_settle)


def _wgmma(name: str, first: str | None, kind: str, columns: str, left: str, right: str) -> Instruction:
    """The products of one stage, added to the accumulators, or put there (`first`)."""
    n = int(columns)
    registers, element = n // 2, "i32" if kind in ("i8", "u8") else "f32"
    given = 1 if first else 2
    tile = "{" + ", ".join(f"${k}" for k in range(registers)) + "}"
    a, b = (f"${registers * given + k}" for k in range(2))
    accumulator, depth, ptx = {"f32": "f32", "i32": "s32"}[element], _DEPTH.get(kind, 32), _KINDS[kind]
    flags = "" if element == "i32" else ", 1, 1"
    if depth == 16:
        flags += f", {int(left == 'm')}, {int(right == 'm')}"
    lines = ["{ .reg .pred p; .reg .b64 a, b;", f"setp.ne.b32 p, {int(first is None)}, 0;"]
    lines += ["wgmma.fence.sync.aligned;"]
    for step in range(STEPS):
        lines += [f"add.s64 a, {a}, {step * _ADVANCE[left]};", f"add.s64 b, {b}, {step * _ADVANCE[right]};"]
        if step == 1:
            lines.append("setp.ne.b32 p, 1, 0;")
        lines.append(f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{accumulator}.{ptx}.{ptx} {tile}, a, b, p{flags};")
    lines.append("wgmma.commit_group.sync.aligned; }")
    held = f"{element}x{registers}"
    operands = ("i64", "i64") if first else (held, "i64", "i64")
    model = models.wgmma(kind, n, left, right, first=first is not None, steps=STEPS)
    return Instruction(name, " ".join(lines), (held,), operands, True, True, tied=0 if first else 1, model=model)


def _copy(name: str, count: str, lines: str, row: str, dtype: str) -> Instruction:
    """Start to copy pieces of 16 bytes to shared memory, each `lines` rows of `row` bytes after the one before, from
    elements that differ by steps.  So many bytes of each are read, of the last ones none, and the rest is 0."""
    size, below, turn = int(dtype.lstrip("iuf")) // 8, int(lines) * int(row), min(8, int(row) // 16)
    text = ["{ .reg .pred p; .reg .b32 to, n; .reg .u64 at, step;"]
    text += [f"mad.lo.s64 at, $2, {size}, $1; mul.lo.s64 step, $3, {size};"]
    for k in range(int(count)):
        turned = k * int(lines) % turn * 16
        text += [f"add.u32 to, $0, {k * below};", *([f"xor.b32 to, to, {turned};"] if turned else [])]
        text += [f"setp.gt.s32 p, $5, {k}; selp.b32 n, $4, 0, p;", "cp.async.cg.shared.global [to], [at], 16, n;"]
        text += ["add.s64 at, at, step;"]
    operands = ("u32", f"p_{dtype}", "i64", "i64", "i32", "i32")
    model = models.copy_rows(int(count), int(lines), int(row))
    return _effect(name, " ".join([*text, "}"]), operands, model=model)


def _copy_wait(name: str, count: str) -> Instruction:
    """Wait until all but so many groups of copies of this thread are done."""
    return _effect(name, f"cp.async.wait_group {count};", model=models.copy_wait(int(count)))


def _load_matrix(
    name: str, turned: str | None, count: str | None, combine: str | None, step: str | None
) -> Instruction:
    """Four matrices of 8 rows of 16 bytes, in fragments, `count` times at addresses that differ by steps; turned: of 8
    columns of elements of 16 bits."""
    number, distance, mode = int(count or 1), int(step or 0), ".trans" if turned else ""
    lines = []
    for k in range(number):
        if combine == "xor":
            lines.append(f"xor.b32 at, ${4 * number}, {k * distance};")
        where = "at" if combine == "xor" else f"${4 * number}+{k * distance}"
        lines.append(f"ldmatrix.sync.aligned.m8n8.x4{mode}.shared.b16 {_listed(4 * k, 4)}, [{where}];")
    text = "{ .reg .b32 at; " + " ".join(lines) + " }"
    model = models.load_matrices(number, combine == "xor", distance, turned is not None)
    return Instruction(name, text, (f"u32x{4 * number}",), ("u32",), effect=True, together=True, model=model)


def _mma(name: str, kind: str, down: str, across: str) -> Instruction:
    """Products of fragments of `down` times 16 rows and `across` times 8 columns, 32 bytes of k deep, added to the
    accumulators."""
    rows, columns = int(down), int(across)
    element, depth, ptx = "i32" if kind in ("i8", "u8") else "f32", _DEPTH.get(kind, 32), _KINDS[kind]
    accumulator, count = {"f32": "f32", "i32": "s32"}[element], 4 * rows * columns
    kinds = f"{accumulator}.{ptx}.{ptx}.{accumulator}"
    lines = []
    for k in range(rows * columns):
        held, a, b = _listed(4 * k, 4), 2 * count + k // columns * 4, 2 * count + 4 * rows + k % columns * 2
        lines.append(
            f"mma.sync.aligned.m16n8k{depth}.row.col.{kinds} {held}, {_listed(a, 4)}, {_listed(b, 2)}, {held};"
        )
    tile = f"{element}x{count}"
    operands = (tile, f"u32x{4 * rows}", f"u32x{2 * columns}")
    model = models.mma(kind, rows, columns)
    return Instruction(name, " ".join(lines), (tile,), operands, together=True, tied=1, model=model)


def _tf32(name: str, part: str, count: str) -> Instruction:
    """float32 rounded to TF32, or what that leaves out, rounded."""
    number, lines = int(count), []
    for k in range(number):
        lines.append(f"cvt.rna.tf32.f32 ${k}, ${number + k};")
        if part == "rest":
            lines += [f"sub.f32 ${k}, ${number + k}, ${k};", f"cvt.rna.tf32.f32 ${k}, ${k};"]
    model = models.tf32(part == "rest")
    return Instruction(name, " ".join(lines), (f"u32x{number}",), (f"u32x{number}",), model=model)


def _zeros(name: str, element: str, count: str) -> Instruction:
    number = int(count)
    text = " ".join(f"mov.b32 ${k}, 0;" for k in range(number))
    return Instruction(name, text, (f"{element}x{number}",), model=models.zeros(element, number))


def _listed(first: int, count: int) -> str:
    """So many operands of a template, in braces."""
    return "{" + ", ".join(f"${first + k}" for k in range(count)) + "}"


_FAMILIES: dict[str, Callable[..., Instruction]] = {
    r"barrier_(\d+)_(\d+)": _named_barrier,
    r"registers_(less|more)_(\d+)": _registers,
    r"tensor_load_(\d)d": _tensor_load,
    r"tensor_store_(\d)d": _tensor_store,
    r"tensor_wait_(read_)?(\d)": _tensor_wait,
    r"copy_async_(\d+)_(\d+)_(\d+)_([iuf]\d+)": _copy,
    r"copy_wait_(\d)": _copy_wait,
    r"load_matrix(_turned)?(?:_(\d+)_(plus|xor)_(\d+))?": _load_matrix,
    r"mma_([a-z]+\d\w*?)_(\d+)x(\d+)": _mma,
    r"zeros_([fi]32)x(\d+)": _zeros,
    r"tf32_(rounded|rest)_u32x(\d+)": _tf32,
    r"wgmma_wait_(\d)": _wgmma_wait,
    r"wgmma_settle_([fi]32x\d+)": _wgmma_settle,
    r"wgmma_(first_)?([a-z]+\d\w*?)_n(\d+)_([km])([km])": _wgmma,
}


@cache
def find(name: str) -> Instruction | None:
    """The instruction called `name`; None when there is none."""
    if name in _ROWS:
        return _ROWS[name]
    for pattern, make in _FAMILIES.items():
        found = re.fullmatch(pattern, name)
        if found is not None:
            return partial(make, name)(*found.groups())
    return None
