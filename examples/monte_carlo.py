"""The price of an Asian option by simulation, with the control variate that makes it converge.

    python -m examples.monte_carlo

Method: geometric Brownian motion in exact steps; Glasserman, "Monte Carlo Methods in Financial Engineering",
Springer 2004, sections 3.2 and 4.1.
"""

import numpy as np

import numstax
from examples import show


@numstax.jit
def asian_option(rng, paths, days, spot, strike, rate, volatility):
    """Price and standard error of a call on the average of the daily prices; `rng` is a numpy.random.Generator."""
    dt = 1.0 / 252
    drift = (rate - 0.5 * volatility**2) * dt
    price = np.full(paths, spot)
    total = np.zeros(paths)
    for _ in range(days):
        noise = rng.standard_normal(paths)
        price = price * np.exp(drift + volatility * np.sqrt(dt) * noise)
        total += price
    discount = np.exp(-rate * days * dt)
    payoff = discount * np.maximum(total / days - strike, 0.0)

    # the discounted final price is a martingale: its known mean removes much of the noise
    final = discount * price
    covariance = ((payoff - payoff.mean()) * (final - final.mean())).mean()
    adjusted = payoff - covariance / final.var() * (final - spot)
    return adjusted.mean(), adjusted.std() / np.sqrt(paths)


def example(size):
    paths, days = {"small": (500, 20), "medium": (50_000, 126)}[size]
    return asian_option, (np.random.default_rng(9), paths, days, 100.0, 100.0, 0.03, 0.25)


def main():
    show.run(example, lambda r: f"price {r[0]:.4f} with standard error {r[1]:.4f}")


if __name__ == "__main__":
    main()
