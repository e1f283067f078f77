"""Convolutions on a GPU beside cuDNN with channels last: seconds, rates, and the ratio cuDNN / numstax.

    python -m bench.conv
    python -m bench.conv --only stem --rounds 5

Timed as products of matrices are (`bench.gemm`); every result is checked against float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

import numstax
from bench import gemm


@dataclass(frozen=True)
class Row:
    """Images (batch, size, size, channels), filters (window, window, channels, filters)."""

    label: str
    images: int
    size: int
    channels: int
    filters: int
    window: int
    stride: int = 1
    relu: bool = False
    kind: str = "bf16"
    batch = 0

    @property
    def name(self) -> str:
        shape = f"{self.images}x{self.size}x{self.size}x{self.channels}"
        return f"{self.label} {shape} {self.window}x{self.window} -> {self.filters}{' relu' if self.relu else ''}"

    @property
    def padding(self) -> int:
        return self.window // 2

    @property
    def m(self) -> int:
        """Pixels of the results, the rows of the product."""
        return self.images * ((self.size + 2 * self.padding - self.window) // self.stride + 1) ** 2

    @property
    def n(self) -> int:
        return self.filters

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.channels * self.window**2

    def inputs(self, generator: torch.Generator) -> list[torch.Tensor]:
        """Images, filters, and the filters in the order that cuDNN prefers."""
        shapes = (self.images, self.size, self.size, self.channels), (*[self.window] * 2, self.channels, self.filters)
        x, w = (torch.randn(s, generator=generator, device="cuda").to(gemm.KINDS[self.kind]) for s in shapes)
        return [x, w, w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)]

    def ours(self) -> Callable[..., object]:
        def layer(x, w):
            made = numstax.conv2d(x, w, stride=self.stride, padding=self.padding)
            return np.maximum(made, 0) if self.relu else made

        jitted = numstax.jit(layer, strict=True)
        return lambda x, w, _: jitted(x, w)

    def peers(self, compiled: bool) -> Iterator[tuple[str, Callable[..., object]]]:
        def layer(x, _, w):
            made = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w, stride=self.stride, padding=self.padding)
            return (torch.relu(made) if self.relu else made).permute(0, 2, 3, 1)

        yield "torch", layer
        if compiled:
            torch._dynamo.reset()
            yield "max-autotune", torch.compile(layer, dynamic=False, mode="max-autotune-no-cudagraphs")


ROWS = (
    Row("wide", 32, 56, 64, 64, 3),
    Row("deep", 32, 28, 256, 256, 3),
    Row("stem", 32, 224, 3, 64, 7, 2),
    Row("wide", 32, 56, 64, 64, 3, relu=True),
    Row("flat", 32, 28, 256, 512, 1),
    Row("half", 32, 56, 128, 128, 3, 2),
)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.conv", description="convolutions beside cuDNN")
    parser.add_argument("--only", nargs="*", default=[""], help="beginnings of the names of rows")
    parser.add_argument("--compile", action="store_true", help="torch.compile with max-autotune is a peer too")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(argv)
    torch.backends.cudnn.benchmark = True
    rows = (row for row in ROWS if any(map(row.name.startswith, options.only)))
    gemm.run(rows, lambda row: gemm.measure(row, options.compile, options.rounds))


if __name__ == "__main__":
    main()
