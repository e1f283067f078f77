"""A kernel to one program: its text, parameters and launch formula.

A tiled kernel enters; an `Emitted` leaves.  Expressions of a Program are over its own 'size' parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from numstax.cuda_emit import instructions, scalars
from numstax.cuda_emit.column import print_columns
from numstax.cuda_emit.gemm_mma import print_mma
from numstax.cuda_emit.gemm_simt import print_simt
from numstax.cuda_emit.gemm_wgmma import print_wgmma
from numstax.cuda_emit.grouped import alike, print_grouped
from numstax.cuda_emit.pointwise import print_points
from numstax.cuda_emit.row import print_rows
from numstax.cuda_emit.text import DeviceText
from numstax.cuda_emit.tiled import print_stencil, print_transposed
from numstax.emit.naming import Names, called, heading, joined_name, numbered, scalar_functions
from numstax.emit.nest import KernelText
from numstax.hardware import Gpu
from numstax.ir.index import Index
from numstax.ir.limits import condition
from numstax.ir.loops import Kernel, Tiling
from numstax.program import Emitted, Program

_PRODUCTS = {"fma": print_simt, "mma": print_mma, "wgmma": print_wgmma}
_PRINTERS = {
    "pointwise": print_points,
    "scatter": print_points,
    "transpose": print_transposed,
    "stencil": print_stencil,
    "row": print_rows,
    "column": print_columns,
}


def print_program(kernel: Kernel, gpu: Gpu, used: Names) -> Emitted:
    """The program of one kernel, and those of its cases."""
    text = DeviceText(kernel.writes())
    for line in heading(kernel):
        text.line(line)
    assert kernel.tiling is not None
    emitted = _finished(kernel.name, text, kernel.tiling, _print(text, kernel), gpu, used)
    cases = ((condition(case.limits), print_program(case.kernel, gpu, used)) for case in kernel.cases)
    return replace(emitted, cases=tuple(cases))


def print_group(kernels: Sequence[Kernel], gpu: Gpu, used: Names) -> Emitted | None:
    """One program for products of a group, where they are alike; they are units that stand side by side."""
    made = alike(kernels)
    if made is None or kernels[0].tiling is None:
        return None
    text = DeviceText(frozenset().union(*(kernel.writes() for kernel in kernels)))
    grid = print_grouped(text, kernels, made, _form(kernels[0].tiling))
    name = f"{kernels[0].name}_grouped"
    emitted = _finished(name, text, kernels[0].tiling, (kernels[0].tiling.threads, grid), gpu, used)
    return replace(emitted, units=len(kernels))


def _finished(
    base: str, text: DeviceText, tiling: Tiling, launch: tuple[int, tuple[str, ...]], gpu: Gpu, used: Names
) -> Emitted:
    """The program of a text; threads of a block, and the grid."""
    (threads, blocks), name = launch, joined_name([base])
    # sizes named only by the launch formula are parameters too
    shared = text.formula(text.shared)
    params = tuple(text.params.values())
    source = f"def {name}({', '.join(p.name for p in params)}):\n{text.body()}\n"
    machine = (instructions.find(called_name) for called_name in called(source))
    program = Program(
        name=name,
        target=gpu.target,
        text=source,
        entry=name,
        params=params,
        intrinsics=(*scalar_functions(source, scalars.find), *(i for i in machine if i is not None)),
        block=threads,
        grid=blocks,
        shared=shared,
        resident=tiling.blocks,
        cluster=max(tiling.team // tiling.threads, 1),
    )
    args = tuple(text.args[p.name] for p in params if p.name in text.args)
    return Emitted(numbered(program, used), args, 1, tuple(text.checks))


def _print(text: DeviceText, kernel: Kernel) -> tuple[int, tuple[str, ...]]:
    """Print a kernel; threads a block, and the grid."""
    tiling = kernel.tiling
    assert tiling is not None
    grid = tuple(map(text.formula, _form(tiling)(KernelText(text, kernel))))
    most = tiling.matrix.resident if tiling.matrix is not None else 0
    return tiling.threads, tuple(_at_most(most, n) for n in grid) if most else grid


def _at_most(most: int, blocks: str) -> str:
    return str(min(most, int(blocks))) if blocks.isdigit() else f"min({most}, {blocks})"


def _form(tiling: Tiling) -> Callable[[KernelText], tuple[Index, ...]]:
    return _PRINTERS[tiling.form] if tiling.matrix is None else _PRODUCTS[tiling.matrix.family]
