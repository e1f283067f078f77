"""Index: integer expressions over loop variables and size symbols, and the questions asked about them.

Sizes, strides, offsets and ranges are Index values everywhere; a plain integer is a special case.  The
normal form is in `polynomial`; equal expressions are the same object, so ``is`` compares them.

Four questions, none of which ever guards: `bounds`, `divides`, `same`, `stride_of` (and `less`, which
follows from bounds).  Each answers with a definite value or None for *unknown*; callers take the safe path
on unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from numstax.ir.polynomial import (
    ONE,
    ZERO,
    Atom,
    Bounds,
    Index,
    IndexLike,
    Monomial,
    Quotient,
    Ref,
    Remainder,
    Symbol,
    Var,
    as_index,
    bounds,
    divisor_text,
    monomial_quotient,
    non_negative,
    split_multiples,
)

__all__ = [
    "ONE",
    "ZERO",
    "Atom",
    "Bounds",
    "Index",
    "IndexLike",
    "Quotient",
    "Ref",
    "Remainder",
    "Symbol",
    "Var",
    "as_index",
    "atoms",
    "bounds",
    "contiguous_strides",
    "divides",
    "divisor_text",
    "evaluate",
    "hint",
    "less",
    "mergeable",
    "product",
    "same",
    "stride_of",
    "substitute",
    "symbol",
]


def symbol(name: str, lo: int = 2, hi: int | None = None, multiple_of: int = 1, hint: int | None = None) -> Index:
    return as_index(Symbol(name, lo, hi, multiple_of, hint))


def product(values: Iterable[IndexLike]) -> Index:
    out = ONE
    for v in values:
        out = out * v
    return out


def contiguous_strides(shape: Iterable[Index]) -> tuple[Index, ...]:
    """Strides, in elements, of a C-contiguous array."""
    out: list[Index] = []
    step = ONE
    for size in reversed(tuple(shape)):
        out.append(step)
        step = step * size
    return tuple(reversed(out))


# --- questions ------------------------------------------------------------------------------------


def less(a: Index, b: Index) -> bool | None:
    """a < b for every value: True; for none: False; otherwise None."""
    diff = b - a
    if non_negative(diff - 1):
        return True
    return False if non_negative(-diff) else None


def divides(k: IndexLike, a: Index) -> bool | None:
    """Is `a` a multiple of k (k > 0) for every value (True), for none (False), or is it unknown (None)?"""
    k = as_index(k)
    rest = split_multiples(a, k)[1]
    if rest is ZERO:
        return True
    if k.value is None:
        return None
    factors = [coef * _multiple(mono) for mono, coef in rest.terms]
    if all(factor % k.value == 0 for factor in factors):
        return True
    constant = factors.pop() if not rest.terms[-1][0] else 0
    return False if constant % math.gcd(k.value, *factors) else None


def _multiple(mono: Monomial) -> int:
    """A number that divides the product of these atoms."""
    return math.prod(atom.multiple_of for atom in mono if isinstance(atom, Symbol))


def same(a: IndexLike, b: IndexLike) -> bool | None:
    """Are the two equal for every value (True), for none (False), or is it unknown (None)?"""
    a, b = as_index(a), as_index(b)
    if a is b:
        return True
    diff = a - b
    if non_negative(diff - 1) or non_negative(-diff - 1):
        return False
    factors = [coef * _multiple(mono) for mono, coef in diff.terms]
    constant = factors.pop() if not diff.terms[-1][0] else 0
    return False if factors and constant % math.gcd(*factors) else None


def stride_of(a: Index, var: Var | Symbol) -> Index | None:
    """The constant s with ``a(var + 1) - a(var) == s``; None when `a` is not linear in var."""
    out = ZERO
    for mono, coef in a.terms:
        if not any(_mentions(atom, var) for atom in mono):
            continue
        left = monomial_quotient(mono, (var,))
        if left is None or any(_mentions(atom, var) for atom in left):
            return None
        out = out + product((coef, *left))
    return out


def _mentions(atom: Atom, var: Atom) -> bool:
    if isinstance(atom, Quotient | Remainder):
        return any(inner == var for inner in (*atoms(atom.value), *atoms(atom.divisor)))
    return atom == var


def mergeable(outer_stride: Index, inner_extent: Index, inner_stride: Index) -> bool:
    """Do an outer and an inner dimension with these strides walk memory like one dimension?"""
    return same(outer_stride, inner_stride * inner_extent) is True


# --- walking --------------------------------------------------------------------------------------


def atoms(a: Index) -> Iterator[Atom]:
    """The atoms of `a`, outermost first; those inside quotients and remainders too."""
    for mono, _ in a.terms:
        for atom in mono:
            yield atom
            if isinstance(atom, Quotient | Remainder):
                yield from atoms(atom.value)
                yield from atoms(atom.divisor)


def substitute(a: Index, mapping: Mapping[Atom, Index]) -> Index:
    """Replace atoms; extents of Var and Ref atoms are left alone."""
    if not any(atom in mapping for atom in atoms(a)):
        return a
    return _rebuild(a, mapping.get)


def _rebuild(a: Index, get: Callable[[Atom], Index | None]) -> Index:
    out = ZERO
    for mono, coef in a.terms:
        term = as_index(coef)
        for atom in mono:
            new = get(atom)
            if new is None and isinstance(atom, Quotient):
                new = _rebuild(atom.value, get) // _rebuild(atom.divisor, get)
            elif new is None and isinstance(atom, Remainder):
                new = _rebuild(atom.value, get) % _rebuild(atom.divisor, get)
            term = term * (atom if new is None else new)
        out = out + term
    return out


def evaluate(a: Index, env: Mapping[str, int]) -> int:
    """The number, with the value of each symbol, variable (by name) and ref (``v3``) given; a divisor of 0 counts as
    1, as in the text of an Index."""
    total = 0
    for mono, coef in a.terms:
        term = coef
        for atom in mono:
            if isinstance(atom, Quotient):
                term *= evaluate(atom.value, env) // max(evaluate(atom.divisor, env), 1)
            elif isinstance(atom, Remainder):
                term *= evaluate(atom.value, env) % max(evaluate(atom.divisor, env), 1)
            else:
                term *= env[str(atom)]
        total += term
    return total


def hint(a: Index) -> int:
    """The value at the sizes seen at capture; a symbol without hint counts with its upper bound or 8192."""
    env = {}
    for atom in atoms(a):
        if isinstance(atom, Symbol):
            env[atom.name] = atom.hint if atom.hint is not None else atom.hi if atom.hi is not None else 8192
        elif isinstance(atom, Var | Ref):
            env[str(atom)] = 0
    return evaluate(a, env)
