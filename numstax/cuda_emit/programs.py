"""A kernel to one program: its text, parameters and launch formula.

A tiled kernel enters; an `Emitted` leaves.  Expressions of a Program are over its own 'size' parameters.
"""

from __future__ import annotations

from numstax.cuda_emit import instructions, scalars
from numstax.cuda_emit.column import print_columns
from numstax.cuda_emit.pointwise import print_points
from numstax.cuda_emit.row import print_rows
from numstax.cuda_emit.text import DeviceText
from numstax.cuda_emit.tiled import print_stencil, print_transposed
from numstax.emit.naming import Names, called, heading, joined_name, numbered, scalar_functions
from numstax.emit.nest import KernelText
from numstax.errors import CompileError
from numstax.hardware import Gpu
from numstax.ir.loops import Kernel
from numstax.program import Emitted, Program

_PRINTERS = {"pointwise": print_points, "row": print_rows, "column": print_columns}
_PRINTERS |= {"transpose": print_transposed, "stencil": print_stencil}


def print_program(kernel: Kernel, gpu: Gpu, used: Names) -> Emitted:
    """The program of one kernel."""
    assert kernel.tiling is not None
    text = DeviceText(kernel.writes())
    for line in heading(kernel):
        text.line(line)
    if kernel.tiling.form not in _PRINTERS:
        raise CompileError(f"{kernel.name} has no form for GPUs yet", remedy="compile it for the CPU")
    grid = _PRINTERS[kernel.tiling.form](KernelText(text, kernel))
    name = joined_name([kernel.name])
    # sizes named only by the launch formula are parameters too
    blocks, shared = tuple(map(text.formula, grid)), text.formula(text.shared)
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
        block=kernel.tiling.threads,
        grid=blocks,
        shared=shared,
    )
    args = tuple(text.args[p.name] for p in params if p.name in text.args)
    return Emitted(numbered(program, used), args, 1, tuple(text.checks))
