"""What loops of the public forms (`numstax.forms`) carry, take apart and collect.

Trees of plain or traced arrays enter and leave: the functions here run as they are, inside of a trace and outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from numstax.errors import ArgumentCountError, AxisError, ShapeError, StateError, UnsupportedArgumentError
from numstax.records import record
from numstax.trace.array import TracedArray
from numstax.trace.origin import user_origin
from numstax.trace.scopes import Kind, is_number, joined, kind_of, lifted
from numstax.trace.selection import Selection
from numstax.trace.sizes import Condition, Size, as_shape, normalize_axis
from numstax.trace.trees import leaves, mapped, parts, rebuilt

Tree = Any
"""Tuples, lists, dicts, named tuples and dataclasses of arrays and numbers; None is nothing."""
_PYTHON = (bool, int, float, complex)


def kind_of_leaf(value: Any) -> Kind:
    """The dtype and shape of an array or number, traced or not; a scalar is as an array without axes."""
    if type(value) in (TracedArray, Selection, Size, Condition):
        kind = kind_of(lifted(value.recorder, value))
        return Kind(kind.dtype, kind.shape, False, kind.weak)
    if not is_number(value):
        raise UnsupportedArgumentError(
            f"{value!r} is neither an array nor a number", user_origin(), "keep arrays, numbers, and containers of them"
        )
    array = np.asarray(value)
    return Kind(array.dtype, as_shape(array.shape), False, type(value) if type(value) in _PYTHON else None)


def text(tree: Tree) -> str:
    """The structure of a tree, and what its leaves are."""
    held = parts(tree)
    if held is None:
        return str(kind_of_leaf(tree)) if is_number(tree) else repr(tree)
    if isinstance(tree, tuple | list) and not hasattr(tree, "_fields"):
        inside = ", ".join(map(text, held.values()))
        return f"[{inside}]" if isinstance(tree, list) else f"({inside})"
    inside = ", ".join(f"{name}: {text(item)}" for name, item in held.items())
    return f"{{{inside}}}" if type(tree) is dict else f"{type(tree).__name__}({inside})"


def _structure(tree: Tree) -> Any:
    held = parts(tree)
    if held is None:
        return tree is None
    return type(tree).__name__, [(name, _structure(item)) for name, item in held.items()]


def carried(before: Tree, after: Tree) -> Tree:
    """The state after an iteration.  Raises StateError where it is not like the one before."""
    fits = _structure(before) == _structure(after)
    for a, b in zip(leaves(before), leaves(after), strict=False):
        if is_number(a) and is_number(b):
            fits = fits and joined(kind_of_leaf(a), kind_of_leaf(b)) is not None
        else:
            fits = fits and not is_number(a) and not is_number(b)
    if not fits:
        raise StateError(
            f"the state of a loop is {text(before)} before an iteration and {text(after)} after it", user_origin(),
            "keep its structure, shapes and dtypes: begin with the dtype that the body gives, or use astype",
        )  # fmt: skip
    return after


# --- rows ---------------------------------------------------------------------------------------------


@record
class Rows:
    """`tree`, of which the leaves that are `taken` apart have `count` rows along their first axis."""

    tree: Tree
    taken: tuple[bool, ...]
    count: Any

    @classmethod
    def of(cls, tree: Tree, axes: Any, what: str, count: Any = None) -> Rows:
        """The rows along `axes`: one for all leaves, or a tree of them; None: each row has the whole leaf."""
        found = list(_axes(tree, axes, what))
        found = [(leaf.packed() if type(leaf) is Selection else leaf, axis, where) for leaf, axis, where in found]
        arrays = [leaf if axis is None else np.moveaxis(leaf, axis, 0) for leaf, axis, _ in found]
        for array, (_, axis, where) in zip(arrays, found, strict=True):
            if axis is None:
                continue
            if count is not None and array.shape[0] != count:
                raise ShapeError(
                    f"{where} has {array.shape[0]} rows where there are {count}", user_origin(),
                    "give arrays of one size along the axes that are taken apart",
                )  # fmt: skip
            count = array.shape[0]
        if count is None:
            raise ArgumentCountError(
                f"{what} has no array to take apart", user_origin(), "give an axis for at least one argument"
            )
        return cls(rebuilt(tree, iter(arrays)), tuple(axis is not None for _, axis, _ in found), count)

    def at(self, k: Any) -> Tree:
        taken = iter(self.taken)
        return mapped(lambda leaf: leaf[k] if next(taken) else leaf, self.tree)

    def zeros(self) -> Tree:
        """What stands for a row where there is none."""
        taken = iter(self.taken)
        return mapped(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype)[()] if next(taken) else leaf, self.tree)


def _axes(tree: Tree, axes: Any, where: str) -> Iterator[tuple[Any, int | None, str]]:
    """Each leaf, the axis it is taken apart along, and what it is."""
    held, inner = parts(tree), parts(axes)
    if inner is not None and (held is None or held.keys() != inner.keys()):
        raise ArgumentCountError(
            f"the axes {axes!r} do not fit {where}, which is {text(tree)}", user_origin(),
            "give one axis, None, or a tuple of them with an item for each argument",
        )  # fmt: skip
    if held is not None:
        for name, item in held.items():
            yield from _axes(item, axes if inner is None else inner[name], f"{where}[{name!r}]")
    elif tree is None or axes is None:
        yield tree, None, where
    else:
        kind = kind_of_leaf(tree)
        if not kind.shape:
            raise AxisError(
                f"{where} is {kind}, without an axis", user_origin(), "pass an array, or give the axis None"
            )
        yield tree, normalize_axis(axes, len(kind.shape), where), where


# --- what is collected ----------------------------------------------------------------------------------


def collected(run: Callable[[Any], Tree], count: Any) -> Tree:
    """Memory for the results of ``run(k)``, k < count, which a trace runs on trial; None elsewhere: the first result
    makes it."""
    return None


def stored(memory: Tree, k: Any, result: Tree, count: Any) -> Tree:
    """The memory, with the result of iteration `k`."""
    if memory is None:
        memory = empty(result, count)
    if _structure(memory) != _structure(result) or not all(map(_fits, leaves(memory), leaves(result))):
        raise StateError(
            f"the result {text(result)} of an iteration does not fit into an array of results: {text(memory)}",
            user_origin(), "give results of one structure, with the same shapes and dtypes",
        )  # fmt: skip
    for array, leaf in zip(leaves(memory), leaves(result), strict=True):
        if array is not None:
            array[k] = leaf
    return memory


def _fits(array: Any, leaf: Any) -> bool:
    if array is None or not is_number(leaf):
        return array is leaf
    whole, kind = kind_of_leaf(array), kind_of_leaf(leaf)
    return joined(Kind(whole.dtype, whole.shape[1:]), kind) == Kind(whole.dtype, kind.shape)


def empty(result: Tree, count: int) -> Tree:
    """New memory for `count` results like this one."""

    def make(leaf: Any) -> Any:
        return None if leaf is None else np.empty((count, *np.shape(leaf)), kind_of_leaf(leaf).dtype)

    return mapped(make, result)


def moved(memory: Tree, axes: Any) -> Tree:
    """The results with the axis of iterations at `axes`."""
    found = _axes(memory, axes, "the result")
    return rebuilt(memory, iter([leaf if axis is None else np.moveaxis(leaf, 0, axis) for leaf, axis, _ in found]))
