"""What programs draw random numbers with, as data: against NumPy, and against machine code."""

import numpy as np
import pytest

from numstax.emit import draws, scalars
from numstax.emit.vecmath_lanes import evaluate
from numstax.emit.ziggurat import LAYERS, ziggurat

LOW = 2**64 - 1


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.PCG64DXSM])
def test_steps_are_those_of_numpy(kind):
    bits = kind(3)
    low_of, high_of, output = (draws.find(f"{kind.__name__.lower()}_{name}") for name in ("low", "high", "output"))
    state = bits.state["state"]
    halves = [np.array([part], np.uint64) for n in (state["state"], state["inc"]) for part in (n >> 64, n & LOW)]
    high, low, add_high, add_low = halves
    for word in bits.random_raw(100):
        before = evaluate(output, high, low)
        high = evaluate(high_of, high, low, add_high, add_low)
        low = evaluate(low_of, low, add_low)
        assert word == (before if kind is np.random.PCG64DXSM else evaluate(output, high, low))


@pytest.mark.parametrize(
    "name",
    ["pcg64_high", "pcg64_low", "pcg64_output", "normal_point_f64", "normal_inside_f64", "exponential_height_f32"],
)
def test_lane_model_agrees_with_machine_code(name, compiled):
    intrinsic = scalars.find(name)
    words = np.random.PCG64(5).random_raw((len(intrinsic.params), 1000))
    if name.endswith("f32"):
        words >>= np.uint64(32)
    assert evaluate(intrinsic, *words).tobytes() == compiled(intrinsic, *words).tobytes()


@pytest.mark.parametrize("distribution", ["normal", "exponential"])
@pytest.mark.parametrize("width", [32, 64])
def test_layers_have_one_area_and_cover_the_density(distribution, width):
    table = ziggurat(distribution, width)
    edges, heights = np.array(table.steps) * 2.0**table.bits, np.array(table.heights)
    close = 1e-5 if width == 32 else 1e-12
    assert len(edges) == len(heights) == len(table.limits) == LAYERS
    areas = edges[1:] * (heights[:-1] - heights[1:])
    np.testing.assert_allclose(areas, edges[0] * heights[-1], rtol=close * 100)
    assert edges[-1] == pytest.approx(table.edge, rel=close)
    density = np.exp(-(edges[1:] ** 2) / 2 if distribution == "normal" else -edges[1:])
    np.testing.assert_allclose(heights[1:], density, rtol=close)
    np.testing.assert_allclose(np.array(table.limits[2:]) / 2.0**table.bits, edges[1:-1] / edges[2:], rtol=close)
