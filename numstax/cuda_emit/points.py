"""Points of an iteration space from their number: variables by division, last one fastest."""

from __future__ import annotations

from collections.abc import Sequence

from numstax.cuda_emit.text import DeviceText
from numstax.emit.nest import KernelText
from numstax.ir.index import ONE, Atom, Index, Var, bounds, product

Decoded = list[tuple[str, str]]
"""Names and the expressions they stand for, to be assigned in this order."""


def count(variables: Sequence[Var]) -> Index:
    return product(v.extent for v in variables)


def decode(
    kernel: KernelText, variables: Sequence[Var], number: str, prefix: str = "i", most: int | None = None
) -> tuple[dict[Atom, str], Decoded]:
    """Names for the variables at the point of that number, a name itself, and what they stand for.  There are at most
    `most` points, where that says more than their extents do."""
    text = kernel.text
    assert isinstance(text, DeviceText)
    known = bounds(count(variables))[1]
    most = known if most is None or (known is not None and known < most) else most
    moving = [v for v in variables if v.extent is not ONE]
    names: dict[Atom, str] = {v: "0" for v in variables if v.extent is ONE}
    if len(moving) == 1:
        return {**names, moving[0]: number}, []
    names |= {v: text.fresh(prefix) for v in moving}
    lines: Decoded = []
    stride = ONE
    for k, var in reversed(list(enumerate(moving))):
        value = number if stride is ONE else text.division("quotient", number, most, stride, within=True)
        lines.append((names[var], text.division("rest", value, most, var.extent, within=True) if k else value))
        stride = stride * var.extent
    return names, lines[::-1]
