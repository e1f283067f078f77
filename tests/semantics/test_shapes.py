"""Shape manipulation, creation, indexing and products against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numstax
from tests.support import check, layouts, normal

VIEWS: dict[str, Callable[..., object]] = {
    "reshape": lambda x: (x.reshape(12, 5), x.reshape(-1), x.reshape((5, -1)), np.reshape(x, (2, 30))),
    "ravel": lambda x: (x.ravel(), x.flatten(), np.ravel(x.T), x.reshape(-1, order="F")),
    "transpose": lambda x: (x.T, x.transpose(1, 0, 2), np.transpose(x, (2, 0, 1)), x.swapaxes(0, 2)),
    "moveaxis": lambda x: (np.moveaxis(x, 0, -1), np.rollaxis(x, 2), x.mT),
    "reshape of transpose": lambda x: (x.T.reshape(15, 4) + 1, x.swapaxes(0, 1).reshape(-1) * 2),
    "expand_dims": lambda x: (np.expand_dims(x, 1), x[:, None], x[None, ..., None], np.squeeze(x[None])),
    "squeeze": lambda x: (x[:1].squeeze(0), np.squeeze(x[:, :1]), np.atleast_3d(x[0]), np.atleast_1d(x)),
    "broadcast_to": lambda x: (np.broadcast_to(x[0], (3, 4, 5)), np.broadcast_to(x, (2, 3, 4, 5)) + 0),
    "broadcast_arrays": lambda x: [a + 0 for a in np.broadcast_arrays(x[:, :1], x[0])],
    "slices": lambda x: (x[1:], x[:, ::2], x[..., -1], x[::-1], x[2, 1:3, ::-2], x[-2:, -1:0:-1]),
    "beyond the end": lambda x: (x[1:99], x[5:], x[:-99], x[:, 3:1]),
    "concatenate": lambda x: (np.concatenate([x, x + 1], 1), np.concatenate([x, x], axis=None), np.append(x, x, 2)),
    "stack": lambda x: (
        np.stack([x, -x]),
        np.stack([x, x], -1),
        np.hstack([x, x]),
        np.vstack([x, x]),
        np.dstack([x, x]),
    ),
    "column_stack": lambda x: (np.column_stack([x[:, 0, 0], x[:, 1, 1]]), np.block([[x[0], x[0]], [x[1], x[1]]])),
    "split": lambda x: (*np.split(x, [1, 3], axis=1), *np.array_split(x, 2, axis=2), *np.hsplit(x, 2)),
    "tile": lambda x: (np.tile(x, 2), np.tile(x, (2, 1, 3)), np.tile(x[0], (2, 2, 2))),
    "repeat": lambda x: (np.repeat(x, 3), np.repeat(x, 2, axis=1), x.repeat(1, axis=0)),
    "flip": lambda x: (np.flip(x), np.flip(x, 1), np.fliplr(x), np.flipud(x), np.rot90(x), np.rot90(x, 2)),
    "roll": lambda x: (np.roll(x, 2), np.roll(x, -1, axis=1), np.roll(x, (1, 2), axis=(0, 2)), np.roll(x, 99, 0)),
    "pad": lambda x: (np.pad(x, 1), np.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=3), np.pad(x, 1, mode="edge")),
    "pad reflect": lambda x: (np.pad(x, 2, mode="reflect"), np.pad(x, ((1, 0), (0, 1), (2, 2)), mode="wrap")),
    "diag": lambda x: (
        np.diag(x[0]),
        np.diag(x[0, 0]),
        np.diagonal(x, axis1=0, axis2=2),
        np.trace(x),
        np.diag(x[0], 1),
    ),
    "tri": lambda x: (np.tril(x), np.triu(x, 1), np.tril(x[0], -1), np.tri(3, 4) * x[:3, :1, :4].reshape(3, 4)),
    "meshgrid": lambda x: np.meshgrid(x[0, 0], x[:, 0, 0]) + np.meshgrid(x[0, 0], x[:, 0, 0], indexing="ij"),
    "gradients": lambda x: (np.diff(x), np.diff(x, 2, axis=1), x[1:] - x[:-1]),
    "outer": lambda x: (np.outer(x[0, 0], x[:, 0, 0]), np.multiply.outer(x[0, 0], x[1, 1]), np.kron(x[0, 0], x[1, 0])),
    "take": lambda x: (x.take([0, 2, -1], axis=1), np.take(x, 3), np.take(x, [[0, 1], [2, 3]], axis=2)),
    "integer arrays": lambda x: (x[[0, 2]], x[:, [3, -1, 0]], x[[0, 1], [1, 2]], x[np.array([[0], [2]]), :, 1]),
    "mixed indices": lambda x: (x[1, [0, 1], 2:], x[[1, 0], :, [2, 3]], x[..., [1, 1]], x[None, [0]], x[:, 1, [4, 0]]),
    "computed indices": lambda x: x[(np.abs(x[:, 0, 0]) * 2).astype(np.int64) % 3],
    "take_along_axis": lambda x: np.take_along_axis(x, np.argmax(x, 1, keepdims=True), 1),
    "where three": lambda x: np.where(np.arange(5) > 2, x, x[::-1]),
    "sliding windows": lambda x: np.lib.stride_tricks.sliding_window_view(x[0, 0], 3).sum(-1),
    "view of bits": lambda x: (x.view(np.int32), x.astype(np.float64).view(np.int64)),
    "shape queries": lambda x: (x.shape, x.ndim, x.size, len(x), np.shape(x), x.dtype, x.itemsize, x.nbytes),
    "iteration": lambda x: [row.sum() * k for k, row in enumerate(x)],
    "order of sort": lambda x: (np.sort(x, 1), np.argsort(x, kind="stable"), np.partition(x, 2)[..., 2]),
    "interp": lambda x: np.interp(np.sort(x[0, 0]), np.arange(5.0), x[1, 1]),
    "creation": lambda x: (
        np.zeros(3) + x[0, 0, 0],
        np.arange(5) * x[0, 0],
        np.linspace(0, 1, 5) + x[0],
        np.eye(5) + x[0, 0],
    ),
    "creation like": lambda x: (
        np.zeros_like(x),
        np.ones_like(x, dtype=int),
        np.full_like(x, 7),
        np.full((2, 2), x[0, 0, 0]),
    ),
    "fill an empty": lambda x: _filled(x),
    "array of scalars": lambda x: (np.array([x[0, 0, 0], x[1, 1, 1]]), np.array([[x.min(), x.max()], [1.0, 2.0]])),
    "indices": lambda x: (
        np.indices((3, 4)) + x[:, :, 0],
        np.mgrid[0:3, 0:4][0] * x[:, :, 0],
        np.ogrid[0:3, 0:2][1] + 0,
    ),
}


def _filled(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    for k in range(len(x)):
        out[k] = x[k] * k
    return out


@pytest.mark.parametrize("name", VIEWS)
def test_shape_operations(name: str) -> None:
    check(VIEWS[name], normal((3, 4, 5)), ulps=32)


@pytest.mark.parametrize("name", ["reshape", "slices", "concatenate", "repeat", "roll", "integer arrays", "tri", "pad"])
def test_shape_operations_of_other_layouts(name: str) -> None:
    base = normal((6, 8, 10))
    check(VIEWS[name], base[::2, ::-2, ::2])
    check(VIEWS[name], np.asfortranarray(normal((3, 4, 5))))
    check(VIEWS[name], np.broadcast_to(normal((4, 1)), (3, 4, 5)))


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (1, 1, 1)])
def test_shape_operations_of_small_arrays(shape: tuple[int, ...]) -> None:
    check(
        lambda x: (x.T + 1, x.reshape(-1), x[::-1] * 2, np.concatenate([x, x], 1), np.flip(x), np.tile(x, 2)),
        normal(shape),
    )


PRODUCTS: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "matmul": (lambda a, b: a @ b, ((7, 5), (5, 6))),
    "matmul transposed": (lambda a, b: a.T @ b.T, ((5, 7), (6, 5))),
    "matrix vector": (lambda a, b: (a @ b, b @ a.T, np.dot(a, b)), ((7, 5), (5,))),
    "inner of vectors": (lambda a, b: (a @ b, np.inner(a, b), np.vdot(a, b)), ((9,), (9,))),
    "batch": (lambda a, b: a @ b, ((4, 7, 5), (4, 5, 6))),
    "batch broadcast": (lambda a, b: np.matmul(a, b), ((4, 1, 7, 5), (3, 5, 6))),
    "einsum": (lambda a, b: (np.einsum("ij,jk->ik", a, b), np.einsum("ij,jk->", a, b)), ((7, 5), (5, 6))),
    "einsum batch": (lambda a, b: np.einsum("bij,bkj->bik", a, b), ((3, 7, 5), (3, 4, 5))),
    "einsum diagonal": (lambda a, b: (np.einsum("ii->i", a), np.einsum("ij,ij->i", a, b)), ((5, 5), (5, 5))),
    "tensordot": (lambda a, b: (np.tensordot(a, b, 1), np.tensordot(a, b, ([1], [0]))), ((3, 4), (4, 5))),
    "bias and relu": (lambda a, b: np.maximum(a @ b + 1.0, 0), ((70, 50), (50, 60))),
    "row sums of a product": (lambda a, b: (a @ b).sum(1), ((70, 50), (50, 60))),
    "empty inner": (lambda a, b: a @ b + 1, ((3, 0), (0, 4))),
    "integers": (lambda a, b: a.astype(np.int32) @ b.astype(np.int32), ((7, 5), (5, 6))),
    "attention": (
        lambda q, k: np.exp((s := q @ np.swapaxes(k, -1, -2)) - s.max(-1, keepdims=True)) @ k,
        ((2, 3, 9, 4), (2, 3, 9, 4)),
    ),
}


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, dtype: str) -> None:
    function, shapes = PRODUCTS[name]
    if dtype == "c16" and name in ("attention", "bias and relu", "integers"):
        return
    rounded = [np.round(normal(s, dtype, k) * 4) / 4 for k, s in enumerate(shapes)]  # products and sums are exact
    check(function, *rounded, ulps=512 if name == "attention" else 0)


def test_half_products_keep_a_wide_accumulator() -> None:
    ones = np.ones((4, 5000), np.float16)
    check(lambda a: a @ a.T, ones)


IN_LAYOUT: dict[str, Callable[..., object]] = {
    "pointwise": lambda x: x * 2 + 1,
    "with transpose": lambda x: x.T + 1,
    "slices": lambda x: x[1:] - x[:-1],
    "reshape": lambda x: x.reshape(-1) * 2,
    "product": lambda x: x @ x.T,
    "gather": lambda x: x[[0, 0]] if len(x) else x,
    "roll": lambda x: np.roll(x, 1, axis=1),
    "assignment": lambda x: _assigned(x),
}


def _assigned(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    y[:, ::2] = 5
    y[1:] += y[:-1]
    return y


@pytest.mark.parametrize("name", IN_LAYOUT)
def test_layouts(name: str) -> None:
    for layout, x in layouts(np.round(normal((9, 12)) * 8)):
        try:
            check(IN_LAYOUT[name], x)
        except AssertionError as error:
            raise AssertionError(f"layout {layout}: {error}") from error


ORDERS = {
    "transposed": lambda a: a.T.reshape(20, order="A"),
    "function": lambda a: np.reshape(a.T, -1, order="A"),
    "made": lambda a: np.asfortranarray(a).reshape(2, 10, order="A"),
    "computed": lambda a: (a.T + 1).reshape(2, 10, order="A"),
    "C": lambda a: a.reshape(2, 10, order="A"),
    "rows left out": lambda a: a.T[1:].reshape(16, order="A"),
    "columns left out": lambda a: a.T[:, 1:].reshape(15, order="A"),
    "of three axes": lambda a: a.reshape(2, 2, 5).T.reshape(5, 4, order="A"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_reshape_in_memory_order(name):
    check(ORDERS[name], np.arange(20.0).reshape(4, 5))


def test_reshape_knows_no_order_of_strides():
    with pytest.raises(ValueError, match="not permitted"):
        numstax.jit(lambda a: a.reshape(4, order="K"))(np.zeros((2, 2)))


KINDS = {
    "meshgrid": lambda x: (np.meshgrid(x, x), np.meshgrid(x, x, copy=False), np.meshgrid(x, x, sparse=True)),
    "meshgrid without copies": lambda x: np.meshgrid(x, x, copy=False, sparse=True),
    "dot": lambda x: (np.dot(x, x, out=x[0, ...]), x),
    "dot of matrices": lambda x: np.dot(x[:, None], x[None], out=np.zeros((5, 5))),
}


@pytest.mark.parametrize("name", KINDS)
def test_kind_of_result(name):
    check(KINDS[name], np.arange(5.0))
