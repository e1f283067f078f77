"""Names and comments of programs, and what their texts call; the same for every target."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from numstax.dtypes import name
from numstax.emit.scalars import find
from numstax.ir.loops import Kernel
from numstax.program import Intrinsic, Program

_CALL = re.compile(r"\b([a-z]\w*)\(")

Find = Callable[[str], Intrinsic | None]
Names = dict[str, list[Program]]
"""Programs by base name: what `numbered` has named."""


def heading(kernel: Kernel) -> Iterator[str]:
    """Comments: the kernel, its form and the user's lines."""
    places = dict.fromkeys(f"{PurePath(o.file).name}:{o.line}" for o in kernel.origins)
    form = kernel.tiling.form if kernel.tiling is not None else "row"
    yield f"# {kernel.name}, {form} form" + (f", from {', '.join(places)}" if places else "")
    for buffer in kernel.buffers:
        if buffer.kind == "local":
            yield f"# local {buffer.name}: {name(buffer.dtype)}[{', '.join(map(str, buffer.shape))}]"


def joined_name(names: Sequence[str]) -> str:
    names = list(dict.fromkeys(names))
    joined = "_and_".join(names)
    return joined if len(joined) <= 64 else f"{names[0][:48]}_and_{len(names) - 1}_more"


def numbered(program: Program, used: Names) -> Program:
    """Equal programs share a name; others of the same base get a number."""
    known = used.setdefault(program.name, [])
    if program not in known:
        known.append(program)
    position = known.index(program)
    return replace(program, name=f"{program.name}_{position}") if position else program


def called(source: str) -> list[str]:
    """The names of the functions that a text calls, sorted."""
    return sorted(set(_CALL.findall(source)))


def scalar_functions(source: str, find: Find = find) -> tuple[Intrinsic, ...]:
    """The scalar functions given as data that a text calls."""
    found = map(find, called(source))
    return tuple(i for i in found if i is not None)
