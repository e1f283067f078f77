"""The table of operations against NumPy and SciPy: dtypes, references, identities."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from numstax import dtypes
from numstax.ir import ops
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS, SCANS, identity, resolve, result_type

PYTHON = {bool: True, int: 1, float: 1.0, complex: 1j}
UFUNCS = [name for name, row in ELEMENTWISE.items() if row.types == "ufunc"]
SPECIAL = ("erf", "erfc", "expit", "logit", "xlogy")


def dtype_of_call(function: object, *args: object) -> object:
    try:
        return function(*args).dtype  # type: ignore[operator]
    except TypeError:
        return TypeError


def resolved(name: str, operands: tuple) -> object:
    try:
        return resolve(name, operands)[1]
    except TypeError:
        return TypeError


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UFUNCS)
def test_dtypes_are_those_of_numpy(name: str) -> None:
    kinds = (*dtypes.SUPPORTED, *PYTHON)
    for operands in itertools.product(kinds, repeat=ELEMENTWISE[name].arity):
        if all(o in PYTHON for o in operands):
            continue
        args = [PYTHON[o] if o in PYTHON else np.ones(2, o) for o in operands]
        assert resolved(name, operands) == dtype_of_call(getattr(np, name), *args), operands


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UFUNCS)
def test_resolved_operands_are_a_loop(name: str) -> None:
    """Casting to the operand dtypes and resolving again changes nothing, and the reference gives the result."""
    for operands in itertools.product(dtypes.SUPPORTED, repeat=ELEMENTWISE[name].arity):
        if resolved(name, operands) is TypeError:
            continue
        inner, result = resolve(name, operands)
        assert resolve(name, inner) == (inner, result)
        out = np.asarray(ELEMENTWISE[name].reference(*(np.ones(2, d) for d in inner)))
        assert out.dtype == result
        assert dtypes.is_supported(result)


def test_bfloat16_with_python_scalars_is_what_numpy_makes_of_it() -> None:
    b = np.ones(2, ml_dtypes.bfloat16)
    for scalar in (True, 1, 1.0, 1j):
        assert result_type(b.dtype, type(scalar)) == np.result_type(b, scalar) == np.where(b > 0, b, scalar).dtype
        assert resolve("add", (b.dtype, type(scalar)))[1] == (b + scalar).dtype


def test_every_numpy_ufunc_is_a_row_or_expressed_by_others() -> None:
    other = {"divmod", "frexp", "isnat", "matmul", "matvec", "modf", "vecdot", "vecmat"}
    ufuncs = {u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc)}
    assert ufuncs - ELEMENTWISE.keys() == other & ufuncs


POINTS = np.array([-3.5, -1, -0.0, 0, 0.25, 0.4999, 0.5, 0.7, 1, 2, 8, 1e-12, np.inf, -np.inf, np.nan])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_references_agree_with_scipy(name: str, dtype: str) -> None:
    row = ELEMENTWISE[name]
    args = np.meshgrid(*[POINTS.astype(dtype)] * row.arity)
    want = getattr(special, name)(*args)
    got = row.reference(*args)
    assert got.dtype == want.dtype == resolve(name, (np.dtype(dtype),) * row.arity)[1]
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=0)
    assert row.reference(*[np.ones((0, 2), dtype)] * row.arity).shape == (0, 2)


def test_complex_is_made_from_parts_and_taken_apart() -> None:
    a, b = np.meshgrid(POINTS, POINTS)
    z = ELEMENTWISE["complex"].reference(a, b)
    assert z.dtype == resolve("complex", (a.dtype, b.dtype))[1]
    np.testing.assert_array_equal(z.real, a)
    np.testing.assert_array_equal(np.signbit(z.imag), np.signbit(b))
    assert resolve("imag", (np.dtype("c8"),)) == ((np.dtype("c8"),), np.float32)
    assert resolve("complex", (np.dtype("f4"), np.dtype("f4")))[1] == np.complex64
    assert resolve("where", (np.dtype("i8"), np.dtype("f4"), int)) == (
        (dtypes.BOOL, np.float32, np.float32),
        np.float32,
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", [*REDUCTIONS])
def test_identity_changes_nothing(op: str) -> None:
    for dtype in dtypes.SUPPORTED:
        values = np.array([0, 1, 1, 0]).astype(dtype)
        if dtypes.kind(dtype) == "f":
            values = np.array([0, -1.5, np.nan, 2]).astype(dtype)
        try:
            got = REDUCTIONS[op](np.full(4, identity(op, dtype), dtype), values)
        except TypeError:  # no loop for this dtype
            continue
        want = values.astype(bool) if op.startswith("logical") else values
        np.testing.assert_array_equal(got.astype("c16"), want.astype("c16"))
        assert identity(op, dtype).dtype == dtype


def test_identity_of_reductions_that_find_a_place() -> None:
    assert identity("argmax", dtypes.FLOAT32) == -math.inf
    assert identity("argmin", np.dtype("u1")) == 255


def test_scans_are_reductions() -> None:
    assert set(SCANS) <= set(REDUCTIONS)
    assert all(ops.ELEMENTWISE[name].reference is ufunc for name, ufunc in REDUCTIONS.items())
