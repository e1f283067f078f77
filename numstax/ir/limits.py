"""Kernels for sizes of which more is known than that they are sizes.

A Kernel enters, and symbols with other bounds and factors in the place of its own; the same Kernel over these leaves,
right for the sizes that they stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from numstax.ir.index import Atom, Index, Symbol, Var, as_index, atoms, bounds, product, stride_of, substitute
from numstax.ir.loops import Kernel, Limit
from numstax.ir.renaming import substitute_vars

Symbols = Mapping[Symbol, Symbol]
"""What stands for a symbol where more is known of it."""


def restricted(kernel: Kernel, symbols: Symbols) -> Kernel:
    """The kernel over these symbols, without cases and tiling."""
    names: dict[Atom, Index] = {old: as_index(new) for old, new in symbols.items()}

    def variables(old: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(Var(v.name, substitute(v.extent, names)) for v in old)

    def sizes(indices: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(substitute(n, names) for n in indices)

    outer = variables(kernel.outer)
    around = names | _renaming(kernel.outer, outer)
    loops = []
    for loop in kernel.loops:
        inner = variables(loop.inner)
        loops.append(substitute_vars(loop, around | _renaming(loop.inner, inner), inner))
    return replace(
        kernel,
        outer=outer,
        loops=tuple(loops),
        buffers=tuple(replace(b, shape=sizes(b.shape), strides=sizes(b.strides)) for b in kernel.buffers),
        tiling=None,
        cases=(),
    )


def _renaming(old: tuple[Var, ...], new: tuple[Var, ...]) -> dict[Atom, Index]:
    return dict(zip(old, map(as_index, new), strict=True))


def limits(symbols: Symbols) -> tuple[Limit, ...]:
    """What has to hold for the kernel over these symbols to be right, but for their lower bounds."""
    made = []
    for old, new in symbols.items():
        most = new.hi if new.hi != old.hi else None
        multiple = new.multiple_of if new.multiple_of != old.multiple_of else 1
        if most is not None or multiple > 1:
            made.append(Limit(as_index(old), most, multiple))
    return tuple(made)


def condition(limits: Iterable[Limit]) -> str:
    """That all of them hold, as an expression over the symbols."""
    tests = []
    for limit in limits:
        size = str(limit.size)
        tests += [f"{size} <= {limit.most}"] if limit.most is not None else []
        value = size if size.isidentifier() else f"({size})"
        tests += [f"{value} % {limit.multiple} == 0"] if limit.multiple > 1 else []
    return " and ".join(tests)


def of_rows(kernel: Kernel, most: int) -> Symbols | None:
    """The symbols in the lengths of rows with upper bounds, which they are taken to have, so that no row is longer than
    `most`; none where that is so anyway; None where no bounds of symbols say so."""
    found: dict[Symbol, Symbol] = {}
    for length in dict.fromkeys(row_lengths(kernel)):
        high = bounds(length)[1]
        if high is not None and high <= most:
            continue
        symbols = set(atoms(length))
        symbol = symbols.pop() if len(symbols) == 1 else None
        if not isinstance(symbol, Symbol):
            return None
        factor = stride_of(length, symbol)
        if factor is None or factor.value is None or factor.value < 1:
            return None
        rest = (length - factor * symbol).value
        assert rest is not None
        known = found.get(symbol, symbol)
        top = (most - rest) // factor.value
        if top < symbol.lo:
            return None
        top = top if known.hi is None else min(top, known.hi)
        found[symbol] = replace(known, hi=top, hint=top)
    return found


def row_lengths(kernel: Kernel) -> Iterator[Index]:
    """The points of each loop that has inner variables."""
    return (product(v.extent for v in loop.inner) for loop in kernel.loops if loop.inner)
