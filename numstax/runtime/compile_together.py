"""Several programs compiled at once, each in a process of its own but for those of this one.

Programs enter; their code leaves, in order.  The compiler holds Python's lock, so threads would not help.  A helper
process has to import the compiler first: it is worth starting for every program beyond the first few.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numstax.errors import CompileError
from numstax.later import Later
from numstax.program import Instruction, Program

if TYPE_CHECKING:
    import pickle
    import subprocess
else:
    pickle, subprocess = Later("pickle"), Later("subprocess")

ALONE = 8
"""Programs for a GPU that this process compiles sooner than a helper would have started."""


def compile_together(programs: Sequence[Program], alone: int = ALONE) -> list[Any]:
    """The code of each: a Cubin, or for the CPU ObjectCode.  Raises CompileError."""
    others = programs[alone:]
    helpers = min(len(others), (os.cpu_count() or 1) - 1)
    if not helpers:
        return compile_here(programs)
    running = [_start(others[k::helpers]) for k in range(helpers)]
    try:
        here = compile_here(programs[:alone])
        there = list(map(_finish, running))
    finally:
        for process in running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    return here + [there[k % helpers][k // helpers] for k in range(len(others))]


def compile_here(programs: Sequence[Program]) -> list[Any]:
    # importing a compiler takes up to 0.6 s: only when something compiles
    if all(program.target == "cpu" for program in programs):
        from numstax.runtime import compile_cpu

        return list(map(compile_cpu.compile_program, programs))
    from numstax.runtime import compile_cuda

    return list(map(compile_cuda.compile_program, programs))


def _start(programs: Sequence[Program]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(list(map(_without_models, programs))))
    process.stdin.close()
    return process


def _without_models(program: Program) -> Program:
    """Models are for the interpreter, and may be functions that cannot be sent."""
    rows = (replace(i, model=None) if isinstance(i, Instruction) else i for i in program.intrinsics)
    return replace(program, intrinsics=tuple(rows))


def _finish(process: subprocess.Popen[bytes]) -> list[Any]:
    assert process.stdout is not None
    answer = process.stdout.read()
    if process.wait():
        raise CompileError("a process that compiles programs ended early", remedy="it printed the reason")
    result = pickle.loads(answer)
    if isinstance(result, Exception):
        raise result
    return result  # type: ignore[no-any-return]


def serve() -> None:
    """Read programs, write their cubins or the error."""
    programs = pickle.load(sys.stdin.buffer)
    result: list[Any] | Exception
    try:
        result = compile_here(programs)
    except CompileError as error:
        result = error
    sys.stdout.buffer.write(pickle.dumps(result))
