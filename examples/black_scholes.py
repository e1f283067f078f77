"""Prices and sensitivities of many European options, in closed form.

    python -m examples.black_scholes

Method: Black and Scholes, "The Pricing of Options and Corporate Liabilities", Journal of Political Economy 81, 1973;
the normal distribution after Abramowitz and Stegun, 26.2.17 (absolute error below 1e-7).
"""

import numpy as np

import numstax
from examples import show


def normal_density(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def normal_cdf(x):
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    upper = normal_density(x) * poly
    return np.where(x < 0, upper, 1.0 - upper)


@numstax.jit
def price(spot, strike, years, rate, volatility):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / root
    d2 = d1 - root
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = call - spot + discounted
    delta = normal_cdf(d1)
    gamma = normal_density(d1) / (spot * root)
    vega = spot * normal_density(d1) * np.sqrt(years)
    return call, put, delta, gamma, vega


def example(size):
    n = {"small": 1000, "medium": 1 << 20}[size]
    rng = np.random.default_rng(8)
    spot, strike, years = rng.uniform(10, 50, n), rng.uniform(10, 50, n), rng.uniform(0.2, 3, n)
    return price, (spot, strike, years, 0.02, 0.3)


def main():
    show.run(example, lambda r: f"mean call {r[0].mean():.6f}, put {r[1].mean():.6f}, delta {r[2].mean():.6f}")


if __name__ == "__main__":
    main()
