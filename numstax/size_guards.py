"""Conditions on sizes as Python text: what a guard has to check for an artifact whose sizes are symbols.

Enter: the inputs of a resolved Graph with the expressions that give them in a call, the integer arguments, and the
facts of the trace.  Leaves: conditions, in an order in which each may use what earlier ones bind.  A symbol is bound
where it is first seen, together with the check of its bounds: ``2 <= (s0 := d0[0]) <= 4``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from numstax.ir.graph import InputSpec
from numstax.ir.index import ONE, ZERO, Index, Symbol, as_index, atoms, contiguous_strides


def size_conditions(
    arrays: Sequence[tuple[str, InputSpec]],
    integers: Iterable[tuple[str, Index]],
    facts: Iterable[object],
    copied: Iterable[str] = (),
) -> tuple[list[str], list[str]]:
    """The conditions, and the symbols that they bind.  `copied`: expressions of arrays whose strides do not matter."""
    conditions: list[str] = []
    seen = list(integers)
    for k, (path, spec) in enumerate(arrays):
        conditions.append(f"len(d{k} := {path}.shape) == {len(spec.shape)}")
        seen += [(f"d{k}[{axis}]", size) for axis, size in enumerate(spec.shape)]
    for k, (path, spec) in enumerate(arrays):
        if path in copied or not spec.shape or ZERO in spec.shape:
            continue
        if spec.strides == contiguous_strides(spec.shape):
            conditions.append(f"{path}.flags.c_contiguous")
        else:
            conditions.append(f"(e{k} := {path}.strides)")
            walked = [axis for axis, size in enumerate(spec.shape) if size is not ONE]
            seen += [(f"e{k}[{axis}]", spec.strides[axis] * spec.dtype.itemsize) for axis in walked]
    bound: list[str] = []
    conditions += _bind(seen, bound)
    return [*conditions, *map(str, facts)], bound


def _bind(seen: list[tuple[str, Index]], bound: list[str]) -> Iterator[str]:
    """Conditions for (expression, the size it must have): numbers first, each symbol where it stands alone."""
    yield from (f"{text} == {size}" for text, size in seen if size.value is not None)
    left = [(text, size) for text, size in seen if size.value is None]
    while left:
        text, size = min(left, key=lambda row: _difficulty(row[1], bound))
        new = _unbound(size, bound)
        yield _binding(text, size, new[0]) if new else f"{text} == {size}"
        bound += [symbol.name for symbol in new]
        left.remove((text, size))


def _difficulty(size: Index, bound: Sequence[str]) -> int:
    """0: every symbol has a value; 1: a symbol by itself; 2: linear in one symbol; 3: not to be solved yet."""
    new = _unbound(size, bound)
    if len(new) != 1:
        return 3 if new else 0
    holders = [mono for mono, _ in size.terms if any(new[0] in atoms(as_index(atom)) for atom in mono)]
    return 3 if holders != [(new[0],)] else 1 if size is as_index(new[0]) else 2


def _unbound(size: Index, bound: Sequence[str]) -> list[Symbol]:
    return list(dict.fromkeys(a for a in atoms(size) if isinstance(a, Symbol) and a.name not in bound))


def _binding(text: str, size: Index, symbol: Symbol) -> str:
    """``text == factor*symbol + rest``, solved for the symbol."""
    factor = dict(size.terms)[(symbol,)]
    rest = size - as_index(symbol) * factor
    value = text if rest is ZERO else f"({text} - ({rest}))"
    exact = "" if factor == 1 else f"{value} % {factor} == 0 and "
    solved = f"({symbol.name} := {value if factor == 1 else f'{value} // {factor}'})"
    top = "" if symbol.hi is None else f" <= {symbol.hi}"
    return f"{exact}{symbol.lo} <= {solved}{top}" if top else f"{exact}{solved} >= {symbol.lo}"
