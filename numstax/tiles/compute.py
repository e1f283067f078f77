"""Evaluates an algorithm tree with NumPy, down to a chosen level (paper, section 2).

An operator with its tree and its input arrays enter; all of its arrays leave.  Levels finer than the chosen one are not
walked: their leaves compute on ranges as they are.  At level 'atom' products go element by element through the
fragments of the instruction, so what the maps say is what is computed.  Tiles at the end of an axis are clipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

import numpy as np

from numstax.atoms import Atom, Fragment
from numstax.tiles.tree import (
    ATOM,
    LEVELS,
    Chain,
    Clear,
    Contract,
    Grid,
    Operand,
    Operator,
    Rescale,
    Stream,
    Visitor,
    Write,
)

Ranges = Mapping[str, range]
Arrays = dict[str, np.ndarray]


class ComputeVisitor(Visitor[None]):
    """Runs the nodes.  What never leaves a block has an array of its full extent too, so that it can be looked at."""

    def __init__(self, operator: Operator, inputs: Mapping[str, np.ndarray], level: str = ATOM) -> None:
        self.operator = operator
        self.level = LEVELS.index(level)
        self.axes = list(operator.sizes)
        self.arrays: Arrays = {o.name: np.zeros(o.shape(operator.sizes)) for o in operator.operands} | dict(inputs)

    def run(self) -> Arrays:
        self.visit(self.operator.tree, {axis: range(n) for axis, n in self.operator.extents})
        return self.arrays

    def grid(self, node: Grid, at: Ranges) -> None:
        for inner in self._tiles(node.unit, node.tile, at):
            self.visit(node.body, inner)

    def stream(self, node: Stream, at: Ranges) -> None:
        for inner in self._tiles(node.unit, ((node.axis, node.size),), at):
            self.visit(node.body, inner)

    def chain(self, node: Chain, at: Ranges) -> None:
        for step in node.steps:
            self.visit(step, at)

    def clear(self, node: Clear, at: Ranges) -> None:
        self._put(node.target, at, np.asarray(node.value))

    def contract(self, node: Contract, at: Ranges) -> None:
        target, left, right = (self._axes(name) for name in (node.target, node.left, node.right))
        a, b = self._get(node.left, at), self._get(node.right, at)
        rows = [x for x in target if x not in right]
        columns = [x for x in target if x not in left]
        both = [x for x in target if x in left and x in right]
        summed = [x for x in left if x not in target]
        if LEVELS[self.level] == ATOM:
            matrix_a = _matrix(a, left, both + rows, summed)
            matrix_b = _matrix(b, right, summed, both + columns)
            shape = [len(at[x]) for x in both + rows + columns]
            result = execute(node.atom, matrix_a, matrix_b).reshape(shape)
        else:
            numbers = [[self.axes.index(x) for x in axes] for axes in (left, right, both + rows + columns)]
            result = np.einsum(a, numbers[0], b, numbers[1], numbers[2])
        order = [(both + rows + columns).index(x) for x in target]
        self._put(node.target, at, self._get(node.target, at) + result.transpose(order))

    def rescale(self, node: Rescale, at: Ranges) -> None:
        scores, before = self._get(node.scores, at), self._get(node.maximum, at)
        after = np.maximum(before, scores.max(axis=-1))
        weights = np.exp(scores - after[..., None])
        shrink = np.exp(before - after)
        self._put(node.maximum, at, after)
        self._put(node.weights, at, weights)
        self._put(node.denominator, at, self._get(node.denominator, at) * shrink + weights.sum(axis=-1))
        for name in node.scaled:
            self._put(name, at, self._get(name, at) * shrink[..., None])

    def write(self, node: Write, at: Ranges) -> None:
        value = self._get(node.source, at)
        if node.maximum:
            value = np.exp(value - self._get(node.maximum, at)[..., None])
        if node.denominator:
            value = value / self._get(node.denominator, at)[..., None]
        self._put(node.target, at, value + self._get(node.target, at) if node.adds else value)

    def _tiles(self, unit: str, tile: tuple[tuple[str, int], ...], at: Ranges) -> Iterator[Ranges]:
        if LEVELS.index(unit) > self.level:
            yield at
            return
        pieces = [[at[axis][low : low + size] for low in range(0, len(at[axis]), size)] for axis, size in tile]
        for piece in product(*pieces):
            yield {**at, **dict(zip((axis for axis, _ in tile), piece, strict=True))}

    def _axes(self, name: str) -> list[str]:
        return [axis for dim in self.operator.operand(name).dims for axis, _ in dim]

    def _get(self, name: str, at: Ranges) -> np.ndarray:
        """The part of an array at these ranges, with an axis for each of the operand's; zeros outside of it."""
        array, (index, inside) = self.arrays[name], _positions(self.operator.operand(name), at)
        inside = [ok & (i < n) for ok, i, n in zip(inside, index, array.shape, strict=True)]
        part = array[tuple(np.where(ok, i, 0) for ok, i in zip(inside, index, strict=True))]
        for ok in inside:
            part = np.where(ok, part, 0)
        return part

    def _put(self, name: str, at: Ranges, value: np.ndarray) -> None:
        index, _ = _positions(self.operator.operand(name), at)
        self.arrays[name][tuple(index)] = value


def _positions(operand: Operand, at: Ranges) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For each dimension of an operand its index, as arrays that broadcast along all of its axes, and where it is not
    before the first element."""
    axes = [axis for dim in operand.dims for axis, _ in dim]
    index = []
    for number, dim in enumerate(operand.dims):
        total = np.full([1] * len(axes), -(operand.offset[number] if operand.offset else 0))
        for axis, step in dim:
            shape = [-1 if other == axis else 1 for other in axes]
            total = total + np.asarray(at[axis]).reshape(shape) * step
        index.append(total)
    return index, [i >= 0 for i in index]


def _matrix(array: np.ndarray, axes: list[str], rows: list[str], columns: list[str]) -> np.ndarray:
    moved = array.transpose([axes.index(axis) for axis in rows + columns])
    return moved.reshape(int(np.prod(moved.shape[: len(rows)], dtype=int)), -1)


def execute(atom: Atom, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of two matrices no larger than the atom's, through the registers of its threads.

    Smaller ones are filled up with zeros, which add nothing.
    """
    (m, k), n = a.shape, b.shape[1]
    left, right, result = np.zeros((atom.m, atom.k)), np.zeros((atom.k, atom.n)), np.zeros((atom.m, atom.n))
    left[:m, :k], right[:k, :n] = a, b
    given_a = gathered(atom.a, scattered(atom.a, left))
    given_b = right if atom.b is None else gathered(atom.b, scattered(atom.b, right))
    result = gathered(atom.c, scattered(atom.c, given_a @ given_b))
    return result[:m, :n]


def scattered(fragment: Fragment, matrix: np.ndarray) -> np.ndarray:
    """(threads, size): what each thread holds of a matrix."""
    held: np.ndarray = matrix[_rows_and_columns(fragment)]
    return held


def gathered(fragment: Fragment, held: np.ndarray) -> np.ndarray:
    """The matrix of which threads hold these elements."""
    matrix = np.zeros(fragment.shape, held.dtype)
    matrix[_rows_and_columns(fragment)] = held
    return matrix


@cache
def _rows_and_columns(fragment: Fragment) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.moveaxis(np.asarray(fragment.positions()), -1, 0)
    return rows, columns
