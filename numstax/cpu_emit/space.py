"""The parallel iteration space of a kernel: loops over its points, or over this call's share of its tasks.

A task is one point of the leading variables (as many of them as it takes to keep the workers busy); the
others are loops inside the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from numstax.emit.nest import Axis, BodyText, KernelText
from numstax.emit.text import Text, factor
from numstax.ir.index import ONE, Index, Var, hint, product

ENOUGH_TASKS = 64


def task_variables(variables: Sequence[Var]) -> tuple[Var, ...]:
    """The shortest run of leading variables with enough points to share out."""
    count = 1
    for k, var in enumerate(variables):
        count *= max(hint(var.extent), 1)
        if count >= ENOUGH_TASKS:
            return tuple(variables[: k + 1])
    return tuple(variables)


def task_count(variables: Sequence[Var]) -> Index:
    return product(v.extent for v in task_variables(variables))


@contextmanager
def points(kernel: KernelText, variables: Sequence[Var], parallel: bool, prefix: str = "i") -> Iterator[None]:
    """Loops over all points of `variables`; with `parallel` the tasks are those in ``lo <= t < hi``."""
    shared = task_variables(variables) if parallel else ()
    with ExitStack() as stack:
        if parallel:
            _open_tasks(kernel, shared, stack, prefix)
        for var in variables[len(shared) :]:
            if var.extent is ONE:
                kernel.names[var] = "0"
                continue
            extent = kernel.index(var.extent)
            stack.enter_context(kernel.text.block(f"for {kernel.bind(var, prefix)} in range({extent})"))
        yield


def _open_tasks(kernel: KernelText, shared: tuple[Var, ...], stack: ExitStack, prefix: str) -> None:
    text = kernel.text
    lo, hi = text.special("lo"), text.special("hi")
    for var in shared:
        kernel.names[var] = "0"
    shared = tuple(v for v in shared if v.extent is not ONE)
    if len(shared) == 1:
        stack.enter_context(text.block(f"for {kernel.bind(shared[0], prefix)} in range({lo}, {hi})"))
        return
    task = text.fresh("task")
    stack.enter_context(text.block(f"for {task} in range({lo}, {hi})"))
    stride: Index = ONE
    lines = []
    for k, var in reversed(tuple(enumerate(shared))):
        value = task if stride is ONE else f"{task} // {factor(kernel.index(stride))}"
        if k:
            value = f"{value} % {factor(kernel.index(var.extent))}"
        lines.append((var, value))
        stride = stride * var.extent
    for var, value in reversed(lines):
        text.line(f"{kernel.bind(var, prefix)} = {value}")


def print_tile(text: Text, axes: Sequence[Axis], bodies: Sequence[BodyText]) -> None:
    """Loops along the axes, with the stores of all bodies inside."""
    with ExitStack() as stack:
        for depth, axis in enumerate(axes):
            for body in bodies:
                body.enter(depth)
            stack.enter_context(text.block(axis.header))
        for body in bodies:
            body.enter(len(axes))
            body.print_stores()
