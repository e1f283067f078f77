"""The normal form behind Index: interned integer polynomials over atoms, their bounds and floor division.

An Index is a sum of ``coefficient * product of atoms``.  Atoms are loop variables (`Var`), size symbols
(`Symbol`), runtime values (`Ref`, an SSA value of a loop body) and quotients and remainders of other Index
values (`Quotient`, `Remainder`: floor semantics, the divisor always positive).  What holds: equal
expressions are the same object; terms are sorted; a quotient or remainder that can be proved simpler is not
an atom; ``d*(x // d) + x % d`` is ``x``.

The rules below are exact for every value of the atoms within their ranges; where a proof needs a bound
that is unknown, the expression stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Union

from numstax.records import record

IndexLike = Union[int, "Index", "Atom"]


@record
class Symbol:
    """A size known only at run time, in ``lo <= s <= hi`` (hi None: unbounded), a multiple of
    `multiple_of`.  `hint` is the size seen at capture; None when the size depends on data."""

    name: str
    lo: int = 2
    hi: int | None = None
    multiple_of: int = 1
    hint: int | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@record
class Var:
    """A loop variable running over ``0 <= v < extent``."""

    name: str
    extent: Index

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@record
class Ref:
    """The run-time value of SSA entry `position` of the surrounding loop body, in ``0 <= v < extent``."""

    position: int
    extent: Index

    def __str__(self) -> str:
        return f"v{self.position}"


@record
class Quotient:
    """``value // divisor`` (floor)."""

    value: Index
    divisor: Index

    def __str__(self) -> str:
        return f"{_wrap(self.value)} // {divisor_text(self.divisor, _wrap(self.divisor))}"


@record
class Remainder:
    """``value % divisor`` (sign of the divisor)."""

    value: Index
    divisor: Index

    def __str__(self) -> str:
        return f"{_wrap(self.value)} % {divisor_text(self.divisor, _wrap(self.divisor))}"


Atom = Symbol | Var | Ref | Quotient | Remainder
Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]
Bounds = tuple[int | None, int | None]


class Index:
    """An interned integer polynomial; immutable, hashable by identity.  Make one with `as_index`."""

    __slots__ = ("__weakref__", "_bounds", "_has_remainder", "terms")
    terms: Terms
    _bounds: Bounds | None
    _has_remainder: bool

    def __add__(self, other: IndexLike) -> Index:
        other = as_index(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        acc = dict(self.terms)
        for mono, coef in other.terms:
            acc[mono] = acc.get(mono, 0) + coef
        if self._has_remainder or other._has_remainder:
            _recombine(acc)
        return _make(acc)

    __radd__ = __add__

    def __neg__(self) -> Index:
        return _intern(tuple([(mono, -coef) for mono, coef in self.terms]))

    def __sub__(self, other: IndexLike) -> Index:
        return self + -as_index(other)

    def __rsub__(self, other: IndexLike) -> Index:
        return as_index(other) + -self

    def __mul__(self, other: IndexLike) -> Index:
        other = as_index(other)
        few, many = (self, other) if len(self.terms) <= len(other.terms) else (other, self)
        if len(few.terms) == 1 and not few.terms[0][0]:
            factor = few.terms[0][1]
            return many if factor == 1 else _intern(tuple([(mono, coef * factor) for mono, coef in many.terms]))
        acc: dict[Monomial, int] = {}
        for mono_b, coef_b in few.terms:
            for mono_a, coef_a in many.terms:
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

    def __reduce__(self) -> tuple[Callable[[Terms], Index], tuple[Terms]]:
        return _from_terms, (self.terms,)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        out = ""
        for mono, coef in self.terms:
            factors = [f"({a})" if isinstance(a, Quotient | Remainder) else str(a) for a in mono]
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


def as_index(value: IndexLike) -> Index:
    """An int, an atom or an Index, as an Index."""
    if isinstance(value, Index):
        return value
    if type(value) is int:
        return _number(value)
    if isinstance(value, Symbol | Var | Ref | Quotient | Remainder):
        return _atom_index(value)
    return _number(int(value))


# --- interning ------------------------------------------------------------------------------------

_interned: dict[Terms, Index] = {}


def _intern(terms: Terms) -> Index:
    """The one Index with these terms, which are sorted and without zero coefficients."""
    found = _interned.get(terms)
    if found is None:
        found = Index()
        found.terms = terms
        found._bounds = None
        found._has_remainder = any(isinstance(atom, Remainder) for mono, _ in terms for atom in mono)
        found = _interned.setdefault(terms, found)
    return found


def _make(acc: Mapping[Monomial, int]) -> Index:
    terms = [term for term in acc.items() if term[1]]
    if len(terms) > 1:
        terms.sort(key=_term_key)
    return _intern(tuple(terms))


def _from_terms(terms: Terms) -> Index:
    return _make(dict(terms))


@lru_cache(1 << 12)
def _number(value: int) -> Index:
    return _intern((((), value),)) if value else _intern(())


@lru_cache(1 << 14)
def _atom_index(atom: Atom) -> Index:
    return _intern((((atom,), 1),))


def _term_key(term: tuple[Monomial, int]) -> tuple[object, ...]:
    return _monomial_key(term[0])


@lru_cache(1 << 16)
def _monomial_key(mono: Monomial) -> tuple[object, ...]:
    return (-len(mono), tuple([_atom_key(atom) for atom in mono]))


@lru_cache(1 << 16)
def _atom_key(atom: Atom) -> tuple[int, str, str]:
    # by text, so that order does not depend on the history of the process; the repr parts equal names
    return (Var, Ref, Quotient, Remainder, Symbol).index(type(atom)), str(atom), repr(atom)


@lru_cache(1 << 16)
def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted(a + b, key=_atom_key)) if a and b else a or b


def divisor_text(divisor: Index, text: str) -> str:
    """What to divide by, given the spelling of a divisor: never 0, also where the divisor is a size that may be 0.
    Nothing that counts is divided then, but the expression is still evaluated."""
    return text if non_negative(divisor - 1) else f"max({text}, 1)"


def _wrap(index: Index) -> str:
    text = str(index)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


ZERO = as_index(0)
ONE = as_index(1)


# --- division -------------------------------------------------------------------------------------


@lru_cache(1 << 14)
def _divmod(a: Index, b: Index) -> tuple[Index, Index]:
    """Floor quotient and remainder for b > 0, simplified where that is provable."""
    if b.value is not None and b.value <= 0:
        raise ZeroDivisionError(f"Index divided by {b}")
    if b is ONE:
        return a, ZERO
    whole, rest = split_multiples(a, b)
    if rest is ZERO or (non_negative(rest) and non_negative(b - rest - 1)):
        # exact also where b might be 0: then there is nothing to divide
        return whole, rest
    found = _factored(rest, b) or _nested(rest, b)
    if found is not None:
        return whole + found[0], found[1]
    return whole + _atom_index(Quotient(rest, b)), _atom_index(Remainder(rest, b))


def _factored(a: Index, b: Index) -> tuple[Index, Index] | None:
    """With a == g*p + r, b == g*c and 0 <= r < g: a // b == p // c and a % b == g*(p % c) + r."""
    for factor in {_common((*b.terms, term)): None for term in a.terms if term[0]}:
        g = _make(dict([factor]))
        if g is ONE or g is b:
            continue
        p, r = split_multiples(a, g)
        if p is not ZERO and non_negative(r) and non_negative(g - r - 1):
            quotient, remainder = _divmod(p, split_multiples(b, g)[0])
            return quotient, remainder * g + r
    return None


def _common(terms: Iterable[tuple[Monomial, int]]) -> tuple[Monomial, int]:
    """The greatest common divisor of terms."""
    monomials, coefficients = zip(*terms, strict=True)
    shared = list(monomials[0])
    for mono in monomials[1:]:
        left = list(mono)
        kept = []
        for atom in shared:
            if atom in left:
                left.remove(atom)
                kept.append(atom)
        shared = kept
    return tuple(shared), math.gcd(*coefficients)


def _nested(a: Index, b: Index) -> tuple[Index, Index] | None:
    """(x // p) // b == x // (p*b); for d == b*c: (x % d) // b == (x // b) % c and (x % d) % b == x % b."""
    if len(a.terms) != 1 or a.terms[0][1] != 1 or len(a.terms[0][0]) != 1:
        return None
    atom = a.terms[0][0][0]
    if isinstance(atom, Quotient):
        quotient = atom.value // (atom.divisor * b)
        return quotient, _atom_index(Remainder(a, b)) if quotient.value is None else a - quotient * b
    if isinstance(atom, Remainder):
        c, left = split_multiples(atom.divisor, b)
        if left is ZERO:
            quotient, remainder = _divmod(atom.value, b)
            return quotient % c, remainder
    return None


def split_multiples(a: Index, b: Index) -> tuple[Index, Index]:
    """a == whole*b + rest, with every term that is a syntactic multiple of b in `whole`."""
    if len(b.terms) == 1:
        return _split_monomial(a, *b.terms[0])
    whole, rest = ZERO, a
    while True:
        for factor in _multiples_of_term(rest, *b.terms[0]):
            smaller = rest - factor * b
            if len(smaller.terms) < len(rest.terms):
                whole, rest = whole + factor, smaller
                break
        else:
            return whole, rest


def _multiples_of_term(a: Index, b_mono: Monomial, b_coef: int) -> Iterator[Index]:
    for mono, coef in a.terms:
        q = monomial_quotient(mono, b_mono)
        if q is not None and coef % b_coef == 0:
            yield _make({q: coef // b_coef})


def _split_monomial(a: Index, b_mono: Monomial, b_coef: int) -> tuple[Index, Index]:
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, coef in a.terms:
        q = monomial_quotient(mono, b_mono)
        if q is None or (q and coef % b_coef):
            rest[mono] = coef
        else:
            whole[q], rest[mono] = divmod(coef, b_coef)
    return _make(whole), _make(rest)


def monomial_quotient(mono: Monomial, divisor: Monomial) -> Monomial | None:
    """The atoms left when those of `divisor` are taken out; None when one is missing."""
    if not divisor:
        return mono
    left = list(mono)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _recombine(acc: dict[Monomial, int]) -> None:
    """Replace ``d*(x // d) + x % d`` by ``x``, times any common factor, until there is none left."""
    changed = True
    while changed:
        changed = False
        for mono, atom in [(m, a) for m, c in acc.items() if c for a in m if isinstance(a, Remainder)]:
            others = monomial_quotient(mono, (atom,))
            assert others is not None
            factor = _make({others: acc[mono]})
            whole = _divmod(atom.value, atom.divisor)[0] * atom.divisor * factor
            if all(acc.get(m) == c for m, c in whole.terms):
                difference = (atom.value * factor).terms, whole.terms, ((mono, acc[mono]),)
                for terms, sign in zip(difference, (1, -1, -1), strict=True):
                    for m, c in terms:
                        acc[m] = acc.get(m, 0) + sign * c
                changed = True
                break


# --- bounds ---------------------------------------------------------------------------------------


def bounds(a: Index) -> Bounds:
    """Inclusive lower and upper bound over all values of the atoms; None where unbounded or unknown."""
    if a._bounds is None:
        a._bounds = _sum_bounds(a.terms)
    return a._bounds


def non_negative(a: Index) -> bool:
    """Provably a >= 0 for every value of the atoms."""
    lo, hi = bounds(a)
    if lo is not None and lo >= 0:
        return True
    if hi is not None and hi < 0:
        return False
    hi = bounds(_maximise(-a))[1]
    if hi is not None and hi <= 0:
        return True
    plain = _without_quotients(a)
    return plain is not a and non_negative(plain)


def _without_quotients(a: Index) -> Index:
    """The same Index with ``v - v % k`` in place of ``k*(v // k)``."""
    for mono, coef in a.terms:
        if len(mono) == 1 and isinstance(mono[0], Quotient):
            value, k = mono[0].value, mono[0].divisor
            if k.value and coef % k.value == 0:
                a = a - as_index(mono[0]) * coef + (value - value % k) * (coef // k.value)
    return a


def _maximise(a: Index) -> Index:
    """An upper bound of `a` without the loop variables that can be taken out: an Index in the symbols."""
    acc = ZERO
    for mono, coef in a.terms:
        term = as_index(coef)
        # in a product of non-negative factors each may be taken at its own bound
        monotone = all((_atom_bounds(atom)[0] or 0) >= 0 and _atom_bounds(atom)[0] is not None for atom in mono)
        for atom in mono:
            if not monotone or isinstance(atom, Symbol | Quotient):
                term = term * atom
            elif coef < 0:
                term = ZERO
            else:
                term = term * ((atom.divisor if isinstance(atom, Remainder) else atom.extent) - 1)
        acc = acc + term
    return acc


def _sum_bounds(terms: Terms) -> Bounds:
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
        elif lo is None or hi is None or a_lo is None or a_hi is None:
            return None, None
        else:
            corners = [x * y for x in (lo, hi) for y in (a_lo, a_hi)]
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
