"""NumPy values of the pieces of IR that evaluators share: sizes, casts, argument trees, undefined memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import VerifyError
from numstax.ir.index import IndexLike, as_index, evaluate

Symbols = Mapping[str, int]
"""The value of each size symbol."""


def size_value(value: IndexLike, symbols: Symbols) -> int:
    """An int or an Index over size symbols, as a number."""
    return evaluate(as_index(value), symbols)


def shape_value(values: Sequence[IndexLike], symbols: Symbols) -> tuple[int, ...]:
    return tuple(size_value(v, symbols) for v in values)


def cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """astype; complex to real drops the imaginary part without NumPy's warning."""
    if x.dtype.kind == "c" and dtypes.kind(dtype) not in "cb":
        x = x.real
    return x.astype(dtype)


def resolve_function(function: Any) -> Any:
    """A callable, or the dotted path of one (``numpy.linalg.inv``)."""
    if not isinstance(function, str):
        return function
    names = function.split(".")
    for cut in range(len(names) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(names[:cut]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, names[cut:], module)
    raise VerifyError(f"extern function {function!r} does not exist")


def map_tree(tree: object, leaf: Callable[[object], object]) -> Any:
    """Apply `leaf` to every item of nested tuples, lists, dicts and slices."""
    if isinstance(tree, tuple | list):
        items = [map_tree(item, leaf) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {key: map_tree(item, leaf) for key, item in tree.items()}
    if isinstance(tree, slice):
        return slice(*(map_tree(x, leaf) for x in (tree.start, tree.stop, tree.step)))
    return leaf(tree)


def poisoned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """New memory: NaN, or a value unlikely to be right."""
    if dtypes.kind(dtype) in "fc":
        return np.full(shape, np.nan, dtype)
    return np.full(shape, True if dtype == dtypes.BOOL else 0x5A, dtype)
