"""jit(dynamic=True): the examples of section 10.4, guards, dispatch, buckets, sizes that depend on data."""

import numpy as np
import pytest

import numstax
from numstax.errors import DataDependentError, OutOfBoundsError, ShapeError, SizeError, SpecialisationLimitError
from numstax.ir.index import Symbol, atoms
from tests.support import same


def dynamic(function, mode=True, **options):
    return numstax.jit(function, dynamic=mode, strict=True, **options)


def counted(function, calls, mode=True, **options):
    """Compilations after these calls, each of which must give what NumPy gives."""
    compiled = dynamic(function, mode, **options)
    for args in calls:
        same(compiled(*args), function(*args), ulps=8)
    return compiled.compile_count


def lengths(*sizes):
    return [(np.arange(n, dtype=np.float32),) for n in sizes]


def test_a_branch_on_a_size_gives_two_artifacts():
    assert counted(lambda x: x + 1 if x.shape[0] > 4 else x * 2, lengths(3, 7, 2, 9, 4, 11)) == 2


def test_sizes_zero_and_one_are_special():
    assert counted(lambda x: x * 2 + 1, lengths(3, 1, 0, 7, 1, 0, 11)) == 3


@pytest.mark.parametrize(("backend", "count"), [("cpu", 2), ("simulate", 1)])
def test_contiguous_and_transposed_are_two(backend, count):
    """Arrays that are copied to a GPU are contiguous there, whatever they were."""
    x = np.random.default_rng(0).random((5, 7))
    calls = [(x,), (x.T,), (x[:3],), (x[:4].T,), (x,)]
    assert counted(lambda x: x * 2 + 1, calls, backend=backend) == count


def attention(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    at = np.arange(q.shape[-2])
    near = (at[:, None] >= at) & (at[:, None] - at < 50)
    scores = np.where(near, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_attention_over_sequences_of_many_lengths():
    rng = np.random.default_rng(0)
    calls = [tuple(rng.standard_normal((3, 1, 2, n, 16))) for n in (64, 100, 139, 5, 256, 1)]
    compiled = dynamic(attention)
    for args in calls:
        np.testing.assert_allclose(compiled(*args), attention(*args), rtol=1e-10)
    assert compiled.compile_count <= 3


def test_many_sizes_few_compilations():
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 3000, 200)
    function = lambda x: ((x - x.mean()) * 2).sum() / len(x)  # noqa: E731
    calls = [(rng.integers(0, 9, n).astype(float),) for n in sizes]
    compiled = dynamic(function)
    for args in calls:
        np.testing.assert_allclose(compiled(*args), function(*args), atol=1e-9)
    assert compiled.compile_count <= 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(x.shape[0], -1).sum(0),
        lambda x: x.reshape(-1)[: x.size // 2],
        lambda x: x[1:-1, ::-1],
        lambda x: x[-2:],
        lambda x: (x.sum(0) / x.shape[0], len(x), x.shape),
        lambda x: np.zeros(x.shape[1]) + np.arange(x.shape[1]),
        lambda x: np.full((len(x), 2), x.shape[1]),
        lambda x: np.broadcast_to(x[0], (x.shape[0] + 1, x.shape[1])),
        lambda x: x @ x.T,
        lambda x: np.concatenate([x, x[:1]]),
        lambda x: np.sort(x, axis=0) * x.shape[0] ** 0.5,
        lambda x: np.roll(x, 1, axis=0),
        lambda x: np.pad(x, 1),
        lambda x: x[max(0, x.shape[0] - 3) :],
    ],
)
def test_one_artifact_for_ordinary_uses_of_sizes(function):
    shapes = [(9, 4), (5, 6), (30, 3), (7, 70)]
    assert counted(function, [(np.arange(1.0, 1 + n * m).reshape(n, m),) for n, m in shapes]) == 1


def test_equal_sizes_share_a_symbol_and_that_is_checked():
    compiled = dynamic(lambda x, y: x.sum() + y.sum())
    compiled(np.ones(4), np.ones(4))
    assert compiled(np.ones(4), np.ones(5)) == 9
    assert compiled(np.ones(6), np.ones(7)) == 13
    assert compiled.compile_count == 2
    with pytest.raises(ValueError, match="broadcast"):
        dynamic(lambda x, y: x + y)(np.ones(4), np.ones(5))


def test_a_relation_between_sizes_is_solved():
    x = np.arange(9.0)
    assert counted(lambda x, y: x[1:] - x[:-1] + y, [(x[:5], x[:4]), (x, x[1:]), (x[:3], x[:2])]) == 1
    assert counted(lambda x: x.reshape(-1, 2).sum(1), [(np.arange(6.0),), (np.arange(14.0),)]) == 1
    assert counted(lambda x: x * 2 if x.size % 2 else x, lengths(4, 6, 7, 8, 9, 11)) == 2


def test_integer_arguments():
    x = np.arange(10.0)
    assert counted(lambda x, n: (x[:n] * n).sum(), [(x, 3), (x, 4), (x, 9), (x, 10)]) == 1
    assert counted(lambda x, n: x.reshape(-1, n).sum(0), [(x, 5), (x, 2)]) == 1
    assert counted(lambda x, axis: x.sum(axis), [(np.ones((2, 3, 4)), 2), (np.ones((3, 3, 3)), 2)]) == 1
    assert counted(lambda x, n: x + n, [(np.arange(4, dtype=np.uint8), 3), (np.arange(5, dtype=np.uint8), 200)]) == 1
    with pytest.raises(OverflowError):
        dynamic(lambda x, n: x + n)(np.arange(4, dtype=np.uint8), 300)


def test_static_arguments_stay_static():
    x = np.arange(10.0)
    assert counted(lambda x, n: x * n, [(x, 3), (x, 4)], static_argnames="n") == 2


def test_where_a_number_is_needed_the_size_is_one():
    compiled = dynamic(lambda x: sum(x[k] for k in range(x.shape[0])))
    assert [compiled(np.ones(n)) for n in (3, 4, 3)] == [3, 4, 3]
    assert compiled.compile_count == 2


def test_guards_are_readable():
    compiled = dynamic(lambda x: x + 1 if x.shape[0] > 4 else x * 2)
    compiled(np.ones(3))
    assert "2 <= (s0 := d0[0]) <= 4" in str(compiled.artifacts()[0])
    assert "s0 = 7" in compiled.artifacts()[0].guard.failing((np.ones(7),), {})


@pytest.mark.parametrize("low", [1, 5])
def test_buckets_are_powers_of_two(low):
    high = 70
    most = (high - 1).bit_length() - (low.bit_length() - 1) + 1
    assert counted(lambda x: (x * 2).max(), lengths(*range(low, high + 1)), "bucket") <= most


def test_limits():
    module = __import__("numstax.jit", fromlist=["jit"])
    compiled = dynamic(lambda x, n: x * n, static_argnames="n", fullgraph=True)
    kept, module.SPECIALISATIONS = module.SPECIALISATIONS, 2
    try:
        for n in (2, 3):
            compiled(np.ones(3), n)
        with pytest.raises(SpecialisationLimitError):
            compiled(np.ones(3), 4)
        free = dynamic(lambda x, n: x * n, static_argnames="n")
        assert [free(np.ones(3), n)[0] for n in (2, 3, 4, 4, 2)] == [2, 3, 4, 4, 2]
        assert (free.compile_count, len(free.artifacts())) == (4, 2)
    finally:
        module.SPECIALISATIONS = kept


def test_reference_backend_needs_numbers_where_sizes_are_read():
    assert counted(lambda x: x * 2 + 1, lengths(3, 7, 5), backend="reference") == 1
    assert counted(lambda x: x * x.shape[0], lengths(3, 7, 3), backend="reference") == 2


def test_make_graph():
    graph = numstax.make_graph(lambda x: x * 2, (np.ones((4, 3)),), tracing_mode="symbolic")
    symbols = [atom for size in graph.inputs[0].shape for atom in atoms(size)]
    assert all(isinstance(s, Symbol) for s in symbols)
    assert [s.hint for s in symbols] == [4, 3]
    with pytest.raises(ValueError, match="tracing_mode"):
        numstax.make_graph(lambda x: x, (1.0,), tracing_mode="guess")


# --- sizes that depend on data ------------------------------------------------------------------------


def positions(x):
    found = np.flatnonzero(x > 2)
    return found * 2, found.sum(), x[found]


def test_sizes_of_results():
    assert counted(positions, [(np.arange(float(n)),) for n in (5, 9, 3, 30)]) == 1


def how_many(x):
    count = np.flatnonzero(x > 2).shape[0]
    return np.zeros(count), np.arange(count) + x.sum(), x * count


def how_many_alone(x):
    return np.flatnonzero(x > 2).shape[0] * 2


def chosen_and_counted(x):
    x = x[np.flatnonzero(x > 2)]
    return x, x.shape[0]


@pytest.mark.parametrize("function", [how_many, how_many_alone, chosen_and_counted])
def test_sizes_of_results_used_without_the_results(function):
    assert counted(function, [(np.arange(float(n)),) for n in (5, 9, 3, 30)]) == 1


def test_sizes_of_results_of_nothing():
    compiled = dynamic(lambda c: c.reshape(-1)[np.flatnonzero(c.reshape(-1))])
    for shape in ((13, 0), (4, 3), (2, 0)):
        assert compiled(np.ones(shape)).shape == (shape[0] * shape[1],)


def repeated(x):
    x = x[np.flatnonzero(x > 2)]
    x = np.tile(np.repeat(x, 2), 2)
    return x[np.flatnonzero(x > 3)]


def test_sizes_of_results_may_be_zero_later():
    assert counted(repeated, [(np.arange(float(n)),) for n in (9, 3, 2, 30)]) == 1


def test_guards_divide_by_sizes_that_may_be_zero():
    calls = [(np.arange(float(n)), k) for n, k in ((6, 4), (7, 4), (3, 3), (2, 3), (12, 8))]
    counted(lambda x, k: np.roll(x[k:], k), calls)


def first_two(x):
    found = np.flatnonzero(x > 2)
    numstax.check(found.size >= 2)
    return found[0] + found[1]


def between_neighbours(x):
    x = np.unique(x)
    x = x[1:] - x[:-1]
    return x + np.arange(1, 2 * x.shape[0] + 1, 2)


def beyond_two(x):
    return x[2:] - x[:-2]


@pytest.mark.parametrize("mode", [False, True, "bucket"])
@pytest.mark.parametrize("function", [between_neighbours, beyond_two])
def test_sizes_with_one_possible_value_leave_empty_results(function, mode):
    counted(function, lengths(1, 2, 3, 1, 9) if function is between_neighbours else lengths(2, 3, 2, 9), mode)


def test_check_states_what_cannot_be_known():
    compiled = dynamic(first_two)
    assert [compiled(np.arange(float(n))) for n in (6, 9)] == [7, 7]
    with pytest.raises(SizeError, match="check"):
        compiled(np.zeros(4))
    with pytest.raises(AssertionError):
        first_two(np.zeros(4))
    with pytest.raises(DataDependentError, match=r"numstax\.check\(.* >= 4\)"):
        dynamic(lambda x: np.flatnonzero(x)[3])(np.ones(9))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_block_whose_size_is_a_difference_is_a_factor(k):
    def f(a, k):
        a = (a + 1.0)[max(0, a.shape[0] - 4) :]
        return np.roll(a, k)

    compiled = dynamic(f)
    for n in (4, 3, 6, 12):
        same(compiled(np.arange(n) * 1.0, k), f(np.arange(n) * 1.0, k))


def test_a_short_dimension_of_a_long_array_is_not_split_into_empty_parts():
    def f(x, y):
        return x.sum(), -x, x + y, abs(x), np.roll(y, 4)  # a roll by 4 of less than 4: the first size is below 4

    x, y = np.arange(34, dtype=np.float32).reshape(2, 17), np.array([[1], [2]], np.float32)
    same(dynamic(f)(x, y), f(x, y))


def test_rows_of_every_length_side_by_side_or_alone():
    """Short rows go several at a time, long ones one by one, very long ones in blocks."""
    rng = np.random.default_rng(0)

    def sums(x):
        return (x * x).sum(-1), x.max(-1)

    def normalised(x):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-3)

    for function in (sums, normalised):
        compiled = dynamic(function)
        for rows, length in ((67, 19), (2, 767), (3, 768), (5, 17), (41, 261), (4, 2100), (2, 2), (1003, 65)):
            x = rng.standard_normal((rows, length))
            for got, expected in zip(compiled(x), function(x), strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
        assert compiled.compile_count == 1


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda a, b: a + b, (3, 2)),
        (lambda a, b: np.dot(a, b), (3, 4)),
        (lambda a, b: np.concatenate([a.reshape(2, -1), b.reshape(2, -1)]), (4, 6)),
        (lambda a, b: a[b > 0], (3, 4)),
        (lambda a, b: a[len(b)], (3, 4)),
        (lambda a, b: a.reshape(len(b), 2), (7, 3)),
        (lambda a, b: a.__setitem__(slice(None), b), (3, 4)),
    ],
)
def test_errors_name_sizes_and_not_symbols(function, sizes):
    args = [np.ones(n) for n in sizes]
    with pytest.raises((ValueError, IndexError)) as theirs:
        function(*args)
    with pytest.raises((ShapeError, OutOfBoundsError)) as ours:
        dynamic(function)(*args)
    assert str(ours.value).splitlines()[0].strip() == str(theirs.value).strip()


def test_means_of_what_is_selected_fix_no_sizes():
    rng = np.random.default_rng(0)
    calls = [(rng.random(n),) for n in (5, 9, 40)]
    assert counted(lambda x: (x[x > 0.5].mean(), x.mean(where=x < 0.9), x.std(where=x < 0.9)), calls) == 1


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_costly_rows_of_every_length(dtype):
    """The last vector of a row is a part of one: nothing behind the row is added, stored, or read."""
    rng = np.random.default_rng(1)

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def stretched(x, y):
        np.tanh(x, out=x)
        return np.exp(y * x[:, :1]).sum(-1), (np.sqrt(x * x) * np.log1p(y * y)).max(-1)

    two, three = dynamic(softmax), dynamic(stretched)
    for length in (*range(2, 70), 127, 128, 129, 255, 2047, 2050):
        memory = np.full((5, length + 40), np.inf, dtype)
        x = memory[:, :length]
        x[:] = rng.standard_normal((5, length))
        x[2, -1], x[3, -1] = np.nan, 9
        y = rng.standard_normal(length).astype(dtype)
        ours = memory.copy()[:, :length]
        with np.errstate(invalid="ignore"):
            same(two(np.ascontiguousarray(x)), softmax(x), ulps=16)
            same(three(ours, y), stretched(x, y), ulps=16)
        same(ours, x, ulps=8)
        assert np.isinf(ours.base[:, length:]).all()
    assert two.compile_count == 1


def test_costly_rows_without_elements():
    def f(x, y):
        y = y[y > 0.5]
        return np.exp(x[:, None] * y[None, :]).sum(-1)

    compiled = dynamic(f)
    x = np.arange(6, dtype=np.float32)
    for y in (np.ones(33, np.float32), np.zeros(33, np.float32), np.array([1, 0, 1], np.float32)):
        same(compiled(x, y), f(x, y), ulps=8)
