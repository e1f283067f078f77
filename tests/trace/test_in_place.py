"""Writes, views and aliases: what changes inside the function, in the arguments, and in results that share memory."""

import numpy as np
import pytest

from numstax.errors import CastError, OutOfBoundsError, ReadOnlyError, ShapeError, UnsupportedOperationError
from numstax.trace.tracer import trace
from tests.trace.support import check, run


def x44() -> np.ndarray:
    return np.arange(16.0).reshape(4, 4)


def through_view(x):
    row = x[1]
    row += 10
    column = x.T[2]
    column[:] = -1
    return row, x.sum()


def view_sees_base(x):
    view = x[1:, ::2]
    x[2, 2] = 100
    return view.sum(), view


def overlapping(x):
    x[1:] = x[:-1]
    x[:, :-1] += x[:, 1:]
    return x


def reversed_copy(x):
    x[:] = x[::-1]
    x[0] = x[-1, ::-1]


def reshaped_view(x):
    flat = x.reshape(-1)
    flat[::5] = 0
    square = x.reshape(2, 2, 2, 2)
    square[0, 1, :, 0] *= 3
    return flat


def copied_reshape(x):
    flat = x.T.reshape(-1)
    flat[:] = 0
    return x + 0, flat


def masks(x):
    x[x > 7] = 0
    x[x[:, 0] == 4, 0] = 5
    x[x[:, 0] > 3] = np.arange(4)
    x[:, x[0] == 2] = -1
    x[x < 0] = np.arange(4) + 0.5
    return x


def masked_reads(x):
    x[x > 7] *= 2
    low = x < 5
    x[low] = np.sqrt(x[low]) + x[low] ** 2 - 1
    rows = x[:, 0] > 3
    x[rows] -= np.arange(4)
    return x[low].sum(), x[rows].mean(axis=0), (x[low] > 0).all(), x[rows].std()


def newaxis(x):
    x[0, None, :2] = [[7, 8]]
    x[..., 3] = x[None, 1, ::-1][0]
    x[2:3] = np.ones((1, 1, 4))
    return x


def gather_scatter(x, i):
    x[i] = x[i] * 2
    x[i, 0] = -1
    x[:, i] += 1
    np.add.at(x, (i, i), 1.0)
    return x


def out_arguments(x):
    y = np.empty_like(x)
    np.add(x, 1, out=y)
    np.multiply(x, 2, out=y, where=x > 5)
    np.sqrt(y, y)
    x.sum(axis=0, out=y[0])
    np.cumsum(x, axis=1, out=x)
    np.clip(y, 0, 1, out=y)
    return y


def methods(x):
    x.sort(axis=0)
    x[0].fill(9)
    x.flat[3] = 77
    np.fill_diagonal(x, 0)
    np.copyto(x[1], 4, where=x[1] > 6)
    np.put(x, [1, 2], [5, 6])
    np.putmask(x, x > 70, 70)


def names_swap(x):
    a, b = x[0].copy(), x[1].copy()
    for _ in range(3):
        a, b = b, a
        a += b
    return a, b


def cells(x):
    for i in range(1, 4):
        for j in range(4):
            x[i, j] += x[i - 1, j] * 0.5
    return x


@pytest.mark.parametrize(
    "program",
    [
        through_view, view_sees_base, overlapping, reversed_copy, reshaped_view, copied_reshape, masks,
        masked_reads, newaxis,
        out_arguments, methods, names_swap, cells,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_writes(program) -> None:
    check(program, x44())


def test_indexed_writes() -> None:
    check(gather_scatter, x44(), np.array([3, 0, 3]))


def test_part_views() -> None:
    def program(z):
        z.real[1] = 5
        z.imag *= 2
        z.real = z.real + 1
        return z.real

    check(program, np.arange(4) + 1j)


def test_augmented_assignment_keeps_dtype_and_is_refused_like_numpy() -> None:
    def keep(x):
        x += np.float64(2)
        x *= 3
        return x

    check(keep, np.arange(4, dtype="f4"))
    with pytest.raises(CastError, match=r"Cannot cast ufunc 'add' output from dtype\('float64'\) to dtype\('int64'\)"):
        trace(keep, (np.arange(4),), {})


def test_scalars_are_not_changed_in_place() -> None:
    def program(x):
        s = x[0]
        t = s
        s += 1
        x[0] = 50
        return s, t

    check(program, np.arange(3.0))


def test_results_alias_arguments() -> None:
    x = x44()
    got = run(
        trace(lambda x: (x, x[1:, ::-1], x.T, x[0].real, np.diagonal(x), np.broadcast_to(x, (2, 4, 4))), (x,), {}), (x,)
    )
    assert got[0] is x
    assert all(np.shares_memory(g, x) for g in got)
    np.testing.assert_array_equal(got[1], x[1:, ::-1])


def test_results_alias_each_other() -> None:
    def program(x):
        y = x * 2
        z = x + 1
        return y, y[1:], z[:2], z[1:], z[1:][:, 0], x[0, 0]

    x = x44()
    y, tail, first, last, column, corner = run(trace(program, (x,), {}), (x,))
    tail[0, 0] = -5
    assert y[1, 0] == -5
    last[0, 0] = -7
    assert first[1, 0] == -7
    assert column[0] == -7
    assert isinstance(corner, np.float64)


def test_written_argument_and_returned_view_agree() -> None:
    def program(x):
        v = x[1:3]
        v *= 2
        return v

    x = x44()
    traced = trace(program, (x,), {})
    assert [p for p, _ in traced.graph.writes] == [0]
    got = run(traced, (x,))
    assert np.shares_memory(got, x)
    np.testing.assert_array_equal(got, x44()[1:3] * 2)


def test_unchanged_arguments_are_not_written() -> None:
    def program(x):
        x[:] = x
        y = x[1:3]
        y[...] = y
        return x + 1

    assert not trace(program, (x44(),), {}).graph.writes


def test_reads_find_what_was_written() -> None:
    """An element written in a loop is read back without the array around it."""

    def program(x):
        a = np.zeros(8)
        for k in range(8):
            a[k] = x[k] * k
        return a[3] + a[5]

    graph = trace(program, (np.arange(8.0),), {}).graph
    assert not any(n.op == "update" for n in graph.nodes())


def test_read_only() -> None:
    x = x44()
    x.flags.writeable = False

    def program(x):
        x[0] = 1

    with pytest.raises(ReadOnlyError, match=r"assignment destination is read-only\n.*test_in_place"):
        trace(program, (x,), {})
    check(lambda x: x + 1, x)
    with pytest.raises(ReadOnlyError):
        trace(lambda x: np.add(x, 1, out=np.broadcast_to(x, (4, 4, 4))), (x44(),), {})


def test_self_overlapping_memory_is_not_written() -> None:
    windows = np.lib.stride_tricks.as_strided(np.arange(6.0), (3, 4), (8, 8))

    def program(w):
        w += 1

    with pytest.raises(UnsupportedOperationError, match="overlap in memory"):
        trace(program, (windows,), {})
    check(lambda w: w * 2, windows)


def test_bad_indices() -> None:
    cases = {
        lambda x: x[7]: "index 7 is out of bounds for axis 0 with size 4",
        lambda x: x[0, 0, 0]: "too many indices for array: array is 2-dimensional, but 3 were indexed",
        lambda x: x[[0, 4]]: "index 4 is out of bounds for axis 0 with size 4",
        lambda x: x[1.5]: "only integers, slices",
        lambda x: x[..., ...]: "single ellipsis",
    }
    for program, message in cases.items():
        with pytest.raises(OutOfBoundsError, match=message):
            trace(program, (x44(),), {})


def test_bad_values() -> None:
    def assign(x):
        x[0] = np.ones(3)

    with pytest.raises(ShapeError, match=r"could not broadcast input array from shape \(3,\) into shape \(4,\)"):
        trace(assign, (x44(),), {})

    def too_big(x):
        x[0] = 300

    with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
        trace(too_big, (np.zeros(3, np.uint8),), {})
