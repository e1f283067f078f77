"""The workloads: plain NumPy functions with their inputs and the fewest bytes (or the flops) each needs.

Nothing here knows about any peer.  Python scalars only, so that float32 stays float32 (NEP 50).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType

import numpy as np
from scipy.special import erf

from numstax import dtypes


def relu_sum(x, w):
    return (np.maximum(x + w, 0) * 2).sum(-1)


def transpose_add(x, y):
    return x.T + y


def gelu_backward(dy, x):
    cdf = 0.5 * (1.0 + erf(x * 0.7071067811865476))
    pdf = np.exp(x * x * -0.5) * 0.3989422804014327
    return dy * (cdf + x * pdf)


def sum_squares(x):
    return (x * x).sum(-1)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_low(x):
    return softmax(x.astype(np.float32)).astype(x.dtype)


def layernorm(x, g, b):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b


def layernorm_low(x, g, b):
    f = np.float32
    return layernorm(x.astype(f), g.astype(f), b.astype(f)).astype(x.dtype)


def rmsnorm_residual(x, r, g):
    h = x + r
    return h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-6) * g, h


def rmsnorm_residual_low(x, r, g):
    f = np.float32
    y, h = rmsnorm_residual(x.astype(f), r.astype(f), g.astype(f))
    return y.astype(x.dtype), h.astype(x.dtype)


def col_mean(x):
    return x.mean(0)


def row_var(x):
    return x.var(1)


def black_scholes(s, k, t):
    sq = np.sqrt(t) * 0.3
    d1 = (np.log(s / k) + (0.02 + 0.5 * 0.3 * 0.3) * t) / sq
    d2 = d1 - sq
    n1 = 0.5 * (1.0 + erf(d1 * 0.7071067811865476))
    n2 = 0.5 * (1.0 + erf(d2 * 0.7071067811865476))
    disc = k * np.exp(t * -0.02)
    call = s * n1 - disc * n2
    return call, call - s + disc


def stencil5(u):
    c = u[1:-1, 1:-1]
    return c + 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * c)


def full_sum(x):
    return x.sum()


def full_argmax(x):
    return x.argmax()


def cumsum_rows(x):
    return np.cumsum(x, axis=-1)


def bcast_chain(x, a, b):
    t = np.tanh(x * a + b)
    t = t * b - a
    t = np.exp(-(t * t))
    t = t * x + b
    return np.minimum(np.maximum(t, a), 3.0)


def small_chain(x):
    for _ in range(4):
        x = x - x.mean(1, keepdims=True)
        x = np.tanh(x)
        x = x * x.max(0, keepdims=True)
    return x


def linear_relu(a, b, bias):
    return np.maximum(a @ b + bias, 0)


def attention(q, k, v):
    s = (q @ np.swapaxes(k, -1, -2)) * (1.0 / math.sqrt(q.shape[-1]))
    return softmax(s) @ v


@dataclass(frozen=True, slots=True)
class Workload:
    """`inputs` are shapes, drawn from the normal distribution or, with `uniform`, between its two bounds."""

    row: str
    fn: Callable[..., object]
    inputs: tuple[tuple[int, ...], ...]
    uniform: tuple[tuple[float, float], ...] = ()
    out_elements: int = 0
    flops: float = 0.0
    rotate: bool = True
    dtype: np.dtype = dtypes.FLOAT32

    @property
    def name(self) -> str:
        return self.fn.__name__.removesuffix("_low")

    @property
    def label(self) -> str:
        low = "" if self.dtype == dtypes.FLOAT32 else f" {dtypes.name(self.dtype)}"
        return f"{self.name}({'x'.join(map(str, self.inputs[0]))}){low}"

    @property
    def bytes(self) -> int:
        """Each input read once, each output written once."""
        return self.dtype.itemsize * (sum(math.prod(s) for s in self.inputs) + self.out_elements)

    def make(self, seed: int = 0) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        if not self.uniform:
            return [rng.standard_normal(s, np.float32).astype(self.dtype, copy=False) for s in self.inputs]
        return [
            (rng.random(s, np.float32) * (hi - lo) + lo).astype(np.float32)
            for s, (lo, hi) in zip(self.inputs, self.uniform, strict=True)
        ]


def table(quick: bool = False) -> list[Workload]:
    """The rows; `quick` leaves out those that only repeat a kind."""
    row, col, m = (4096, 1024), (1024,), 2048
    prices = ((10.0, 50.0), (10.0, 50.0), (0.5, 3.0))
    rows = [
        Workload("1", relu_sum, (row, col), out_elements=4096),
        Workload("2", transpose_add, ((m, m), (m, m)), out_elements=m * m),
        Workload("3", gelu_backward, ((1 << 22,), (1 << 22,)), out_elements=1 << 22),
        Workload("4", sum_squares, ((64, 262144),), out_elements=64),
        Workload("5", softmax, ((4096, 1000),), out_elements=4096 * 1000),
        Workload("5", softmax, ((256, 65536),), out_elements=256 * 65536),
        Workload("6", layernorm, (row, col, col), out_elements=4096 * 1024),
        Workload("7", rmsnorm_residual, ((4096, 4096), (4096, 4096), (4096,)), out_elements=2 * 4096 * 4096),
        Workload("8", col_mean, ((4096, m),), out_elements=m),
        Workload("9", row_var, ((256, 32768),), out_elements=256),
        Workload("10", black_scholes, ((1 << 21,),) * 3, uniform=prices, out_elements=2 << 21),
        Workload("11", stencil5, ((m, m),), out_elements=(m - 2) ** 2),
        Workload("12a", full_sum, ((1 << 24,),), out_elements=1),
        Workload("12b", full_argmax, ((1 << 24,),), out_elements=2),
        Workload("13", cumsum_rows, ((512, 16384),), out_elements=512 * 16384),
        Workload("14", bcast_chain, ((m, m), (m, 1), (1, m)), out_elements=m * m),
        Workload("15", small_chain, ((64, 64),), out_elements=64 * 64, rotate=False),
        Workload(
            "17", linear_relu, ((1024, 1024),) * 2 + ((1024,),), out_elements=1 << 20, flops=2.0 * 1024**3, rotate=False
        ),
        Workload(
            "20", attention, ((1, 8, 1024, 64),) * 3, out_elements=1 << 19, flops=4.0 * 8 * 1024**2 * 64, rotate=False
        ),
    ]
    return [w for w in rows if w.row in ("1", "3", "5", "6", "9", "10", "11", "14")] if quick else rows


def gpu_table() -> list[Workload]:
    """Rows for a GPU: sizes several times its caches."""
    m, low = 8192, {"dtype": dtypes.BFLOAT16}
    prices = ((10.0, 50.0), (10.0, 50.0), (0.5, 3.0))
    wide, long, tall = (65536, 1000), (4096, 65536), (65536, 1024)
    return [
        Workload("1", relu_sum, (tall, (1024,)), out_elements=65536),
        Workload("2", transpose_add, ((m, m), (m, m)), out_elements=m * m),
        Workload("3", gelu_backward, ((1 << 26,), (1 << 26,)), out_elements=1 << 26),
        Workload("4", sum_squares, ((64, 1 << 22),), out_elements=64),
        Workload("5", softmax, (wide,), out_elements=math.prod(wide)),
        Workload("5", softmax_low, (wide,), out_elements=math.prod(wide), **low),
        Workload("5", softmax, (long,), out_elements=math.prod(long)),
        Workload("5", softmax_low, (long,), out_elements=math.prod(long), **low),
        Workload("6", layernorm, (tall, (1024,), (1024,)), out_elements=math.prod(tall)),
        Workload("6", layernorm_low, (tall, (1024,), (1024,)), out_elements=math.prod(tall), **low),
        Workload("7", rmsnorm_residual_low, ((65536, 4096),) * 2 + ((4096,),), out_elements=2 * 65536 * 4096, **low),
        Workload("8", col_mean, ((65536, 2048),), out_elements=2048),
        Workload("9", row_var, ((4096, 32768),), out_elements=4096),
        Workload("10", black_scholes, ((1 << 25,),) * 3, uniform=prices, out_elements=2 << 25),
        Workload("11", stencil5, ((m, m),), out_elements=(m - 2) ** 2),
        Workload("12a", full_sum, ((1 << 28,),), out_elements=1),
        Workload("12b", full_argmax, ((1 << 28,),), out_elements=2),
        Workload("13", cumsum_rows, ((m, 16384),), out_elements=m * 16384),
        Workload("14", bcast_chain, ((m, m), (m, 1), (1, m)), out_elements=m * m),
        Workload("15", small_chain, ((256, 256),), out_elements=256 * 256, rotate=False),
    ]


def rebind(fn: FunctionType, **names: object) -> FunctionType:
    """The same source over other globals: ``rebind(softmax, np=jax.numpy)``."""
    scope = dict(fn.__globals__)
    scope.update(names)
    for used in fn.__code__.co_names:
        helper = fn.__globals__.get(used)
        if isinstance(helper, FunctionType) and helper is not fn and helper.__module__ == fn.__module__:
            scope[used] = rebind(helper, **names)
    return FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)
