"""The peers: for each, a builder that takes a Workload and gives a Runner, or None where it has no version.

Peers other than NumPy are optional; one that is not installed raises ImportError from its builder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench import workloads as W


def _same(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Runner:
    """`call` takes the peer's own arrays, made by `convert`; `back` gives NumPy arrays."""

    call: Callable[..., object]
    convert: Callable[[np.ndarray], object] = _same
    back: Callable[[object], object] = _same


def numpy_plain(work: W.Workload) -> Runner:
    return Runner(work.fn)


def numstax_jit(work: W.Workload) -> Runner:
    import numstax

    return Runner(numstax.jit(work.fn, strict=True))


def jax_jit(work: W.Workload) -> Runner:
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(W.rebind(work.fn, np=jnp, erf=jax.scipy.special.erf))
    return Runner(lambda *xs: jax.block_until_ready(compiled(*xs)), jnp.asarray)


def torch_functions() -> dict[str, Callable[..., object]]:
    """The workloads as a torch user writes them, with library calls where torch has one."""
    import torch
    import torch.nn.functional as F

    torch_np = {"np": torch, "erf": torch.erf}

    def rmsnorm_residual(x, r, g):
        h = x + r
        return F.rms_norm(h, (h.shape[-1],), g, 1e-6), h

    def bcast_chain(x, a, b):
        t = torch.tanh(x * a + b)
        t = t * b - a
        t = torch.exp(-(t * t))
        t = t * x + b
        return torch.clamp(torch.maximum(t, a), max=3.0)

    def small_chain(x):
        for _ in range(4):
            x = x - x.mean(1, keepdim=True)
            x = torch.tanh(x)
            x = x * x.amax(0, keepdim=True)
        return x

    unchanged = (W.transpose_add, W.gelu_backward, W.sum_squares, W.col_mean, W.black_scholes, W.stencil5, W.full_sum)
    return {
        **{fn.__name__: W.rebind(fn, **torch_np) for fn in unchanged},
        "relu_sum": lambda x, w: (torch.relu(x + w) * 2).sum(-1),
        "softmax": lambda x: torch.softmax(x, -1),
        "layernorm": lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b, 1e-5),
        "rmsnorm_residual": rmsnorm_residual,
        "row_var": lambda x: x.var(1, correction=0),
        "full_argmax": lambda x: x.argmax(),
        "cumsum_rows": lambda x: torch.cumsum(x, -1),
        "bcast_chain": bcast_chain,
        "small_chain": small_chain,
        "linear_relu": lambda a, b, c: torch.relu(torch.addmm(c, a, b)),
        "attention": F.scaled_dot_product_attention,
    }


def _from_torch(value: object) -> object:
    return tuple(v.numpy() for v in value) if isinstance(value, tuple) else value.numpy()


def torch_eager(work: W.Workload) -> Runner:
    import torch

    return Runner(torch_functions()[work.name], torch.from_numpy, _from_torch)


def torch_compile(work: W.Workload) -> Runner:
    import torch

    torch._dynamo.reset()
    compiled = torch.compile(torch_functions()[work.name], fullgraph=True, dynamic=False)
    return Runner(compiled, torch.from_numpy, _from_torch)


def numexpr_evaluate(work: W.Workload) -> Runner | None:
    import numexpr

    def evaluate(text: str, **names: object) -> np.ndarray:
        return numexpr.evaluate(text, {**names, **_CONSTANTS})

    written = _NUMEXPR.get(work.name)
    return Runner(lambda *xs: written(evaluate, *xs)) if written else None


_CONSTANTS = {f"c{v}".replace(".", "_"): np.float32(v) for v in (0, 2, 3, 4, 0.2)}
_Evaluate = Callable[..., np.ndarray]


def _ne_softmax(ev: _Evaluate, x: np.ndarray) -> np.ndarray:
    e = ev("exp(x - m)", x=x, m=x.max(-1, keepdims=True))
    return ev("e / s", e=e, s=e.sum(-1, keepdims=True))


def _ne_layernorm(ev: _Evaluate, x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    m = x.mean(-1, keepdims=True)
    v = ev("sum((x - m) * (x - m), axis=1)", x=x, m=m)[:, None] / x.shape[-1]
    return ev("(x - m) * r * g + b", x=x, m=m, r=(1.0 / np.sqrt(v + 1e-5)).astype(np.float32), g=g, b=b)


def _ne_rmsnorm(ev: _Evaluate, x: np.ndarray, r: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h = ev("x + r", x=x, r=r)
    v = ev("sum(h * h, axis=1)", h=h)[:, None] / x.shape[-1]
    return ev("h * s * g", h=h, s=(1.0 / np.sqrt(v + 1e-6)).astype(np.float32), g=g), h


def _ne_small(ev: _Evaluate, x: np.ndarray) -> np.ndarray:
    for _ in range(4):
        x = ev("tanh(x - m)", x=x, m=x.mean(1, keepdims=True))
        x = ev("x * m", x=x, m=x.max(0, keepdims=True))
    return x


def _ne_stencil(ev: _Evaluate, u: np.ndarray) -> np.ndarray:
    parts = {"c": u[1:-1, 1:-1], "n": u[:-2, 1:-1], "s": u[2:, 1:-1], "w": u[1:-1, :-2], "e": u[1:-1, 2:]}
    return ev("c + c0_2 * (n + s + w + e - c4 * c)", **parts)


_NUMEXPR: dict[str, Callable[..., object]] = {
    "relu_sum": lambda ev, x, w: ev("sum(where(x + w > c0, x + w, c0) * c2, axis=1)", x=x, w=w),
    "transpose_add": lambda ev, x, y: ev("x + y", x=x.T, y=y),
    "sum_squares": lambda ev, x: ev("sum(x * x, axis=1)", x=x),
    "softmax": _ne_softmax,
    "layernorm": _ne_layernorm,
    "rmsnorm_residual": _ne_rmsnorm,
    "row_var": lambda ev, x: ev("sum((x - m) * (x - m), axis=1)", x=x, m=x.mean(1, keepdims=True)) / x.shape[1],
    "stencil5": _ne_stencil,
    "full_sum": lambda ev, x: ev("sum(x)", x=x),
    "bcast_chain": lambda ev, x, a, b: ev(
        "minimum(maximum(exp(-((tanh(x*a+b)*b-a) * (tanh(x*a+b)*b-a)))*x + b, a), c3)", x=x, a=a, b=b
    ),
    "small_chain": _ne_small,
}


def numba_hand(work: W.Workload) -> Runner | None:
    from bench.numba_peer import KERNELS

    return Runner(KERNELS[work.name]) if work.name in KERNELS else None


def numba_auto(work: W.Workload) -> Runner:
    """The NumPy function as it stands through ``njit(parallel=True)``."""
    import math

    import numba

    names = {"erf": numba.vectorize(lambda x: math.erf(x))} if "erf" in work.fn.__code__.co_names else {}
    return Runner(numba.njit(parallel=True, fastmath=True)(W.rebind(work.fn, **names)))


PEERS: dict[str, Callable[[W.Workload], Runner | None]] = {
    "numpy": numpy_plain,
    "numexpr": numexpr_evaluate,
    "torch": torch_eager,
    "torch.compile": torch_compile,
    "jax.jit": jax_jit,
    "numba hand": numba_hand,
    "numba auto": numba_auto,
}
