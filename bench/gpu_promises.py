"""What is promised of GPU code beside its speed: arithmetic as it is written, functions of 16-bit numbers within 0.51
units in the last place, loops that cost what their kernels do, and artifacts for all sizes that are nearly as fast as
those for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

import numstax
from bench import peers
from bench import workloads as W
from bench.dynamic import ROWS, resized
from bench.gpu_timing import event_medians, host_seconds, make_sets
from bench.timing import rotating

STEPS = 1000


def promises(only: list[str] | None) -> list[tuple[str, Callable[[], object]]]:
    """Names of what is promised, and what tries it."""
    works = [w for w in W.gpu_table() if w.row in ROWS and (not only or w.name in only)]
    runs = [(f"all sizes, {work.label}", lambda work=work: all_sizes(work)) for work in works]
    return [
        ("products are rounded", products),
        ("quotients are rounded", quotients),
        *((f"{name} in 16 bits", lambda name=name: narrow(name)) for name in ("exp", "tanh")),
        ("a time loop", loop),
        ("a loop until it has converged", until_converged),
        *runs,
    ]


def products() -> str:
    """A product that is subtracted from itself leaves nothing, which contraction would change."""
    x, y = torch.randn(2, 1 << 16, device="cuda")
    rest = numstax.jit(lambda x, y: x * y - y * x, strict=True)(x, y)
    return "right" if not rest.any() else f"WRONG: {rest.abs().max()}"


def quotients() -> str:
    """Quotients by one number for each row, which come from its reciprocal."""
    x = torch.randint(1, 1000, (512, 1000), device="cuda").float()
    got = numstax.jit(lambda x: x / x.sum(1, keepdims=True), strict=True)(x)
    return "right" if torch.equal(got, x / x.sum(1, keepdim=True)) else "WRONG"


def narrow(name: str) -> str:
    """A function of every bfloat16 number between -80 and 80, computed in float32 and rounded once."""
    x = torch.arange(1 << 16, device="cuda").to(torch.uint16).view(torch.bfloat16)
    x = x[x.abs() < 80]
    got = numstax.jit(lambda x: getattr(np, name)(x.astype(np.float32)).astype(x.dtype), strict=True)(x)
    want = getattr(torch, name)(x.double())
    unit = torch.ldexp(torch.ones_like(want), torch.frexp(want).exponent - 8).clamp(min=2.0**-133)
    worst = float(((got.double() - want).abs() / unit).max())
    return f"{'right' if worst <= 0.51 else 'WRONG'}: at most {worst:.4f} units"


def step(u):
    v = u.copy()
    v[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
    return v


def heat(u):
    for _ in range(STEPS):
        v = u.copy()
        v[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
        u = v
    return u


def loop() -> str:
    """A time loop against as many of its kernels, back to back on the GPU."""
    x = torch.randn(1024, 1024, device="cuda")
    looped, single = numstax.jit(heat, strict=True), numstax.jit(step, strict=True)
    looped(x)
    single(x)
    _, whole, _ = host_seconds(lambda: looped(x), count=5, rounds=3)
    each, _ = event_medians({"step": lambda: single(x)}, rounds=7)["step"]
    ratio = whole / (STEPS * each)
    return f"{whole * 1e3:.2f} ms, {ratio:.2f} of {STEPS} kernels of {each * 1e6:.2f} us"


def relax(u, tolerance):
    change = np.float32(1e30)
    while change > tolerance:
        v = u.copy()
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        change = np.abs(v - u).max()
        u = v
    return u


def until_converged() -> str:
    """A loop whose end a value on the GPU decides, against NumPy."""
    u, tolerance = np.zeros(1 << 16, np.float32), np.float32(5e-4)
    u[0] = 1
    compiled, there = numstax.jit(relax, strict=True), torch.from_numpy(u).cuda()
    got = compiled(there, tolerance)
    _, taken, _ = host_seconds(lambda: compiled(there, tolerance), count=1, rounds=3)
    right = np.array_equal(got.cpu().numpy(), relax(u, tolerance))
    return f"{'right' if right else 'WRONG'}: {taken * 1e3:.2f} ms; {compiled.artifacts()[0].note}"


def all_sizes(work: W.Workload) -> str:
    """Seconds of an artifact for one size over those of one for all, which was made for a much smaller size."""
    dynamic = numstax.jit(work.fn, strict=True, dynamic=True)
    dynamic(*make_sets(replace(resized(work, 1 / 64, 3), rotate=False))[0])
    found, wrong = [], False
    for size in (work, resized(work, 0.5, -1)):
        sets = make_sets(size)
        static = numstax.jit(size.fn, strict=True)
        want = peers.torch_functions()[work.name](*(x.double() for x in sets[0]))
        wrong |= not torch.allclose(dynamic(*sets[0]).double(), want, rtol=2e-2, atol=2e-2 * float(want.abs().max()))
        calls = {"static": rotating(static, sets), "dynamic": rotating(dynamic, sets)}
        times = {name: median for name, (median, _) in event_medians(calls, rounds=9).items()}
        found.append(f"{times['static'] / times['dynamic']:.2f}")
        del sets, calls, want
        torch.cuda.empty_cache()
    return f"{'WRONG: ' if wrong else ''}{', '.join(found)} of the speed; {dynamic.compile_count} compiled"
