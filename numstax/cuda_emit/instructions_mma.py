"""Instructions of warps that multiply matrices in registers, and that copy what they multiply, as data.

`find` gives the Instruction of a name, which says what it works on: ``mma_bf16_4x8`` multiplies 4 times 16 rows by 8
times 8 columns, 32 bytes deep; ``load_matrix_x4_turned`` loads four matrices of 8 by 16 bytes and transposes them;
``copy_async_16_bf16`` copies 16 bytes from an element on; ``copy_wait_2`` waits until two groups of copies are left.
Addresses of shared memory are uint32.  PTX ISA manual, "Warp Level Matrix Multiply-Accumulate Instructions" and
"Data Movement and Conversion Instructions: cp.async".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from numstax import dtypes
from numstax.cuda_emit import lane_matrix as models
from numstax.program import Instruction

_PTX = {
    "bf16": ("m16n8k16", "f32.bf16.bf16.f32"),
    "f16": ("m16n8k16", "f32.f16.f16.f32"),
    "tf32": ("m16n8k8", "f32.tf32.tf32.f32"),
    "f8e4m3": ("m16n8k32", "f32.e4m3.e4m3.f32"),
    "f8e5m2": ("m16n8k32", "f32.e5m2.e5m2.f32"),
    "i8": ("m16n8k32", "s32.s8.s8.s32"),
    "u8": ("m16n8k32", "s32.u8.u8.s32"),
}
"""Of operands: shape and types of the instruction that takes 32 bytes of k."""
_SUM, _LEFT, _RIGHT = 4, 4, 2
"""Registers of one instruction."""


def _mma(name: str, kind: str, down: str, across: str) -> Instruction:
    """Sums of products: `down` registers of the left factor with two columns of `across` / 2 of the right one."""
    rows, columns = int(down), int(across)
    shape, types = _PTX[kind]
    count, element = _SUM * rows * columns, "i32" if kind in ("i8", "u8") else "f32"
    left, right = 2 * count, 2 * count + _LEFT * rows
    lines = []
    for r in range(rows):
        for c in range(columns):
            held = _registers(_SUM * (r * columns + c), _SUM)
            a, b = _registers(left + _LEFT * r, _LEFT), _registers(right + _RIGHT * c, _RIGHT)
            lines.append(f"mma.sync.aligned.{shape}.row.col.{types} {held}, {a}, {b}, {held};")
    tile = f"{element}x{count}"
    operands = (tile, *["u32x4"] * (rows + columns // 2))
    model = models.mma(kind, rows, columns)
    return Instruction(name, " ".join(lines), (tile,), operands, together=True, tied=1, model=model)


def _load_matrix(name: str, count: str, turned: str | None) -> Instruction:
    n, kind = int(count), ".trans" if turned else ""
    text = f"ldmatrix.sync.aligned.m8n8.x{n}{kind}.shared.b16 {_registers(0, n)}, [${n}];"
    model = models.load_matrix(n, turned is not None)
    return Instruction(name, text, (f"u32x{n}",), ("u32",), True, True, model=model)


def _copy(name: str, size: str, dtype: str) -> Instruction:
    """So many bytes from an element of global memory on, of which the last operand says how many are read; the others
    are zero."""
    where = f"{{ .reg .u64 at; mad.lo.s64 at, $2, {dtypes.by_name(dtype).itemsize}, $1;"
    cached = "cg" if size == "16" else "ca"
    text = f"{where} cp.async.{cached}.shared.global [$0], [at], {size}, $3; }}"
    operands = ("u32", f"p_{dtype}", "i64", "i32")
    return Instruction(name, text, (), operands, effect=True, model=models.copy_async(int(size)))


def _copy_wait(name: str, left: str) -> Instruction:
    return Instruction(name, f"cp.async.wait_group {left};", effect=True, model=models.copy_wait(int(left)))


def _copy_commit(name: str) -> Instruction:
    return Instruction(name, "cp.async.commit_group;", effect=True, model=models.copy_commit)


def _zeros(name: str, element: str, count: str) -> Instruction:
    n = int(count)
    move, zero = ("mov.f32", "0f00000000") if element == "f32" else ("mov.b32", "0")
    text = " ".join(f"{move} ${k}, {zero};" for k in range(n))
    return Instruction(name, text, (f"{element}x{n}",), model=models.zeros(element, n))


def _registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"${first + k}" for k in range(count)) + "}"


_FAMILIES: dict[str, Callable[..., Instruction]] = {
    r"mma_([a-z]+\d\w*?)_(\d+)x(\d+)": _mma,
    r"load_matrix_x([124])(_turned)?": _load_matrix,
    r"copy_async_(4|8|16)_(\w+)": _copy,
    r"copy_wait_(\d)": _copy_wait,
    r"copy_commit": _copy_commit,
    r"zeros_([fi]32)x(\d+)": _zeros,
}


@cache
def find(name: str) -> Instruction | None:
    """The instruction called `name`; None when there is none."""
    for pattern, make in _FAMILIES.items():
        found = re.fullmatch(pattern, name)
        if found is not None:
            return make(name, *found.groups())
    return None
