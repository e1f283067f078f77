"""Programs written by hand on a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from numstax.runtime.cache import DiskCache
from numstax.runtime.cubin import Cubin
from numstax.runtime.device import Device
from numstax.runtime.host import Counts
from tests.simulate.matrix_programs import Case


def launch(device: Device, case: Case) -> np.ndarray:
    """What the program of a case leaves in the last of its arrays."""
    program = replace(case.program, target=device.gpu.target)
    (loaded,) = device.load([program], DiskCache(None, (), Cubin), Counts())
    stream, out = device.stream(), case.out
    memory = {k: device.root(v.nbytes) for k, v in enumerate(case.values) if isinstance(v, np.ndarray)}
    for k, place in memory.items():
        device.write(place, case.values[k].reshape(-1).view(np.uint8), stream)
    words = [device.address(memory[k]) if k in memory else v for k, v in enumerate(case.values)]
    sizes = {p.name: v for p, v in zip(program.params, case.values, strict=True) if p.kind == "size"}
    x, y, z = (eval(size, {}, sizes) for size in (*program.grid, "1", "1")[:3])
    loaded.run(stream, x, y, z, int(program.shared), *words)
    got = np.empty_like(out)
    device.read(got.reshape(-1).view(np.uint8), memory[max(memory)], stream)
    return got
