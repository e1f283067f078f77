"""The printed kernels of the seed's examples, for a fixed processor and a fixed GPU: what changes in them is seen.

``pytest tests/golden --accept`` writes the files anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench import workloads as w
from numstax import hardware
from numstax.hardware import GPUS, Hardware
from numstax.pipeline import build
from numstax.program import Emitted

HERE = Path(__file__).parent
CPU = Hardware("fixed", cores=2, vector=32, registers=16, l1=32 << 10, l2=1 << 20, l3=32 << 20, line=64)
F32 = np.dtype("f4")
EXAMPLES: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...], int]] = {
    "relu_sum": (w.relu_sum, ((4096, 1024), (1024,)), 1),
    "gelu_backward": (w.gelu_backward, ((1 << 20,), (1 << 20,)), 1),
    "transpose_add": (w.transpose_add, ((2048, 2048), (2048, 2048)), 1),
    "sum_squares": (w.sum_squares, ((64, 262144),), 2),
    "softmax": (w.softmax, ((4096, 1000),), 1),
}
"""Function, shapes, and kernels on a GPU: examples 1.1, 5.1, 6.1, 6.2 and softmax."""


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is `CPU`."""
    real = hardware.host
    for name, module in list(sys.modules.items()):
        if name.startswith("numstax") and getattr(module, "host", None) is real:
            monkeypatch.setattr(module, "host", lambda: CPU)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.usefixtures("fixed")
def test_golden(name: str, target: str, request: pytest.FixtureRequest) -> None:
    function, shapes, kernels = EXAMPLES[name]
    args = tuple(np.zeros(shape, F32) for shape in shapes)
    region = build(function, args, machine=GPUS["H200"] if target == "cuda" else None)
    assert region.plan is not None
    programs = [item.program for item in region.emitted if isinstance(item, Emitted)]
    if target == "cuda":
        assert len(programs) == kernels
    path, text = HERE / f"{name}_{target}.txt", "\n".join(program.text for program in programs)
    if request.config.getoption("accept"):
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} has changed: look at the difference, then --accept it"
