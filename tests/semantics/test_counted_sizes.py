"""Functions whose results have sizes that depend on values: one compilation, NumPy's results whatever the values."""

import numpy as np
import pytest

import numstax
from numstax.errors import SizeError, TraceError
from tests.support import check, copy, normal, same

X, Y = normal((50,), "f8"), normal((50,), "f8", 1)
M = normal((6, 7), "f8", 2)
I = np.random.default_rng(0).integers(0, 9, 40)


def size_of_a_selection(x):
    y = x[x > 0]
    return y.sum() + y.size, len(y), y.shape, np.zeros(y.size)


def selection_and_its_places(x):
    m = x > 0
    (at,) = np.nonzero(m)
    return x[at] * 2 + x[m], np.flatnonzero(m), np.argwhere(m), np.where(m)[0] + 1


def selections_under_one_mask(x, y):
    m = x > 0
    a, b = x[m], np.exp(y)[m]
    return a + b, np.concatenate([a, b]), a @ b, a[b > 0.5], np.sort(a)[::-1], np.cumsum(a), a[:, None] * b


def names_of_one_selection(x):
    y = x[x > 0]
    z = y
    y += 1
    w = y.copy()
    y.size
    y[y > 2] = 0
    y *= 2
    return y, z, w, y.astype("f4"), np.clip(y, 0, 1), y.sum(), y > 1


def masks_among_other_keys(m):
    rows, columns = m[:, 0] > 0, m[0] > 0
    return (
        m[rows], m[:, columns], m[m > 0], m[rows, 1:3], m[rows, None], m[rows, 2], m[1, columns], m[rows][:, columns],
        m[None, rows],
    )  # fmt: skip


def masked_assignments(x, y):
    m = x > 0
    x[m] = y[m]
    y[y > 1] = 3
    y[~m] += 1
    x[y > 2] = x[y > 2][::-1]
    return x * 2


def masked_assignments_of_rows(m):
    m[:, m[0] > 0] += 1
    m[m[:, 1] > 0] = m[0]
    m[m[:, 2] > 0, 1] = 7
    return m.sum()


def filled(x):
    out = np.zeros(x.size)
    out[x > 0] = np.sqrt(x[x > 0])
    return out


def distinct(i):
    return np.unique(i), np.unique(i, return_counts=True), np.unique(i, True, True, True), np.unique(i).max()


def distinct_rows(m):
    return np.unique(m.round(), axis=0), np.unique(m.round(), axis=1, return_counts=True)


def distinct_parts(i):
    return np.unique_counts(i).counts, np.unique_values(i), tuple(np.unique_all(i)), tuple(np.unique_inverse(i))


def histogram(i):
    counts = np.bincount(i)
    return counts / counts.sum(), np.bincount(i, minlength=20)[:20], np.bincount(i, i * 0.5)


def sets(x, i):
    return np.union1d(i, i // 2), np.intersect1d(i, i * 2), np.setdiff1d(i, i // 2), np.setxor1d(i, i * 2), x[i[i > 3]]


def extracted(x):
    return (
        np.extract(x > 0, x) * 2,
        np.compress(x > 0, x),
        np.compress(x[:6] > 0, x.reshape(10, 5), axis=0),
        np.delete(x, x > 1),
    )


def loops_and_branches(x, y):
    m = x > 0
    a = x[m]
    if y.sum() > 0:
        a *= 2
    total = 0.0
    for k in range(40):
        a += y[k]
        total += a.sum()
    for k in range(3):
        b = y[y > k]
        total += b.size
    return a, total


CASES = (
    (loops_and_branches, X, Y),
    (size_of_a_selection, X), (selection_and_its_places, X), (selections_under_one_mask, X, Y),
    (names_of_one_selection, X), (masks_among_other_keys, M), (masked_assignments, X, Y),
    (masked_assignments_of_rows, M), (filled, X), (distinct, I), (distinct_rows, M), (distinct_parts, I),
    (histogram, I), (sets, X, I), (extracted, X),
)  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "reference"}], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_counts_differ_from_call_to_call(case, options):
    function, *given = case
    compiled = numstax.jit(function, strict=True, **options)
    for scale in (1, -1, 0):
        args = [a * scale if a.dtype.kind == "f" else a * abs(scale) + (scale < 0) for a in given]
        ours, theirs = [copy(a) for a in args], [copy(a) for a in args]
        with np.errstate(all="ignore"):
            want = function(*theirs)
        same(compiled(*ours), want, ulps=16)
        same(ours, theirs, ulps=16)
    assert compiled.compile_count == 1


def test_a_stated_size_is_checked():
    def best(x):
        y = x[x > 0]
        numstax.check(y.size >= 1, "nothing is positive")
        return y.max()

    compiled = numstax.jit(best, strict=True)
    assert compiled(X) == best(X)
    with pytest.raises(SizeError, match="nothing is positive"):
        compiled(-abs(X))


def test_a_mask_is_counted_once():
    compiled = numstax.jit(size_of_a_selection, strict=True)
    compiled(X)
    assert compiled.artifacts()[0].source.count("results_of(") == 1


def test_sizes_inside_captured_branches():
    def before(x, low):
        y = x[x > 0]
        if x.sum() > low:
            y = np.sort(y)
        return y

    for backend in ("cpu", "reference"):
        compiled = numstax.jit(before, strict=True, backend=backend)
        for low in (-1e9, 1e9):
            same(compiled(X, low), before(X, low))

    def packs(x):
        y = x
        if x.sum() > 0:
            y = x + 1
            y = np.sort(y[np.unique(y) > 0])
        return y

    with pytest.raises(TraceError, match=r"inside a loop or branch that is captured\n.*\n  remedy: select before"):
        numstax.jit(packs, strict=True)(X)


def test_too_many_values_for_a_mask():
    def assign(x, y):
        x[x > 0] = y
        return x

    with pytest.raises(ValueError, match="cannot assign"):
        numstax.jit(assign, strict=True)(X.copy(), Y)


def test_the_length_of_a_selection_in_a_captured_loop():
    def means(points, labels, count):
        centres = np.zeros(count, np.float32)
        for k in range(count):
            members = points[labels == k]
            if len(members) > 0:
                centres[k] = members.sum() / members.size + members.shape[0]
        return centres

    points, labels = np.arange(40, dtype=np.float32), np.arange(40) % 19
    same(numstax.jit(means, strict=True)(points, labels, 20), means(points, labels, 20))


def test_elements_under_a_mask_from_before_a_captured_loop():
    def bounced(f, walls, steps):
        for _ in range(steps):
            f = np.roll(f, 1, axis=1)
            kept = f[:, walls]
            f = 0.5 * f + 0.25
            f[:, walls] = kept[::-1]
            if f[0, 0, 0] > 0.4:
                f[0] += f[0][walls & (f.shape[0] > 1)].sum()
        return f

    f = np.random.default_rng(1).random((3, 5, 4))
    walls = np.arange(20).reshape(5, 4) % 3 == 0
    compiled = numstax.jit(bounced, strict=True)
    for chosen in (walls, ~walls, np.zeros_like(walls)):
        same(compiled(f.copy(), chosen, 40), bounced(f.copy(), chosen, 40), ulps=64)
    assert compiled.compile_count == 1


def test_the_places_of_a_mask_from_before_nested_captured_loops():
    def visited(x, chosen, steps):
        total = np.zeros_like(x)
        for k in range(steps):
            while total[0] < k:
                for i in np.nonzero(chosen)[0]:
                    total[i] += x[i] + 1
        return total

    x, chosen = np.arange(9.0), np.arange(9) % 2 == 0
    same(numstax.jit(visited, strict=True)(x, chosen, 20), visited(x, chosen, 20))


def test_a_mask_that_a_captured_loop_changes_is_not_taken_before_it():
    def program(x, steps):
        for _ in range(steps):
            x = x + np.sort(x[x > 1]).sum()
        return x

    with pytest.raises(TraceError, match="a size depends on data inside a loop"):
        numstax.jit(program, strict=True)(np.arange(3.0), 5000)


def test_counts_of_bytes_have_a_size_that_is_known() -> None:
    def histogram(image, flags):
        return np.bincount(image, minlength=256) + np.zeros(256, int), np.bincount(flags, minlength=2)

    image = np.arange(300).astype("u1")
    check(histogram, image, image > 7)
    assert [o.node.shape[0].value for o in numstax.make_graph(histogram, (image, image > 7)).outputs] == [256, 2]
