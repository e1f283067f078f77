"""What the tests of the runtime share."""

import pytest

from numstax import places
from numstax.runtime import device as device_module
from tests.fake_cuda import FakeDriver


@pytest.fixture
def api(monkeypatch):
    """The driver that `device` finds; compiling is left out."""
    made = FakeDriver()
    monkeypatch.setattr(device_module, "compile_together", lambda programs: list(map(made.cubin, programs)))
    monkeypatch.setattr(device_module, "start", lambda: made)
    device_module.device.cache_clear()
    places.gpu.cache_clear()
    yield made
    device_module.device.cache_clear()
    places.gpu.cache_clear()
