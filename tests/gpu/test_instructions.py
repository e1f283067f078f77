"""The models of instructions are right: programs written by hand give on a GPU what they give in the interpreter."""

import importlib

import numpy as np
import pytest

from numstax.errors import DeviceError
from tests.simulate.matrix_programs import CASES


@pytest.fixture(scope="module")
def device():
    pytest.importorskip("cuda.bindings")
    try:
        return importlib.import_module("numstax.runtime.device").device(0)
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", CASES)
def test_programs_on_a_gpu(name, device):
    if device.gpu.capability[0] != 9 and not name.startswith(("warp", "staged")):
        pytest.skip("copies of tensors and products of warp groups are for Hopper")
    case = CASES[name]()
    launch = importlib.import_module("tests.gpu.launching").launch
    assert np.array_equal(launch(device, case), case.want)
