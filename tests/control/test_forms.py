"""fori_loop, while_loop, cond, scan and vmap: outside of a trace, compiled, and against loops in plain NumPy."""

import copy
import dataclasses
import doctest
import pathlib
import re
import typing

import numpy as np
import pytest

import numstax
from numstax import forms
from numstax.errors import (
    ArgumentCountError,
    AxisError,
    NumstaxWarning,
    ShapeError,
    StateError,
    TraceError,
    UnsupportedArgumentError,
)
from tests.control.alike import N, uniform
from tests.support import same


class Pair(typing.NamedTuple):
    u: object
    v: object


@dataclasses.dataclass
class Particle:
    place: object
    speed: object


def parts(tree):
    if isinstance(tree, Particle):
        return ["Particle", tree.place, tree.speed]
    if isinstance(tree, dict):
        return [(k, parts(v)) for k, v in tree.items()]
    return [type(tree).__name__, *map(parts, tree)] if isinstance(tree, tuple | list) else tree


def alike(got, want):
    same(parts(got), parts(want), ulps=64)


OPTIONS = [{}, {"backend": "reference"}, {"dynamic": True}]
options = pytest.mark.parametrize("option", OPTIONS, ids=["cpu", "reference", "dynamic"])
lengths = pytest.mark.parametrize("n", [1, 2, 5, N], ids=lambda n: f"n{n}")


def check(function, want, *args, option):
    """The function gives what is wanted, outside of a trace and compiled, and changes its arguments alike."""
    plain, traced = copy.deepcopy(args), copy.deepcopy(args)
    alike(function(*plain), want)
    alike(numstax.jit(function, strict=True, **option)(*traced), want)
    alike(traced, plain)


def found(function, *args):
    return [node.op for node in numstax.make_graph(function, args).nodes()]


# --- loops --------------------------------------------------------------------------------------------


@options
@lengths
@pytest.mark.parametrize("kind", [tuple, list, Pair, Particle, dict])
def test_states_of_every_structure(kind, n, option):
    def make(a, b):
        if kind is dict:
            return {"a": a, "b": b}
        return kind(a, b) if kind in (Pair, Particle) else kind((a, b))

    def taken(s):
        if kind is dict:
            return s["a"], s["b"]
        return (s.place, s.speed) if kind is Particle else (s[0], s[1])

    def f(x):
        def body(i, s):
            a, b = taken(s)
            return make(a + x[i], b * 0.5 + a.sum())

        return numstax.fori_loop(0, x.shape[0], body, make(x[0], 1.0))

    x = uniform(n, 3)
    a, b = x[0], 1.0
    for i in range(n):
        a, b = a + x[i], b * 0.5 + a.sum()
    check(f, make(a, b), x, option=option)


@options
@pytest.mark.parametrize(("lower", "upper"), [(0, 3), (2, N), (5, 5), (7, 3), (-3, 4)])
def test_bounds(lower, upper, option):
    def f(x, bounds):
        def body(i, s):
            return s * 0.5 + x[i % 4] * i

        return numstax.fori_loop(lower, upper, body, x[0]), numstax.fori_loop(bounds[0], bounds[1], body, x[0])

    x, want = uniform(4), uniform(4)[0]
    for i in range(lower, upper):
        want = want * 0.5 + x[i % 4] * i
    check(f, (want, want), x, np.array([lower, upper]), option=option)


@options
def test_while(option):
    def f(x):
        return numstax.while_loop(lambda s: np.abs(s[0]).sum() < 100, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0))

    a, count = uniform(5), 0
    while np.abs(a).sum() < 100:
        a, count = a * 1.5, count + 1
    check(f, (a, count), uniform(5), option=option)


@options
def test_a_body_may_write_its_state(option):
    def f(x):
        def body(i, s):
            s[i % 3] += i
            return s

        return numstax.fori_loop(0, N, body, x)

    want = uniform(3)
    for i in range(N):
        want[i % 3] += i
    check(f, want, uniform(3), option=option)


@options
def test_names_that_change_places(option):
    def f(u, v):
        def step(i, s):
            u, v = s
            v[1:-1] = u[:-2] + u[2:]
            return v, u

        return numstax.fori_loop(0, N + 1, step, (u, v))

    u, v = uniform(6) * 1e-6, uniform(6) * 1e-6
    given = u.copy(), v.copy()
    for _ in range(N + 1):
        v[1:-1] = u[:-2] + u[2:]
        u, v = v, u
    check(f, (u, v), *given, option=option)


@options
@pytest.mark.parametrize("sign", [1, -1])
def test_cond(sign, option):
    def f(x, y):
        def more(a, b):
            return a + b, {"n": 1}

        def less(a, b):
            return a * b, {"n": 2}

        return numstax.cond(x.sum() > 0, more, less, x, y), numstax.cond(True, more, less, x, y)

    x, y = sign * uniform(4), uniform(4)
    check(f, ((x + y, {"n": 1}) if sign > 0 else (x * y, {"n": 2}), (x + y, {"n": 1})), x, y, option=option)


def test_a_long_loop_is_one_node():
    def f(x):
        return numstax.fori_loop(0, 100_000, lambda i, s: s * 0.5 + i, x)

    assert found(f, uniform(3)).count("for") == 1


# --- scan ---------------------------------------------------------------------------------------------


@options
@lengths
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(n, reverse, option):
    def f(x, w):
        def step(s, row):
            s = s * 0.5 + row["x"] @ w
            return s, (s, {"outer": row["x"][:, None] * row["k"]}, None)

        return numstax.scan(step, 1.0, {"x": x, "k": np.arange(x.shape[0])}, reverse=reverse)

    x, w = uniform(n, 3), uniform(3)
    s, sums, outers = 1.0, np.empty(n), np.empty((n, 3, 1))
    for k in range(n)[:: -1 if reverse else 1]:
        s = s * 0.5 + x[k] @ w
        sums[k], outers[k] = s, x[k][:, None] * k
    check(f, (s, (sums, {"outer": outers}, None)), x, w, option=option)


@options
@pytest.mark.parametrize("n", [3, N])
def test_scan_without_rows(n, option):
    def f(x):
        return numstax.scan(lambda s, none: (s * 0.5, s), x, None, length=n)

    want = np.array([uniform(3) * 0.5**k for k in range(n + 1)])
    check(f, (want[n], want[:n]), uniform(3), option=option)


@options
def test_scan_of_no_rows(option):
    def f(x):
        return numstax.scan(lambda s, row: (s + row.sum(), (row * 2, s)), 1.0, x)

    check(f, (1.0, (np.empty((0, 3)), np.empty(0))), np.empty((0, 3)), option=option)


# --- vmap ---------------------------------------------------------------------------------------------


def softmax(row):
    e = np.exp(row - row.max())
    return e / e.sum()


BATCHED = [
    (numstax.vmap(softmax), (uniform(N, 4),), lambda x: np.array([softmax(r) for r in x])),
    (numstax.vmap(softmax), (uniform(3, 4),), lambda x: np.array([softmax(r) for r in x])),
    (numstax.vmap(np.dot), (uniform(N, 4), uniform(N, 4)), lambda x, y: np.einsum("ni,ni->n", x, y)),
    (numstax.vmap(np.add, (0, None)), (uniform(N), uniform(4)), lambda x, y: x[:, None] + y),
    (numstax.vmap(np.add, (1, 0), 1), (uniform(2, N), uniform(N, 1)), lambda x, y: x + y[:, 0]),
    (numstax.vmap(lambda x, y: x @ y, (-1, None), -1), (uniform(4, N), uniform(4, 2)), lambda x, y: y.T @ x),
    (numstax.vmap(lambda d: {"a": d["x"] * d["y"], "b": d["x"] > 0.5}, ({"x": 0, "y": None},)),
     ({"x": uniform(N), "y": 2.0},), lambda d: {"a": d["x"] * 2, "b": d["x"] > 0.5}),
    (numstax.vmap(lambda x: (x, None, 2)), (uniform(N),), lambda x: (x, None, np.full(N, 2))),
    (numstax.vmap(numstax.vmap(np.subtract, (0, None)), (None, 0)), (uniform(N), uniform(20)),
     lambda x, y: x - y[:, None]),
    (numstax.vmap(np.linalg.inv), (uniform(N, 3, 3),), np.linalg.inv),
    (numstax.vmap(numstax.jit(softmax)), (uniform(20, 3),), lambda x: np.array([softmax(r) for r in x])),
]  # fmt: skip


@options
@pytest.mark.parametrize(("f", "args", "wanted"), BATCHED, ids=range(len(BATCHED)))
def test_vmap(f, args, wanted, option):
    check(f, wanted(*args), *args, option=option)
    check(lambda *given: f(*given), wanted(*args), *args, option=option)


def test_a_batch_is_one_loop():
    assert found(numstax.vmap(softmax), uniform(N, 4)).count("for") == 1


@options
@pytest.mark.parametrize("kind", ["f4", "f8", "i1", "u2", "i8", "?", "c8", "f2"])
def test_dtypes_of_batches(kind, option):
    x = (uniform(N, 3) * 4).astype(kind)
    check(numstax.vmap(lambda r: (r + r[::-1], r.max())), (x + x[:, ::-1], x.max(1)), x, option=option)


@options
def test_an_empty_batch(option):
    f = numstax.vmap(lambda r, y: (r.sum() * y, {"r": r > 0}), (0, None))
    check(f, (np.empty(0, "f4"), {"r": np.empty((0, 3), bool)}), np.empty((0, 3), "f4"), np.float32(2), option=option)


@options
def test_control_flow_in_batches(option):
    def collatz(n):
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    check(numstax.vmap(collatz), np.array([collatz(n) for n in range(1, 40)]), np.arange(1, 40), option=option)


@options
def test_forms_in_one_another(option):
    def f(x):
        def power(a):
            return numstax.fori_loop(0, 3, lambda i, s: s * a, 1.0)

        def step(s, row):
            s = numstax.cond(row.sum() > 2, lambda a: a + 1.0, lambda a: a - 1.0, s)
            return s, numstax.vmap(lambda v: power(v) + s)(row)

        return numstax.scan(step, 0.0, x)

    x = uniform(N, 4)
    s = np.cumsum(np.where(x.sum(1) > 2, 1.0, -1.0))
    check(f, (float(s[-1]), x**3 + s[:, None]), x, option=option)


def test_a_generator_draws_in_order():
    def f(rng):
        return numstax.scan(lambda s, none: (s + 1, rng.normal(size=2)), 0, None, length=N)[1], rng.random()

    want = np.random.default_rng(3)
    rows = np.array([want.normal(size=2) for _ in range(N)])
    for function in (f, numstax.jit(f, strict=True)):
        got, last = function(np.random.default_rng(3))
        same(got, rows)
    assert last == want.random()


def test_a_size_that_depends_on_data():
    def f(x):
        return numstax.vmap(softmax)(x[x[:, 0] > 0.5])

    x = uniform(N, 3)
    compiled = numstax.jit(f, strict=True)
    for threshold in (0.0, 0.3, 1.0):
        given = x + np.array([0.5 - threshold, 0, 0])
        same(compiled(given), f(given), ulps=64)
    assert compiled.compile_count == 1


def test_examples_in_docstrings():
    assert doctest.testmod(forms, extraglobs={"np": np, "numstax": numstax}).failed == 0


def test_examples_in_the_document():
    text = (pathlib.Path(numstax.__file__).parents[1] / "docs" / "loops.md").read_text()
    shown = {}
    code = compile(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], "loops.md", "exec")
    exec(code, shown)
    check(shown["filtered"].__wrapped__, shown["filtered"](uniform(N)), uniform(N), option={})
    points, centres = uniform(N, 2), uniform(5, 2)
    want = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    check(shown["nearest"].__wrapped__, want, points, centres, option={})


# --- mistakes -------------------------------------------------------------------------------------------

X = uniform(N, 3)
MISTAKES = {
    "dtype": (StateError, r"float64\[3\] before an iteration and float32\[3\] after",
              lambda x: numstax.fori_loop(0, 20, lambda i, s: s.astype("f4"), x[0])),
    "shape": (StateError, r"float64\[3\] before an iteration and float64\[2\] after",
              lambda x: numstax.fori_loop(0, 3, lambda i, s: s[:2], x[0])),
    "structure": (StateError, r"\(float64\[3\], a Python int\) before an iteration and float64\[3\] after",
                  lambda x: numstax.while_loop(lambda s: s[1] < 20, lambda s: s[0], (x[0], 0))),
    "keys": (StateError, r"\{a: .*\} before an iteration and \{b: .*\} after",
             lambda x: numstax.fori_loop(0, 20, lambda i, s: {"b": s["a"]}, {"a": x[0]})),
    "narrow": (StateError, "a Python float before an iteration and int64",
               lambda x: numstax.fori_loop(0, 20, lambda i, s: x[i].argmax(), 0.5)),
    "scan state": (StateError, "before an iteration", lambda x: numstax.scan(lambda s, r: ((s, s), r), 1.0, x)),
    "scan length": (ShapeError, "xs has 40 rows where there are 7",
                    lambda x: numstax.scan(lambda s, r: (s, r), 1.0, x, length=7)),
    "scan nothing": (ArgumentCountError, "xs has no array", lambda x: numstax.scan(lambda s, r: (s, r), x, None)),
    "scan scalar": (AxisError, "xs is .*, without an axis", lambda x: numstax.scan(lambda s, r: (s, r), x, 3.0)),
    "sizes": (ShapeError, r"args\[1\] has 3 rows where there are 40", lambda x: numstax.vmap(np.dot)(x, x[0])),
    "no batch": (ArgumentCountError, "args has no array", lambda x: numstax.vmap(np.sum, None)(x)),
    "too many axes": (ArgumentCountError, r"axes \(0, 1\) do not fit args", lambda x: numstax.vmap(np.sum, (0, 1))(x)),
    "axis": (AxisError, r"args\[0\]: axis 2 is out of bounds", lambda x: numstax.vmap(np.sum, 2)(x)),
    "scalar": (AxisError, r"args\[1\] is a Python float, without an axis", lambda x: numstax.vmap(np.dot)(x, 2.0)),
    "out axis": (AxisError, "the result: axis 1 is out of bounds", lambda x: numstax.vmap(np.sum, 0, 1)(x)),
    "text": (UnsupportedArgumentError, "'a' is neither an array", lambda x: numstax.vmap(lambda r: "a")(x)),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "match", "f"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("strict", [None, True, False])
def test_mistakes(kind, match, f, strict):
    run = f if strict is None else numstax.jit(f, strict=strict)
    with pytest.raises(kind, match=match) as caught:
        run(X)
    assert caught.value.origin.file == __file__
    assert caught.value.remedy


def test_branches_that_differ():
    def f(x):
        return numstax.cond(x[0] > 0, lambda a: a, lambda a: (a, a), x)

    with pytest.raises(TraceError, match=r"after one branch and .* after the other"):
        numstax.jit(f, strict=True)(uniform(3))
    with pytest.warns(NumstaxWarning, match="after one branch"):
        same(numstax.jit(f)(uniform(3)), uniform(3))


def test_results_that_differ():
    def f(x):
        return numstax.vmap(lambda r: r[: int(r[0])])(x)

    with pytest.raises(StateError, match="does not fit into an array of results"):
        f(np.array([[1.0, 2], [2, 3]]))
