"""Calls of exported functions: structure, dtypes, layouts, writes, aliases, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import numstax
from numstax.errors import (
    ArgumentCountError,
    DimensionError,
    ReadOnlyError,
    SignatureError,
    SizeError,
    UnsupportedArgumentError,
)
from tests.support import layouts, normal, same

N, M = numstax.Dim("n", 1, 100), numstax.Dim("m", 1, 100)
Pair = namedtuple("Pair", "first second")


@dataclass
class Layer:
    weight: np.ndarray
    scale: float


def affine(x, w, b=0.5):
    return x @ w + b


@pytest.fixture(scope="module")
def exported() -> numstax.Exported:
    return numstax.export(affine, (normal((8, 3)), normal((3, 4)), 0.5), dynamic_shapes={"x": {0: N}})


def test_keywords_are_taken(exported: numstax.Exported) -> None:
    x, w = normal((5, 3)), normal((3, 4), seed=1)
    want = affine(x, w, 2.5)
    np.testing.assert_allclose(exported(x, w, 2.5), want, rtol=1e-5)
    np.testing.assert_allclose(exported(x, b=2.5, w=w), want, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x, w, b: (x, w), ArgumentCountError, r"missing a required argument: 'b'; .* as affine\(x, w, b\)"),
        (lambda x, w, b: (x, w, b, b), ArgumentCountError, r"affine\(x, w, b\)"),
        (lambda x, w, b: (x.astype("f8"), w, b), SignatureError, "x has dtype float64; .*float32"),
        (lambda x, w, b: (x[0], w, b), SignatureError, "x has 1 dimensions; .*2"),
        (lambda x, w, b: (x.tolist(), w, b), SignatureError, r"x is a list of \d+; it was exported as an array"),
        (lambda x, w, b: (np.ma.array(x), w, b), SignatureError, "x is a MaskedArray"),
        (lambda x, w, b: (x, w, 1), SignatureError, "b is a int; .*float"),
        (lambda x, w, b: (x[:0], w, b), SizeError, r"x.shape\[0\] is 0; .*Dim\('n', min=1, max=100\)"),
        (lambda x, w, b: (np.ones((101, 3), "f4"), w, b), SizeError, r"x.shape\[0\] is 101; .*max=100"),
        (lambda x, w, b: (x, w[:, :2], b), SizeError, r"w.shape\[1\] is 2; it is always 4"),
    ],
)
def test_refused(exported: numstax.Exported, change, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        exported(*change(normal((5, 3)), normal((3, 4)), 0.5))


def test_a_parameter_twice(exported: numstax.Exported) -> None:
    with pytest.raises(ArgumentCountError, match="multiple values for argument 'x'"):
        exported(normal((5, 3)), normal((3, 4)), 0.5, x=normal((5, 3)))


def test_the_example_arguments_are_a_tuple() -> None:
    with pytest.raises(ArgumentCountError, match=r"remedy: numstax.export\(affine, \(x,\)\)"):
        numstax.export(affine, normal((5, 3)))


@pytest.mark.parametrize("example", ["C", "F", "sliced", "reversed", "rows repeated"])
def test_every_layout_at_every_call(example: str) -> None:
    def function(x, y):
        return x * 2 + y, x.T.sum(0), np.cumsum(x - y, axis=0)

    given = dict(layouts(normal((8, 6))))[example]
    made = numstax.export(function, (given, normal((8, 6))), dynamic_shapes={k: {0: N, 1: M} for k in "xy"})
    for seed, (rows, columns) in enumerate(((8, 6), (5, 7), (1, 4), (3, 1))):
        for name, x in layouts(normal((rows, columns), seed=seed)):
            if x.size == 0:
                continue
            y = normal(x.shape, seed=9)
            for got, want in zip(made(x, y), function(x, y), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)


def test_other_byte_order_and_alignment() -> None:
    made = numstax.export(lambda x: x * 2, (normal((8,), "f8"),), dynamic_shapes={"x": {0: N}})
    x = normal((5,), "f8")
    same(made(x.astype(">f8")), x * 2)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("f8")
    assert not shifted.flags.aligned
    same(made(shifted), x * 2)


# --- writes and aliases -----------------------------------------------------------------------------


def update(x, y):
    x += y
    x[0] = 7
    return x[1:].sum()


def test_arguments_are_written() -> None:
    made = numstax.export(update, (normal((8, 4)), normal((8, 4))), dynamic_shapes={k: {0: N} for k in "xy"})
    for name, x in layouts(normal((5, 4))):
        if x.shape != (5, 4) or name.endswith("repeated"):
            continue
        y = normal((5, 4), seed=3)
        wanted, given = x.copy(), x
        total = update(wanted, y)
        np.testing.assert_allclose(made(given, y), total, rtol=1e-4)
        np.testing.assert_array_equal(given, wanted, name)


def test_what_is_written_is_writeable_and_its_own() -> None:
    made = numstax.export(update, (normal((8, 4)), normal((8, 4))), dynamic_shapes={k: {0: N} for k in "xy"})
    x = normal((6, 4))
    with pytest.raises(UnsupportedArgumentError, match="x is written and shares memory with y"):
        made(x[1:], x[:-1])
    before = x.copy()
    x.flags.writeable = False
    with pytest.raises(ReadOnlyError, match="x is written"):
        made(x, normal((6, 4)))
    same(x, before)


def test_results_that_are_views() -> None:
    made = numstax.export(lambda x: (x.T, x[1:]), (normal((8, 4)),), dynamic_shapes={"x": {0: N}})
    x = normal((5, 4))
    transposed, rest = made(x)
    assert np.shares_memory(transposed, x)
    x[1, 0] = 99
    assert transposed[0, 1] == rest[0, 0] == 99


# --- structure --------------------------------------------------------------------------------------


def test_containers() -> None:
    def function(batch, layer, pair, flag):
        x = batch["x"][0] @ layer.weight * layer.scale
        return {"y": x + pair.first, "z": Pair(x.sum(), flag), "n": x.shape[0]}

    args = (
        {"x": [normal((8, 3)), 1]},
        Layer(normal((3, 2)), 2.0),
        Pair(np.float32(3), None),
        "mean",
    )
    made = numstax.export(function, args, dynamic_shapes={"batch['x'][0]": {0: N}})
    call = ({"x": [normal((5, 3)), 1]}, Layer(normal((3, 2), seed=2), 0.25), Pair(np.float32(1), None), "mean")
    got, want = made(*call), function(*call)
    assert list(got) == ["y", "z", "n"]
    assert type(got["z"]) is Pair
    assert (got["z"].second, got["n"]) == ("mean", 5)
    np.testing.assert_allclose(got["y"], want["y"], rtol=1e-5)
    for bad, message in (
        (({"x": [normal((5, 3)), 2]}, *call[1:]), r"batch\['x'\]\[1\] is 2; .* for 1"),
        (({"x": (normal((5, 3)), 1)}, *call[1:]), r"batch\['x'\] is a tuple of 2; .* for a list of 2"),
        ((*call[:3], "sum"), "flag is 'sum'; .* for 'mean'"),
        ((*call[:2], Pair(1.0, None), "mean"), "pair.* is a float; .*float32"),
    ):
        with pytest.raises(SignatureError, match=message):
            made(*bad)


def test_arrays_from_outside_become_part_of_the_program() -> None:
    table = normal((3, 4))[:, ::2]
    made = numstax.export(lambda x: x @ table + np.arange(2.0), (normal((8, 3)),), dynamic_shapes={"x": {0: N}})
    x, kept = normal((5, 3)), table.copy()
    table[...] = 0
    np.testing.assert_allclose(made(x), x @ kept + np.arange(2.0), rtol=1e-5)


def test_a_jitted_function_is_exported() -> None:
    made = numstax.export(numstax.jit(lambda x: x + 1), (normal((8,)),), dynamic_shapes={"x": {0: N}})
    same(made(np.zeros(3, "f4")), np.ones(3, "f4"))


def test_without_dims_every_size_is_fixed() -> None:
    made = numstax.export(lambda x: x + 1, (normal((8,)),))
    same(made(np.zeros(8, "f4")), np.ones(8, "f4"))
    with pytest.raises(SizeError, match=r"x.shape\[0\] is 7; it is always 8, since it was not declared"):
        made(np.zeros(7, "f4"))


def test_a_library_function_whose_result_has_its_own_size() -> None:
    made = numstax.export(lambda x: np.sort(x)[::-1] * 2, (normal((8,)),), dynamic_shapes={"x": {0: N}})
    x = normal((31,))
    same(made(x), np.sort(x)[::-1] * 2)


# --- integers -----------------------------------------------------------------------------------------


def framed(x, k, width):
    """`k` elements in a frame of `width` zeros, and what the integers are themselves."""
    y = np.zeros(k + 2 * width)
    y[width : width + k] = x[:k] * k
    return y, x.reshape(-1, width).sum(1), k * width, np.arange(k)


K, WIDTH = numstax.Dim("k", 2, 50), numstax.Dim("width", 1, 9)


def test_integers_vary(tmp_path) -> None:
    shapes = {"x": {0: N}, "k": K, "width": WIDTH}
    example = (normal((24,), "f8"), 5, 3)
    exported = numstax.export(framed, example, dynamic_shapes=shapes)
    exported.save(tmp_path / "framed")
    for function in (exported, numstax.load(tmp_path / "framed")):
        for n, k, width in ((24, 5, 3), (24, 24, 1), (90, 2, 9)):
            x = normal((n,), "f8", seed=k)
            same(function(x, k=k, width=width), framed(x, k, width), ulps=16)
        with pytest.raises(SizeError, match=r"k is 51; the declared range is k = Dim\('k', min=2, max=50\)"):
            function(normal((90,), "f8"), 51, 3)
        with pytest.raises(SignatureError, match="width is a float; it was exported as an int"):
            function(normal((24,), "f8"), 5, 3.0)
        with pytest.raises(SizeError, match=r"the program was captured for x.shape\[0\] >= k"):
            function(normal((10,), "f8"), 11, 5)
    assert "assert 2 <= k <= 50 : k" in str(exported)


def test_an_integer_and_a_size_may_be_one_dim() -> None:
    def pad(x, n):
        return np.concatenate([x, np.zeros(n)])

    exported = numstax.export(pad, (normal((6,), "f8"), 6), dynamic_shapes={"x": {0: N}, "n": N})
    same(exported(np.ones(3), 3), pad(np.ones(3), 3))
    with pytest.raises(SizeError, match=r"n has one size: x.shape\[0\] is 3, n is 4"):
        exported(np.ones(3), 4)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"k": {0: K}}, "the integer 'k' is declared as .*, which is no numstax.Dim"),
        ({"x": N}, r"'x' is an array; its Dims are given by axis: \{0: Dim\('n', min=1, max=100\)\}"),
        ({"k": K, "width": numstax.Dim("k", 1, 3)}, "'k' is declared as"),
    ],
)
def test_declarations_of_integers(shapes, message) -> None:
    with pytest.raises(DimensionError, match=message):
        numstax.export(framed, (normal((24,), "f8"), 5, 3), dynamic_shapes=shapes)
