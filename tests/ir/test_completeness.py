"""Every row of the table of operations has all its parts; a failure names what is missing."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from numstax import dtypes
from numstax.emit.scalars import find
from numstax.emit.spelling import spell
from numstax.ir.ops import ELEMENTWISE, resolve

CALL = re.compile(rf"\b([a-z]\w*_(?:{'|'.join(dtypes.name(d) for d in dtypes.SUPPORTED)}))\(")


def loops_of(name: str) -> set[tuple[tuple[np.dtype, ...], np.dtype]]:
    """The operand and result dtypes that the operation computes in."""
    found = set()
    for operands in itertools.product(dtypes.SUPPORTED, repeat=ELEMENTWISE[name].arity):
        try:
            found.add(resolve(name, operands))
        except TypeError:
            continue
    return found


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_loop_has_a_cpu_spelling(name: str) -> None:
    assert loops_of(name)
    missing = []
    for operands, result in sorted(loops_of(name), key=str):
        try:
            spelled = spell(name, operands, result, ("v0", "v1", "v2")[: len(operands)], "t")
        except Exception as error:
            missing.append(f"{name} of {', '.join(map(str, operands))}: {error}")
            continue
        text = "\n".join((*spelled.statements, spelled.expression))
        missing += [
            f"{name} calls {called}, which nothing defines" for called in CALL.findall(text) if not find(called)
        ]
    assert not missing, "\n".join(missing)
