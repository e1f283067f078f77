"""Those programs of `examples/` that JAX expresses well: a builder for each takes the arguments of the example and
gives the compiled function with its arguments as JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench.workloads import rebind
from examples import black_scholes, nbody, reaction_diffusion, transformer, turbulence

jax.config.update("jax_enable_x64", True)
Built = tuple[Callable[..., object], tuple]


def _in_jax(function: Callable[..., object]) -> Callable[..., object]:
    """The NumPy function, and those it calls, with ``np`` meaning jax.numpy."""
    return rebind(function, np=jnp)


def _heat(plate: np.ndarray, steps: int, diffusivity: float) -> Built:
    def step(_, p):
        inner = p[1:-1, 1:-1]
        neighbours = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return p.at[1:-1, 1:-1].set(inner + diffusivity * (neighbours - 4.0 * inner))

    return jax.jit(lambda p: lax.fori_loop(0, steps, step, p)), (plate,)


def _wave(speed: np.ndarray, damping: np.ndarray, steps: int, frequency: float) -> Built:
    @jax.jit
    def run(speed, damping):
        def step(k, levels):
            before, now = levels
            laplacian = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
            inner = 2 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + speed[1:-1, 1:-1] * laplacian
            after = jnp.zeros_like(now).at[1:-1, 1:-1].set(inner * damping[1:-1, 1:-1])
            source = jnp.sin(frequency * k).astype(now.dtype)
            return now, after.at[speed.shape[0] // 2, 4].add(source)

        still = jnp.zeros_like(speed)
        return lax.fori_loop(0, steps, step, (still, still))[1]

    return run, (speed, damping)


def _life(cells: np.ndarray, steps: int) -> Built:
    def step(_, c):
        pairs = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        neighbours = sum(jnp.roll(c, pair, axis=(0, 1)) for pair in pairs)
        return ((neighbours == 3) | ((c == 1) & (neighbours == 2))).astype(c.dtype)

    return jax.jit(lambda c: lax.fori_loop(0, steps, step, c)), (cells,)


def _nbody(position, velocity, mass, steps: int, dt: float, softening: float) -> Built:
    acceleration = _in_jax(nbody.acceleration)

    @jax.jit
    def run(position, velocity, mass):
        def step(_, state):
            x, v, force = state
            v = v + 0.5 * dt * force
            x = x + dt * v
            force = acceleration(x, mass, softening)
            return x, v + 0.5 * dt * force, force

        start = (position, velocity, acceleration(position, mass, softening))
        return lax.fori_loop(0, steps, step, start)[:2]

    return run, (position, velocity, mass)


def _jacobi(room: np.ndarray, fixed: np.ndarray, tolerance: float, limit: int) -> Built:
    @jax.jit
    def run(room, fixed):
        def step(state):
            now, rounds, _ = state
            mean = 0.25 * (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:])
            after = jnp.where(fixed, now, now.at[1:-1, 1:-1].set(mean))
            return after, rounds + 1, jnp.abs(after - now).max()

        def going(state):
            return (state[2] > tolerance) & (state[1] < limit)

        return lax.while_loop(going, step, (room, 0, jnp.inf))[:2]

    return run, (room, fixed)


def _reaction_diffusion(u: np.ndarray, v: np.ndarray, steps: int, feed: float, kill: float) -> Built:
    one = _in_jax(reaction_diffusion.react.__wrapped__)

    def step(_, state):
        return one(*state, 1, feed, kill)

    return jax.jit(lambda u, v: lax.fori_loop(0, steps, step, (u, v))), (u, v)


def _turbulence(vorticity: np.ndarray, steps: int, dt: float, viscosity: float) -> Built:
    n = len(vorticity)
    k = np.fft.fftfreq(n, 1 / n)
    kx, ky = k[:, None], k[None, :]
    square = kx**2 + ky**2
    square[0, 0] = 1.0
    keep = (np.abs(kx) < n / 3) & (np.abs(ky) < n / 3)
    tendency = partial(_in_jax(turbulence.tendency), kx=kx, ky=ky, square=square, viscosity=viscosity, keep=keep)

    def step(_, s):
        k1 = tendency(s)
        k2 = tendency(s + 0.5 * dt * k1)
        k3 = tendency(s + 0.5 * dt * k2)
        k4 = tendency(s + dt * k3)
        return s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return jax.jit(lambda w: jnp.fft.ifft2(lax.fori_loop(0, steps, step, jnp.fft.fft2(w))).real), (vorticity,)


def _black_scholes(spot, strike, years, rate: float, volatility: float) -> Built:
    price = _in_jax(black_scholes.price.__wrapped__)
    return jax.jit(lambda *prices: price(*prices, rate, volatility)), (spot, strike, years)


def _transformer(tokens: np.ndarray, model: dict, heads: int) -> Built:
    logits = _in_jax(transformer.logits.__wrapped__)
    return jax.jit(lambda tokens, model: logits(tokens, model, heads)), (tokens, model)


BUILDERS: dict[str, Callable[..., Built]] = {
    "heat": _heat,
    "wave": _wave,
    "life": _life,
    "nbody": _nbody,
    "jacobi": _jacobi,
    "reaction_diffusion": _reaction_diffusion,
    "turbulence": _turbulence,
    "black_scholes": _black_scholes,
    "transformer": _transformer,
}


def build(name: str, arguments: tuple) -> Built | None:
    if name not in BUILDERS:
        return None
    function, own = BUILDERS[name](*arguments)
    ready = jax.tree.map(jnp.asarray, own)
    return lambda *args: jax.block_until_ready(function(*args)), ready
