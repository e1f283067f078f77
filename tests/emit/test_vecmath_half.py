"""Half and quarter floats: every bit pattern one way, ties and edges the other way."""

import ml_dtypes
import numpy as np
import pytest

from numstax.dtypes import by_name, storage
from numstax.emit import vecmath

NAMES = ("f16", "bf16", "f8e4m3", "f8e5m2")


def all_bits(name):
    unsigned = storage(by_name(name))
    return np.arange(np.iinfo(unsigned).max + 1, dtype=unsigned)


def values(name):
    """float32 of every kind: random bits, all representable numbers, and their midpoints with neighbours."""
    with np.errstate(all="ignore"):
        exact = all_bits(name).view(by_name(name)).astype(np.float32)
    finite = np.sort(exact[np.isfinite(exact)]).astype(np.float64)
    middle = ((finite[:-1] + finite[1:]) / 2).astype(np.float32)
    near = [np.nextafter(middle, np.float32(s)) for s in (-np.inf, np.inf)]
    edges = np.array([464, 465, 463.9, 480, 57344, 61439, 61440, 65504, 65519, 65520, 1e30, np.inf, np.nan], np.float32)
    random = np.random.default_rng(1).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    return np.concatenate([exact, middle, *near, edges, -edges, random])


@pytest.mark.parametrize("name", NAMES)
def test_every_stored_value_as_float32(name, compiled):
    bits = all_bits(name)
    with np.errstate(all="ignore"):
        want = bits.view(by_name(name)).astype(np.float32)
    got = compiled(vecmath.intrinsic(f"f32_from_{name}"), bits)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("name", NAMES)
def test_rounding_to_storage(name, compiled):
    x, dtype = values(name), by_name(name)
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    got = compiled(vecmath.intrinsic(f"{name}_from_f32"), x).view(dtype)
    number = ~np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(got.view(storage(dtype))[number], want.view(storage(dtype))[number])
    assert np.isnan(got[~number].astype(np.float32)).all()
    np.testing.assert_array_equal(compiled(vecmath.intrinsic(f"round_{name}"), x), got.astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_lane_model_agrees(name):
    x, dtype = values(name)[-50_000:], by_name(name)
    with np.errstate(all="ignore"):
        want = x.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(vecmath.evaluate(vecmath.intrinsic(f"round_{name}"), x), want)


def test_float8_overflow_is_nan_or_infinity(compiled):
    x = np.array([448, 464, 465, -1e9, 57344, 61440, np.inf], np.float32)
    e4m3 = compiled(vecmath.intrinsic("f8e4m3_from_f32"), x).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    e5m2 = compiled(vecmath.intrinsic("f8e5m2_from_f32"), x).view(ml_dtypes.float8_e5m2).astype(np.float32)
    np.testing.assert_array_equal(e4m3, [448, 448, *[np.nan] * 5])
    np.testing.assert_array_equal(e5m2, [448, 448, 448, -np.inf, 57344, np.inf, np.inf])
