"""Index: integer expressions over loop variables and size symbols, in a normal form.

An Index is an integer polynomial: a sum of ``coefficient * product of atoms``.  Atoms are loop
variables (`Var`), size symbols (`Symbol`), runtime values (`Ref`, an SSA value of a loop body) and
interned quotients and remainders of other Index values (`Quotient`, `Remainder`, floor semantics, the
divisor always positive).  Equal expressions are the same object.

Four questions, none of which ever guards: `bounds`, `divides`, `same`, `stride_of`.  Each answers with
a definite value or None for *unknown*; callers take the safe path on unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Union

IndexLike = Union[int, "Index", "Atom"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size known only at run time, in ``lo <= s <= hi`` (hi None: unbounded), a multiple of
    `multiple_of`.  `hint` is the size seen at capture; None when the size depends on data."""

    name: str
    lo: int = 2
    hi: int | None = None
    multiple_of: int = 1
    hint: int | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable running over ``0 <= v < extent``."""

    name: str
    extent: Index

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Ref:
    """The run-time value of SSA entry `position` of the surrounding loop body, in ``0 <= v < extent``."""

    position: int
    extent: Index

    def __str__(self) -> str:
        return f"v{self.position}"


@dataclass(frozen=True, slots=True)
class Quotient:
    """``value // divisor`` (floor)."""

    value: Index
    divisor: Index

    def __str__(self) -> str:
        return f"({self.value}) // {_wrap(self.divisor)}"


@dataclass(frozen=True, slots=True)
class Remainder:
    """``value % divisor`` (sign of the divisor)."""

    value: Index
    divisor: Index

    def __str__(self) -> str:
        return f"({self.value}) % {_wrap(self.divisor)}"


Atom = Symbol | Var | Ref | Quotient | Remainder
Monomial = tuple[Atom, ...]
Bounds = tuple[int | None, int | None]


class Index:
    """An interned integer polynomial; immutable, hashable by identity.  Make one with `as_index`."""

    __slots__ = ("__weakref__", "_bounds", "terms")
    terms: tuple[tuple[Monomial, int], ...]
    _bounds: Bounds | None

    def __add__(self, other: IndexLike) -> Index:
        acc = dict(self.terms)
        for mono, coef in as_index(other).terms:
            acc[mono] = acc.get(mono, 0) + coef
        return _make(acc)

    __radd__ = __add__

    def __neg__(self) -> Index:
        return _make({mono: -coef for mono, coef in self.terms})

    def __sub__(self, other: IndexLike) -> Index:
        return self + -as_index(other)

    def __rsub__(self, other: IndexLike) -> Index:
        return as_index(other) + -self

    def __mul__(self, other: IndexLike) -> Index:
        acc: dict[Monomial, int] = {}
        for mono_b, coef_b in as_index(other).terms:
            for mono_a, coef_a in self.terms:
                mono = _product(mono_a, mono_b)
                acc[mono] = acc.get(mono, 0) + coef_a * coef_b
        return _make(acc)

    __rmul__ = __mul__

    def __floordiv__(self, other: IndexLike) -> Index:
        return _divmod(self, as_index(other))[0]

    def __mod__(self, other: IndexLike) -> Index:
        return _divmod(self, as_index(other))[1]

    def __rfloordiv__(self, other: IndexLike) -> Index:
        return as_index(other) // self

    def __rmod__(self, other: IndexLike) -> Index:
        return as_index(other) % self

    @property
    def value(self) -> int | None:
        """The number, when this is one."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        out = ""
        for mono, coef in self.terms:
            factors = [_wrap_atom(a) for a in mono]
            if abs(coef) != 1 or not factors:
                factors.insert(0, str(abs(coef)))
            text = "*".join(factors)
            if not out:
                out = f"-{text}" if coef < 0 else text
            else:
                out += f" - {text}" if coef < 0 else f" + {text}"
        return out

    def __repr__(self) -> str:
        return f"Index({self})"


_interned: dict[tuple[tuple[Monomial, int], ...], Index] = {}


def _make(acc: Mapping[Monomial, int]) -> Index:
    key = tuple(sorted(((m, c) for m, c in acc.items() if c), key=_term_key))
    found = _interned.get(key)
    if found is None:
        found = Index()
        found.terms = key
        found._bounds = None
        found = _interned.setdefault(key, found)
    return found


@cache
def _atom_key(atom: Atom) -> tuple[int, str]:
    order = (Var, Ref, Quotient, Remainder, Symbol).index(type(atom))
    return order, str(atom)


def _term_key(term: tuple[Monomial, int]) -> tuple[object, ...]:
    mono, _ = term
    return (-len(mono), tuple(_atom_key(a) for a in mono))


def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted(a + b, key=_atom_key)) if a and b else a or b


def _wrap_atom(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, Quotient | Remainder) else str(atom)


def _wrap(index: Index) -> str:
    text = str(index)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def as_index(value: IndexLike) -> Index:
    """An int, an atom or an Index, as an Index."""
    if isinstance(value, Index):
        return value
    if isinstance(value, Symbol | Var | Ref | Quotient | Remainder):
        return _make({(value,): 1})
    return _make({(): int(value)})


ZERO = as_index(0)
ONE = as_index(1)


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


# --- division -------------------------------------------------------------------------------------


def _divmod(a: Index, b: Index) -> tuple[Index, Index]:
    """Floor quotient and remainder for b > 0, simplified where that is provable."""
    if b.value is not None and b.value <= 0:
        raise ZeroDivisionError(f"Index divided by {b}")
    if b is ONE:
        return a, ZERO
    if a.value is not None and b.value is not None:
        return as_index(a.value // b.value), as_index(a.value % b.value)
    whole, rest = _split_multiples(a, b)
    if _within(rest, b):
        return whole, rest
    if rest.terms and b.value is not None:
        # (g*p + r) // (g*c) == p // c when 0 <= r < g.
        g = math.gcd(b.value, *(c for m, c in rest.terms if m))
        const = dict(rest.terms).get((), 0)
        if g > 1:
            outer = _make({m: c // g for m, c in rest.terms if m} | {(): const // g})
            inner_const = const % g
            c = b.value // g
            if c == 1:
                return whole + outer, as_index(inner_const)
            inner = as_index(Quotient(outer, as_index(c))) if not _within(outer, as_index(c)) else ZERO
            return whole + inner, (rest - inner * b)  if inner is ZERO else as_index(Remainder(rest, b))
    nested = _nested(rest, b)
    if nested is not None:
        return whole + nested[0], nested[1]
    return whole + as_index(Quotient(rest, b)), as_index(Remainder(rest, b))


def _nested(a: Index, b: Index) -> tuple[Index, Index] | None:
    """(x // p) // q == x // (p*q), (x % (p*q)) % q == x % q, (x % (p*q)) // q stays."""
    if len(a.terms) != 1 or a.terms[0][1] != 1 or len(a.terms[0][0]) != 1:
        return None
    atom = a.terms[0][0][0]
    if isinstance(atom, Quotient):
        q = Quotient(atom.value, atom.divisor * b)
        return as_index(q), as_index(Remainder(a, b))
    if isinstance(atom, Remainder) and divides(b, atom.divisor):
        return as_index(Quotient(a, b)), atom.value % b
    return None


def _split_multiples(a: Index, b: Index) -> tuple[Index, Index]:
    """a == whole*b + rest, moving every term that is a syntactic multiple of b into `whole`."""
    if len(b.terms) != 1:
        # a sum as divisor: only exact multiples of the whole sum are recognised
        if a is b:
            return ONE, ZERO
        lead_mono, lead_coef = b.terms[0]
        for mono, coef in a.terms:
            q = _monomial_quotient(mono, lead_mono)
            if q is not None and coef % lead_coef == 0:
                factor = _make({q: coef // lead_coef})
                rest = a - factor * b
                if len(rest.terms) < len(a.terms):
                    more, rest2 = _split_multiples(rest, b)
                    return factor + more, rest2
        return ZERO, a
    b_mono, b_coef = b.terms[0]
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, coef in a.terms:
        q = _monomial_quotient(mono, b_mono)
        if q is None:
            rest[mono] = coef
        else:
            times, left = divmod(coef, b_coef)
            if q == () or coef % b_coef == 0:
                whole[q] = whole.get(q, 0) + times
                if left:
                    rest[mono] = left
            else:
                rest[mono] = coef
    return _make(whole), _make(rest)


def _monomial_quotient(mono: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(mono)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _within(a: Index, b: Index) -> bool:
    """Provably 0 <= a < b."""
    lo, _ = bounds(a)
    if lo is None or lo < 0:
        return False
    return less(a, b) is True


# --- the four questions ---------------------------------------------------------------------------


def bounds(a: Index) -> Bounds:
    """Inclusive lower and upper bound over all values of the atoms; None where unbounded or unknown."""
    if a._bounds is None:
        a._bounds = _sum_bounds(a.terms)
    return a._bounds


def _sum_bounds(terms: Iterable[tuple[Monomial, int]]) -> Bounds:
    lo: int | None = 0
    hi: int | None = 0
    for mono, coef in terms:
        m_lo, m_hi = _monomial_bounds(mono)
        if coef < 0:
            m_lo, m_hi = m_hi, m_lo
        lo = None if lo is None or m_lo is None else lo + coef * m_lo
        hi = None if hi is None or m_hi is None else hi + coef * m_hi
    return lo, hi


def _monomial_bounds(mono: Monomial) -> Bounds:
    lo: int | None = 1
    hi: int | None = 1
    for atom in mono:
        a_lo, a_hi = _atom_bounds(atom)
        if lo is not None and lo >= 0 and a_lo is not None and a_lo >= 0:
            lo = lo * a_lo
            hi = 0 if hi == 0 or a_hi == 0 else None if hi is None or a_hi is None else hi * a_hi
        elif None in (lo, hi, a_lo, a_hi):
            return None, None
        else:
            corners = [x * y for x in (lo, hi) for y in (a_lo, a_hi)]  # type: ignore[operator]
            lo, hi = min(corners), max(corners)
    return lo, hi


@cache
def _atom_bounds(atom: Atom) -> Bounds:
    if isinstance(atom, Symbol):
        return atom.lo, atom.hi
    if isinstance(atom, Var | Ref):
        hi = bounds(atom.extent)[1]
        return 0, None if hi is None else max(hi - 1, 0)
    d_lo, d_hi = bounds(atom.divisor)
    v_lo, v_hi = bounds(atom.value)
    if isinstance(atom, Remainder):
        hi = None if d_hi is None else d_hi - 1
        if v_lo is not None and v_lo >= 0 and v_hi is not None:
            hi = v_hi if hi is None else min(hi, v_hi)
        return 0, hi
    d_lo = max(d_lo or 1, 1)
    lo = None
    if v_lo is not None:
        lo = v_lo // d_lo if v_lo < 0 else (0 if d_hi is None else v_lo // d_hi)
    hi = None
    if v_hi is not None:
        hi = v_hi // d_lo if v_hi >= 0 else (-1 if d_hi is None else v_hi // d_hi)
    return lo, hi


def _maximise(a: Index) -> Index:
    """An upper bound of `a` over its loop variables, as an Index in the symbols (0 <= var terms only)."""
    acc = ZERO
    for mono, coef in a.terms:
        term = as_index(coef)
        for atom in mono:
            if isinstance(atom, Var | Ref):
                if coef < 0:
                    term = ZERO
                    break
                term = term * (atom.extent - 1)
            elif isinstance(atom, Remainder) and coef > 0:
                term = term * (atom.divisor - 1)
            else:
                term = term * as_index(atom)
        acc = acc + term
    return acc


def less(a: Index, b: Index) -> bool | None:
    """a < b for every value: True; for none: False; otherwise None."""
    diff = a - b
    lo, hi = bounds(diff)
    if hi is not None and hi < 0:
        return True
    if lo is not None and lo >= 0:
        return False
    hi = bounds(_maximise(diff))[1]
    return True if hi is not None and hi < 0 else None


def divides(k: IndexLike, a: Index) -> bool | None:
    """Is `a` a multiple of k (k > 0) for every value?"""
    k = as_index(k)
    if k is ONE or a is ZERO:
        return True
    whole, rest = _split_multiples(a, k)
    if rest is ZERO:
        return True
    if k.value is None:
        return None
    if all((coef * _multiple(mono)) % k.value == 0 for mono, coef in rest.terms):
        return True
    if rest.value is not None:
        return False
    return None


def _multiple(mono: Monomial) -> int:
    return math.prod(atom.multiple_of for atom in mono if isinstance(atom, Symbol))


def same(a: IndexLike, b: IndexLike) -> bool | None:
    """Are the two equal for every value (True), for none (False), or is it unknown (None)?"""
    a, b = as_index(a), as_index(b)
    if a is b:
        return True
    diff = a - b
    lo, hi = bounds(diff)
    if (lo is not None and lo > 0) or (hi is not None and hi < 0):
        return False
    const = dict(diff.terms).get((), 0)
    rest = [c * _multiple(m) for m, c in diff.terms if m]
    if rest and const % math.gcd(*rest):
        return False
    return None


def stride_of(a: Index, var: Var) -> Index | None:
    """The constant s with ``a(var + 1) - a(var) == s``; None when `a` is not linear in var."""
    acc: dict[Monomial, int] = {}
    for mono, coef in a.terms:
        n = sum(atom is var or atom == var for atom in mono)
        if n == 1:
            left = _monomial_quotient(mono, (var,))
            assert left is not None
            if any(_mentions(atom, var) for atom in left):
                return None
            acc[left] = acc.get(left, 0) + coef
        elif n > 1 or any(_mentions(atom, var) for atom in mono):
            return None
    return _make(acc)


def _mentions(atom: Atom, var: Atom) -> bool:
    return atom == var or (
        isinstance(atom, Quotient | Remainder) and any(_mentions(x, var) for x in (*atoms(atom.value), *atoms(atom.divisor)))
    )


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
    return _rebuild(a, lambda atom: mapping.get(atom))


def _rebuild(a: Index, get: Callable[[Atom], Index | None]) -> Index:
    acc = ZERO
    for mono, coef in a.terms:
        term = as_index(coef)
        for atom in mono:
            new = get(atom)
            if new is None and isinstance(atom, Quotient):
                new = _rebuild(atom.value, get) // _rebuild(atom.divisor, get)
            elif new is None and isinstance(atom, Remainder):
                new = _rebuild(atom.value, get) % _rebuild(atom.divisor, get)
            term = term * (as_index(atom) if new is None else new)
        acc = acc + term
    return acc


def evaluate(a: Index, env: Mapping[str, int]) -> int:
    """The number, with the value of each symbol, variable (by name) and ref (``v3``) given."""
    total = 0
    for mono, coef in a.terms:
        term = coef
        for atom in mono:
            if isinstance(atom, Quotient):
                term *= evaluate(atom.value, env) // evaluate(atom.divisor, env)
            elif isinstance(atom, Remainder):
                term *= evaluate(atom.value, env) % evaluate(atom.divisor, env)
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
