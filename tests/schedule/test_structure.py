"""Which kernels come out of well-known functions: one pass over memory wherever that is possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

from numstax.hardware import host
from numstax.ir.index import product
from numstax.ir.loops import Extern, Kernel, Loop, Reduce, Schedule, Store
from numstax.ir.reference_loops import evaluate_schedule
from numstax.ir.verify_loops import verify_schedule
from numstax.schedule.fuse import fuse
from numstax.schedule.lower import lower
from numstax.schedule.split import split
from numstax.trace.tracer import trace

TWO_CORES = replace(host(), cores=2)
Array = Any


def compiled(function: Callable, *args: np.ndarray) -> Schedule:
    """Traced, lowered, fused, split; checked against the function itself."""
    graph = trace(function, args, {}).graph
    schedule = split(fuse(lower(graph), TWO_CORES), TWO_CORES)
    verify_schedule(schedule)
    expected = function(*args)
    got, _ = evaluate_schedule(schedule, args, {})
    for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    return schedule


def only_kernel(schedule: Schedule) -> Kernel:
    (unit,) = schedule.units
    assert isinstance(unit, Kernel)
    return unit


def effects(loop: Loop) -> list[str]:
    return [e.op if isinstance(e, Reduce) else type(e).__name__.lower() for e in loop.effects]


def passes(kernel: Kernel) -> list[list[str]]:
    return [effects(loop) for loop in kernel.loops]


def arrays(*shapes: tuple[int, ...], positive: bool = False) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    made = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    return [np.abs(a) + 0.5 for a in made] if positive else made


def relu_sum(x: Array, w: Array) -> Array:
    return (np.maximum(x + w, 0) * 2).sum(-1)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x: Array, g: Array, b: Array) -> Array:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b


def rmsnorm_residual(x: Array, r: Array, g: Array) -> Array:
    h = x + r
    return h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-6) * g, h


def black_scholes(s: Array, k: Array, t: Array) -> Array:
    sq = np.sqrt(t) * 0.3
    d1 = (np.log(s / k) + (0.02 + 0.5 * 0.3 * 0.3) * t) / sq
    d2 = d1 - sq
    n1 = 0.5 * (1.0 + erf(d1 * 0.7071067811865476))
    n2 = 0.5 * (1.0 + erf(d2 * 0.7071067811865476))
    disc = k * np.exp(t * -0.02)
    call = s * n1 - disc * n2
    return call, call - s + disc


def gelu_backward(dy: Array, x: Array) -> Array:
    cdf = 0.5 * (1.0 + erf(x * 0.7071067811865476))
    pdf = np.exp(x * x * -0.5) * 0.3989422804014327
    return dy * (cdf + x * pdf)


def stencil(u: Array) -> Array:
    c = u[1:-1, 1:-1]
    return c + 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * c)


def bcast_chain(x: Array, a: Array, b: Array) -> Array:
    t = np.tanh(x * a + b)
    t = t * b - a
    t = np.exp(-(t * t))
    t = t * x + b
    return np.minimum(np.maximum(t, a), 3.0)


def test_relu_sum_reads_each_input_once() -> None:
    kernel = only_kernel(compiled(relu_sum, *arrays((64, 128), (128,))))
    assert passes(kernel) == [["add"]]
    assert sorted(name for name, _ in kernel.loops[0].loads()) == ["x0", "x1"]


def test_common_subexpressions_are_loaded_once() -> None:
    kernel = only_kernel(compiled(lambda x: (x * x).sum(-1), *arrays((64, 512))))
    assert [i.op for i in kernel.loops[0].body] == ["load", "multiply"]


def test_transpose_add_is_one_two_dimensional_kernel() -> None:
    kernel = only_kernel(compiled(lambda x, y: x.T + y, *arrays((32, 48), (48, 32))))
    assert len(kernel.outer) == 2
    assert passes(kernel) == [["store"]]


def test_contiguous_dimensions_merge() -> None:
    kernel = only_kernel(compiled(lambda x, y: x * y + 1.0, *arrays((4, 8, 16), (4, 8, 16))))
    assert [v.extent.value for v in kernel.outer] == [512]
    kernel = only_kernel(compiled(lambda x, y: x * y, *arrays((4, 8, 16), (16,))))
    assert [v.extent.value for v in kernel.outer] == [32, 16]


def test_softmax_keeps_the_exponentials_of_a_row() -> None:
    kernel = only_kernel(compiled(softmax, *arrays((64, 200))))
    assert passes(kernel) == [["maximum"], ["store", "add"], ["store"]]
    exps = [i for loop in kernel.loops for i in loop.body if i.op == "exp"]
    assert len(exps) == 1
    local = {b.name: [n.value for n in b.shape] for b in kernel.buffers if b.kind == "local"}
    assert sorted(local.values()) == [[], [], [200]]


def test_layernorm_and_variance_are_one_kernel() -> None:
    kernel = only_kernel(compiled(layernorm, *arrays((64, 96), (96,), (96,))))
    assert passes(kernel) == [["add"], ["store"], ["add"], ["store"], ["store"]]
    kernel = only_kernel(compiled(lambda x: x.var(1), *arrays((32, 100))))
    assert [len(loop.inner) for loop in kernel.loops] == [1, 0, 1, 0]


def test_rmsnorm_residual_gives_both_outputs_from_one_kernel() -> None:
    kernel = only_kernel(compiled(rmsnorm_residual, *arrays((64, 96), (64, 96), (96,))))
    assert passes(kernel) == [["store", "add"], ["store"], ["store"]]
    assert sum(name == "x0" for loop in kernel.loops for name, _ in loop.loads()) == 1


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (gelu_backward, ((4096,), (4096,))),
        (black_scholes, ((4096,), (4096,), (4096,))),
        (stencil, ((32, 40),)),
        (bcast_chain, ((32, 40), (32, 1), (1, 40))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_pointwise_functions_are_one_loop(function: Callable, shapes: tuple[tuple[int, ...], ...]) -> None:
    kernel = only_kernel(compiled(function, *arrays(*shapes, positive=True)))
    assert len(kernel.loops) == 1
    assert kernel.loops[0].inner == ()
    assert all(b.kind in ("input", "output") for b in kernel.buffers)


def test_column_statistics_share_a_kernel() -> None:
    kernel = only_kernel(compiled(lambda x: (x.mean(0), x.max(0)), *arrays((64, 512))))
    assert passes(kernel)[0] == ["add", "maximum"]


def test_reductions_over_one_array_share_a_loop() -> None:
    kernel = only_kernel(compiled(lambda x: (x.min(-1), x.max(-1), x.sum(-1)), *arrays((64, 512))))
    assert passes(kernel) == [["minimum", "maximum", "add"]]


def test_large_full_reduction_is_two_kernels() -> None:
    schedule = compiled(lambda x: x.sum() / 3, *arrays((1 << 17,)))
    first, second = schedule.units
    assert isinstance(first, Kernel)
    assert isinstance(second, Kernel)
    assert [v.extent.value for v in first.outer] == [8]
    assert second.outer == ()
    assert "divide" in [i.op for loop in second.loops for i in loop.body]


@pytest.mark.parametrize("size", [(1 << 17) + 7, 131101])
def test_split_with_a_remainder(size: int) -> None:
    schedule = compiled(lambda x: (x.max(), x.argmax(), x.argmin()), *arrays((size,)))
    assert len(schedule.units) == 2


def test_split_argmax_gives_the_first_of_equals_and_nan() -> None:
    x = np.zeros((1 << 17) + 3, np.float32)
    x[[5, 70000, -1]] = 1
    for _ in range(2):
        schedule = split(fuse(lower(trace(lambda a: a.argmax(), (x,), {}).graph), TWO_CORES), TWO_CORES)
        assert len(schedule.units) == 2
        (got,), _ = evaluate_schedule(schedule, [x], {})
        assert got == x.argmax()
        x[[90000, -2]] = np.nan


def test_few_rows_stay_parallel() -> None:
    """Three long rows would occupy three cores; each pass over them is shared out instead."""
    sixteen = replace(host(), cores=16)
    x = arrays((3, 1 << 16))[0]
    schedule = fuse(lower(trace(softmax, (x,), {}).graph), sixteen)
    assert len(schedule.units) > 1
    assert any("would run in parallel" in r.reason for r in schedule.refusals)
    assert len(split(schedule, sixteen).units) > len(schedule.units)


def test_one_element_does_not_make_a_pass_serial() -> None:
    def kicked(x: Array, force: Array) -> Array:
        y = x * 2 + force
        y[7, 9] += np.sin(force[0, 0])
        return y

    schedule = fuse(lower(trace(kicked, tuple(arrays((400, 300), (400, 300))), {}).graph), TWO_CORES)
    assert all(k.outer for k in schedule.units if isinstance(k, Kernel) and any(loop.inner for loop in k.loops))
    assert any(isinstance(k, Kernel) and k.outer for k in schedule.units)


def test_a_product_of_another_shape_is_the_product() -> None:
    random = np.random.default_rng(2)
    a, b = random.random((40, 16)), random.random((16, 30))
    (unit,) = compiled(lambda a, b: (a @ b).reshape(4, 10, 30), a, b).units
    assert isinstance(unit, Extern)


def test_matrix_product_takes_views_and_its_epilogue_is_in_place() -> None:
    schedule = compiled(lambda a, b, c: np.maximum(a.T @ b[:, ::2] + c, 0), *arrays((32, 48), (32, 80), (40,)))
    product, epilogue = schedule.units
    assert isinstance(product, Extern)
    assert isinstance(epilogue, Kernel)
    assert [[s.value for s in v.strides] for v in product.args] == [[1, 48], [80, 2]]  # type: ignore[attr-defined]
    assert product.out is not None
    assert product.out.buffer == schedule.outputs[0]
    assert {b.kind for b in epilogue.buffers} == {"input", "output"}


def test_concatenation_writes_each_part_once() -> None:
    x, y = arrays((300, 64), (200, 64))
    schedule = compiled(lambda a, b: np.concatenate([a + 1, b * 2]), x, y)
    stores = [e for u in schedule.units if isinstance(u, Kernel) for loop in u.loops for e in loop.effects]
    assert len(stores) == 2
    assert all(isinstance(e, Store) and e.buffer == schedule.outputs[0] for e in stores)


def gray_scott(u: Array, v: Array) -> tuple[Array, Array]:
    def laplacian(a: Array) -> Array:
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a

    uvv = u * v * v
    return u + 0.16 * laplacian(u) - uvv + 0.06 * (1 - u), v + 0.08 * laplacian(v) + uvv - 0.12 * v


def life(cells: Array) -> Array:
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    n = sum(np.roll(cells, shift, (0, 1)) for shift in around)
    return (n == 3) | ((cells != 0) & (n == 2))


@pytest.mark.parametrize(("function", "inputs"), [(gray_scott, 2), (life, 1)])
def test_a_stencil_of_rolls_is_one_kernel_over_its_inputs(function: Callable, inputs: int) -> None:
    schedule = compiled(function, *arrays(*[(400, 500)] * inputs))
    kernel = only_kernel(schedule)
    assert sorted(b.kind for b in kernel.buffers) == ["input"] * inputs + ["output"] * len(schedule.outputs)
    assert not any(i.args for loop in kernel.loops for i in loop.body if i.op == "load"), "reads are masked"


def five_points(p: Array) -> Array:
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * p[1:-1, 1:-1]


def slope(x: Array) -> Array:
    down, right = np.gradient(x)
    return np.sqrt(down * down + right * right)


def joined(x: Array) -> Array:
    return np.concatenate([x[-1:], x[:-1]]) + np.hstack([x[:, 1:], x[:, :1]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: five_points(np.pad(x, 1)),
        lambda x: five_points(np.pad(x, 1, mode="edge")),
        lambda x: five_points(np.pad(x, 1, mode="wrap")),
        lambda x: five_points(np.pad(x, 1, mode="reflect")),
        slope,
        joined,
    ],
)
def test_arrays_with_borders_are_not_made(function: Callable) -> None:
    kernel = only_kernel(compiled(function, *arrays((400, 500))))
    assert [b.kind for b in kernel.buffers] == ["input", "output"]


def test_a_sum_over_rolled_operands_reads_them_in_place() -> None:
    schedule = compiled(lambda s: (s * np.roll(s, 1, 0)).sum() + (s * np.roll(s, -2, 1)).sum(), *arrays((300, 400)))
    shapes = [b.shape for b in schedule.buffers if b.kind == "temp"]
    assert all((product(shape).value or 0) < 1000 for shape in shapes)


def test_refusals_have_reasons() -> None:
    schedule = compiled(lambda x: (x - x.mean(0)).sum(1), *arrays((300, 400)))
    assert len(schedule.units) == 2
    assert any("different" in r.reason for r in schedule.refusals)


def assignment(x: Array) -> None:
    x[1:-1] *= 2


def shifted_assignment(x: Array) -> None:
    x[1:] = x[:-1]


@pytest.mark.parametrize("function", [assignment, shifted_assignment])
def test_arguments_are_written_in_place(function: Callable) -> None:
    x = arrays((1000,))[0]
    schedule = fuse(lower(trace(function, (x,), {}).graph))
    assert schedule.writes == ((0, "x0"),)
    expected = x.copy()
    function(expected)
    _, ((_, got),) = evaluate_schedule(schedule, [x], {})
    np.testing.assert_array_equal(got, expected)
    # only what is assigned is stored
    whole = [u for u in schedule.units if isinstance(u, Kernel) and u.outer[0].extent.value == 1000]
    assert not whole


def test_softmax_of_rows_beyond_the_cache_is_online() -> None:
    little_cache = replace(TWO_CORES, l1=512, l2=1024)
    x = arrays((6, 1000))[0]
    x[2] = -np.inf
    x[3, 5] = np.nan
    x[4, 7] = np.inf
    graph = trace(softmax, (x,), {}).graph
    fused = fuse(lower(graph), little_cache)
    schedule = split(fused, little_cache)
    verify_schedule(schedule)
    kernel = only_kernel(schedule)
    assert passes(kernel) == [["online_softmax"], ["store"], ["store"]]
    assert [len(loop.inner) for loop in kernel.loops] == [1, 0, 1]
    assert all(b.shape == () for b in schedule.buffers if b.kind not in ("input", "output"))
    (got,), _ = evaluate_schedule(schedule, [x], {})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, softmax(x), rtol=1e-5)


def test_long_columns_are_split_into_groups_of_rows() -> None:
    schedule = compiled(lambda x: (x + 1).max(0), *arrays((4096, 256)))
    first, second = schedule.units
    assert isinstance(first, Kernel)
    assert isinstance(second, Kernel)
    assert [v.extent.value for v in first.outer] == [8, 256]
    (partial,) = first.writes() & second.reads()
    assert [n.value for n in first.buffer(partial).shape] == [8, 256]
    assert len(compiled(lambda x: x.max(0), *arrays((127, 8192))).units) == 1


def recursive_fft(x: Any) -> Any:
    n = len(x)
    if n == 1:
        return x
    even, odd = recursive_fft(x[::2]), recursive_fft(x[1::2])
    turned = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate([even + turned, even - turned])


def test_what_is_read_at_ever_more_places_is_stored() -> None:
    def instructions(n: int) -> int:
        schedule = fuse(lower(trace(recursive_fft, (np.zeros(n, "c16"),), {}).graph), replace(host(), cores=2))
        return sum(len(loop.body) for unit in schedule.units if isinstance(unit, Kernel) for loop in unit.loops)

    assert instructions(32) < 3 * instructions(16)
