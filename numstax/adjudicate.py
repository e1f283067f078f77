"""Adjudication: the decisions of a trace against the declared ranges (three outcomes).

Enters: the decisions that interval reasoning left open, and the Dims.  A decision that holds in the whole range of
its Dim is dropped.  One about a single Dim that some declared sizes violate is an error, with the range around the
example in which all of them hold: sympy solves them.  All others are kept and become run-time assertions: relations
between Dims, which no range can declare; what broadcasting took for granted; and what nobody can decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import sympy

from numstax.errors import ConstraintError, Origin
from numstax.ir.index import Index, Symbol, atoms, evaluate
from numstax.records import record
from numstax.trace.declared import Decision, Dim
from numstax.trace.environment import Fact

REACH = 1 << 12
"""Sizes that are tried to either side of the example where sympy solves nothing (quotients and remainders)."""


def adjudicate(decisions: Sequence[Decision], dims: Mapping[str, Dim], hints: Mapping[str, int]) -> tuple[Fact, ...]:
    """The facts that remain to be asserted.  Raises ConstraintError."""
    kept: dict[tuple[str, Index], Fact] = {}
    narrowed: dict[str, Dim] = {}
    violated: list[tuple[Dim, Fact]] = []
    for decision in decisions:
        fact = decision.fact
        names = symbol_names(fact.index)
        if len(names) == 1 and not decision.assumed:
            (name,) = names
            verdict = _Verdict.of(fact, dims[name], hints[name])
            if verdict.holds:
                continue
            if verdict.violated:
                violated.append((dims[name], fact))
                narrowed[name] = _intersection(narrowed.get(name, dims[name]), verdict.range)
                continue
        kept.setdefault((fact.relation, fact.index), fact)
    if violated:
        raise _error(violated, narrowed.values())
    return tuple(kept.values())


def symbol_names(index: Index) -> list[str]:
    return list(dict.fromkeys(atom.name for atom in atoms(index) if isinstance(atom, Symbol)))


@record
class _Verdict:
    """`range` : sizes around the example for which the fact holds."""

    holds: bool
    violated: bool
    range: Dim

    @classmethod
    def of(cls, fact: Fact, dim: Dim, hint: int) -> _Verdict:
        found = _solved(fact, dim, hint)
        if found is not None:
            return cls(found == dim, found != dim, found)
        tried = _tried(fact, dim, hint)
        assert tried.max is not None
        ends = (n for n in (tried.min - 1, tried.max + 1) if dim.admits(n))
        return cls(tried == dim, not all(_is_true(fact, dim, n) for n in ends), tried)


def _solved(fact: Fact, dim: Dim, hint: int) -> Dim | None:
    """The interval around the hint in which a polynomial fact holds; None where it is none."""
    if not all(isinstance(atom, Symbol) for atom in atoms(fact.index)):
        return None
    relation = {">=": sympy.Ge, "==": sympy.Eq, "!=": sympy.Ne}[fact.relation](_expression(fact.index), 0)
    limit = sympy.oo if dim.max is None else dim.max
    solution = sympy.solveset(relation, _symbol(dim.name), sympy.Interval(dim.min, limit))
    for part in solution.args if isinstance(solution, sympy.Union) else (solution,):
        if part.contains(hint) == sympy.true:
            sizes = part.intersect(sympy.S.Integers)
            return replace(dim, min=int(sizes.inf), max=None if sizes.sup is sympy.oo else int(sizes.sup))
    return None


def _tried(fact: Fact, dim: Dim, hint: int) -> Dim:
    """The same for any fact, found by trying `REACH` sizes to either side."""
    low = high = hint
    while low > max(dim.min, hint - REACH) and _is_true(fact, dim, low - 1):
        low -= 1
    while dim.admits(high + 1) and high < hint + REACH and _is_true(fact, dim, high + 1):
        high += 1
    return replace(dim, min=low, max=high)


def _is_true(fact: Fact, dim: Dim, size: int) -> bool:
    try:
        value = evaluate(fact.index, {dim.name: size})
    except ZeroDivisionError:
        return False
    return {">=": value >= 0, "==": value == 0, "!=": value != 0}[fact.relation]


def _intersection(a: Dim, b: Dim) -> Dim:
    ends = [d.max for d in (a, b) if d.max is not None]
    return replace(a, min=max(a.min, b.min), max=min(ends) if ends else None)


def _error(violated: Iterable[tuple[Dim, Fact]], suggested: Iterable[Dim]) -> ConstraintError:
    rows: dict[str, Origin | None] = {}
    for dim, fact in violated:
        values = f"{dim.name} in [{dim.min}, {'inf)' if dim.max is None else f'{dim.max}]'}"
        row = f"Not all values of {values} satisfy the guard {guard_text(fact)}, which the program was captured under"
        rows.setdefault(row, fact.origin)
    names = ", ".join(dict.fromkeys(dim.name for dim, _ in violated))
    error = ConstraintError(
        "\n".join(
            (
                f"Constraints violated ({names})! The captured program holds only for some of the declared sizes:",
                *(f"  - {row}" for row in rows),
                "Suggested fixes:",
                *(f"    {dim.name} = {dim!r}" for dim in suggested),
            )
        )
    )
    for row, origin in rows.items():
        if origin is not None:
            error.add_note(f"{row}: {origin}")
    return error


def guard_text(fact: Fact) -> str:
    """``n > 32``, ``n <= 32``, ``p == q``: the constant stands on the right, what is subtracted on the other side."""
    whole = _expression(fact.index)
    constant, terms = whole.as_coeff_add()
    positive = sympy.Add(*(t for t in terms if not t.could_extract_minus_sign()))
    negative = -sympy.Add(*(t for t in terms if t.could_extract_minus_sign()))
    if fact.relation != ">=":
        left, right = (positive, negative - constant) if positive != 0 else (negative, constant)
        return f"{left} {fact.relation} {right}"
    if positive == 0:
        return f"{negative} <= {constant}"
    return f"{positive} > {negative - constant - 1}"


def _expression(index: Index) -> sympy.Expr:
    """As a sympy expression, in which quotients and remainders are names."""
    total = sympy.Integer(0)
    for monomial, coefficient in index.terms:
        total += sympy.Mul(coefficient, *(_symbol(str(a) if isinstance(a, Symbol) else f"({a})") for a in monomial))
    return total


def _symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, real=True)
