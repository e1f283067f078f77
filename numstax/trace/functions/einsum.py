"""einsum: operands are diagonalised and summed alone, then contracted pair by pair as matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.errors import CastError, ShapeError, UnsupportedOperationError
from numstax.ir import ops
from numstax.ir.index import ONE, hint
from numstax.trace.array import TracedArray
from numstax.trace.functions.linear import product
from numstax.trace.origin import user_origin
from numstax.trace.reductions import reduction
from numstax.trace.registry import implements, xp
from numstax.trace.sizes import shown
from numstax.trace.ufuncs import deliver
from numstax.trace.views import DiagonalView

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@implements(np.einsum)
def einsum(rec: Recorder, *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None) -> TracedArray:
    if not isinstance(operands[0], str):
        raise UnsupportedOperationError(
            "einsum with lists of subscripts cannot be compiled", user_origin(), "use a subscript string"
        )
    arrays = [rec.lift(x) for x in operands[1:]]
    inputs, result = _parse(operands[0], arrays)
    stores = [out.dtype] if isinstance(out, TracedArray) else []
    kind = ops.result_type(*(x.dtype for x in arrays), *stores) if dtype is None else np.dtype(dtype)
    casts = [(x.dtype, kind) for x in arrays] + [(kind, stored) for stored in stores]
    for given, wanted in casts:
        if not np.can_cast(given, wanted, "safe"):
            text = f"could not be cast from {given!r} to {wanted!r} according to the rule 'safe'"
            raise CastError(f"a dtype of einsum {text}", user_origin())
    if len(arrays) == 1 and arrays[0].dtype == kind and set(inputs[0]) == set(result) and out is None:
        subscripts, view = _on_diagonals(inputs[0], arrays[0])
        return xp.transpose(view, [subscripts.index(c) for c in result])
    terms = [(s, x.astype(kind)) for s, x in zip(inputs, arrays, strict=True)]
    terms = [_alone(s, x, _needed(inputs, result, k)) for k, (s, x) in enumerate(terms)]
    while len(terms) > 1:
        i, j = _next_pair(terms)
        (right, y), (left, x) = terms.pop(j), terms.pop(i)
        keep = set(result).union(*(s for s, _ in terms))
        terms.append(_contract(rec, left, x, right, y, keep))
    subscripts, x = _alone(*terms[0], set(result))
    final = xp.transpose(x, [subscripts.index(c) for c in result])
    return deliver(rec, rec.fresh(final.node, not final.sizes), out)


@implements(np.einsum_path)
def einsum_path(rec: Recorder, *operands: Any, optimize: Any = "greedy") -> Any:
    """A question about shapes alone."""
    shapes = [tuple(rec.shapes.number(n) for n in rec.lift(x).sizes) for x in operands[1:]]
    return np.einsum_path(operands[0], *map(np.empty, shapes), optimize=optimize)


def _parse(text: str, arrays: Sequence[TracedArray]) -> tuple[list[str], str]:
    """Input and output subscripts, ellipses written out as letters."""
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(arrays):
        raise ShapeError(
            "more operands provided to einstein sum function than specified in the subscripts string"
            if len(arrays) > len(inputs)
            else "fewer operands provided to einstein sum function than specified in the subscripts string",
            user_origin(),
        )
    free = [c for c in _LETTERS if c not in text]
    width = max(
        (x.ndim - len(s.replace("...", "")) for s, x in zip(inputs, arrays, strict=True) if "..." in s), default=0
    )
    dots = "".join(free[:width])
    for k, (s, x) in enumerate(zip(inputs, arrays, strict=True)):
        if "..." in s:
            count = x.ndim - len(s.replace("...", ""))
            inputs[k] = s.replace("...", dots[width - count :])
        if len(inputs[k]) != x.ndim:
            raise ShapeError(
                f"einstein sum subscripts string contains too {'many' if len(inputs[k]) > x.ndim else 'few'} "
                f"subscripts for operand {k}",
                user_origin(),
            )
    if arrow:
        return inputs, right.replace("...", dots)
    joined = "".join(inputs)
    return inputs, dots + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots))


def _needed(inputs: Sequence[str], result: str, k: int) -> set[str]:
    """Subscripts of operand k that something else uses."""
    return set(result).union(*(s for j, s in enumerate(inputs) if j != k))


def _on_diagonals(subscripts: str, x: TracedArray) -> tuple[str, TracedArray]:
    """The view that has each subscript once: repeated ones are taken on the diagonal."""
    for c in sorted(set(subscripts)):
        while subscripts.count(c) > 1:
            i = subscripts.index(c)
            j = subscripts.index(c, i + 1)
            if not x.recorder.shapes.unify(x.sizes[i], x.sizes[j]):
                raise ShapeError(
                    f"dimensions in operand for collapsing index '{c}' don't match "
                    f"({shown(x.sizes[i])} != {shown(x.sizes[j])})",
                    user_origin(),
                )
            x = x.derive(DiagonalView(0, i, j, x.sizes[i], open=True))
            subscripts = "".join(s for k, s in enumerate(subscripts) if k not in (i, j)) + c
    return subscripts, x


def _alone(subscripts: str, x: TracedArray, needed: set[str]) -> tuple[str, TracedArray]:
    """One operand without repeated subscripts, and with unneeded ones summed."""
    subscripts, x = _on_diagonals(subscripts, x)
    gone = tuple(k for k, c in enumerate(subscripts) if c not in needed)
    if gone:
        x = reduction(x.recorder, "add", x, gone, x.dtype)
        subscripts = "".join(c for c in subscripts if c in needed)
    return subscripts, x


def _next_pair(terms: Sequence[tuple[str, TracedArray]]) -> tuple[int, int]:
    """The pair whose product is smallest beside the sizes of its operands."""
    sizes: dict[str, int] = {}
    for s, x in terms:
        hints = [hint(x.recorder.shapes.resolve(n)) for n in x.sizes]
        sizes.update({c: n for c, n in zip(s, hints, strict=True) if n != 1 or c not in sizes})

    def volume(subscripts: set[str]) -> int:
        return int(np.prod([sizes[c] for c in subscripts], dtype=object)) if subscripts else 1

    best: tuple[int, int, int] | None = None
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            both = set(terms[i][0]) | set(terms[j][0])
            rest = set().union(*(s for k, (s, _) in enumerate(terms) if k not in (i, j)))
            cost = volume(both & rest) if rest else volume(both)
            if best is None or cost < best[0]:
                best = (cost, i, j)
    assert best is not None
    return best[1], best[2]


def _contract(
    rec: Recorder, left: str, x: TracedArray, right: str, y: TracedArray, keep: set[str]
) -> tuple[str, TracedArray]:
    """The product of two operands, summed over subscripts that nothing else uses."""
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in keep]
    summed = [c for c in shared if c not in keep]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    for c in shared:
        n, m = x.sizes[left.index(c)], y.sizes[right.index(c)]
        if not rec.shapes.unify(n, m) and not rec.shapes.equal(n, ONE) and not rec.shapes.equal(m, ONE):
            raise ShapeError(
                f"operands could not be broadcast together with remapped shapes [original->remapped]: "
                f"subscript {c!r} has sizes {shown(n)} and {shown(m)}",
                user_origin(),
            )
    stretched = any(not rec.shapes.equal(x.sizes[left.index(c)], y.sizes[right.index(c)]) for c in shared)
    if not summed or stretched or (batch and not (rows and columns)) or x.dtype.kind == "b":
        letters = batch + rows + columns + summed
        spread = [_spread(s, z, letters) for s, z in ((left, x), (right, y))]
        result = rec.elementwise("multiply", *spread)
        if summed:
            result = reduction(rec, "add", result, tuple(range(len(letters) - len(summed), len(letters))), x.dtype)
        return "".join(batch + rows + columns), result
    a = xp.transpose(x, [left.index(c) for c in batch + rows + summed])
    b = xp.transpose(y, [right.index(c) for c in batch + summed + columns])
    cut = len(batch)
    lead, tall = a.shape[:cut], a.shape[cut : cut + len(rows)]
    inner, wide = a.shape[cut + len(rows) :], b.shape[cut + len(summed) :]
    size = [math.prod(part) for part in (tall, inner, wide)]
    flat = product(rec, a.reshape((*lead, size[0], size[1])), b.reshape((*lead, size[1], size[2])))
    return "".join(batch + rows + columns), flat.reshape(lead + tall + wide)


def _spread(subscripts: str, x: TracedArray, letters: Sequence[str]) -> TracedArray:
    """The operand with its axes in the order of `letters`, axes it lacks having size one."""
    order = [subscripts.index(c) for c in letters if c in subscripts]
    ordered = xp.transpose(x, order)
    return ordered[tuple(slice(None) if c in subscripts else None for c in letters)]
