"""jit: forms of the decorator, specialisations, fallback, strictness, threads, and looking inside."""

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import warnings
import weakref
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import numstax
from numstax import backends, pipeline
from numstax import jit as decorate
from numstax.errors import (
    ArgumentCountError,
    DataDependentError,
    NumstaxWarning,
    ShapeError,
    SpecialisationLimitError,
    TraceError,
)
from numstax.runtime.host import Host
from tests.support import in_threads

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def scaled(x, factor=2.0, *, power=1):
    """Scale x."""
    return x**power * factor


def asks(x):
    return x * float(f"{x.sum()}")


@pytest.fixture
def jit_module(monkeypatch):
    """The module behind the decorator, its process-wide state made anew from the environment."""
    module = sys.modules["numstax.jit"]
    fresh = {}
    monkeypatch.setattr(module, "process", lambda: fresh.setdefault("it", _process()))
    return module


def _process():
    knobs = numstax.knobs.from_environ()
    return knobs, Host(knobs)


# --- forms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [decorate, decorate(), decorate(strict=True), decorate(backend="reference")])
def test_bare_and_with_options(form):
    compiled = form(scaled)
    np.testing.assert_array_equal(compiled(X), X * 2)
    np.testing.assert_array_equal(compiled(X, 3.0, power=2), scaled(X, 3.0, power=2))


def test_keeps_what_a_function_is():
    compiled = decorate(scaled)
    assert compiled.__wrapped__ is scaled
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("scaled", "Scale x.", __name__)
    assert inspect.signature(compiled) == inspect.signature(scaled)
    assert repr(compiled) == "<numstax.jit of scaled>"


def test_methods():
    class Layer:
        def __init__(self, weight):
            self.weight = weight
            self.bias = 1.0

        @decorate(strict=True)
        def __call__(self, x):
            return x * self.weight + self.bias

        @staticmethod
        @decorate(strict=True)
        def double(x):
            return x + x

    a, b = Layer(X), Layer(-X)
    for layer in (a, b, a):
        np.testing.assert_array_equal(layer(X), X * layer.weight + 1)
    a.bias = 5.0
    a.weight = X + 1
    np.testing.assert_array_equal(a(X), X * (X + 1) + 5)
    np.testing.assert_array_equal(a.double(X), 2 * X)
    assert Layer.__call__.compile_count == 3


def test_a_method_that_changes_its_object_runs_as_numpy():
    class Counter:
        calls = 0

        @decorate
        def count(self, x):
            self.calls += 1
            return x * 2

    counter = Counter()
    with pytest.warns(NumstaxWarning, match="self"):
        counter.count(X)
    counter.count(X)
    assert counter.calls == 2


def test_bad_options():
    with pytest.raises(ValueError, match="backend"):
        decorate(scaled, backend="cuda")
    with pytest.raises(ArgumentCountError, match="nowhere"):
        decorate(scaled, static_argnames="nowhere")


def test_inner_jit_is_inlined():
    inner = decorate(lambda x: np.exp(x))
    compiled = decorate(lambda x: inner(x * 2) + 1, strict=True)
    np.testing.assert_allclose(compiled(X), np.exp(X * 2) + 1, rtol=1e-6)
    assert inner.compile_count == 0


# --- specialisations --------------------------------------------------------------------------------


def test_one_compilation_for_each_kind_of_call():
    compiled = decorate(scaled, strict=True)
    for args in ((X,), (X + 1,), (X, 2.0), (X, 3.5), (X[:2],), (X.T,), (X.astype(np.float64),), (X,)):
        np.testing.assert_array_equal(compiled(*args), scaled(*args))
    assert compiled.compile_count == 5
    assert len(compiled.artifacts()) == 5


def test_static_arguments():
    compiled = decorate(scaled, strict=True, static_argnames=["factor"])
    for factor in (2.0, 3.0, 2.0, 0.0, -0.0):
        got = compiled(X, factor)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(scaled(X, factor)))
    assert compiled.compile_count == 4
    np.testing.assert_array_equal(compiled(X, factor=2.0), 2 * X)


def test_limits(monkeypatch):
    module = sys.modules["numstax.jit"]
    monkeypatch.setattr(module, "SPECIALISATIONS", 2)
    monkeypatch.setattr(module, "COMPILATIONS", 4)
    compiled = decorate(scaled, strict=True)
    for n in (1, 2, 3):
        assert compiled(np.ones(n)).tolist() == [2] * n
    assert len(compiled.artifacts()) == 2
    assert compiled(np.ones(3)).tolist() == [2] * 3  # compiled again, as it was not kept
    assert compiled.compile_count == 4
    with pytest.raises(SpecialisationLimitError, match="scaled"):
        compiled(np.ones(5))
    assert compiled(np.ones(1)).tolist() == [2]


def test_arguments_are_not_kept_alive():
    compiled = decorate(scaled, strict=True)
    array = X.copy()
    compiled(array)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None


# --- ways out ---------------------------------------------------------------------------------------


def test_fallback_warns_once_for_each_reason_and_is_remembered():
    compiled = decorate(asks)
    with pytest.warns(NumstaxWarning, match="asks runs as plain NumPy") as caught:  # noqa: PT031
        for x in (X, X + 2, X[:2], X + 2):
            np.testing.assert_array_equal(compiled(x), asks(x))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert compiled.compile_count == 0
    assert "plain NumPy" in str(compiled.artifacts()[0])


def test_strict_raises_each_time():
    compiled = decorate(asks, strict=True)
    for _ in range(2):
        with pytest.raises(DataDependentError, match=Path(__file__).name):
            compiled(X)


def test_strict_from_the_environment(monkeypatch, jit_module):
    monkeypatch.setenv("NUMSTAX_STRICT", "1")
    with pytest.raises(DataDependentError):
        decorate(asks)(X)
    with pytest.warns(NumstaxWarning):
        decorate(asks, strict=False)(X)


def test_users_mistakes_raise_whether_strict_or_not():
    for strict in (True, False):
        with pytest.raises(ShapeError, match="broadcast"):
            decorate(lambda x, y: x + y, strict=strict)(X, np.ones(3))
        with pytest.raises(ArgumentCountError, match=r"scaled\(\)"):
            decorate(scaled, strict=strict)()
        with pytest.raises(LookupError, match="mine"):
            decorate(lambda x: {}["mine"], strict=strict)(X)


@pytest.mark.parametrize("broken", ["compile_graph", "launcher", "trace"])
def test_failures_inside_never_change_an_answer(monkeypatch, broken):
    def fail(*args, **kwargs):
        raise RuntimeError("a bug of ours")

    place = sys.modules["numstax.jit"].tracer if broken == "trace" else backends
    monkeypatch.setattr(place, broken, fail)
    compiled = decorate(scaled)
    with pytest.warns(NumstaxWarning, match="a bug of ours"):
        np.testing.assert_array_equal(compiled(X), 2 * X)
    np.testing.assert_array_equal(compiled(X), 2 * X)
    with pytest.raises(RuntimeError, match="a bug of ours"):
        decorate(scaled, strict=True)(X)


def test_extern_of_another_shape_runs_as_numpy():
    compiled = decorate(lambda x: np.unique(x) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumstaxWarning)
        for x in ([3, 1, 2], [1, 1, 2], [5, 5, 5]):
            assert compiled(np.array(x)).tolist() == (np.unique(x) * 2).tolist()


def shift(x, y):
    x[1:] += y[:-1]
    return x * 2


def test_overlapping_arguments_behave_as_in_numpy():
    compiled = decorate(shift, strict=True)
    compiled(np.arange(6.0), np.arange(6.0))
    ours, theirs = np.arange(10.0), np.arange(10.0)
    got, want = compiled(ours[1:7], ours[3:9]), shift(theirs[1:7], theirs[3:9])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(ours, theirs)
    ours, theirs = np.arange(6.0), np.arange(6.0)
    np.testing.assert_array_equal(compiled(ours, ours), shift(theirs, theirs))


def test_odd_and_unaligned_arguments():
    packed = np.zeros(6, [("tag", "u1"), ("value", "<f4")])["value"]
    packed[:] = np.arange(6)
    unaligned = np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.uint8)[1:].view(np.float32)
    compiled = decorate(scaled, strict=True)
    for x in (np.arange(6, dtype=np.float32), packed, unaligned, np.arange(6, dtype=">f4")):
        got = compiled(x)
        assert got.dtype == np.float32
        assert got.tolist() == [0, 2, 4, 6, 8, 10]


# --- threads and processes --------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
def test_first_calls_from_many_threads(dynamic):
    compiled = decorate(lambda x: np.tanh(x) + x.sum(), strict=True, dynamic=dynamic)

    def work(k):
        arrays = [np.full(n + k % 2, k, np.float64) for n in (10, 20, 30)]
        return all(np.allclose(compiled(x), np.tanh(x) + x.sum()) for x in arrays)

    assert in_threads(*(partial(work, k) for k in range(6))) == [True] * 6
    assert compiled.compile_count == (1 if dynamic else 6)


def test_threads_that_need_different_artifacts():
    compiled = decorate(lambda x: x + 1 if x.shape[0] > 15 else x * 2, strict=True, dynamic=True)
    got = in_threads(*(partial(compiled, np.ones(n)) for n in (10, 20, 11, 21, 12, 22)))
    assert [r[0] for r in got] == [2] * 6
    assert [len(r) for r in got] == [10, 20, 11, 21, 12, 22]
    assert compiled.compile_count == 2


def test_failing_first_calls_from_many_threads():
    compiled = decorate(lambda x: x.tobytes(), strict=True)
    got = in_threads(*[partial(compiled, np.ones(4))] * 3)
    assert all(isinstance(error, TraceError) for error in got)


def test_number_of_threads():
    before = numstax.get_num_threads()
    big = np.ones((1000, 1000), np.float32)
    compiled = decorate(scaled, strict=True)
    try:
        for n in (1, 3):
            numstax.set_num_threads(n)
            assert numstax.get_num_threads() == n
            np.testing.assert_array_equal(compiled(big), 2 * big)
        with pytest.raises(ValueError, match="positive"):
            numstax.set_num_threads(0)
    finally:
        numstax.set_num_threads(before)


def test_in_a_forked_child():
    compiled = decorate(lambda x: (x * 2).sum(-1), strict=True)
    big = np.ones((1000, 1000), np.float32)
    compiled(big)
    pid = os.fork()
    if pid == 0:
        good = (compiled(big) == 2000).all() and (compiled(big[:500]) == 2000).all()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_second_process_does_not_compile(tmp_path):
    script = (
        "import sys, numpy as np, numstax\n"
        "f = numstax.jit(lambda x: np.exp(x).sum(-1), strict=True)\n"
        "print(f(np.zeros((3, 4), np.float32)).tolist(), 'numba' in sys.modules)\n"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith("NUMSTAX")}
    environ |= {"NUMSTAX_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    outputs = [
        subprocess.run([sys.executable, "-c", script], env=environ, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert outputs == ["[4.0, 4.0, 4.0] True\n", "[4.0, 4.0, 4.0] False\n"]


# --- looking inside ---------------------------------------------------------------------------------


def test_inspect_shows_every_stage():
    compiled = decorate(lambda x: np.exp(x).sum(-1), strict=True)
    assert "not been called" in compiled.inspect()
    compiled(X)
    text = compiled.inspect()
    for part in ("graph:", "kernels:", "source:", "wrapper:", "exp", "def call(", "args[0].shape == (3, 4)"):
        assert part in text


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("compiles", ["compiled scaled in", "trace", "lower"]),
        ("recompiles", ["compiling scaled again", "args[0].shape"]),
        ("passes", ["--- lower", "--- fuse", "(unchanged)"]),
        ("source", ["def call("]),
    ],
)
def test_log(topic, words, monkeypatch, capsys, jit_module):
    monkeypatch.setenv("NUMSTAX_LOG", topic)
    compiled = decorate(scaled)
    compiled(X)
    compiled(X[:2])
    said = capsys.readouterr().err
    for word in words:
        assert word in said


def test_make_graph():
    graph = numstax.make_graph(lambda x: np.exp(x) + 1, (X,))
    assert {"input", "exp", "add"} <= {node.op for node in graph.nodes()}
    assert graph.inputs[0].dtype == np.float32


def test_reference_backend_generates_no_code():
    compiled = decorate(shift, backend="reference")
    ours, theirs = np.arange(6.0), np.arange(6.0)
    np.testing.assert_array_equal(compiled(ours, np.ones(6)), shift(theirs, np.ones(6)))
    np.testing.assert_array_equal(ours, theirs)
    assert compiled.artifacts()[0].source == ""


def test_a_loop_that_unrolls_to_too_much_runs_as_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def tree(v: np.ndarray) -> np.ndarray:
        for _ in range(40):
            v = 0.5 * (v[:-1] + v[1:])
        return v

    monkeypatch.setattr(pipeline, "LONGEST", 0.5)
    x = np.random.default_rng(0).standard_normal(43)
    with pytest.warns(numstax.NumstaxWarning, match="would take about [0-9]+ s"):
        np.testing.assert_array_equal(decorate(tree)(x), tree(x))
    with pytest.raises(numstax.errors.UnsupportedOperationError, match="jit the body of the loop") as caught:
        decorate(tree, strict=True)(x)
    assert caught.value.origin.function == "tree"


@decorate
def named(x):
    return x + 1


class Holder:
    @decorate
    def method(self, x):
        return 2 * x


def test_pickled_by_name_or_made_again():
    for function in (named, Holder.method):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
    made = pickle.loads(pickle.dumps(decorate(scaled, strict=True, static_argnames="factor")))
    np.testing.assert_array_equal(made(X, factor=2.0), 2 * X)
    with pytest.raises(ArgumentCountError):
        pickle.loads(pickle.dumps(decorate(scaled, strict=True)))(X, 1, 2, 3)


def test_fullgraph_raises_at_the_limit_without_strict(monkeypatch):
    monkeypatch.setattr(sys.modules["numstax.jit"], "SPECIALISATIONS", 2)
    compiled = decorate(scaled, fullgraph=True)
    for n in (1, 2):
        compiled(np.ones(n))
    with pytest.raises(SpecialisationLimitError, match="dynamic=True"):
        compiled(np.ones(3))


def test_many_compilations_warn_once(monkeypatch):
    monkeypatch.setattr(sys.modules["numstax.jit"], "MANY", 3)
    compiled = decorate(scaled)
    for n in (1, 2, 3):
        compiled(np.ones(n))
    with pytest.warns(numstax.NumstaxWarning, match=r"compiled 3 times.*shape(.|\n)*dynamic=True"):
        compiled(np.ones(4))
    for n in (5, 1, 6):
        compiled(np.ones(n))
