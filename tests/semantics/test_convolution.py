"""`numstax.conv2d` against its definition in float64: sizes, strides, padding, dilation, groups and layouts."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import numstax
from numstax.errors import ShapeError

RANDOM = np.random.default_rng(9)
Sides = tuple[tuple[int, int], tuple[int, int]]


def reference(
    x: np.ndarray, w: np.ndarray, stride: tuple[int, int], padding: Sides, dilation: tuple[int, int], groups: int
) -> np.ndarray:
    """x (N, H, W, C), w (KH, KW, C / groups, F): window by window, tap by tap."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    (n, h, wide, _), (kh, kw, inside, filters) = x.shape, w.shape
    sizes = [
        (size + sum(padding[k]) - (taps - 1) * dilation[k] - 1) // stride[k] + 1
        for k, (size, taps) in enumerate(((h, kh), (wide, kw)))
    ]
    out = np.zeros((n, *sizes, filters))
    each = filters // groups
    for i, j, u, v in product(range(sizes[0]), range(sizes[1]), range(kh), range(kw)):
        y, z = i * stride[0] + u * dilation[0] - padding[0][0], j * stride[1] + v * dilation[1] - padding[1][0]
        if 0 <= y < h and 0 <= z < wide:
            for g in range(groups):
                channel = x[:, y, z, g * inside : (g + 1) * inside]
                out[:, i, j, g * each : (g + 1) * each] += channel @ w[u, v, :, g * each : (g + 1) * each]
    return out


# batch, size, channels, filters, window, stride, padding, dilation, groups
CASES: list[tuple[Any, ...]] = [
    (1, (8, 8), 4, 6, (3, 3), 1, 0, 1, 1),
    (2, (9, 7), 4, 6, (3, 3), 1, 1, 1, 1),
    (2, (9, 7), 4, 6, (3, 3), 2, 1, 1, 1),
    (2, (9, 7), 4, 6, (3, 3), (2, 1), (1, 0), 1, 1),
    (1, (11, 12), 3, 5, (3, 3), 1, 2, 2, 1),
    (1, (11, 12), 3, 5, (2, 4), (1, 2), ((0, 1), (2, 1)), (3, 1), 1),
    (3, (5, 5), 8, 8, (1, 1), 1, 0, 1, 1),
    (3, (5, 6), 8, 4, (1, 1), 2, 0, 1, 1),
    (1, (17, 17), 3, 8, (7, 7), 2, 3, 1, 1),
    (1, (13, 13), 1, 4, (5, 5), 1, "same", 1, 1),
    (2, (10, 11), 2, 3, (4, 3), (2, 3), "same", 1, 1),
    (2, (10, 11), 2, 3, (4, 3), 1, "valid", 1, 1),
    (2, (9, 9), 6, 9, (3, 3), 1, 1, 1, 3),
    (1, (9, 9), 8, 8, (3, 3), 1, 1, 1, 8),
    (2, (7, 8), 4, 8, (3, 2), 2, 1, 2, 2),
    (1, (6, 6), 6, 12, (3, 3), 1, 1, 1, 6),
    (1, (3, 3), 2, 2, (3, 3), 1, 0, 1, 1),
    (1, (1, 9), 5, 7, (1, 3), 1, (0, 1), 1, 1),
    (4, (12, 1), 3, 2, (5, 1), 3, (2, 0), 1, 1),
    (1, (20, 6), 16, 32, (3, 3), 1, 1, 1, 2),
    (2, (6, 20), 32, 16, (3, 3), (1, 3), 1, 1, 4),
    (1, (9, 9), 2, 3, (2, 2), 1, 0, 4, 1),
    (0, (5, 5), 2, 3, (3, 3), 1, 1, 1, 1),
    (2, (8, 8), 64, 3, (3, 3), 1, 1, 1, 1),
]


def sides(value: Any, size: tuple[int, int], window: tuple[int, int], stride: Any, dilation: Any) -> Sides:
    if value == "same":
        made = []
        for k in (0, 1):
            s, d = (p if isinstance(p, int) else p[k] for p in (stride, dilation))
            need = max((-(-size[k] // s) - 1) * s + (window[k] - 1) * d + 1 - size[k], 0)
            made.append((need // 2, need - need // 2))
        return made[0], made[1]
    if value == "valid":
        return (0, 0), (0, 0)
    first, second = (value, value) if isinstance(value, int) else value
    return (first, first) if isinstance(first, int) else first, (second, second) if isinstance(second, int) else second


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_definition(case: tuple[Any, ...], layout: str) -> None:
    """Compiled, and by NumPy outside of a trace."""
    batch, size, channels, filters, window, stride, padding, dilation, groups = case
    x = RANDOM.standard_normal((batch, *size, channels)).astype(np.float32)
    w = RANDOM.standard_normal((*window, channels // groups, filters)).astype(np.float32)
    pairs = [(p, p) if isinstance(p, int) else p for p in (stride, dilation)]
    expected = reference(x, w, pairs[0], sides(padding, size, window, stride, dilation), pairs[1], groups)
    if layout == "NCHW":
        x, w, expected = x.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy(), expected.transpose(0, 3, 1, 2)

    def function(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return numstax.conv2d(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)

    for made in (numstax.jit(function, strict=True)(x, w), function(x, w)):
        assert made.shape == expected.shape
        assert made.dtype == np.float32
        np.testing.assert_allclose(made, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_other_dtypes(dtype: str) -> None:
    x = RANDOM.integers(-9, 9, (2, 6, 7, 4)).astype(dtype)
    w = RANDOM.integers(-9, 9, (3, 3, 4, 5)).astype(dtype)
    made = numstax.jit(lambda x, w: numstax.conv2d(x, w, padding=1), strict=True)(x, w)
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, reference(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1))


def test_what_follows_is_one_kernel_in_the_products_memory() -> None:
    x, w, bias = (RANDOM.random(shape, np.float32) for shape in ((2, 9, 9, 16), (3, 3, 16, 24), (24,)))

    def layer(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return np.maximum(numstax.conv2d(x, w, padding=1) + bias, 0) * 2

    jitted = numstax.jit(layer, strict=True)
    np.testing.assert_allclose(jitted(x, w, bias), layer(x, w, bias), rtol=1e-5)
    region = jitted.artifact(x, w, bias).region
    assert region is not None
    assert region.plan is not None
    calls = [step for step in region.plan.steps if type(step).__name__ in ("Call", "ExternCall")]
    assert [type(step).__name__ for step in calls[-2:]] == ["ExternCall", "Call"]


def test_one_compilation_for_all_sizes() -> None:
    jitted = numstax.jit(lambda x, w: numstax.conv2d(x, w, stride=2, padding=1), strict=True, dynamic=True)
    w = RANDOM.standard_normal((3, 3, 4, 5)).astype(np.float32)
    for n, h, wide in ((2, 9, 8), (3, 12, 7), (5, 6, 21)):
        x = RANDOM.standard_normal((n, h, wide, 4)).astype(np.float32)
        expected = reference(x, w, (2, 2), ((1, 1), (1, 1)), (1, 1), 1)
        np.testing.assert_allclose(jitted(x, w), expected, rtol=2e-5, atol=2e-5)
    assert jitted.compile_count == 1


def test_kernels_for_a_gpu() -> None:
    """In the interpreter: the product reads the images where they are."""
    x = RANDOM.standard_normal((2, 6, 5, 8)).astype(np.float32)
    w = RANDOM.standard_normal((3, 3, 8, 16)).astype(np.float32)
    jitted = numstax.jit(lambda x, w: numstax.conv2d(x, w, padding=1), strict=True, backend="simulate")
    np.testing.assert_allclose(jitted(x, w), reference(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1), rtol=2e-5, atol=2e-5)


X, W = np.ones((1, 8, 8, 4)), np.ones((3, 3, 4, 6))


@pytest.mark.parametrize(
    ("x", "w", "options", "message"),
    [
        (X[0], W, {}, "rank 4, got 3 and 4"),
        (X, W[..., 0], {}, "rank 4, got 4 and 3"),
        (X, W[:, :, :3], {}, "the images have 4 channels in 1 groups, the filters take 3 of a group"),
        (X, W, {"groups": 2}, "4 channels in 2 groups, the filters take 4"),
        (X, W, {"groups": 3}, "cannot divide 4 channels and 6 filters into 3 groups"),
        (X, W, {"groups": 0}, "into 0 groups"),
        (X, W, {"layout": "NCHW"}, "the images have 8 channels in 1 groups, the filters take 3 of a group"),
        (X, W, {"dilation": 4}, r"a window of 9 does not fit the images' 8 \+ 0 of padding"),
    ],
)
def test_shapes_that_do_not_chain(x: np.ndarray, w: np.ndarray, options: dict[str, Any], message: str) -> None:
    """The same error in and outside of a trace, with the user's line."""

    def call(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return numstax.conv2d(x, w, **options)

    for function in (call, numstax.jit(call, strict=True)):
        with pytest.raises(ShapeError, match=message) as caught:
            function(x, w)
        assert "test_convolution.py" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "HWC"}, "layout must be one of NHWC, NCHW, got 'HWC'"),
        ({"padding": "full"}, "padding must be 'same', 'valid' or numbers, got 'full'"),
        ({"padding": -1}, "padding must be at least 0, got -1"),
        ({"stride": 0}, "stride must be at least 1, got 0"),
        ({"dilation": (1, 0)}, r"dilation must be at least 1, got \(1, 0\)"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        numstax.conv2d(X, W, **options)
