"""Every row of the table of operations, for every dtype it takes, against NumPy on special values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from numstax import dtypes
from numstax.emit.spelling import template
from numstax.ir.index import as_index
from numstax.ir.loops import Schedule, Store
from numstax.ir.ops import ELEMENTWISE, resolve
from tests.cpu_emit.running import BodyBuilder, buffer, kernel, loop, run, schedule, var
from tests.support import pairs, specials

TOGETHER = 16
"""Operations in one kernel: compiling one for each would take minutes."""
ROUNDED = {"exp", "power", "divide", "sqrt", "reciprocal", "square", "multiply", "absolute", "sign", "float_power"}
"""Complex operations that NumPy evaluates in another order, or with fused multiply-add."""

Call = tuple[str, tuple[np.dtype, ...], np.dtype, tuple[np.ndarray, ...]]


def calls(dtype: np.dtype) -> Iterator[Call]:
    """Each operation whose operands are of this dtype, with arguments."""
    for op, row in ELEMENTWISE.items():
        given = {"where": (dtypes.BOOL, dtype, dtype), "ldexp": (dtype, np.dtype("i4"))}.get(op, (dtype,) * row.arity)
        try:
            operands, result = resolve(op, given)
        except TypeError:
            continue
        if operands == given:
            yield op, operands, result, arguments(op, operands)


def arguments(op: str, operands: tuple[np.dtype, ...]) -> tuple[np.ndarray, ...]:
    if len(operands) == 1:
        return (specials(operands[0]),)
    x, y = pairs(operands[-1])
    if op == "where":
        return np.arange(x.size) % 3 == 0, x, y
    if op == "ldexp":
        x, y = pairs(operands[0], operands[1])
        return x, np.clip(y, -2000, 2000)
    if op == "power" and dtypes.kind(operands[0]) in "iu":
        y = np.where(y < 0, 3, y)
    return x, y.astype(operands[1])


def compiled(group: list[Call]) -> Schedule:
    """One pointwise kernel that does all of `group`, each over its own arrays."""
    kernels = []
    for k, (op, operands, result, arrays) in enumerate(group):
        i = var(f"i{k}", arrays[0].size)
        ins = [buffer(f"x{k}_{n}", d, (arrays[0].size,), "input") for n, d in enumerate(operands)]
        out = buffer(f"out{k}", result, (arrays[0].size,), "output")
        body = BodyBuilder()
        value = body(op, *(body.load(x, as_index(i)) for x in ins), dtype=result)
        kernels.append(kernel(f"poi_{op}", [i], [loop([], body, Store(out.name, as_index(i), value))], [*ins, out]))
    return schedule(*kernels)


def groups() -> Iterator[tuple[np.dtype, list[Call]]]:
    for dtype in dtypes.SUPPORTED:
        all_calls = list(calls(dtype))
        for start in range(0, len(all_calls), TOGETHER):
            yield dtype, all_calls[start : start + TOGETHER]


@pytest.mark.parametrize(
    ("dtype", "group"), list(groups()), ids=lambda part: dtypes.name(part) if isinstance(part, np.dtype) else part[0][0]
)
def test_values(dtype: np.dtype, group: list[Call]) -> None:
    group = [c for c in group if template(c[0], dtypes.kind(dtype)) is not None]
    got = run(compiled(group), [a for *_, arrays in group for a in arrays], parallel_threshold=1 << 40)
    with np.errstate(all="ignore"):
        for (op, _, result, arrays), mine in zip(group, got, strict=True):
            want = np.asarray(ELEMENTWISE[op].reference(*arrays))
            assert mine.dtype == result
            bad = ~close(mine, want, tolerance(op, result))
            first = int(np.argmax(bad))
            assert not bad.any(), f"{op}{tuple(a[first] for a in arrays)} is {mine[first]}, not {want[first]}"


def tolerance(op: str, result: np.dtype) -> float:
    """In units in the last place."""
    if dtypes.kind(result) == "c":
        return 64 if op in ROUNDED or ELEMENTWISE[op].flops >= 20 else 0
    if op.startswith("logaddexp"):
        return 64  # the terms cancel
    return 4 if ELEMENTWISE[op].flops >= 20 or op in ("absolute", "hypot") else 0


def close(got: np.ndarray, want: np.ndarray, ulps: float) -> np.ndarray:
    """Equal bits of zeros included; NaN equals NaN; complex parts relative to the larger one."""
    kind = dtypes.kind(want.dtype)
    if kind not in "fc":
        return got == want
    if kind == "c":
        size = ulps * np.finfo(want.dtype).eps * np.abs(want)
        parts = ((got.real, want.real), (got.imag, want.imag))
        return np.logical_and.reduce(
            [(g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= size) for g, w in parts]
        )
    eps = {"f16": 2.0**-10, "bf16": 2.0**-7, "f8e4m3": 2.0**-3, "f8e5m2": 2.0**-2, "f32": 2.0**-23}
    g, w = got.astype(np.float64), want.astype(np.float64)
    equal = (g == w) & (np.signbit(g) == np.signbit(w)) | np.isnan(g) & np.isnan(w)
    return equal | (np.abs(g - w) <= ulps * eps.get(dtypes.name(want.dtype), 2.0**-52) * np.abs(w))


@pytest.mark.parametrize("dtype", dtypes.SUPPORTED, ids=dtypes.name)
def test_every_row_has_a_spelling(dtype: np.dtype) -> None:
    missing = [op for op, *_ in calls(dtype) if template(op, dtypes.kind(dtype)) is None]
    # complex arguments of these are SciPy's own algorithms, which stay library calls
    assert set(missing) <= {"erf", "erfc", "expit", "logit", "xlogy"}
    assert not missing or dtypes.kind(dtype) == "c"


@pytest.mark.parametrize("op", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_signed_with_unsigned_compares_values(op: str) -> None:
    x, y = pairs(dtypes.INT64, dtypes.UINT64)
    group = [(op, (x.dtype, y.dtype), dtypes.BOOL, (x, y)), (op, (y.dtype, x.dtype), dtypes.BOOL, (y, x))]
    for (name, _, _, arrays), got in zip(group, run(compiled(group), [x, y, y, x]), strict=True):
        np.testing.assert_array_equal(got, ELEMENTWISE[name].reference(*arrays))
