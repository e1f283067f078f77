"""graphs: what is recorded, when it is replayed, what changes between calls, and what is refused."""

import numpy as np
import pytest

import numstax
from numstax import explain
from numstax.runtime import graph_nodes, recording
from numstax.runtime.arrays import DeviceArray
from numstax.runtime.graphs import VARIANTS
from tests.fake_cuda import CUresult


def chain(x):
    """Several launches that depend on each other."""
    for _ in range(2):
        x = x - x.mean(1, keepdims=True)
        x = x * x.max(0, keepdims=True)
    return x


def there(*shape, seed=0):
    return numstax.to_device(np.random.default_rng(seed).standard_normal(shape, np.float32))


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-6)


def graph_launches(api):
    return api.calls.count("cuGraphLaunch")


def test_later_calls_are_one_graph(api):
    function, x = numstax.jit(chain, strict=True), there(20, 40)
    want = chain(np.asarray(x))
    close(function(x), want)
    assert graph_launches(api) == 0
    single = len(api.launched)
    for _ in range(3):
        close(function(x), want)
    assert graph_launches(api) == 3
    assert len(api.launched) == single
    assert function.artifacts()[0].note == f"one CUDA graph of {single} launches"


def test_results_of_other_calls_stay(api):
    function = numstax.jit(chain, strict=True)
    inputs = [there(20, 40, seed=k) for k in range(2 * VARIANTS)]
    results = [function(x) for x in inputs]
    for got, x in zip(results, inputs, strict=True):
        close(got, chain(np.asarray(x)))
    assert graph_launches(api) == 2 * VARIANTS - 1


def test_what_moved_is_changed_in_a_graph(api):
    function, x = numstax.jit(chain, strict=True), there(20, 40)
    kept = [function(x) for _ in range(VARIANTS + 1)]
    made = api.calls.count("cuGraphInstantiate")
    assert made == VARIANTS
    assert api.changed == 0
    close(function(x), chain(np.asarray(x)))
    assert api.calls.count("cuGraphInstantiate") == made
    assert 0 < api.changed <= len(api.launched)
    assert len(kept) == VARIANTS + 1


def test_the_same_places_change_nothing(api):
    function, x = numstax.jit(chain, strict=True), there(20, 40)
    for _ in range(10):
        close(function(x), chain(np.asarray(x)))
    assert api.calls.count("cuGraphInstantiate") == 1
    assert api.changed == 0


def test_scalars_are_given_anew(api):
    def scaled(x, a):
        y = x - x.mean(1, keepdims=True) * a
        return y * y.max(0, keepdims=True)

    function, x = numstax.jit(scaled, strict=True), there(20, 40)
    for a in (1.5, 2.5, -0.0, 0.0, 1.5):
        got, want = np.asarray(function(x, a)), scaled(np.asarray(x), a)
        close(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert graph_launches(api) == 4


def test_arguments_that_are_changed(api):
    def step(x, y):
        y += x - x.mean(1, keepdims=True)
        y *= y.max(0, keepdims=True)
        return y

    function = numstax.jit(step, strict=True)
    x, y = there(20, 40), there(20, 40, seed=1)
    want = np.asarray(y)
    for _ in range(3):
        step(np.asarray(x), want)
        assert function(x, y) is y
        close(y, want)
    assert graph_launches(api) == 2


def test_loops_are_run_through(api):
    def heat(u):
        for _ in range(21):
            v = u.copy()
            v[1:-1] = u[1:-1] + 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
            u = v
        return u

    function, x = numstax.jit(heat, strict=True), there(200)
    for _ in range(3):
        close(function(x), heat(np.asarray(x)))
    assert graph_launches(api) == 2
    assert "launches" in function.artifacts()[0].note


def test_streams_have_graphs_of_their_own(api):
    function, x = numstax.jit(chain, strict=True), there(20, 40)
    want = chain(np.asarray(x))
    for stream in (0, 5, 0, 5, 0, 5):
        y = function(x.on(stream))
        assert y.stream == stream
        close(y, want)
    assert graph_launches(api) == 4
    assert api.calls.count("cuGraphInstantiate") >= 2


def test_a_failure_is_remembered(api, monkeypatch):
    function, x = numstax.jit(chain, strict=True), there(20, 40)
    function(x)
    monkeypatch.setattr(api, "cuGraphInstantiate", lambda *_: (CUresult.CUDA_ERROR_INVALID_VALUE, None))
    for _ in range(3):
        close(function(x), chain(np.asarray(x)))
    assert graph_launches(api) == 0
    assert api.calls.count("cuGraphCreate") == 1


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (lambda x: x + 1, {}, "it launches one program"),
        (chain, {"dynamic": True}, "sizes are symbols, and a graph is for one shape"),
    ],
)
def test_refusals(api, function, options, reason):
    compiled = numstax.jit(function, strict=True, **options)
    assert isinstance(compiled(there(20, 40)), DeviceArray)
    assert compiled.artifacts()[0].note == f"no CUDA graph: {reason}"
    assert f"no CUDA graph: {reason}" in str(explain(compiled, there(20, 40)))


def test_indices_are_checked_by_the_host(api):
    compiled = numstax.jit(lambda x, k: (x - x.mean(1, keepdims=True))[k].max(0), strict=True)
    compiled(there(20, 40), numstax.to_device(np.array([1, 3, 5])))
    assert "the host reads whether an index was out of bounds" in compiled.artifacts()[0].note


def test_heavy_temporaries_are_not_kept(api, monkeypatch):
    monkeypatch.setattr(recording, "HEAVY", 1000)
    compiled = numstax.jit(chain, strict=True)
    compiled(there(20, 40))
    assert "MB, which a graph would keep" in compiled.artifacts()[0].note


def test_programs_for_other_sizes_are_loaded_when_these_come(api):
    def centred(x):
        return x - x.mean(1, keepdims=True)

    function = numstax.jit(centred, strict=True, dynamic=True)
    loaded = []
    for shape in ((20, 40), (30, 44), (20, 41), (9, 13), (20, 600), (7, 44)):
        x = there(*shape)
        close(function(x), centred(np.asarray(x)))
        loaded.append(api.calls.count("cuModuleLoadData"))
    assert loaded == [1, 1, 2, 3, 4, 4]
    assert function.compile_count == 1


def test_what_a_counter_chooses_is_part_of_a_graph(api):
    def swept(x):
        for k in range(20):
            x[: 20 - k] = x[: 20 - k] * 0.5 + 1
        return x + 1

    function = numstax.jit(swept, strict=True)
    for _ in range(3):
        x = there(20)
        want = swept(np.asarray(x).copy())
        close(function(x), want)
    assert graph_launches(api) == 2
    assert "one CUDA graph of 21 launches" in function.artifacts()[0].note
    assert " % 4 == 0:" in function.artifacts()[0].source


def test_arguments_that_no_program_takes(api):
    compiled = numstax.jit(lambda x, y, a: (chain(x), y.sum()), strict=True)
    x, empty = there(20, 40), numstax.to_device(np.zeros((0, 4), np.float32))
    for _ in range(3):
        first, second = compiled(x, empty, 2.5)
        close(first, chain(np.asarray(x)))
        assert float(np.asarray(second)) == 0
    assert graph_launches(api) == 2


def relax(u, tolerance):
    """Until nothing changes by more; arrays change places."""
    change = np.float32(1e30)
    while change > tolerance:
        v = u.copy()
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        change = np.abs(v - u).max()
        u = v
    return u


def halved(x):
    """A loop in a loop, and a counted one."""
    while x.max() > 1:
        while x.min() > 0.5:
            x = x - 0.25
        for _ in range(3):
            x = x * 0.75
    return x


@pytest.mark.parametrize(("function", "others"), [(relax, (0.1, 0.2, 3.0)), (halved, ())])
def test_the_gpu_repeats_loops_by_itself(api, function, others):
    compiled = numstax.jit(function, strict=True)
    for k in range(VARIANTS + 3):
        given = [np.float32(others[k % len(others)])] if others else []
        x = numstax.to_device(np.random.default_rng(k).random(30, np.float32) * (1 + k % 3))
        reads = api.calls.count("cuMemcpyDtoHAsync")
        got = compiled(x, *given)
        if k:
            assert api.calls.count("cuMemcpyDtoHAsync") == reads
        np.testing.assert_array_equal(np.asarray(got), function(np.asarray(x), *given))
    assert graph_launches(api) == VARIANTS + 3
    assert api.changed == 0
    assert compiled.artifacts()[0].note.endswith("with loops that the GPU repeats")


def test_a_driver_that_repeats_nothing(api, monkeypatch):
    monkeypatch.setattr(api, "cuGraphAddNode", lambda *_: (CUresult.CUDA_ERROR_INVALID_VALUE, None))
    compiled = numstax.jit(relax, strict=True)
    for seed in range(3):
        x, tolerance = there(50, seed=seed), np.float32(0.1)
        np.testing.assert_array_equal(np.asarray(compiled(x, tolerance)), relax(np.asarray(x), tolerance))
    assert graph_launches(api) == 0
    assert "the driver repeats none" in compiled.artifacts()[0].note


def test_states_that_change_places_with_each_other(api):
    def swapped(x, y):
        while x.max() > 1:
            x, y = y * 0.5, x * 0.5
        return x, y

    compiled = numstax.jit(swapped, strict=True)
    for seed in range(3):
        x, y = there(50, seed=seed), there(50, seed=seed + 10)
        for got, want in zip(compiled(x, y), swapped(np.asarray(x), np.asarray(y)), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)


def test_decisions_compile():
    compile_cuda = pytest.importorskip("numstax.runtime.compile_cuda", reason="needs the cuda extra")
    for made in (graph_nodes.decide("sm_90a"), graph_nodes.counts("sm_80")):
        assert compile_cuda.compile_program(made).stack == 0
